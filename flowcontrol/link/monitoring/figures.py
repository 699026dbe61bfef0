"""The figures of a link at one moment, each declared once: how it is computed, where it is shown.

The tables of the terminal, the view for SQL, the metrics of Prometheus and docs/monitoring.md are
made of these declarations. What a figure is computed of are the views of
:mod:`flowcontrol.link.monitoring.monitor`; a :class:`Derived` one follows from others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from flowcontrol.analysis.bottleneck import Pressure, pressure_of
from flowcontrol.protocol.network.credit_rules import credit_of

# --- Numbers in few letters, for a table of 80 columns and for sentences.


_THOUSANDS = ("", "k", "M", "G", "T")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
_LARGER = (("s", 60.0), ("min", 60.0), ("h", 24.0))
_BEFORE_NEXT = 1.5
"""Times a unit from which the next one is used: 80 s, but 2 min."""


def _scaled(value: float, base: float, units: tuple[str, ...]) -> tuple[float, str]:
    """Return a number below a thousand and its unit; 999.6 goes to the next unit."""
    for unit in units[:-1]:
        if value < 999.5:
            return value, unit
        value /= base
    return value, units[-1]


def _digits(value: float, most: int) -> str:
    """Return a number with a limited count of significant digits; no decimals if it is whole."""
    decimals = 0 if value == int(value) else max(0, most - len(str(int(value))))
    text = f"{value:.{decimals}f}"
    return text if len(text) <= most + 1 else f"{value:.{max(0, decimals - 1)}f}"


def count(value: float) -> str:
    """Return a count or a rate in at most five letters: ``950``, ``12.3k``, ``1.25M``."""
    if 0 < value < 10 and value != int(value):
        return f"{value:.1f}"
    number, unit = _scaled(round(value), 1000.0, _THOUSANDS)
    return f"{_digits(number, 3)}{unit}"


def size(value: float) -> str:
    """Return a size in at most seven letters: ``0``, ``950 B``, ``1.2 MiB``."""
    number, unit = _scaled(round(value), 1024.0, _BINARY)
    return f"{_digits(number, 2)} {unit}" if value else "0"


def duration(seconds: float | None) -> str:
    """Return a time in at most seven letters: ``250 ms``, ``1.05 s``; ``?`` if not known."""
    if seconds is None:
        return "?"
    if 0 < seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    for unit, most in _LARGER:
        if seconds < _BEFORE_NEXT * most:
            return f"{_digits(seconds, 3 if unit == 's' else 2)} {unit}"
        seconds /= most
    return f"{_digits(seconds, 2)} d"


DAY_S = 20 * 3600.0
"""How far a moment may be from now to be shown by its time of day alone."""


def moment(seconds: float, now: float) -> str:
    """Return a Unix time in at most sixteen letters: the time of day, with the date if it is far.

    One that no calendar has, as of counters, is shown as the number that it is.
    """
    if abs(seconds - now) < DAY_S:
        return clock_time(seconds)
    try:
        return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.3g} s"


def clock_time(seconds: float) -> str:
    """Return the time of day, here, of a Unix time: ``18:22:07``."""
    return datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")


T = TypeVar("T")

MESSAGES, RATIO, UNIX_MS, UNIX_S = "messages", "0 to 1", "ms since 1970", "s since 1970"


class Figure(NamedTuple):
    """What there is to say of a figure besides its name and type."""

    of: Callable[[Any], Any]  # It, of what the ledger and the log show
    meaning: str  # A sentence; of a truth value "Whether ..."
    unit: str = ""  # It says how the terminal shows it, too
    metric: str = ""  # Its name in Prometheus, without prefix
    # Place and head of its column on the terminal; from TIME on in the table of event time.
    column: tuple[int, str] = (0, "")
    more: str = ""  # What the manual adds on the column
    sql: str = ""  # Type of its column in the view, if it is no field of a channel


TIME = 20

SQL = {"str": "string", "int": "bigint", "float": "double", "bool": "boolean"}


def figure(*said: Any, default: Any = MISSING, **more: Any) -> Any:
    """Declare a figure as a field of a snapshot."""
    return field(default=default, metadata={"figure": Figure(*said, **more)})


class Derived(Generic[T]):
    """A figure that is computed of the snapshot itself."""

    def __init__(self, of: Callable[[Any], T], *said: Any) -> None:
        self.of, self.figure = of, Figure(of, *said)

    def __get__(self, one: Any, kind: type) -> T:
        return self.of(one)


def fields_of(kind: type) -> dict[str, Figure]:
    """Return the figures that are fields of a snapshot, by name."""
    return {one.name: one.metadata["figure"] for one in fields(kind)}


def figures_of(kind: type) -> dict[str, Figure]:
    """Return all figures of a snapshot by name, those that follow from others last."""
    derived = {name: one.figure for name, one in vars(kind).items() if isinstance(one, Derived)}
    return fields_of(kind) | derived


def heads_of(kind: type, since: int = 1, until: int = TIME) -> dict[str, Figure]:
    """Return the figures that have a column on the terminal, in the order of the columns."""
    own = [found for found in figures_of(kind).items() if since <= found[1].column[0] < until]
    return dict(sorted(own, key=lambda found: found[1].column))


def made(kind: type[T], view: Any) -> T:
    """Return a snapshot of what a view shows."""
    return kind(**{name: one.of(view) for name, one in fields_of(kind).items()})


def in_seconds(moment: int | None) -> float | None:
    """Return a time in ms as one in seconds."""
    return None if moment is None else moment / 1000


# fmt: off
CAUSE = Figure(lambda _: None,
    "Why the link blocks its sender, one of the [causes](explanation/why-slow.md) of a run; null if"
    " it does not.")


@dataclass(frozen=True)
class ChannelSnapshot:
    """One channel from a sender to a receiver; its fields are columns of the view."""

    sender: str = figure(lambda c: c.sender.name, "Name of the sender.")
    receiver: str = figure(lambda c: c.group,
        "Name of the receiver; empty while there is none.")
    channel: int = figure(lambda c: c.channel, "Number of the channel.", sql="int")
    written: int = figure(lambda c: c.sender.written[c.channel],
        "Messages that the sender has ever written.", MESSAGES)
    released: int = figure(lambda c: c.sender.released[c.channel],
        "Messages ever admitted to the sender's buffers.", MESSAGES)
    announced: int = figure(lambda c: c.cursors.announced,
        "Credits that the receiver has ever granted.", MESSAGES)
    sent: int = figure(lambda c: c.cursors.sent,
        "Messages that the receiver has ever taken.", MESSAGES)
    consumed: int = figure(lambda c: c.consumed,
        "Messages that the receiver has ever consumed.", MESSAGES)
    credit: int = figure(lambda c: credit_of(c.cursors.announced, c.cursors.sent),
        "Messages that the receiver may still take.", "buffers", "credit_buffers", (5, "credit"),
        "Announced - sent.")
    in_flight: int = figure(lambda c: max(0, c.sender.released[c.channel] - c.consumed),
        "Messages released and not consumed.", "buffers", "in_flight_buffers")
    waiting: int = figure(lambda c: c.sender.written[c.channel] - c.sender.released[c.channel],
        "Messages written and not released.", MESSAGES, "waiting_messages")
    waiting_bytes: int = figure(
        lambda c: c.log.nbytes(c.sender.released[c.channel], c.sender.written[c.channel]),
        "Size of the messages that wait outside the buffers.", "bytes", "waiting_bytes",
        (6, "waits"), "They are written and not released: in the blocked sender, or spilled.")
    backlog_rows: int = figure(lambda c: max(0, c.sender.records[c.channel] - c.position),
        "Rows written and not consumed.", "rows", "backlog_rows", (1, "rows"),
        "Rows of the receiver's running micro-batch still count.")
    backlog_bytes: int = figure(lambda c: c.unconsumed_bytes,
        "Size of the rows not consumed.", "bytes", "backlog_bytes", (2, "bytes"),
        "Counted in Arrow's memory.")
    age_s: float = figure(lambda c: c.age_s,
        "Age of the oldest message that is not consumed.", "s", "backlog_age_seconds", (3, "age"))
    drain_s: float | None = figure(lambda c: c.drain_s,
        "Time to drain the backlog at the recent rate; absent at 0.", "s", "drain_seconds",
        (4, "drain"),
        "Without new rows. `?`: the last micro-batches moved nothing of this channel.")
    rows_in_per_s: float = figure(lambda c: c.writing.rows_per_s(c.key),
        "Rows written by the sender.", "rows/s", "in_rows_per_second", (7, "in/s"))
    bytes_in_per_s: float = figure(lambda c: c.writing.bytes_per_s(c.key),
        "Bytes written by the sender.", "bytes/s")
    rows_out_per_s: float = figure(lambda c: c.reading.rows_per_s(c.key) if c.reading else 0.0,
        "Rows consumed by the receiver.", "rows/s", "out_rows_per_second", (8, "out/s"))
    bytes_out_per_s: float = figure(lambda c: c.reading.bytes_per_s(c.key) if c.reading else 0.0,
        "Bytes consumed by the receiver.", "bytes/s")
    blocked_ratio: float = figure(lambda c: c.link.blocked(c.sender, c.channel),
        "Share of the window for which messages of the channel waited for a buffer.", RATIO)
    is_holding: bool = figure(lambda c: c.is_holding,
        "Whether the channel's sender waits for this receiver.")
    written_watermark_ms: int | None = figure(
        lambda c: dict(enumerate(c.sender.watermarks)).get(c.channel) if c.link.has_time else None,
        "Watermark of what the sender has written; null without event time, as are the next ones.",
        UNIX_MS, default=None)
    watermark_ms: int | None = figure(lambda c: c.time and c.time.watermark,
        "Watermark of what the receiver has consumed; null before the first.", UNIX_MS,
        default=None)
    watermark_lag_s: float | None = figure(lambda c: c.time and c.time.lag_s,
        "How far the watermark is behind the clock.", "s", "watermark_lag_seconds",
        (TIME + 2, "lag"), default=None)
    watermark_behind_s: float | None = figure(lambda c: c.time and c.time.behind_s,
        "How far the watermark is behind that of the receiver's most advanced channel.", "s",
        "watermark_behind_seconds", (TIME + 3, "behind"), default=None)
    is_idle: bool | None = figure(lambda c: c.time and c.time.is_idle,
        "Whether the channel has had no rows for so long that it holds no watermark back.", "",
        "channel_idle", default=None)
    is_paused: bool | None = figure(lambda c: c.time and c.time.is_paused,
        "Whether its sender gets no credit because it is too far ahead in event time.", "",
        "channel_paused", default=None)
    holds_watermark: bool | None = figure(lambda c: c.time and c.time.is_holding,
        "Whether the channel holds the receiver's watermark back.", "", "channel_holds_watermark",
        default=None)

    written_watermark_s = Derived(lambda one: in_seconds(one.written_watermark_ms),
        "Watermark of what the sender has written, Unix time; absent without event time.", UNIX_S,
        "written_watermark_seconds", (TIME, "written to"),
        "The latest event time less the delay. A time on another day has its date.")
    watermark_s = Derived(lambda one: in_seconds(one.watermark_ms),
        "Watermark of what the receiver has consumed, Unix time; absent before the first.", UNIX_S,
        "watermark_seconds", (TIME + 1, "watermark"), "`-`: nothing yet.")
    held_ratio = Derived(lambda one: one.blocked_ratio if one.is_holding else 0.0,
        "Share of the last seconds for which the channel's messages waited for a buffer because"
        " of this receiver, 0 to 1. Flink's grades: OK <= 0.1 < LOW <= 0.5 < HIGH.", RATIO,
        "blocked_ratio")
    backpressure_level = Derived(lambda one: pressure_of(1000 * one.held_ratio),
        "Grade of the blocked ratio; null until the receiver has ended its first batch.",
        "OK, LOW, HIGH", "", (9, "verdict"),
        "Beside it: the share of the time for which messages of this channel waited for a buffer.")


@dataclass(frozen=True)
class SenderSnapshot:
    """One sender."""

    name: str = figure(lambda s: s.sender.name, "Name of the sender.")
    rows_written: int = figure(lambda s: sum(s.sender.records),
        "Rows ever written.", "rows", "sender_rows_total")
    rows_per_s: float = figure(lambda s: sum(c.rows_in_per_s for c in s.channels),
        "Rows written into the link.", "rows/s", "", (1, "rows/s"))
    bytes_per_s: float = figure(lambda s: sum(c.bytes_in_per_s for c in s.channels),
        "Bytes written into the link.", "bytes/s", "", (2, "bytes/s"))
    pool_used: int = figure(lambda s: s.link.cursors.pool_used(s.sender),
        "Buffers of the output pool in use.", "buffers", "sender_pool_used_buffers", (3, "pool"),
        "Then the size of the pool. A buffer is in use from its release until the slowest receiver "
        "has consumed it. Unless you set `floating_buffers` the pool sizes itself; its maximum is "
        "beside the link's name.", "int")
    pool_size: int = figure(lambda s: s.pool_size,
        "Buffers of the output pool.", "buffers", "sender_pool_size_buffers", sql="int")
    waiting_bytes: int = figure(lambda s: sum(c.waiting_bytes for c in s.channels),
        "Size of the messages that wait outside the buffers.", "bytes")
    blocked_ratio: float = figure(lambda s: s.link.blocked(s.sender),
        "Share of the last seconds for which rows of any channel waited for a buffer, 0 to 1.",
        RATIO, "sender_blocked_ratio", (5, "state"), "In front of it: its grade.")
    silent_s: float = figure(lambda s: s.batches.silent_s,
        "Time since its last commit.", "s", "sender_silent_seconds", (6, "seen"))
    backpressure_level = Derived(lambda one: pressure_of(1000 * one.blocked_ratio),
        "Grade of the blocked ratio.", "OK, LOW, HIGH")


@dataclass(frozen=True)
class ReceiverSnapshot:
    """One receiver; receivers of one name share the channels between them."""

    name: str = figure(lambda r: r.receiver.group, "Name of the receiver.")
    member: str = figure(lambda r: r.member, "Its application id in the ledger.")
    channels: tuple[int, ...] = figure(lambda r: tuple(r.receiver.channels), "Its channels.")
    rows_read: int = figure(lambda r: r.rows_read,
        "Rows ever consumed.", "rows", "receiver_rows_total")
    rows_per_s: float = figure(lambda r: sum(c.rows_out_per_s for c in r.channels),
        "Rows consumed from the link.", "rows/s", "", (1, "rows/s"))
    bytes_per_s: float = figure(lambda r: sum(c.bytes_out_per_s for c in r.channels),
        "Bytes consumed from the link.", "bytes/s", "", (2, "bytes/s"))
    batch_s: float | None = figure(lambda r: r.batches.batch_s,
        "Mean time of the receiver's last micro-batches; null until one has ended.", "s", "",
        (4, "batch/target"),
        "Then `target_batch_s`. With `>` in front, the running batch has taken that long already. "
        "Yellow from 1.5 times the target. If a batch takes longer than the target without any "
        "rows, a line below says so; batches then grow, and keep at least 80 % of the "
        "throughput.", "double")
    running_s: float | None = figure(lambda r: r.batches.running_s,
        "Time so far of the running micro-batch; null if there is none.", "s", sql="double")
    target_s: float | None = figure(lambda r: r.state.get("target_batch_s"),
        "Target time of a micro-batch, if it has one.", "s", "receiver_batch_target_seconds",
        sql="double")
    busy_ratio: float = figure(lambda r: r.batches.busy_ratio,
        "Share of the last seconds for which a batch ran, 0 to 1.", RATIO, "receiver_busy_ratio",
        (5, "state"), "`DETACHED` if a sender has cut it off.")
    pool_used: int = figure(lambda r: r.rows[0]["pool_used"] if r.rows else 0,
        "Floating buffers in use.", "buffers", "receiver_pool_used_buffers", (3, "pool"),
        "Then all floating buffers of its gate.")
    pool_size: int = figure(
        lambda r: r.rows[0]["pool_size"] if r.rows else r.link.settings.floating_buffers,
        "Floating buffers of its gate.", "buffers", "receiver_pool_size_buffers")
    is_detached: bool = figure(lambda r: r.is_detached,
        "Whether a sender has cut it off.", "", "receiver_detached")
    silent_s: float = figure(lambda r: r.batches.silent_s,
        "Time since its last commit.", "s", "receiver_silent_seconds", (6, "seen"))
    fixed_s: float | None = figure(lambda r: r.state.get("fixed_s"),
        "Time that a micro-batch takes without any rows; absent without a target.", "s",
        "receiver_batch_fixed_seconds", default=None)
    keeps_target: bool = figure(lambda r: r.state.get("keeps_target", True),
        "Whether a micro-batch without rows takes no longer than the target.", default=True)
    rows_skipped: int = figure(lambda r: r.state.get("skipped", 0),
        "Rows that it never reads: all others had consumed them when it joined.", "rows", default=0)
    is_starting: bool = figure(lambda r: r.is_starting,
        "Whether it has rows to read and has not ended its first micro-batch.", "",
        "receiver_starting", default=False)
    watermark_ms: int | None = figure(lambda r: r.time.watermark,
        "Minimum watermark of its channels that are not idle; null before the first.", UNIX_MS,
        default=None)
    watermark_lag_s: float | None = figure(lambda r: r.time.lag_s,
        "How far its watermark is behind the clock.", "s", "receiver_watermark_lag_seconds",
        default=None)
    paused: tuple[str, ...] = figure(lambda r: r.time.paused,
        "Senders that got no credit at some time in the window: they were too far ahead.",
        default=())

    watermark_s = Derived(lambda one: in_seconds(one.watermark_ms),
        "Minimum watermark of its channels that are not idle, Unix time.", UNIX_S,
        "receiver_watermark_seconds")
    longest_batch_s = Derived(
        lambda one: max((s for s in (one.batch_s, one.running_s) if s is not None), default=None),
        "Mean time of its last micro-batches, or of the running one if that is longer.", "s",
        "receiver_batch_seconds")


# fmt: on
@dataclass(frozen=True)
class LinkSnapshot:
    """A link at one moment."""

    label: str  # Short name: the last part of its path
    path: str  # Its folder
    at: float  # When, Unix time, seconds
    # What rates and shares cover: the time before ``at``, or since the link's first commit.
    window_s: float
    senders: tuple[SenderSnapshot, ...]  # In the order in which they came
    receivers: tuple[ReceiverSnapshot, ...]  # By name and first channel
    channels: tuple[ChannelSnapshot, ...]  # By sender, receiver and channel
    # What a sender's pool may grow to; None if it does not size itself.
    max_pool_bytes: int | None = None
    # Column with the event time of a row; None: the link has no watermarks.
    event_time_column: str | None = None
    # How far a sender may be ahead of the slowest in event time; None: as far as it likes.
    align_s: float | None = None

    def channels_of(self, receiver: ReceiverSnapshot) -> list[ChannelSnapshot]:
        """Return the channels that a receiver reads."""
        own = (one for one in self.channels if one.receiver == receiver.name)
        return [one for one in own if one.channel in receiver.channels]

    @property
    def starting(self) -> tuple[ReceiverSnapshot, ...]:
        """Receivers that have not ended their first micro-batch: no verdict as long as any has."""
        return tuple(receiver for receiver in self.receivers if receiver.is_starting)

    @property
    def blocked_ratio(self) -> float:
        """Share of the window for which the sender that waited most was blocked."""
        return max((sender.blocked_ratio for sender in self.senders), default=0.0)

    @property
    def backpressure_level(self) -> Pressure:
        """Grade of the sender that waited most."""
        return pressure_of(1000 * self.blocked_ratio)


def named_in_view(kind: type) -> dict[str, Figure]:
    """Return the figures of a sender or receiver that the view has beside those of a channel."""
    return {name: one for name, one in fields_of(kind).items() if one.sql}


def view_columns() -> dict[str, tuple[str, Figure]]:
    """Return the columns of the view, their SQL types and figures.

    A channel's figures, then its receiver's, then its sender's, then the link's.
    """
    types = {one.name: str(one.type).removesuffix(" | None") for one in fields(ChannelSnapshot)}
    found = {
        name: (one.sql or SQL[types[name]], one) for name, one in fields_of(ChannelSnapshot).items()
    }
    found["verdict"] = "string", figures_of(ChannelSnapshot)["backpressure_level"]
    for kind in (ReceiverSnapshot, SenderSnapshot):
        found |= {name: (one.sql, one) for name, one in named_in_view(kind).items()}
    return found | {"cause": ("string", CAUSE)}
