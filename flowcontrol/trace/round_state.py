"""The whole state of a job after a round, as typed values; both clocks have it in this form.

What the rules work on is of the classes of :mod:`flowcontrol.state.network`, copied; around it
stand the queues, what is under way, and what the round did. Rounds are counted from 0, sizes of
pools and queues are buffers.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

from flowcontrol.protocol.tasks.operators import AnyOperator
from flowcontrol.protocol.tasks.processors import TaskProcessor
from flowcontrol.protocol.windows.firing import further_of, open_places
from flowcontrol.protocol.windows.spark_batches import WatermarkOperator
from flowcontrol.state.declared import copied
from flowcontrol.state.network import (
    AlignedChannel,
    Alignment,
    CheckpointReport,
    CoordinatorMessage,
    Message,
    ReceivedMessage,
    Task,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.state.queues import KINDS
from flowcontrol.state.tasks import SourceLog, TaskTime, ValveChannel, WindowTask
from flowcontrol.state.windows import NONE, ColumnValues, WindowEntry, Windows, WindowStore
from flowcontrol.systems.barrier_buffer import AsideMessage, BarrierBuffer
from flowcontrol.systems.tcp import TcpConnection
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.trace.channel_state import (
    MESSAGES,
    BufferKind,
    ChannelId,
    GateState,
    InputChannelState,
    PartitionState,
    SubpartitionState,
)

# --- What a subtask holds of checkpoints after a round, as a typed value


@dataclass(frozen=True, slots=True)
class AsideState:
    """What a subtask has put aside behind barriers."""

    state: BarrierBuffer  # How much it is, and has been
    # What has come behind the barriers of the alignment under way, oldest first.
    behind: tuple[AsideMessage, ...]
    # What is played back before the gates are polled, in this order.
    again: tuple[AsideMessage, ...]
    # Buffers that return to their gate's pool when the disk has written them.
    writing: tuple[AsideMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a subtask holds of checkpoints."""

    # What it knows of them: the one that it took last, and what that waits for.
    state: TaskCheckpoint
    alignment: Alignment  # Its alignment of barriers
    channels: tuple[AlignedChannel, ...]  # The channels of all its gates, in order
    # Of an at-least-once task: the checkpoints that it counts, oldest first.
    tracked: tuple[TrackedCheckpoint, ...] = ()
    # Place of the first of these in its ring, which each channel's set goes by.
    tracked_head: int = 0
    # What it was asked for and has not taken, oldest first.
    triggers: tuple[CoordinatorMessage, ...] = ()
    # What was aborted and it has not passed, oldest first.
    aborted: tuple[CoordinatorMessage, ...] = ()
    reports: tuple[CheckpointReport, ...] = ()  # What it told the coordinator in the round
    # What it has put aside behind barriers, with the transport ``tcp``.
    aside: AsideState | None = None


# --- What a subtask holds of event time after a round, as a typed value


Elements = tuple[tuple[int, int], ...]
"""What is in a channel, in order: 0 and the stamp of a record, or a mark's kind and watermark."""


@dataclass(frozen=True, slots=True)
class TimeState:
    """What a subtask holds of event time."""

    state: TaskTime  # Its generator, or its valve
    # The channels of the valve: those of all its gates, in order.
    channels: tuple[ValveChannel, ...]
    # Stamp of the record that it took up last, if it has outputs; of a source: emitted last.
    stamp: int
    # What was put out to it and it has not taken up, by channel in the same order.
    in_flight: tuple[Elements, ...]

    @property
    def watermark(self) -> int:
        """The watermark that it gave out last, ms; MIN_TIME: none so far."""
        return (self.state.valve if self.channels else self.state.generator).watermark

    @property
    def is_idle(self) -> bool:
        """Whether the last status that it gave out was IDLE."""
        return (self.state.valve if self.channels else self.state.generator).is_idle == 1


# --- What a subtask holds of windows after a round, as a typed value


