"""A scenario laid out: subtasks on task managers, channels, gates and partitions with sizes.

The counterpart of Flink's physical graph. Everything here is constant during a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from flowcontrol.job.buffers import Demand, Sizes, demands_of, largest_sizes, size_buffers
from flowcontrol.job.chains import Member, chained_rates, chained_stalls, members_of
from flowcontrol.job.limits import check_limits
from flowcontrol.job.record_queues import record_transport
from flowcontrol.operators.states import TASK_INPUT
from flowcontrol.operators.table import AnyOperator
from flowcontrol.protocol.partitioners import pointwise_channels
from flowcontrol.scenario import Edge, Scenario, Schedule, Stage
from flowcontrol.systems.record_transport import RecordTransport

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
class Link:
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
        return self._by_sender.get(sender, ())

    def incoming(self, receiver: int) -> tuple[Channel, ...]:
        """Channels of a receiver subtask, in the order of its gate."""
        return self._by_receiver.get(receiver, ())

    def ends(self, side: str) -> npt.NDArray[np.int64]:
        """Return the subtask of each channel at its "sender" or its "receiver"."""
        return self._ends[side]

    @cached_property
    def _ends(self) -> dict[str, npt.NDArray[np.int64]]:
        pairs = np.array([(c.sender, c.receiver) for c in self.channels], np.int64)
        return {"sender": pairs[:, 0], "receiver": pairs[:, 1]}

    @cached_property
    def _by_sender(self) -> dict[int, tuple[Channel, ...]]:
        return _grouped(self.channels, "sender")

    @cached_property
    def _by_receiver(self) -> dict[int, tuple[Channel, ...]]:
        return _grouped(self.channels, "receiver")


@dataclass(frozen=True)
class StagePlan:
    """One stage, or a chain of them that runs in its tasks, with its links in declared order."""

    stage: Stage
    inputs: tuple[Link, ...]
    outputs: tuple[Link, ...]
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

    def member(self, link: Link) -> Member:
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


@dataclass(frozen=True)
class Job:
    """A scenario with everything that a clock needs to run it.

    Attributes
    ----------
    scenario : Scenario
        As read.
    round_us : int
        Emulated time of a round, microseconds.
    rounds : int
        Rounds of the whole run.
    stages : tuple of StagePlan
        In topological order, declared order within; a chain is one of them.
    links : tuple of Link
        In declared order.
    sizes : Sizes
        Buffers of every gate and partition; the most that each can have, if jobs start and stop.
    """

    scenario: Scenario
    round_us: int
    rounds: int
    stages: tuple[StagePlan, ...]
    links: tuple[Link, ...]
    sizes: Sizes
    _by_name: dict[str, StagePlan] = field(default_factory=dict, compare=False, repr=False)

    def stage(self, name: str) -> StagePlan:
        """Return the plan that runs a stage, by its name; ``KeyError`` if there is none."""
        return self._by_name[name]

    @cached_property
    def record_transport(self) -> RecordTransport | None:
        """Parameters of a transport that counts records; None: it moves buffers."""
        if not self.scenario.system.counts_records:
            return None
        return record_transport(self.scenario, self.round_us)

    @property
    def has_grants(self) -> bool:
        """Whether senders of remote channels wait for what receivers grant, and may count on it."""
        return self.scenario.system.transport not in {"unbounded", "hop_hysteresis"}

    def sources_above(self) -> dict[str, list[str]]:
        """Return, by stage that is no source, the sources from which it can be reached."""
        found: dict[str, list[str]] = {}
        for plan in self.stages:  # senders before receivers
            above = [self.stage(link.edge.sender) for link in plan.inputs]
            names = [n for p in above for n in ([p.name] if p.is_source else found[p.name])]
            if not plan.is_source:
                found[plan.name] = list(dict.fromkeys(names))
        return found

    def time_s(self, rounds: int) -> float:
        """Emulated time after so many rounds, seconds."""
        return rounds * self.round_us / 1e6


def lay_out(scenario: Scenario, *, round_us: int | None = None) -> Job:
    """Lay a scenario out.

    Parameters
    ----------
    scenario : Scenario
        Read and checked.
    round_us : int, optional
        Emulated time of a round, microseconds; by default the live clock's.

    Returns
    -------
    Job
        Ready to run.

    Raises
    ------
    ScenarioError
        If a task manager has too few network buffers, with Flink's text and figures. Where
        jobs start and stop, that is seen when they start. Or if the run could count to more than
        64 bits hold (:mod:`flowcontrol.job.limits`).
    """
    round_us = scenario.live_round_us if round_us is None else round_us
    rounds = -(-scenario.duration_us // round_us)
    links, stages = _graph(scenario)
    sized = largest_sizes if scenario.shares_memory else size_buffers
    sizes = sized(scenario, stages)
    names = {member.stage.name: plan for plan in stages for member in plan.members}
    job = Job(scenario, round_us, rounds, stages, links, sizes, names)
    check_limits(job)
    return job


def demands_by_job(scenario: Scenario) -> dict[str, list[Demand]]:
    """Return what the gates and partitions of each job ask for, in order of creation.

    Parameters
    ----------
    scenario : Scenario
        Read and checked. Without ``jobs`` its one job is called "".
    """
    owners = {name: job.name for job in scenario.jobs for name in job.stages}
    found: dict[str, list[Demand]] = {}
    for plan in _graph(scenario)[1]:
        found.setdefault(owners.get(plan.name, ""), []).extend(demands_of(scenario, plan))
    return found


def _graph(scenario: Scenario) -> tuple[tuple[Link, ...], tuple[StagePlan, ...]]:
    """Links in declared order, and tasks in topological order."""
    links = tuple(_link(scenario, edge) for edge in scenario.edges if not edge.chain)
    chained = {edge.receiver for edge in scenario.edges if edge.chain}
    heads = [stage for stage in scenario.topological() if stage.name not in chained]
    return links, tuple(_plan(scenario, links, head) for head in heads)


def _plan(scenario: Scenario, links: Sequence[Link], head: Stage) -> StagePlan:
    members, operators = members_of(scenario, head)
    inputs = tuple(link for link in links if link.edge.receiver == head.name)
    outputs = tuple(
        link for member in members for link in links if link.edge.sender == member.stage.name
    )
    return StagePlan(head, inputs, outputs, members, operators)


def _link(scenario: Scenario, edge: Edge) -> Link:
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    channels, local = [], scenario.system.transport == "local"
    for index in range(sender.parallelism):
        if edge.partitioner in POINTWISE:
            targets = pointwise_channels(index, sender.parallelism, receiver.parallelism)
        else:
            targets = list(range(receiver.parallelism))
        here = sender.placement[index]
        channels += [Channel(index, t, local or here == receiver.placement[t]) for t in targets]
    return Link(edge, tuple(channels), sender.record_bytes)


def _grouped(channels: Sequence[Channel], side: str) -> dict[int, tuple[Channel, ...]]:
    """Channels of each subtask of a side, in their order."""
    found: dict[int, list[Channel]] = defaultdict(list)
    for channel in channels:
        found[getattr(channel, side)].append(channel)
    return {subtask: tuple(own) for subtask, own in found.items()}
