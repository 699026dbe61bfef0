"""From the ledger of a link to a scenario: its senders, its buffers, its receiver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from flowcontrol.calibration import rates
from flowcontrol.calibration.batches import read_progress
from flowcontrol.calibration.bodies import plain
from flowcontrol.calibration.draft import Draft, refuse
from flowcontrol.calibration.spark_progress import cost_of
from flowcontrol.errors import LedgerError, LinkError
from flowcontrol.ledger.link_ledger import member_rows
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import Receiver, Sender, receivers_of, senders_of
from flowcontrol.link.monitoring.history import LedgerHistory, Step, waiting_share
from flowcontrol.link.monitoring.times import member_of
from flowcontrol.link.settings import LinkSettings, altered, read_made

WARM_UP: Final = 0.25
"""Part of the ledger's time that is left out: buffers fill, and Spark warms up."""

LEAST_BATCHES: Final = 4
"""Batches of the receiver behind the warm-up."""

MOST_OF: Final = 0.8
"""Part of the window over which a sender's commits must reach to be what it writes in it."""

ALL_S: Final = 1e9
"""A window that holds the whole ledger, s."""

DURATION_S: Final = 240
PAGE: Final = 4096
"""Flink's smallest memory segment, bytes."""


@dataclass(frozen=True)
class _Window:
    """What is looked at: from one commit of the receiver to another, Unix time, s."""

    since: float
    until: float

    @property
    def length_s(self) -> float:
        return self.until - self.since

    def of(self, steps: list[Step]) -> list[Step]:
        """Return the batches that began and ended in it."""
        return [
            step
            for step in steps
            if step.is_busy
            and not step.is_cut
            and step.end is not None
            and step.at >= self.since
            and step.end <= self.until
        ]


def fit_link(path: str | Path, progress: str | Path | None = None) -> Draft:
    """Return the scenario that a link's ledger makes.

    A link has one pool between its two queries, released - consumed, and no network: the channels
    of a scenario are local ones, of which the sender's pool is the limit.

    Raises ScenarioError if there is no link, its ledger is damaged, or nothing went through it yet.
    """
    source = plain(str(path))
    with _refusing(source):
        draft = _fitted(path, source)
    if progress is not None:
        _beside(draft, progress)
    return draft


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Refuse a link that cannot be read: its files are opened as they are needed."""
    try:
        yield
    except (LinkError, LedgerError) as error:
        refuse("--link", f"cannot be read: {error}", source)
    except OSError as error:
        why = f"{error.filename or source}: {error.strerror or error}"
        text = f"cannot be read ({why}): is it being moved or deleted, or a copy that is not whole?"
        refuse("--link", text, source)


def _fitted(path: str | Path, source: str) -> Draft:
    """Return the scenario of a link's own ledger."""
    settings, ledger = _open(path, source)
    senders = [one for one in senders_of(ledger) if not one.is_removed]
    receivers = receivers_of(ledger)
    groups = sorted({one.group for one in receivers})
    if not senders or len(groups) != 1:
        text = f"{len(senders)} senders and {len(groups)} receivers ({', '.join(groups)}): "
        text += "needs a link that one receiver reads, and that a sender has written to"
        refuse("--link", text, source)
    window = _window(ledger, receivers, source)
    draft = Draft({}, source)
    names = [_stage(one.name, f"sender-{n}") for n, one in enumerate(senders)]
    sink = _stage(groups[0] or "receiver", "receiver")
    sink = f"{sink}-receiver" if sink in names else sink
    held = _buffers(path, window)
    segment = _segment(draft, settings)
    size = max(1, round(segment / held.rows))
    stages = [
        _source(draft, name, one, ledger, window, size)
        for name, one in zip(names, senders, strict=True)
    ]
    stages.append(_receiver(draft, sink, receivers, ledger, window, held))
    draft.measured(f"stages.{names[0]}.record_bytes", size, "a buffer over the rows of a message")
    edges = [_edge(draft, name, sink, receivers, ledger, window) for name in names]
    draft.mapping = {
        "schema": 1,
        "name": _stage(Path(source).name, "link"),
        "duration_s": DURATION_S,
        "sample_interval_s": 0.37,
        "cluster": {"task_managers": 1, "slots": max(1, len(receivers))},
        "options": _options(draft, settings, len(receivers), segment, held),
        "stages": stages,
        "edges": edges,
    }
    draft.warm_up_s = DURATION_S / 2
    draft.see(f"->{sink}", "in_flight_buffers", held.buffers, "buffers")
    blocked = max(_blocked(ledger, one, window) for one in senders)
    draft.bottleneck = sink if blocked > 0.02 else None
    return draft


