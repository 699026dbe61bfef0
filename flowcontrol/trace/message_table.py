"""The table of messages of a run, and the messages of channels that count records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.arrays import pa
from flowcontrol.layout.graph import start_us
from flowcontrol.layout.job import Job
from flowcontrol.protocol.network.events import Frame
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.state.queues import CANCEL_MARKER, END_OF_DATA, END_OF_PARTITION, is_event
from flowcontrol.systems.transports.rules import first_grant
from flowcontrol.systems.transports.transport import ChannelGrant
from flowcontrol.trace.channel_state import ChannelId, MessageUnderWay
from flowcontrol.trace.messages import (
    BACKWARD,
    FORWARD,
    FlinkRecorder,
    Message,
    Processes,
    Recorder,
    arrived_by,
)
from flowcontrol.trace.round_state import RoundState, TaskState

# --- The messages of channels that count records, and what a throttle says to sources and hears.
#
# As flowcontrol.trace.messages, of other systems than Flink.


EVENT_NAMES: Final = {
    END_OF_PARTITION: "End",
    END_OF_DATA: "EndOfData",
    CANCEL_MARKER: "CancelBarrier",
}
"""Events among the records of a channel, by kind; all others are barriers."""


def recorders_of(job: Job) -> list[Recorder]:
    """Return who notes the messages of a job's transport, and of its throttle.

    ``job``: the scenario, laid out; its transport has messages.
    """
    own = RecordRecorder(job) if job.record_transport is not None else FlinkRecorder(job)
    return [own] if job.scenario.system.throttle == "none" else [own, ThrottleRecorder(job)]


class RecordRecorder(Recorder):
    """Notes the messages of channels that count records.

    ``job``: the scenario, laid out; its transport counts records.
    """

    def __init__(self, job: Job) -> None:
        assert job.record_transport is not None
        self._names = TRANSPORT_PARTS[job.scenario.system.transport].messages
        self._processes, self._is_under_way = Processes(job), False
        self._under_way: dict[ChannelId, tuple[MessageUnderWay, ...]] = {}
        self._granted: dict[ChannelId, int] = {}
        for link in job.links:
            granted = first_grant(job.record_transport, ChannelGrant(), link.record_bytes)
            for one in link.channels:
                if not one.is_local:
                    name = ChannelId(link.name, one.sender, one.receiver)
                    self._under_way[name], self._granted[name] = (), granted

    def look(self, state: RoundState) -> list[Message]:
        """Return the messages of the round that has led to a state: each task's in turn."""
        found, t_s = list[Message](), state.end_us / 1e6
        begun = self._processes.look(state).begun
        for task in state.tasks if self._is_under_way else ():
            if (task.stage, task.subtask) in begun:
                self._begin_anew(task)
        self._is_under_way = True
        for task in state.tasks:
            found += self._sent(task, state.number, t_s)
            found += self._granted_by(task, t_s)
        return found

    def _begin_anew(self, task: TaskState) -> None:
        """Forget what was under way to a task, and what it had granted."""
        for name, into in task.ins():
            if name in self._under_way:
                self._under_way[name], self._granted[name] = (), into.state.announced

    def _sent(self, task: TaskState, number: int, t_s: float) -> Iterator[Message]:
        for name, out in task.outs():
            if name not in self._under_way:
                continue
            before = self._under_way[name]
            new = out.under_way[len(before) - arrived_by(before, number) :]
            self._under_way[name] = out.under_way
            for message in (one.message for one in new if task.is_running):
                is_data = is_event(message) == 0
                yield Message(
                    t_s,
                    *name,
                    FORWARD,
                    self._names["data"] if is_data else EVENT_NAMES.get(message.kind, "Barrier"),
                    credit=message.records if is_data else 0,
                    bytes=message.nbytes,
                )

    def _granted_by(self, task: TaskState, t_s: float) -> Iterator[Message]:
        for name, into in task.ins():
            before, granted = self._granted.get(name), into.state.announced
            if before is None or granted == before or not task.is_running:
                continue
            self._granted[name] = granted
            if "grant" in self._names:
                more = granted - before
                yield Message(t_s, *name, BACKWARD, self._names["grant"], credit=more)
            elif "stop" in self._names:
                order = "stop" if granted < before else "go"
                yield Message(t_s, *name, BACKWARD, self._names[order])


