"""The state of a job after a round as the page shows it: names, tasks, packing."""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from flowcontrol.files import package_yaml
from flowcontrol.layout.job import Job
from flowcontrol.results.run import put_out_and_pending
from flowcontrol.scenario import Edge
from flowcontrol.state.network import Message, ReceivedMessage
from flowcontrol.state.queues import BACKLOG_ANNOUNCEMENT, KINDS, has_priority, is_event
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
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
from flowcontrol.trace.round_state import ConnectionState, RoundState, TaskState

# --- A channel on the page: the figures of the table ``channels``, and every buffer.


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


# --- Names of what the page shows, as they stand in its state and in `data-` attributes


PACKAGE: Final = "flowcontrol.stepview"

CELL: Final = ("kind", "records", "bytes", "checkpoint", "watermarks")
"""What is known of a buffer or an event in a queue."""

TOKEN: Final = (*CELL, "arrives")
"""What is known of one on the wire; it arrives in a round, -1: it waits for the sender's socket."""

TOLD: Final = ("name", "amount", "arrives")
"""What is known of a message from a receiver to a sender."""

LISTS: Final = {"out": CELL, "queue": CELL, "wire": TOKEN, "told": TOLD}
"""Fields of a channel that are lists, and what each of their items has, in order."""


def task_name(stage: str, subtask: int) -> str:
    """Return the name of a subtask, ``A[0]``."""
    return f"{stage}[{subtask}]"


def name_of(task: TaskState) -> str:
    """Return the name of a task."""
    return task_name(task.stage, task.subtask)


def channel_name(edge: str, sender: int, receiver: int) -> str:
    """Return the name of a channel, ``A->B:0:1``."""
    return f"{edge}:{sender}:{receiver}"


def gate_name(edge: str, receiver: int) -> str:
    """Return the name of a gate, ``A->B:in:1``."""
    return f"{edge}:in:{receiver}"


def partition_name(edge: str, sender: int) -> str:
    """Return the name of a result partition, ``A->B:out:0``."""
    return f"{edge}:out:{sender}"


@cache
def table(name: str) -> dict[str, Any]:
    """Return one of the tables beside this module."""
    found: dict[str, Any] = package_yaml(PACKAGE, name)
    return found


# --- What the page shows of tasks, of task managers and of connections


def shown_task(task: TaskState) -> dict[str, Any]:
    """Return what is shown of a task after a round."""
    source, time, window = task.source, task.time, task.window
    return {
        "is_running": int(task.is_running),
        "is_finished": task.state.is_finished,
        "taken": task.taken,
        "total_taken": task.state.taken,
        "busy_us": task.busy_us,
        "idle_us": task.idle_us,
        "blocked_us": task.backpressured_us,
        "queued_records": task.state.queued,
        "watermark_ms": None if time is None else _time(time.watermark),
        "is_idle": 0 if time is None else int(time.is_idle),
        "open_windows": 0 if window is None else window.open_windows,
        "lag_records": 0 if task.log is None else task.log.end - task.log.position,
        "is_stopped": 0 if source is None else source.is_stopped,
        "gap_ns": 0 if source is None else source.gap_ns,
        "may_emit": -1 if source is None else source.admitted,
        "holds_senders": int(task.holds_senders),
        **_checkpoint(task),
    }


def _time(ms: int) -> int | None:
    return None if ms in (MIN_TIME, MAX_TIME) else ms


def _checkpoint(task: TaskState) -> dict[str, int]:
    """Return how far a task is with its barriers; zeros of one without checkpoints."""
    held = task.checkpoints
    if held is None:
        return dict.fromkeys(("checkpoint", "is_aligning", "barriers", "barriers_of", "aside"), 0)
    return {
        "checkpoint": held.state.handled,
        "is_aligning": held.alignment.is_pending,
        "barriers": held.alignment.barriers,
        "barriers_of": held.alignment.target,
        "aside": 0 if held.aside is None else len(held.aside.behind) + len(held.aside.again),
    }


def overtaken_of(task: TaskState) -> list[int]:
    """Return, by channel of all its gates, whether a barrier in it is pulled to the front."""
    held = task.checkpoints
    return [] if held is None else [channel.is_overtaken for channel in held.channels]


def shown_managers(job: Job, state: RoundState) -> dict[str, dict[str, int]]:
    """Return the network pool of each task manager: all that it has, and what is free.

    A job alone has its memory in shares, one a gate and partition; jobs that come and go share one.
    """
    is_shared = bool(job.scenario.jobs)
    found: dict[str, dict[str, int]] = {
        str(number): {"total": 0, "free": 0} for number in range(job.scenario.cluster.task_managers)
    }
    seen: set[str] = set()
    for task in state.tasks:
        manager = str(task.task_manager)
        pools = [gate.segments for gate in task.gates]
        pools += [part.segments for part in task.partitions]
        for pool in pools[: 1 if is_shared else None]:
            if is_shared and manager in seen:
                continue
            seen.add(manager)
            found[manager]["total"] += pool.total
            found[manager]["free"] += pool.free
    return found