@dataclass(frozen=True)
class LinkLoad:
    """What a link carries, by channel."""

    settings: LinkSettings  # Of the link, as altered last
    # Rows of each channel that the receivers read behind the warm-up; all channels are in it.
    rows: dict[int, int]
    # The channels of each receiver, in the order of the scenario's subtasks.
    readers: tuple[tuple[int, ...], ...]


def link_load(path: str | Path) -> LinkLoad:
    """Return what each channel of a link carries; parameters and errors as :func:`fit_link`."""
    source = plain(str(path))
    with _refusing(source):
        settings, ledger = _open(path, source)
        receivers = receivers_of(ledger)
        window = _window(ledger, receivers, source)
        rows = dict.fromkeys(range(settings.channels), 0)
        for one in receivers:
            for step in window.of(_steps(ledger, member_of(one))):
                for (_, channel), (count, _) in step.amounts.items():
                    rows[channel] = rows.get(channel, 0) + count
    return LinkLoad(settings, rows, tuple(tuple(one.channels) for one in receivers))


def _open(path: str | Path, source: str) -> tuple[LinkSettings, LedgerHistory]:
    storage = Storage(path)
    made = read_made(storage)
    if made is None:
        text = "there is no link here (no file link.json): name the folder of Link(...)"
        refuse("--link", text, source)
    ledger = LedgerHistory(storage.child("ledger"), ALL_S)
    ledger.refresh(at_once=True)
    return altered(made, ledger), ledger


def _window(ledger: LedgerHistory, receivers: list[Receiver], source: str) -> _Window:
    """Return the time that is looked at; rows of all of its commits are read."""
    steps = [step for one in receivers for step in _steps(ledger, member_of(one))]
    begun = [step.at for step in steps if step.is_busy]
    ended = [step.end for step in steps if step.is_busy and step.end is not None]
    if len(begun) < LEAST_BATCHES or not ended:
        text = f"{len(ended)} batches of the receiver have ended: let the queries run for longer"
        refuse("--link", text, source)
    since = min(begun) + WARM_UP * (max(ended) - min(begun))
    # All may have begun before it: of few batches, the last one may take longer than all others.
    window = _Window(min([at for at in begun if at >= since], default=since), max(ended))
    if len(window.of(steps)) < LEAST_BATCHES:
        text = (
            f"{len(window.of(steps))} batches of the receiver behind the first quarter, of at "
            f"least {LEAST_BATCHES}: let the queries run for longer"
        )
        refuse("--link", text, source)
    return window


def _steps(ledger: LedgerHistory, member: str) -> list[Step]:
    steps = ledger.steps.get(member, [])
    for step in steps:
        ledger.read(member, step)
    return steps


@dataclass(frozen=True)
class _Held:
    """What the buffers held over the window."""

    rows: float  # Rows of a message
    buffers: float  # Mean of what is released and not consumed
    empty_s: float  # Time in which there was nothing: a receiver can only wait then


def _buffers(path: str | Path, window: _Window) -> _Held:
    """Return what the buffers held over the window."""
    rows = member_rows(Storage(path).child("ledger")).to_pylist()
    area = empty_s = 0.0
    steps = [*_levels(rows), (window.until, 0)]
    for (at, level), (end, _) in pairwise(steps):
        lasted_s = max(0.0, min(end, window.until) - max(at, window.since))
        area += lasted_s * level
        empty_s += lasted_s if level <= 0 else 0.0
    written = [row for row in rows if row["side"] == "sender" and row["rows"]]
    count = sum(row["rows"] for row in written)
    messages = _messages(rows)
    per_buffer = max(1e-9, count / max(1, messages))
    return _Held(per_buffer, area / window.length_s, empty_s)