class ThrottleRecorder(Recorder):
    """Notes what a throttle says to the sources of a job, and what the tasks say to it."""

    def __init__(self, job: Job) -> None:
        system = job.scenario.system
        self._sources = {plan.name for plan in job.stages if plan.is_source}
        self._names = THROTTLE_PARTS[system.throttle].names(system.throttle_values)
        self._heard = 0

    def look(self, state: RoundState) -> list[Message]:
        """Return what was said since the round before, in the order in which it was."""
        own = next((one.controller for one in state.tasks if one.controller), None)
        if own is None or own["messages"] == self._heard:
            return []
        spoken = own["spoken"][self._heard - own["messages"] :]
        self._heard = own["messages"]
        return [
            Message(
                state.end_us / 1e6,
                stage,
                subtask if stage in self._sources else None,
                None if stage in self._sources else subtask,
                BACKWARD,
                self._names[what],
            )
            for what, stage, subtask, _ in spoken
        ]


# --- The messages of a window of a run: its rounds, its table, and what flow control costs


@dataclass(frozen=True)
class Window:
    """A window of a run whose messages are written down."""

    start_us: int  # start_us, end_us: what it covers, microseconds of the run, both ends included
    end_us: int
    edges: frozenset[str] = frozenset()  # Names of its edges; empty: all

    def shows(self, message: Message) -> bool:
        """Tell whether a message is within it; what a throttle says is of no edge in particular."""
        if not self.start_us / 1e6 <= message.t_s <= self.end_us / 1e6:
            return False
        is_throttles = message.sender is None or message.receiver is None
        return not self.edges or is_throttles or message.edge in self.edges


def window_of(job: Job) -> Window | None:
    """Return the window that a scenario asks for; None if it asks for none."""
    trace = job.scenario.trace
    if trace is None:
        return None
    return Window(*trace.window_us(job.scenario.duration_us), frozenset(trace.edges))


def first_round(job: Job, window: Window) -> int:
    """Return the first round of which a recorder has to see the state.

    Events have sequence numbers too, and no cursor counts them: so where there may be other events
    than the end of a partition, a recorder has to see the run from its beginning.
    """
    if job.checkpoints is not None or job.faults is not None or job.scenario.jobs:
        return 0
    if start_us(job.scenario) > 0:  # what is requested when the job is deployed
        return 0
    number = -(-window.start_us // job.round_us) - 1  # a message counts from the end of its round
    return max(0, min(number - 1, job.rounds - 1))


def messages_of(job: Job, window: Window, states: Iterable[RoundState]) -> Iterator[Message]:
    """Yield the messages of a window.

    ``states``: states after the rounds from :func:`first_round` on, of whichever clock. They are
    taken up to the end of the window.
    """
    recorders, first = recorders_of(job), first_round(job, window)
    for state in states:
        if state.start_us > window.end_us:
            return
        for own in recorders:
            if state.number == first > 0:
                own.begin(state)
            else:
                yield from filter(window.shows, own.look(state))


def read_messages(table: pa.Table) -> list[Message]:
    """Return the messages of a table ``messages``."""
    return [Message(**row) for row in table.to_pylist()]


def overhead(messages: Sequence[Message]) -> dict[str, Any]:
    """Return what flow control costs in messages, for ``summary.json``.

    Returns ``messages``, their numbers by name under ``by_name``; ``data_buffers``, messages
    that carry data; ``data_bytes``, their data; ``header_bytes`` of these; ``control_messages``,
    all others, events among them; ``control_bytes``, with their headers; ``overhead_share``, bytes
    that are no data over all bytes; ``messages_per_buffer``. These two are null without data.
    ``has_bytes``: whether the frames of the system are known.
    """
    by_name: dict[str, int] = {}
    data = [one for one in messages if is_data(one)]
    for one in messages:
        by_name[one.name] = by_name.get(one.name, 0) + 1
    carried = sum(one.bytes or 0 for one in data)
    headers = sum(one.header_bytes or 0 for one in data)
    control = sum(wire_bytes(one) for one in messages if not is_data(one))
    every = carried + headers + control
    return {
        "has_bytes": all(one.header_bytes is not None for one in messages),
        "messages": len(messages),
        "by_name": dict(sorted(by_name.items())),
        "data_buffers": len(data),
        "data_bytes": carried,
        "header_bytes": headers,
        "control_messages": len(messages) - len(data),
        "control_bytes": control,
        "overhead_share": (headers + control) / every if every else None,
        "messages_per_buffer": len(messages) / len(data) if data else None,
    }


def is_data(message: Message) -> bool:
    """Tell whether a message carries data, and no event."""
    return message.bytes is not None and message.direction == FORWARD and message.credit != 0


def wire_bytes(message: Message) -> int:
    """Return what a message weighs on a wire, bytes; what is not known counts as nothing."""
    own = 0 if message.name == Frame.NEW_BUFFER_SIZE else message.bytes
    return (message.header_bytes or 0) + (own or 0)
