"""The messages of channels that count records, and what a throttle says to sources and hears.

As :mod:`flowcontrol.job.message_recorder`, of other systems than Flink.
"""

from collections.abc import Iterator
from typing import Final

from flowcontrol.job.channel_state import ChannelId, MessageUnderWay
from flowcontrol.job.job import Job
from flowcontrol.job.message_failures import Processes
from flowcontrol.job.message_recorder import FlinkRecorder, arrived_by
from flowcontrol.job.messages import BACKWARD, FORWARD, Message, Recorder, ins_of, outs_of
from flowcontrol.job.round_state import RoundState, TaskState
from flowcontrol.protocol.queues import CANCEL_MARKER, END_OF_DATA, END_OF_PARTITION, is_event
from flowcontrol.scenario.parts_table import THROTTLE_PARTS, TRANSPORT_PARTS
from flowcontrol.systems.transports.rules import first_grant
from flowcontrol.systems.transports.transport import ChannelGrant

EVENT_NAMES: Final = {
    END_OF_PARTITION: "End",
    END_OF_DATA: "EndOfData",
    CANCEL_MARKER: "CancelBarrier",
}
"""Events among the records of a channel, by kind; all others are barriers."""


def recorders_of(job: Job) -> list[Recorder]:
    """Return who notes the messages of a job's transport, and of its throttle.

    Parameters
    ----------
    job : Job
        The scenario, laid out; its transport has messages.
    """
    own = RecordRecorder(job) if job.record_transport is not None else FlinkRecorder(job)
    return [own] if job.scenario.system.throttle == "none" else [own, ThrottleRecorder(job)]


class RecordRecorder(Recorder):
    """Notes the messages of channels that count records.

    Parameters
    ----------
    job : Job
        The scenario, laid out; its transport counts records.
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
        for name, into in ins_of(task):
            if name in self._under_way:
                self._under_way[name], self._granted[name] = (), into.state.announced

    def _sent(self, task: TaskState, number: int, t_s: float) -> Iterator[Message]:
        for name, out in outs_of(task):
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
        for name, into in ins_of(task):
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
    """Notes what a throttle says to the sources of a job, and what the tasks say to it.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with a throttle.
    """

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