class Result(NamedTuple):
    """A result of a window.

    Attributes
    ----------
    key : int
        Number of the key, from 0.
    start, end : int
        First millisecond of the window, and the one behind its last.
    records : int
        Records in it.
    round : int
        When it was put out.
    valued : int
        The records that have a value; made ones have the value 1.
    sum, min, max : int
        Of these values, in units.
    wraps : int
        How often the sum has left 64 bits.
    further : tuple of int
        Of each column beside the first the last five, one column behind the other.
    """

    key: int
    start: int
    end: int
    records: int
    round: int
    valued: int
    sum: int
    min: int
    max: int
    wraps: int
    further: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowState:
    """What a subtask holds of windows."""

    held: WindowTask  # What is passed on after a burst, and its keys
    store: WindowStore  # How far its windows are, and the newest result
    # The windows that are kept, the one that began first in front. Where the chains of buckets lead
    # depends on how much room there is, and is left out.
    entries: tuple[WindowEntry, ...]
    # What each of them holds of the columns beside the first; empty if there are none.
    further: tuple[tuple[ColumnValues, ...], ...]
    results: tuple[Result, ...]  # What it put out in the round, in order
    # Of Spark's windows: what it has seen of each of its inputs.
    operators: tuple[WatermarkOperator, ...] = ()

    @property
    def late_records(self) -> int:
        """Records that were too late for every window; of Spark's windows, groups."""
        return self.store.late

    @property
    def open_windows(self) -> int:
        """Windows that are kept, of all keys."""
        return self.store.open - self.held.batch.late

    @property
    def state_bytes(self) -> int:
        """Their state, bytes."""
        return self.open_windows * self.held.bytes_per_key


def window_state(
    held: WindowTask,
    windows: Windows,
    results: Sequence[Result],
    operators: Sequence[WatermarkOperator] = (),
) -> WindowState:
    """Return a copy of a subtask's windows after a round."""
    places = open_places(windows)
    entries = tuple(replace(windows.entries[place - 1], chain=NONE) for place in places)
    own = places if windows.settings.further > 0 else ()
    further = tuple(tuple(map(replace, further_of(windows, place))) for place in own)
    seen = tuple(map(replace, operators))
    store = copied(windows.store)
    return WindowState(copied(held), store, entries, further, tuple(results), seen)


# --- The whole state of a job after a round, as typed values; both clocks have it in this form.


# ---- tasks, connections, the round


@dataclass(frozen=True, slots=True)
class TaskState:
    """A subtask, with its gates and its result partitions.

    Attributes
    ----------
    stage : str
        Its stage; of a chain the first one.
    subtask : int
        Its index.
    task_manager : int
        Where it runs.
    is_running : bool
        False: its job has not started, or has ended; what it last held stands and counts
        for nothing.
    state : Task
        What the rules work on: the buffer that it reads, and how far it is.
    operators : tuple[AnyOperator, ...]
        Its operators, senders before receivers; one that passes every record on is left
        out.
    taken : int
        Records that it took up in the round; a source: that it emitted.
    busy_us : int
        Busy time of the round, microseconds.
    idle_us : int
        Idle time of the round, microseconds.
    backpressured_us : int
        Back-pressured time of the round, microseconds.
    union : tuple[int, ...]
        Gates with data, in the order in which they are polled: places in ``gates``.
    gates : tuple[GateState, ...]
        Its gates, in declared order.
    partitions : tuple[PartitionState, ...]
        Its result partitions, in declared order.
    holds_senders : bool
        Whether it has its senders stopped, as ``hop_hysteresis`` does.
    source : ThrottledSource | None
        Of a throttled source: the command in force, and what waits at it.
    log : SourceLog | None
        Of a source that reads a log: its end, and the source's position in it.
    controller : Mapping[str, Any] | None
        Of a throttled source: what the job's controller remembers; numbers, strings and
        lists by name, as its throttle has them.
    checkpoints : CheckpointState | None
        What it holds of checkpoints, if the job has any.
    time : TimeState | None
        What it holds of event time, if the job has any.
    window : WindowState | None
        What it holds of windows, if its stage has one.
    processor : TaskProcessor | None
        What it has claimed of a processor, if the job counts them and it needs one.
    """

    stage: str
    subtask: int
    task_manager: int
    is_running: bool
    state: Task
    operators: tuple[AnyOperator, ...]
    taken: int
    busy_us: int
    idle_us: int
    backpressured_us: int
    union: tuple[int, ...]
    gates: tuple[GateState, ...]
    partitions: tuple[PartitionState, ...]
    holds_senders: bool = False
    source: ThrottledSource | None = None
    log: SourceLog | None = None
    controller: Mapping[str, Any] | None = None
    checkpoints: CheckpointState | None = None
    time: TimeState | None = None
    window: WindowState | None = None
    processor: TaskProcessor | None = None

    def outs(self) -> Iterator[tuple[ChannelId, SubpartitionState]]:
        """Yield the channels that it writes to."""
        for part in self.partitions:
            for out in part.subpartitions:
                yield ChannelId(part.edge, out.sender, out.receiver), out

    def ins(self) -> Iterator[tuple[ChannelId, InputChannelState]]:
        """Yield the channels that it reads from."""
        for gate in self.gates:
            for into in gate.channels:
                yield ChannelId(gate.edge, into.sender, into.receiver), into


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """A connection between two task managers that is a bottleneck: limited, or without credits.

    Attributes
    ----------
    sender_manager : int
        Task manager that sends.
    receiver_manager : int
        Task manager that receives.
    edge : str
        Edge that it is of; "": all of them share it.
    free_ns : int
        When its wire is free again, nanoseconds since the start of the run.
    waiting : tuple[ChannelId, ...]
        Channels that wait for their turn to send a message, first come first served.
    tcp : TcpConnection | None
        Its sockets and water marks, with the transport ``tcp``.
    """

    sender_manager: int
    receiver_manager: int
    edge: str
    free_ns: int
    waiting: tuple[ChannelId, ...]
    tcp: TcpConnection | None = None