def _messages(rows: list[dict[str, Any]]) -> int:
    """Return the messages that all senders have written."""
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        if row["side"] == "sender" and row["written"] is not None:
            key = (row["sender"], row["receiver"])
            last[key] = max(last.get(key, 0), row["written"])
    return sum(last.values())


def _levels(rows: list[dict[str, Any]]) -> Iterator[tuple[float, int]]:
    """Yield when what is released and not consumed changed, and to what."""
    released: dict[tuple[int, int], int] = {}
    consumed: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: row["committed_at"]):
        key = (row["sender"], row["receiver"])
        if row["side"] == "sender" and row["released"] is not None:
            released[key] = row["released"]
        elif row["consumed"] is not None:
            consumed[key] = row["consumed"]
        yield row["committed_at"].timestamp(), sum(released.values()) - sum(consumed.values())


# ---------------------------------------------------------------------- parts of the scenario


def _stage(name: str, otherwise: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:48].strip("-_") or otherwise


def _blocked(ledger: LedgerHistory, sender: Sender, window: _Window) -> float:
    steps = ledger.steps.get(member_of(sender), [])
    return waiting_share(steps, window.since, window.until) if steps else 0.0


def _source(
    draft: Draft,
    name: str,
    sender: Sender,
    ledger: LedgerHistory,
    window: _Window,
    record_bytes: int,
) -> dict[str, Any]:
    """Return a sender's query: what it brings when it is not blocked."""
    steps = [
        step
        for step in _steps(ledger, member_of(sender))
        if window.since <= step.at <= window.until
    ]
    blocked = _blocked(ledger, sender, window)
    is_open = max(rates.OPEN_SHARE, 1 - blocked)
    rate = _written_per_s(steps, window)
    draft.see(name, "rate_out", rate, "records/s")
    draft.see(name, "backpressured_ms_per_s", 1000 * blocked, "ms/s")
    text = "rows written / time in which none of its messages waited for a buffer"
    value = draft.measured(
        f"stages.{name}.emit_rate",
        rates.rounded(max(rate, 1e-3) / is_open),
        text,
        1 / max(1, len(steps)),
    )
    return {"name": name, "emit_rate": value, "record_bytes": record_bytes, "placement": [0]}


def _written_per_s(steps: list[Step], window: _Window) -> float:
    """Return the rows/s that a sender has written.

    A commit shows the rows of a whole source batch at once. So the rows behind the first commit
    are what was written from it to the last one; with those of the first, a window of twenty
    batches has one too many.
    """
    counts = [(step.at, sum(rows for rows, _ in step.amounts.values())) for step in steps]
    counts = [one for one in counts if one[1]]
    if len(counts) > 1:
        lasted_s = counts[-1][0] - counts[0][0]
        if lasted_s >= MOST_OF * window.length_s:
            return sum(rows for _, rows in counts[1:]) / lasted_s
    return sum(rows for _, rows in counts) / window.length_s


def _receiver(
    draft: Draft,
    name: str,
    receivers: list[Receiver],
    ledger: LedgerHistory,
    window: _Window,
    held: _Held,
) -> dict[str, Any]:
    """Return the receiver's query: rows over the time in which it had any to read.

    Between two batches a receiver commits and plans: that is its work too, and not waiting.
    """
    found: list[float] = []
    rows, spread = 0, 0.0
    busy_s = max(1e-3, window.length_s - held.empty_s)
    for one in receivers:
        steps = window.of(_steps(ledger, member_of(one)))
        count = sum(own for step in steps for own, _ in step.amounts.values())
        if not steps or not count:
            draft.assumed(f"stages.{name}.service_rate[{len(found)}]", None, "it read nothing")
            found.append(1e9)
            continue
        found.append(count / busy_s)
        rows += count
        spread = max(spread, 1 / len(steps))
    draft.see(name, "rate_in", rows / window.length_s, "records/s")
    draft.see(name, "busy_ms_per_s", 1000 * busy_s / window.length_s, "ms/s")
    values = [rates.rounded(one) for one in found]
    text = "rows / time in which there were any to read, what a batch costs beside them included"
    rate = draft.measured(
        f"stages.{name}.service_rate", values[0] if len(values) == 1 else values, text, spread
    )
    stage = {"name": name, "parallelism": len(receivers), "service_rate": rate}
    return {**stage, "placement": [0] * len(receivers)}


