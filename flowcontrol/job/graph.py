"""The graph of a job: what runs in one task, and the channels between tasks.

The counterpart of Flink's job graph. Everything here is constant during a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flowcontrol.job.chains import Member, chained_rates, chained_stalls, members_of
from flowcontrol.operators.states import TASK_INPUT
from flowcontrol.operators.table import AnyOperator
from flowcontrol.protocol.partitioners import pointwise_channels
from flowcontrol.scenario import Edge, Scenario, Schedule, Stage

POINTWISE = ("forward", "rescale")


@dataclass(frozen=True)
class Channel:
    """One sender subtask to one receiver subtask.

    Attributes
    ----------
    sender, receiver : int
        Subtask indexes.
    is_local : bool
        Both on one task manager: no credits, buffers stay charged to the producer.
    """

    sender: int
    receiver: int
    is_local: bool


@dataclass(frozen=True)
class JobEdge:
    """All channels of one edge.

    Attributes
    ----------
    edge : Edge
        As in the scenario.
    channels : tuple of Channel
        Ordered by sender, then by receiver.
    record_bytes : int
        Size of a record on this edge, bytes.
    """

    edge: Edge
    channels: tuple[Channel, ...]
    record_bytes: int

    @property
    def name(self) -> str:
        """Name in the results, ``source->sink``."""
        return self.edge.name

    @property
    def folder(self) -> str:
        """Folder below ``links/``, ``source-sink``."""
        return self.edge.folder

    def outgoing(self, sender: int) -> tuple[Channel, ...]:
        """Channels of a sender subtask, in the order of its subpartitions."""
        return self._of_subtask.get(("sender", sender), ())

    def incoming(self, receiver: int) -> tuple[Channel, ...]:
        """Channels of a receiver subtask, in the order of its gate."""
        return self._of_subtask.get(("receiver", receiver), ())

    def ends(self, side: str) -> npt.NDArray[np.int64]:
        """Return the subtask of each channel at its "sender" or its "receiver"."""
        return self._ends[side]

    @cached_property
    def _ends(self) -> dict[str, npt.NDArray[np.int64]]:
        pairs = np.array([(c.sender, c.receiver) for c in self.channels], np.int64)
        return {"sender": pairs[:, 0], "receiver": pairs[:, 1]}

    @cached_property
    def _of_subtask(self) -> dict[tuple[str, int], tuple[Channel, ...]]:
        """Channels of each subtask of a side, in their order."""
        found: dict[tuple[str, int], list[Channel]] = defaultdict(list)
        for channel in self.channels:
            found["sender", channel.sender].append(channel)
            found["receiver", channel.receiver].append(channel)
        return {subtask: tuple(own) for subtask, own in found.items()}


@dataclass(frozen=True)
class JobVertex:
    """One stage, or a chain of them that runs in its tasks, with its links in declared order."""

    stage: Stage
    inputs: tuple[JobEdge, ...]
    outputs: tuple[JobEdge, ...]
    members: tuple[Member, ...] = ()
    operators: tuple[AnyOperator, ...] = ()

    def rates(self, subtask: int) -> Schedule | None:
        """Return what the task of a subtask can emit or serve; None: any number."""
        return chained_rates(self.members, subtask)

    def stalled(self, subtask: int) -> tuple[tuple[int, int], ...]:
        """Return when the task of a subtask stands still, microseconds."""
        return chained_stalls(self.members, subtask)

    def new_operators(self) -> list[AnyOperator]:
        """Return the operators of one subtask, before the first record."""
        return [replace(operator) for operator in self.operators]

    def is_single(self, subtask: int) -> bool:
        """Whether all that a subtask's task takes up goes one for one into one channel."""
        if len(self.outputs) != 1:
            return False
        link = self.outputs[0]
        return len(link.outgoing(subtask)) == 1 and self.member(link).output == TASK_INPUT

    def member(self, link: JobEdge) -> Member:
        """Return the stage whose output goes to a link."""
        return next(member for member in self.members if member.stage.name == link.edge.sender)

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.stage.name

    @property
    def is_source(self) -> bool:
        """Whether no edge leads to it."""
        return not self.inputs

    @property
    def is_sink(self) -> bool:
        """Whether no edge leaves it."""
        return not self.outputs


def graph_of(scenario: Scenario) -> tuple[tuple[JobEdge, ...], tuple[JobVertex, ...]]:
    """Return links in declared order, and tasks in topological order."""
    links = tuple(_link(scenario, edge) for edge in scenario.edges if not edge.chain)
    chained = {edge.receiver for edge in scenario.edges if edge.chain}
    heads = [stage for stage in scenario.topological() if stage.name not in chained]
    return links, tuple(_plan(scenario, links, head) for head in heads)


def _plan(scenario: Scenario, links: Sequence[JobEdge], head: Stage) -> JobVertex:
    members, operators = members_of(scenario, head)
    inputs = tuple(link for link in links if link.edge.receiver == head.name)
    outputs = tuple(
        link for member in members for link in links if link.edge.sender == member.stage.name
    )
    return JobVertex(head, inputs, outputs, members, operators)


def _link(scenario: Scenario, edge: Edge) -> JobEdge:
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    channels, local = [], scenario.system.transport == "local"
    for index in range(sender.parallelism):
        if edge.partitioner in POINTWISE:
            targets = pointwise_channels(index, sender.parallelism, receiver.parallelism)
        else:
            targets = list(range(receiver.parallelism))
        here = sender.placement[index]
        channels += [Channel(index, t, local or here == receiver.placement[t]) for t in targets]
    return JobEdge(edge, tuple(channels), sender.record_bytes)
