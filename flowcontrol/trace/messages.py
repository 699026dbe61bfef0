"""Messages of the data plane, their recorder, and the effect of failures on them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple

from flowcontrol.layout.graph import start_us
from flowcontrol.layout.job import Job
from flowcontrol.protocol.network.events import HEADER_BYTES, Frame
from flowcontrol.state import queues as q
from flowcontrol.state.network import Message as Sent
from flowcontrol.systems.tcp import TCP_HEADER_BYTES
from flowcontrol.trace import channel_state as c
from flowcontrol.trace.round_state import RoundState, TaskState

# --- One message of the data plane, as a trace has it, and who notes messages as a run goes on


Direction = Literal["forward", "backward"]

FORWARD: Final = "forward"
"""From the sender of a channel to its receiver."""

BACKWARD: Final = "backward"
"""From the receiver of a channel to its sender."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message from one task manager to another: a row of the table ``messages``.

    Attributes
    ----------
    t_s : float
        When it is sent, emulated seconds: the end of the round in which it is, as in the tables of
        samples; of a PartitionRequest the start of the round with which its channel begins.
    edge : str
        Name of the edge, ``source->sink``; of what a throttle says the stage that says or hears it.
    sender, receiver : int or None
        The subtasks at the ends of the channel; None: there is none at that end.
    direction : {"forward", "backward"}
        From sender to receiver, or back.
    name : str
        What it is called: of Flink one of ``flowcontrol.protocol.network.events.Frame``.
    sequence_number : int or None
        Of a BufferResponse: data and events of the channel that were sent before it in the same
        attempt.
    credit : int or None
        Of a PartitionRequest the initial credit, of an AddCredit what it adds, of a BufferResponse
        what it uses: 1, or 0 if it is an event. Buffers; with a transport that counts records,
        records.
    backlog : int or None
        Of a BufferResponse and a BacklogAnnouncement: buffers that wait behind it, as announced.
    bytes : int or None
        Of a BufferResponse its data or its event; of a NewBufferSize the size that it wishes.
    header_bytes : int or None
        All the bytes that it has besides; None where nobody knows them.
    """

    t_s: float
    edge: str
    sender: int | None
    receiver: int | None
    direction: Direction
    name: str
    sequence_number: int | None = None
    credit: int | None = None
    backlog: int | None = None
    bytes: int | None = None
    header_bytes: int | None = None


class Recorder(ABC):
    """Somebody who is shown the state of a job after each round, and says what was sent in it."""

    def begin(self, state: RoundState) -> None:
        """Take a state as that of the round before the first one that is shown.

        ``state``: of a job without checkpoints, failures and jobs that come and go: of those a
        recorder has to be shown the first round too.
        """
        self.look(state)

    @abstractmethod
    def look(self, state: RoundState) -> Sequence[Message]:
        """Return the messages of the round that has led to a state, in the order of the rules.

        ``state``: after a round: the one behind that which was shown before, the first one first.
        """


# --- Which tasks of a job stop or begin in a round, and which fail: what their channels make of
# it.
#
# Only what a state shows, and what the scenario plans: who decides is
# flowcontrol.control.failures.


TaskKey = tuple[str, int]
"""A task by its stage, of a chain the first one, and its subtask."""


class Changes(NamedTuple):
    """What happened to tasks at the beginning of a round."""

    stopped: list[TaskKey]  # Those that stopped, in the order of the job
    begun: list[TaskKey]  # Those that began, perhaps anew, in the order of the job
    failed: set[TaskKey]  # Of those that stopped, the ones that failed by themselves
    died: set[int]  # Task managers that died


class Processes:
    """The tasks of a job, and the task managers in which they run."""

    def __init__(self, job: Job) -> None:
        self._running: dict[TaskKey, bool] = {}
        self._finished: dict[TaskKey, bool] = {}
        self._dead = set[int]()
        self._failing: dict[int, set[TaskKey]] = {}
        self._dying: dict[int, set[int]] = {}
        for failure in () if job.faults is None else job.faults.failures:
            number = -(-failure.at_us // job.round_us)
            if failure.task_manager is not None:
                self._dying.setdefault(number, set()).add(failure.task_manager)
            elif failure.stage is not None and failure.subtask is not None:
                key = (job.stage(failure.stage).name, failure.subtask)
                self._failing.setdefault(number, set()).add(key)

    def lives(self, manager: int) -> bool:
        """Tell whether a task manager is there; one that died comes back with its first task."""
        return manager not in self._dead

    def look(self, state: RoundState) -> Changes:
        """Return what has changed since the state before; in the first one tasks begin."""
        died = self._dying.get(state.number, set())
        self._dead |= died
        stopped, begun = list[TaskKey](), list[TaskKey]()
        for task in state.tasks:
            key = task.stage, task.subtask
            was_running = self._running.get(key, False)
            is_anew = self._finished.get(key, False) and not _is_finished(task)
            if was_running and (not task.is_running or is_anew):
                stopped.append(key)
            if task.is_running and (not was_running or is_anew):
                begun.append(key)
                self._dead.discard(task.task_manager)
            self._running[key], self._finished[key] = task.is_running, _is_finished(task)
        return Changes(stopped, begun, self._failing.get(state.number, set()), died)


def _is_finished(task: TaskState) -> bool:
    return task.state.is_finished == 1


# --- Which messages of Flink's network stack went between task managers, round by round.
#
# A recorder is shown the whole state of a job after each round, of whichever clock, and says what
# is new on each channel: the rules have decided that, and none of them is written again here. A
# channel within a task manager has no messages: its consumer reads the producer's subpartition.


_ENDS = (q.END_OF_DATA, q.END_OF_PARTITION)
"""Events to which a receiver answers when it reads them."""


@dataclass(slots=True)
class _Channel:
    """What is known of a channel after the round that was shown last."""

    sequence: int = 0  # Data and events sent
    under_way: tuple[c.MessageUnderWay, ...] = ()  # Those that have not arrived
    arrived: int = 0  # Data that have arrived
    announced: int = 0  # Credit that was ever announced
    resumed: int = 0  # How often consumption was resumed
    # Kinds of the ends that have arrived and that the task has not read.
    ends: list[int] = field(default_factory=list)
    # Without credits: kind and checkpoint of the events that wait at the receiver.
    waiting: set[tuple[int, int]] = field(default_factory=set)
    is_released: bool = False  # Nothing goes on it any more


class FlinkRecorder(Recorder):
    """Notes the messages of channels that move buffers: credit-based, or of Flink up to 1.4."""

    def __init__(self, job: Job) -> None:
        self._is_tcp = job.scenario.system.transport == "tcp"
        self._header: Mapping[Frame, int] = TCP_HEADER_BYTES if self._is_tcp else HEADER_BYTES
        self._trip = job.latency
        self._processes = Processes(job)
        # Before its control plane has deployed the job, nobody requests anything.
        self._runs_from_us = start_us(job.scenario)
        self._to_begin: list[TaskKey] = []
        self._channels: dict[c.ChannelId, _Channel] = {}
        self._open: dict[tuple[str, int, int], int] = {}
        self._pairs: dict[c.ChannelId, tuple[int, int]] = {}
        for link in job.links:
            senders, receivers = (
                job.stage(end).stage.placement for end in (link.edge.sender, link.edge.receiver)
            )
            for one in link.channels:
                if not one.is_local:
                    name = c.ChannelId(link.name, one.sender, one.receiver)
                    self._channels[name] = _Channel(is_released=True)
                    self._pairs[name] = senders[one.sender], receivers[one.receiver]

    def begin(self, state: RoundState) -> None:
        """Take a state as that of the round before the first one that is shown.

        ``state``: of a job without checkpoints and failures, all of whose tasks run: there, the
        only event is the end of a partition.
        """
        self._processes.look(state)
        for name, out, into in state.channels():
            if name not in self._channels:
                continue
            own = self._channels[name]
            has_ended = out.state.is_finished == 1 and out.state.events == 0
            waits = any(one.message.kind == q.END_OF_PARTITION for one in out.under_way)
            is_there = any(one.kind == q.END_OF_PARTITION for one in into.queue)
            own.sequence, own.waiting = out.state.sent + has_ended, _events(into)
            own.ends = [q.END_OF_PARTITION] if is_there else []
            own.is_released = has_ended and not (waits or is_there)
            if not own.is_released:
                self._count(name, 1)
            own.announced = into.state.announced
            self._keep_sent(name, out, into)

    def look(self, state: RoundState) -> list[Message]:
        """Return the messages of the round that has led to a state, in the order of the rules.

        First tasks stop, then others begin; then each task in turn sends, and answers.
        """
        found = list[Message]()
        changes = self._processes.look(state)
        tasks = {(task.stage, task.subtask): task for task in state.tasks}
        start_s, end_s = state.start_us / 1e6, state.end_us / 1e6
        for key in changes.stopped:
            has_failed, died = key in changes.failed, tasks[key].task_manager in changes.died
            found += self._stop(tasks[key], start_s, has_failed=has_failed, died=died)
        self._to_begin += changes.begun
        if state.end_us > self._runs_from_us:
            at_s = max(start_s, self._runs_from_us / 1e6)
            for key in self._to_begin:
                found += self._begin(tasks[key], at_s)
            self._to_begin.clear()
        ins = dict(own for task in state.tasks for own in task.ins())
        for task in state.tasks:
            for name, out in task.outs():
                if name in self._channels:
                    new = self._new_messages(name, out, ins[name], state.number)
                    if task.is_running:
                        found += self._sent(name, new, end_s)
                    self._keep_sent(name, out, ins[name])
            if task.is_running:
                found += self._answers(task, state.number, end_s)
        return found

    # ------------------------------------------------------------------ attempts

    def _begin(self, task: TaskState, t_s: float) -> Iterator[Message]:
        """Have a task request its partitions."""
        for name, into in task.ins():
            if name in self._channels:
                initial = max(0, into.state.initial)
                self._channels[name] = _Channel(announced=initial)
                self._count(name, 1)
                credit = None if self._is_tcp else initial
                yield self._message(t_s, name, BACKWARD, Frame.PARTITION_REQUEST, credit=credit)

    def _stop(
        self, task: TaskState, t_s: float, *, has_failed: bool, died: bool
    ) -> Iterator[Message]:
        """Have a task stop: it was cancelled, has failed, or its process has died with it."""
        for name, _ in task.outs():
            own = self._channels.get(name)
            if own is None or own.is_released:
                continue
            self._lose(own)
            if died:  # the connection is gone, and nobody cancels anything
                self._release(name)
            elif has_failed and self._processes.lives(self._pairs[name][1]):
                yield self._message(t_s, name, FORWARD, Frame.ERROR_RESPONSE)
        for name, _ in task.ins():
            own = self._channels.get(name)
            if own is not None and not own.is_released:
                frame = self._release(name)
                self._lose(own)
                if not died and self._processes.lives(self._pairs[name][0]):
                    yield self._message(t_s, name, BACKWARD, frame)

    def _release(self, name: c.ChannelId) -> Frame:
        """Release a channel; return what its receiver says."""
        own = self._channels[name]
        own.is_released, own.ends = True, []
        is_last = self._count(name, -1) == 0
        # From 1.5 on a connection is reused by other jobs, so it is never closed.
        return Frame.CLOSE_REQUEST if is_last and self._is_tcp else Frame.CANCEL_PARTITION_REQUEST

    def _lose(self, own: _Channel) -> None:
        """Have nobody take what a connection without credits carries of a channel."""
        if self._is_tcp:
            own.under_way = ()

    def _count(self, name: c.ChannelId, more: int) -> int:
        """Count the channels of a connection; return how many are open."""
        place = (name.edge if self._is_tcp else "", *self._pairs[name])
        self._open[place] = self._open.get(place, 0) + more
        return self._open[place]

    # ------------------------------------------------------------------ what a sender sends

    def _new_messages(
        self, name: c.ChannelId, out: c.SubpartitionState, into: c.InputChannelState, number: int
    ) -> list[Sent]:
        """Return the messages that were sent in a round; note the ends among those that arrived."""
        own, now = self._channels[name], [one.message for one in out.under_way]
        before = [one.message for one in own.under_way]
        arrived = before[: arrived_by(own.under_way, number)]
        if self._is_tcp:  # a connection may hand on in a round what it was given in it
            arrived = _delivered(into, into.state.arrived - own.arrived, own.waiting)
            own.waiting = _events(into)
        own.ends += [one.kind for one in arrived if one.kind in _ENDS]
        return [*arrived, *now][len(before) :]

    def _sent(self, name: c.ChannelId, new: list[Sent], t_s: float) -> Iterator[Message]:
        own = self._channels[name]
        for message in new:
            backlog = None if self._is_tcp else message.backlog
            if message.kind == q.BACKLOG_ANNOUNCEMENT:
                yield self._message(t_s, name, FORWARD, Frame.BACKLOG_ANNOUNCEMENT, backlog=backlog)
                continue
            figures = {
                "sequence_number": own.sequence,
                "credit": 0 if q.is_event(message) == 1 else None if self._is_tcp else 1,
                "backlog": backlog,
                "bytes": message.nbytes,
            }
            yield self._message(t_s, name, FORWARD, Frame.BUFFER_RESPONSE, **figures)
            own.sequence += 1

    def _keep_sent(
        self, name: c.ChannelId, out: c.SubpartitionState, into: c.InputChannelState
    ) -> None:
        own = self._channels[name]
        own.under_way, own.arrived = out.under_way, into.state.arrived

    # ------------------------------------------------------------------ what a receiver says

    def _answers(self, task: TaskState, number: int, t_s: float) -> Iterator[Message]:
        """Yield what a task tells the senders of its channels in a round."""
        for place, (name, into) in enumerate(task.ins()):
            own = self._channels.get(name)
            if own is None or own.is_released:
                continue
            read = [kind for kind in own.ends if all(one.kind != kind for one in into.queue)]
            own.ends = [kind for kind in own.ends if kind not in read]
            if not self._is_tcp:
                held, resumed = task.checkpoints, own.resumed
                if held is not None and held.state.waits_requests == 0:
                    resumed = held.channels[place].resumed
                yield from self._credit_based(name, into, read, resumed, number, t_s)
            if q.END_OF_PARTITION in read:
                yield self._message(t_s, name, BACKWARD, self._release(name))

    def _credit_based(
        self,
        name: c.ChannelId,
        into: c.InputChannelState,
        read: list[int],
        resumed: int,
        number: int,
        t_s: float,
    ) -> Iterator[Message]:
        """Yield what only a receiver with credits tells the sender of a channel."""
        own = self._channels[name]
        if q.END_OF_DATA in read:
            yield self._message(t_s, name, BACKWARD, Frame.ACK_ALL_USER_RECORDS_PROCESSED)
        for _ in range(resumed - own.resumed):
            yield self._message(t_s, name, BACKWARD, Frame.RESUME_CONSUMPTION)
        own.resumed = resumed
        credit = into.state.announced - own.announced
        own.announced = into.state.announced
        if credit > 0:
            yield self._message(t_s, name, BACKWARD, Frame.ADD_CREDIT, credit=credit)
        for told in into.under_way:
            if isinstance(told, c.NewBufferSize) and told.arrives == number + self._trip:
                frame = Frame.NEW_BUFFER_SIZE
                yield self._message(t_s, name, BACKWARD, frame, bytes=told.nbytes)

    def _message(
        self, t_s: float, name: c.ChannelId, way: Direction, frame: Frame, **figures: Any
    ) -> Message:
        return Message(t_s, *name, way, str(frame), header_bytes=self._header[frame], **figures)


def arrived_by(under_way: tuple[c.MessageUnderWay, ...], number: int) -> int:
    """Return how many messages have arrived by a round: the oldest ones, one behind the other."""
    return sum(1 for _ in takewhile(lambda one: one.arrives <= number, under_way))


def _events(into: c.InputChannelState) -> set[tuple[int, int]]:
    """Return the events that wait at a receiver: each has a checkpoint of its own, or is an end."""
    return {(one.kind, one.checkpoint) for one in into.queue if q.is_event(one) == 1}


def _delivered(into: c.InputChannelState, data: int, waited: set[tuple[int, int]]) -> list[Sent]:
    """Return what a connection without credits gave to a channel in a round, oldest first.

    - ``into``: the channel after the round: its task has not had its turn since.
    - ``waited``: events that waited a round ago.
    """
    found = list[Sent]()
    for one in reversed(into.queue):
        if q.is_event(one) == 0:
            if data <= 0:
                break
            data -= 1
        elif (one.kind, one.checkpoint) in waited:
            break
        found.append(one)
    return found[::-1]