def _edge(
    draft: Draft,
    sender: str,
    receiver: str,
    receivers: list[Receiver],
    ledger: LedgerHistory,
    window: _Window,
) -> dict[str, Any]:
    edge: dict[str, Any] = {"from": sender, "to": receiver}
    if len(receivers) == 1:
        return {**edge, "partitioner": "rebalance"}
    counts = [
        sum(
            own
            for step in window.of(_steps(ledger, member_of(one)))
            for own, _ in step.amounts.values()
        )
        for one in receivers
    ]
    total = sum(counts) or 1
    weights = [rates.rounded(max(count / total, 1e-9), 5) for count in counts]
    key = f"edges.{sender}->{receiver}.channel_weights"
    return {
        **edge,
        "partitioner": "hash",
        "channel_weights": draft.measured(key, weights, "rows of each receiver's channels"),
    }


def _segment(draft: Draft, settings: LinkSettings) -> int:
    """Return the size of a buffer: Flink's are powers of two."""
    size = PAGE
    while size < settings.buffer_bytes:
        size *= 2
    key = "options.taskmanager.memory.segment-size"
    text = f"buffer_bytes {settings.buffer_bytes}"
    if size != settings.buffer_bytes:
        text += ", the next power of two, and records larger in proportion"
    return int(draft.measured(key, size, text, 0.0))


def _options(
    draft: Draft, settings: LinkSettings, receivers: int, segment: int, held: _Held
) -> dict[str, Any]:
    """Return buffers as Flink's options: of the pool, what the link holds of it on average.

    A receiver returns all buffers of a batch at its end, and the sender fills them again with its
    next one; an emulated receiver returns each as it is read, so that its pool stays full.
    """
    exclusive = settings.exclusive_buffers * -(-settings.channels // receivers)
    pool = exclusive * receivers + settings.floating_buffers
    usual = min(pool, max(receivers + 1, round(held.buffers) + 1))
    exclusive = min(exclusive, (usual - 1) // receivers)
    floating = usual - exclusive * receivers
    prefix = "taskmanager.network.memory"
    text = f"mean of released - consumed, and the open one, of a pool of {pool} by link.json"
    found = {
        f"{prefix}.buffers-per-channel": (exclusive, text),
        f"{prefix}.floating-buffers-per-gate": (floating, text),
        f"{prefix}.max-buffers-per-channel": (pool, "a channel may use the whole pool"),
        f"{prefix}.max-overdraft-buffers-per-gate": (0, "a link has none"),
    }
    if settings.max_pool_bytes is not None:
        draft.notes.append(
            "the pool of this link sizes itself (max_pool_bytes): the scenario has the least of it"
        )
    options: dict[str, Any] = {
        "taskmanager.memory.segment-size": segment,
        # A message of a link is closed when it is full or its batch ends, by no clock.
        "execution.buffer-timeout.enabled": False,
    }
    for key, (value, text) in found.items():
        options[key] = draft.measured(f"options.{key}", value, text, 0.0)
    return options


def _beside(draft: Draft, progress: str | Path) -> None:
    """Say what a batch costs beside its rows: larger buffers make fewer batches."""
    batches, name, source = read_progress(progress)
    cost = cost_of(Draft({}, source), batches, "stages.query.service_rate")
    mean = sum(one.took_ms for one in batches) / len(batches)
    draft.batch_cost = cost, sum(one.rows for one in batches) / len(batches)
    draft.notes.append(
        f"{name}: of a batch's {mean:.0f} ms {cost.overhead_ms:.0f} ms are beside its rows; the "
        "service rate holds for batches of this size, and larger buffers gain more than it says"
    )
