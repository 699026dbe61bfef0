"""A channel on the page: the figures of the table ``channels``, and every buffer."""

from collections.abc import Iterator
from typing import Any, Final

from flowcontrol.layout.job import Job
from flowcontrol.state.network import Message, ReceivedMessage
from flowcontrol.state.queues import BACKLOG_ANNOUNCEMENT, KINDS, has_priority, is_event
from flowcontrol.trace.channel_state import (
    AddCredit,
    BufferKind,
    BufferPlace,
    GateState,
    InputChannelState,
    NewBufferSize,
    PartitionState,
    ResumeConsumption,
    SubpartitionState,
)
from flowcontrol.trace.round_state import TaskState

MOST_TOKENS: Final = 16
"""Messages on a wire that are shown one by one, the oldest first; ``on_wire`` counts all."""

MOST_CELLS: Final = 64
"""Buffers of a queue that are shown one by one, the oldest first."""

_LEVELS: Final = (
    "credit", "backlog", "exclusive_free", "floating_held", "queued", "in_flight_records",
    "in_flight_bytes",
)  # fmt: skip
"""Figures that are 0 of a task that does not run, as in the table."""

Cell = list[Any]


def shown_channel(
    job: Job,
    sender: TaskState,
    out: SubpartitionState,
    receiver: TaskState,
    gate: tuple[int, int],
    into: InputChannelState,
    record_bytes: int,
    between: int,
) -> dict[str, Any]:
    """Return what is shown of a channel after a round.

    ``record_bytes``: size of a record on its edge, bytes.
    """
    counts_records = job.record_transport is not None
    is_uncredited = into.state.initial < 0 or job.scenario.system.transport == "tcp"
    reading = reading_of(receiver, *gate)
    queued = _queued(into, reading, counts_records)
    flying = out.state.written - into.state.processed + between
    found: dict[str, Any] = {
        "written": out.state.sent + out.ready,
        "released": out.state.sent + out.ready,
        "announced": out.state.sent + out.ready if is_uncredited else into.state.announced,
        "sent": out.state.sent,
        "consumed": into.state.consumed,
        "credit": out.credit,
        "backlog": out.backlog,
        "exclusive_free": into.state.exclusive,
        "floating_held": _floating(into, reading, queued),
        "queued": queued,
        "in_flight_records": flying,
        "in_flight_bytes": flying * record_bytes,
        "arrived": into.state.arrived,
        "heard": out.state.announced,
        "floating_free": into.state.floating,
        "required": into.state.required,
        "is_waiting": into.state.is_waiting,
        "is_blocked": out.state.is_blocked,
        "persisted": out.state.persisted,
        "resumed": out.state.resumed,
        "filled_bytes": out.state.filled if out.state.is_open else 0,
        "reading": reading,
        "out": list(_out_cells(out))[:MOST_CELLS],
        "on_wire": len(out.under_way),
        "wire": [
            [*_cell(way.message, "local" if out.is_local else "wire"), way.arrives]
            for way in out.under_way[:MOST_TOKENS]
        ],
        "queue": [_cell(message, _kind_in(message)) for message in into.queue[:MOST_CELLS]],
        "in_queue": len(into.queue),
        "told": list(_told(out, into)),
    }
    if not (sender.is_running and receiver.is_running):
        found |= dict.fromkeys(_LEVELS, 0)
    return found


def reading_of(receiver: TaskState, gate: int, place: int) -> list[Any] | None:
    """Return kind and records left of the buffer of a channel that its task reads; None of none."""
    task = receiver.state
    if (task.gate, task.channel) != (gate, place) or task.left + task.marks + task.goes_on == 0:
        return None
    return [BufferKind(task.buffer).name.lower(), task.left]


def _floating(into: InputChannelState, reading: list[Any] | None, queued: int) -> int:
    """Floating buffers that a channel holds, as the table counts them: all but exclusive ones."""
    if into.state.initial < 0:
        return 0
    in_use = queued + (reading is not None and reading[0] != "restored")
    return into.state.floating + in_use - (into.state.initial - into.state.exclusive)


def _queued(into: InputChannelState, reading: list[Any] | None, counts_records: bool) -> int:
    if counts_records:
        return into.state.arrived - into.state.processed
    is_read = reading is not None and reading[0] != "restored"
    return into.state.arrived - into.state.consumed - is_read


def _out_cells(out: SubpartitionState) -> Iterator[Cell]:
    """Yield what waits at the sender, oldest first, the open buffer last."""
    for kept in out.spilled[-MOST_CELLS:]:
        if kept.index >= out.state.sent:
            kind = "finished" if kept.place is not BufferPlace.DISK else "disk"
            yield [kind, kept.records, kept.nbytes, 0, 0]
    for message in out.finished:
        yield _cell(message, "finished")
    if out.state.is_open:
        yield ["open", out.state.tail, out.state.unread, 0, out.state.marks]


def _cell(message: Message, kind: str) -> Cell:
    if is_event(message) == 1:
        kind = event_kind(message.kind)
    return [kind, message.records, message.nbytes, message.checkpoint, message.marks]


def event_kind(kind: int) -> str:
    """Return how the page calls a kind of event: barrier, overtaking or event."""
    if has_priority(kind):
        return "overtaking"
    is_barrier = KINDS[kind].name.endswith("barrier") and kind != BACKLOG_ANNOUNCEMENT
    return "barrier" if is_barrier else "event"


def _kind_in(message: ReceivedMessage) -> str:
    name = BufferKind(message.buffer).name.lower()
    return "event" if name == "none" else name


def _told(out: SubpartitionState, into: InputChannelState) -> Iterator[Cell]:
    """Yield what a receiver has told its sender, with how much more that is."""
    heard = out.state.announced
    for told in into.under_way:
        if isinstance(told, AddCredit):
            yield ["AddCredit", told.announced - heard, told.arrives]
            heard = told.announced
        elif isinstance(told, NewBufferSize):
            yield ["NewBufferSize", told.nbytes, told.arrives]
        elif isinstance(told, ResumeConsumption):
            yield ["ResumeConsumption", told.resumed, told.arrives]


def shown_gate(gate: GateState) -> dict[str, Any]:
    """Return what is shown of a gate: its floating buffers, and who waits for one."""
    senders = [channel.sender for channel in gate.channels]
    return {
        "size": gate.pool.size,
        "in_use": gate.pool.in_use,
        "free": gate.pool.free,
        "overdraft": 0,
        "waiting": [senders[place] for place in gate.waiting],
    }


def shown_partition(part: PartitionState) -> dict[str, Any]:
    """Return what is shown of a result partition: its buffers, and what is not written yet."""
    pool = part.pool
    return {
        "size": pool.size,
        "in_use": pool.in_use,
        "free": pool.free,
        "overdraft": max(0, pool.in_use - pool.size),
        "at_quota": pool.at_quota,
        "pending": len(part.pending),
        "left_bytes": part.left_bytes,
        "on_disk_bytes": 0 if part.spill is None else part.spill.bytes_written,
    }
