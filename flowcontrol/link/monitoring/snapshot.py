"""The figures of a link at one moment, each with its meaning and unit."""

from dataclasses import dataclass

from flowcontrol.analysis.pressure import Pressure, pressure_of


def in_seconds(moment: int | None) -> float | None:
    """Return a time in ms as one in seconds."""
    return None if moment is None else moment / 1000


@dataclass(frozen=True)
class ChannelSnapshot:
    """One channel from a sender to a receiver."""

    sender: str  # Name of the sender
    receiver: str  # Name of the receiver; empty as long as the link has none
    channel: int  # Which
    written: int  # written, released, announced, sent, consumed: cursors, messages
    released: int
    announced: int
    sent: int
    consumed: int
    credit: int  # Messages that the receiver may take: announced - sent. Buffers.
    in_flight: int  # Released and not consumed, buffers
    waiting: int  # Written and not released: outside the buffers. Messages.
    waiting_bytes: int  # Size of what waits, bytes
    backlog_rows: int  # backlog_rows, backlog_bytes: written and not consumed by this receiver
    backlog_bytes: int
    # How long the oldest of the backlog has waited since it was written; 0 without backlog.
    age_s: float
    # How long the backlog takes at the rate of the last batches if nothing comes after it; 0
    # without backlog, None if nothing of the channel moved in them.
    drain_s: float | None
    rows_in_per_s: float  # rows_in_per_s, bytes_in_per_s: written by the sender
    bytes_in_per_s: float
    rows_out_per_s: float  # rows_out_per_s, bytes_out_per_s: consumed by the receiver
    bytes_out_per_s: float
    # Share of the window for which messages of the channel waited for a buffer.
    blocked_ratio: float
    # Whether this receiver is the one whose buffers the channel's sender waits for: of several the
    # slowest.
    is_holding: bool
    # Watermark of what the sender has written into the channel, Unix time, ms. This and what
    # follows is None in a link without event time.
    written_watermark_ms: int | None = None
    # Watermark of what the receiver has consumed of it; None before the first.
    watermark_ms: int | None = None
    watermark_lag_s: float | None = None  # How far that is behind the clock
    # How far that is behind the most advanced of the receiver's channels.
    watermark_behind_s: float | None = None
    is_idle: bool | None = None  # Whether it has had no rows for so long that it holds nobody back
    # Whether its sender gets no credit, as it is more than ``align_s`` ahead of the others.
    is_paused: bool | None = None
    # Whether it holds the receiver's watermark back: it counts, and is the slowest.
    holds_watermark: bool | None = None

    @property
    def written_watermark_s(self) -> float | None:
        """Watermark of what the sender has written, Unix time, s."""
        return in_seconds(self.written_watermark_ms)

    @property
    def watermark_s(self) -> float | None:
        """Watermark of what the receiver has consumed, Unix time, s."""
        return in_seconds(self.watermark_ms)

    @property
    def held_ratio(self) -> float:
        """Share of the window for which messages waited for a buffer because of this receiver."""
        return self.blocked_ratio if self.is_holding else 0.0

    @property
    def backpressure_level(self) -> Pressure:
        """Back pressure by this receiver, as Flink grades it."""
        return pressure_of(1000 * self.held_ratio)


@dataclass(frozen=True)
class SenderSnapshot:
    """One sender."""

    name: str  # Its name
    rows_written: int  # Rows ever written
    rows_per_s: float  # rows_per_s, bytes_per_s: written
    bytes_per_s: float
    pool_used: int  # pool_used, pool_size: buffers of the output pool in use, and all of them
    pool_size: int
    waiting_bytes: int  # Written and not released: outside the buffers
    blocked_ratio: float  # Share of the window for which rows of any channel waited for a buffer
    silent_s: float  # Time since its last commit, or its last start if that is later, s

    @property
    def backpressure_level(self) -> Pressure:
        """How much of its time the sender is blocked, as Flink grades it."""
        return pressure_of(1000 * self.blocked_ratio)


@dataclass(frozen=True)
class ReceiverSnapshot:
    """One receiver; receivers of one name share the channels between them."""

    name: str  # Its name
    member: str  # Its application id in the ledger
    channels: tuple[int, ...]  # Those that it reads
    rows_read: int  # Rows ever consumed
    rows_per_s: float  # rows_per_s, bytes_per_s: consumed
    bytes_per_s: float
    # How long its last micro-batches took on average; None as long as none has ended.
    batch_s: float | None
    running_s: float | None  # How long the one that runs has taken so far; None if none runs
    target_s: float | None  # How long a micro-batch should take; None: no target
    busy_ratio: float  # Share of the window for which a micro-batch ran
    pool_used: int  # pool_used, pool_size: floating buffers of its gate in use, and all of them
    pool_size: int
    is_detached: bool  # Whether a sender has cut it off
    silent_s: float  # Time since its last commit, or its last start if that is later, s
    # What a micro-batch takes without any rows; None without a target, or not known yet.
    fixed_s: float | None = None
    # Whether the target can be met; False if a micro-batch takes longer even without rows.
    keeps_target: bool = True
    rows_skipped: int = 0  # Rows that it never reads: all others had consumed them when it came
    # Whether it has rows to read and has not ended its first micro-batch: how fast it is, is not
    # known yet.
    is_starting: bool = False
    # The least watermark of its channels that are not idle, Unix time, ms; None without event time,
    # or before the first.
    watermark_ms: int | None = None
    watermark_lag_s: float | None = None  # How far that is behind the clock
    # Senders that got no credit at some time in the window, as they were more than ``align_s``
    # ahead of the others.
    paused: tuple[str, ...] = ()

    @property
    def watermark_s(self) -> float | None:
        """Its watermark, Unix time, s."""
        return in_seconds(self.watermark_ms)

    @property
    def longest_batch_s(self) -> float | None:
        """Mean time of the last micro-batches, or of the running one if that is longer, s."""
        times = [time for time in (self.batch_s, self.running_s) if time is not None]
        return max(times, default=None)


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