@dataclass(frozen=True, slots=True)
class RoundState:
    """A job after a round.

    Everything in it is a copy: a later round changes nothing here.

    Attributes
    ----------
    number : int
        The round that was run last, from 0.
    start_us : int
        When it began, microseconds of emulated time.
    end_us : int
        When it ended: the moment of this state, microseconds of emulated time.
    tasks : tuple[TaskState, ...]
        All subtasks, senders before receivers.
    connections : tuple[ConnectionState, ...]
        Connections that are a bottleneck; none if only credit limits what is sent.
    """

    number: int
    start_us: int
    end_us: int
    tasks: tuple[TaskState, ...]
    connections: tuple[ConnectionState, ...] = ()

    @property
    def records_in_flight(self) -> int:
        """Records written to the channels of running tasks that their receivers have not taken."""
        running = [task for task in self.tasks if task.is_running]
        written = sum(out.state.written for task in running for _, out in task.outs())
        return written - sum(into.state.processed for task in running for _, into in task.ins())

    def task(self, stage: str, subtask: int = 0) -> TaskState:
        """Return a subtask; a chain goes by its first stage. ``KeyError`` if there is none."""
        for task in self.tasks:
            if (task.stage, task.subtask) == (stage, subtask):
                return task
        known = ", ".join(dict.fromkeys(task.stage for task in self.tasks))
        raise KeyError(f"no subtask {subtask} of {stage}: there are {known}")

    def channels(self) -> Iterator[tuple[ChannelId, SubpartitionState, InputChannelState]]:
        """Yield each channel at its sender and at its receiver."""
        ins = dict(own for task in self.tasks for own in task.ins())
        for task in self.tasks:
            for name, out in task.outs():
                yield name, out, ins[name]

    def channel(
        self, edge: str, sender: int = 0, receiver: int = 0
    ) -> tuple[SubpartitionState, InputChannelState]:
        """Return a channel at its sender and at its receiver; ``KeyError`` if there is none."""
        name = ChannelId(edge, sender, receiver)
        for other, out, into in self.channels():
            if other == name:
                return out, into
        known = ", ".join(sorted({other.edge for other, _, _ in self.channels()}))
        raise KeyError(
            f"no channel {sender} to {receiver} of {edge}: there are channels of {known}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, strings and numbers, under the names of the fields.

        Kinds of messages, and kinds and places of buffers, go by their names, in lower case. What
        is told to a sender has its ``name`` besides, such as ``AddCredit``; the whole has
        ``records_in_flight``.
        """
        return {**_plain(self), "records_in_flight": self.records_in_flight}

    def to_json(self) -> str:
        """Return :meth:`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, ChannelId):
        return value._asdict()
    if is_dataclass(value):
        found = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        if isinstance(value, Message):
            found["kind"] = KINDS[value.kind].name
        if isinstance(value, ReceivedMessage):
            found["buffer"] = BufferKind(value.buffer).name.lower()
        return {"name": type(value).__name__, **found} if isinstance(value, MESSAGES) else found
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value
