"""What is under way between task managers for several rounds, in a run in memory.

A subtask knows what it has sent in a round. Here is remembered what it sent in the rounds before,
as far as that has not arrived.
"""

from collections.abc import Mapping
from dataclasses import replace

from flowcontrol.job.channel_state import (
    AddCredit,
    ChannelId,
    InputChannelState,
    MessageUnderWay,
    ResumeConsumption,
    SubpartitionState,
    Told,
)
from flowcontrol.job.job import Job
from flowcontrol.job.round_state import RoundState, TaskState


class UnderWay:
    """The messages of all channels that have not arrived, in both directions.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._sent: dict[ChannelId, tuple[MessageUnderWay, ...]] = {}
        self._told: dict[ChannelId, tuple[Told, ...]] = {}
        self._last: dict[ChannelId, tuple[int, int]] = {}

    def begin(self, number: int, begun: Mapping[tuple[str, int], int]) -> None:
        """Forget what is under way between tasks that begin anew in a round.

        Parameters
        ----------
        number : int
            The round.
        begun : mapping of (str, int) to int
            By stage and subtask, the round in which it began anew last.
        """
        for link in self._job.links:
            stage = self._job.stage(link.edge.receiver).name
            for channel in link.channels:
                if begun.get((stage, channel.receiver)) == number:
                    name = ChannelId(link.name, channel.sender, channel.receiver)
                    for held in (self._sent, self._told, self._last):
                        held.pop(name, None)

    def complete(self, state: RoundState) -> RoundState:
        """Return a state of which every task knows what it sent in the round, with all the rest."""
        if self._job.latency == 1:
            return state
        for name, out, _ in state.channels():
            self._last.setdefault(name, (out.state.announced, out.state.resumed))
        tasks = [self._task(state.number, task) for task in state.tasks]
        return replace(state, tasks=tuple(tasks))

    def _task(self, number: int, task: TaskState) -> TaskState:
        gates, place = [], 0
        for gate in task.gates:
            channels = []
            for own in gate.channels:
                resumed = 0
                if task.checkpoints is not None:
                    aligned = task.checkpoints.channels[place]
                    resumed = getattr(aligned, self._job.barrier_cursor)
                channels.append(self._input(number, gate.edge, own, resumed))
                place += 1
            gates.append(replace(gate, channels=tuple(channels)))
        partitions = [
            replace(
                part,
                subpartitions=tuple(
                    self._output(number, part.edge, own) for own in part.subpartitions
                ),
            )
            for part in task.partitions
        ]
        return replace(task, gates=tuple(gates), partitions=tuple(partitions))

    def _output(self, number: int, edge: str, own: SubpartitionState) -> SubpartitionState:
        if own.is_local:
            return own
        name = ChannelId(edge, own.sender, own.receiver)
        before = [one for one in self._sent.get(name, ()) if one.arrives > number]
        found = self._sent[name] = (*before, *own.under_way)
        return replace(own, under_way=found)

    def _input(
        self, number: int, edge: str, own: InputChannelState, resumed: int
    ) -> InputChannelState:
        if own.is_local:
            return own
        name, announced = ChannelId(edge, own.sender, own.receiver), own.state.announced
        before = [one for one in self._told.get(name, ()) if one.arrives > number]
        credit, often = self._last[name]
        self._last[name] = announced, resumed
        arrives = number + self._job.latency
        if resumed != often:
            before.append(ResumeConsumption(resumed, arrives))
        if announced != credit:
            before.append(AddCredit(announced, arrives))
        found = self._told[name] = tuple(before)
        return replace(own, under_way=found)