def connection_name(one: ConnectionState) -> str:
    """Return the name of a connection: task managers, and the edge if it is of one alone."""
    return f"{one.sender_manager}->{one.receiver_manager} {one.edge}".strip()


def shown_connection(one: ConnectionState) -> dict[str, Any]:
    """Return what is shown of a connection that is a bottleneck."""
    wire = one.tcp
    if wire is None:
        return {"waiting": len(one.waiting)}
    return {
        "waiting": len(one.waiting),
        "pending_bytes": wire.pending,
        "high_mark_bytes": wire.high_mark,
        "low_mark_bytes": wire.low_mark,
        "is_writable": wire.is_writable,
        "held_bytes": wire.held,
        "kernel_bytes": wire.kernel_bytes,
        "auto_read": wire.auto_read,
        "staged": wire.read - wire.delivered,
    }


# --- The state of a job after a round, as the page shows it: nested mappings of plain values


Shown = dict[str, Any]
"""What is shown of a job: by kind of thing, then by name, then by figure."""


def shown_state(job: Job, state: RoundState) -> Shown:
    """Return what the page shows of a job after a round.

    ``state``: of one of its rounds.

    Returns ``round`` and ``t_s``, and by name ``tasks``, ``gates``, ``partitions``, ``channels``,
    ``managers`` and ``connections``. Figures of a channel that the table ``channels`` has too go by
    the table's names. In each round there are the same keys.
    """
    return {
        "round": state.number,
        "t_s": state.end_us / 1e6,
        "tasks": {name_of(task): shown_task(task) for task in state.tasks},
        "gates": {
            gate_name(gate.edge, task.subtask): shown_gate(gate)
            for task in state.tasks
            for gate in task.gates
        },
        "partitions": {
            partition_name(part.edge, task.subtask): shown_partition(part)
            for task in state.tasks
            for part in task.partitions
        },
        "channels": _channels(job, state),
        "managers": shown_managers(job, state),
        "connections": {connection_name(one): shown_connection(one) for one in state.connections},
    }


def _channels(job: Job, state: RoundState) -> Shown:
    sizes = {link.name: link.record_bytes for link in job.links}
    edges = {link.name: link.edge for link in job.links}
    senders = {(part.edge, task.subtask): task for task in state.tasks for part in task.partitions}
    receivers = {
        (gate.edge, task.subtask): (task, place)
        for task in state.tasks
        for place, gate in enumerate(task.gates)
    }
    found = {}
    for name, out, into in state.channels():
        receiver, place = receivers[name.edge, name.receiver]
        ins = [channel.sender for channel in receiver.gates[place].channels]
        shown = shown_channel(
            job,
            senders[name.edge, name.sender],
            out,
            receiver,
            (place, ins.index(name.sender)),
            into,
            sizes[name.edge],
            _between_edges(edges, senders[name.edge, name.sender], name.edge, out),
        )
        before = sum(len(gate.channels) for gate in receiver.gates[:place])
        overtaken = overtaken_of(receiver)
        index = before + ins.index(name.sender)
        shown["is_overtaken"] = overtaken[index] if overtaken else 0
        found[channel_name(*name)] = shown
    return found


def _between_edges(
    edges: Mapping[str, Edge], task: TaskState, edge: str, out: SubpartitionState
) -> int:
    """Return the records that a stage has put out, and has yet to write to a channel of an edge."""
    own = next(part for part in task.partitions if part.edge == edge)
    first = next(part for part in task.partitions if edges[part.edge].sender == edges[edge].sender)
    if first is own:
        return 0
    waiting = put_out_and_pending(first.pending, own.pending)
    if edges[edge].partitioner == "broadcast":
        return len(waiting)
    return sum(own.subpartitions[place] is out for place in waiting)


# --- Many states in a page: figures that do not change stand once, the rest is deflated.
#
# A state is a tree of mappings, whose leaves are its **figures**: numbers, texts, lists. All
# states of a job have the same figures, so a state is what each one is, and a round is which
# it changes.


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[list[str], Any]]:
    """Yield the figures of a state with the keys that lead to them, in their order."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, (*path, key))
        else:
            yield [*path, key], value


def changes(states: Sequence[Shown]) -> dict[str, Any]:
    """Return states as a first one and what each round changes.

    Returns ``paths``, the keys that lead to each figure; ``first``, what these are in the first
    state; and ``rounds``, one list a further state: number of a figure, its value, and so on.
    Raises ValueError if a state has other figures than the first one.
    """
    paths = [path for path, _ in leaves(states[0])]
    now = [value for _, value in leaves(states[0])]
    first, rounds = list(now), []
    for state in states[1:]:
        found: list[Any] = []
        values = list(leaves(state))
        if [path for path, _ in values] != paths:
            raise ValueError(f"round {state['round']} has other figures than the first one")
        for number, (_, value) in enumerate(values):
            if value != now[number]:
                found += [number, value]
                now[number] = value
        rounds.append(found)
    return {"paths": paths, "first": first, "rounds": rounds}


def packed(value: Any) -> str:
    """Return JSON, deflated (RFC 1950), as base64: what a browser's DecompressionStream reads."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> Any:
    """Return what :func:`packed` has packed."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
