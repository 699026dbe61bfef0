"""The whole state of a job after a round, as typed values; both clocks have it in this form.

What the rules work on is of the classes of :mod:`flowcontrol.protocol.states`, copied; around it
stand the queues, what is under way, and what the round did. Rounds are counted from 0, sizes of
pools and queues are buffers.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Any

from flowcontrol.job.channel_state import (
    MESSAGES,
    BufferKind,
    ChannelId,
    GateState,
    InputChannelState,
    PartitionState,
    SubpartitionState,
)
from flowcontrol.job.checkpoint_state import CheckpointState
from flowcontrol.job.time_state import TimeState
from flowcontrol.job.window_state import WindowState
from flowcontrol.operators.states import SourceLog
from flowcontrol.operators.table import AnyOperator
from flowcontrol.protocol.processors import TaskProcessor
from flowcontrol.protocol.queues import KINDS
from flowcontrol.protocol.states import Message, ReceivedMessage, Task
from flowcontrol.systems.tcp_connection import TcpConnection
from flowcontrol.systems.throttles.throttled_source import ThrottledSource

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
        outs = [out for task in running for part in task.partitions for out in part.subpartitions]
        ins = [into for task in running for gate in task.gates for into in gate.channels]
        written = sum(out.state.written for out in outs)
        return written - sum(into.state.processed for into in ins)

    def task(self, stage: str, subtask: int = 0) -> TaskState:
        """Return a subtask; a chain goes by its first stage. ``KeyError`` if there is none."""
        for task in self.tasks:
            if (task.stage, task.subtask) == (stage, subtask):
                return task
        known = ", ".join(dict.fromkeys(task.stage for task in self.tasks))
        raise KeyError(f"no subtask {subtask} of {stage}: there are {known}")

    def channels(self) -> Iterator[tuple[ChannelId, SubpartitionState, InputChannelState]]:
        """Yield each channel at its sender and at its receiver."""
        ins = {
            ChannelId(gate.edge, into.sender, into.receiver): into
            for task in self.tasks
            for gate in task.gates
            for into in gate.channels
        }
        for task in self.tasks:
            for part in task.partitions:
                for out in part.subpartitions:
                    name = ChannelId(part.edge, out.sender, out.receiver)
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
