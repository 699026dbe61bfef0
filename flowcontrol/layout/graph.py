"""The graph of a job: what runs in one task, the channels between tasks, and when it starts.

The counterpart of Flink's job graph. Everything here is constant during a run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Ints
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.shares import window_ratio
from flowcontrol.protocol.control.plane import durations
from flowcontrol.protocol.network.partitioners import pointwise_channels, pointwise_subpartition
from flowcontrol.protocol.tasks.operators import AnyOperator, operators_of
from flowcontrol.scenario import Edge, Phase, Scenario, Schedule, Stage
from flowcontrol.scenario.schedule import MICROSECONDS, Span, merged
from flowcontrol.scenario.stage_models import Stall
from flowcontrol.state.tasks import TASK_INPUT

# --- When a job runs, by what its start takes; and what may not happen before


def start_us(scenario: Scenario) -> int:
    """Return when all tasks of a job run, microseconds after the start of the run."""
    return durations(scenario.cluster.control_latency_us).start


def check_start(scenario: Scenario) -> None:
    """Refuse a scenario in which something happens to tasks that do not run yet.

    Raises ScenarioError if its job never runs, or is to fail or to take a savepoint before it does.
    """
    if problems := list(_problems(scenario, start_us(scenario))):
        raise ScenarioError(problems, scenario.name)


def _problems(scenario: Scenario, start: int) -> Iterator[Problem]:
    latency = f"with control_latency_ms {scenario.cluster.control_latency_ms:g} the job runs from"
    latency = f"{latency} {start / 1e6:g} s on"
    if start >= scenario.duration_us:
        text = f"{scenario.duration_us / 1e6:g} is too short: {latency}: state a longer one"
        yield Problem("duration_s", text)
    for key in ("failures", "savepoints"):
        for index, one in enumerate(getattr(scenario, key)):
            if one.at_us < start:
                text = f"{one.at_us / 1e6:g} is too early: {latency}: choose a later time"
                yield Problem(f"{key}[{index}].at_s", text)


# --- The graph of a job: what runs in one task, and the channels between tasks.


POINTWISE = ("forward", "rescale")


@dataclass(frozen=True)
class Channel:
    """One sender subtask to one receiver subtask."""

    sender: int  # sender, receiver: subtask indexes
    receiver: int
    is_local: bool  # Both on one task manager: no credits, buffers stay charged to the producer


@dataclass(frozen=True, eq=False)
class JobEdge:
    """All channels of one edge, ordered by sender, then by subpartition.

    Columns, since a job may have a million channels: a :class:`Channel` is made when somebody asks
    for it.
    """

    edge: Edge  # As in the scenario
    senders: Ints  # senders, receivers: subtasks of each channel (shape (channels,))
    receivers: Ints
    is_local: npt.NDArray[np.bool_]  # Which channels are local (shape (channels,))
    record_bytes: int  # Size of a record on this edge, bytes

    @property
    def name(self) -> str:
        """Name in the results, ``source->sink``."""
        return self.edge.name

    @property
    def folder(self) -> str:
        """Folder below ``links/``, ``source-sink``."""
        return self.edge.folder

    @property
    def width(self) -> int:
        """How many channels there are."""
        return len(self.senders)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """All channels, in order."""
        return self._made(slice(None))

    def outgoing(self, sender: int) -> tuple[Channel, ...]:
        """Channels of a sender subtask, in the order of its subpartitions."""
        return self._of_subtask("sender", sender)

    def incoming(self, receiver: int) -> tuple[Channel, ...]:
        """Channels of a receiver subtask, in the order of its gate."""
        return self._of_subtask("receiver", receiver)

    def ends(self, side: str) -> Ints:
        """Return the subtask of each channel at its "sender" or its "receiver"."""
        return self.senders if side == "sender" else self.receivers

    def places(self, side: str, subtask: int) -> Ints:
        """Return the places, in order, of the channels of a subtask that is their "sender" ..."""
        own = self._places[side]
        return own[subtask] if subtask < len(own) else np.zeros(0, np.int64)

    @cached_property
    def _places(self) -> dict[str, list[Ints]]:
        """Places of the channels of each subtask of a side."""
        found = {}
        for side in ("sender", "receiver"):
            ends = self.ends(side)
            order = np.argsort(ends, kind="stable")
            counts = np.bincount(ends) if len(ends) else np.zeros(0, np.int64)
            found[side] = np.split(order, np.cumsum(counts)[:-1]) if len(counts) else []
        return found

    @cached_property
    def _kept(self) -> dict[tuple[str, int], tuple[Channel, ...]]:
        return {}

    def _of_subtask(self, side: str, subtask: int) -> tuple[Channel, ...]:
        key = side, subtask
        if key not in self._kept:
            self._kept[key] = self._made(self.places(side, subtask))
        return self._kept[key]

    def _made(self, places: Ints | slice) -> tuple[Channel, ...]:
        columns = (self.senders, self.receivers, self.is_local)
        return tuple(map(Channel, *(column[places].tolist() for column in columns)))


@dataclass(frozen=True)
class Member:
    """One stage of a task."""

    stage: Stage  # Which
    is_sink: bool  # Whether no edge leaves it, chained or not
    # Operator of the task that puts out what it takes, and what it puts out; TASK_INPUT: what the
    # task takes up is that.
    input: int = TASK_INPUT
    output: int = TASK_INPUT
    # Records that it takes and puts out for each that the task takes up, in the long run.
    ratio_in: Fraction = Fraction(1)
    ratio_out: Fraction = Fraction(1)
    most_outputs: int = 1  # Records that it puts out for one that the task takes up, at the most


@dataclass(frozen=True)
class JobVertex:
    """One stage, or a chain of them that runs in its tasks, with its links in declared order."""

    stage: Stage
    inputs: tuple[JobEdge, ...]
    outputs: tuple[JobEdge, ...]
    members: tuple[Member, ...] = ()
    operators: tuple[AnyOperator, ...] = ()

    def rates(self, subtask: int) -> Schedule | None:
        """Return how many records of its input a subtask's task can take; None: any number.

        One thread runs all stages of a chain, so their times a record of the input add up: 1/rate
        of each, times the records that reach it. A source emits at its own rate or, where its chain
        is slower, at that of the chain.
        """
        if len(self.members) == 1:
            return self.stage.rates(subtask)
        rated = [m for m in self.members if m.stage.service_rate is not None]
        emission = self.stage.rates(subtask) if self.stage.is_source else None
        schedules = [m.stage.rates(subtask) for m in rated]
        starts = {
            phase.at_us
            for schedule in (emission, *schedules)
            if schedule is not None
            for phase in schedule.phases
        }
        if not starts:
            return None
        phases = []
        for at_us in sorted(starts):
            rate = _rate_at(rated, subtask, at_us)
            if emission is not None:
                own = emission.rate_at(at_us)
                rate = own if rate is None else min(own, rate)
            phases.append(Phase(at_us=at_us, rate=rate or Fraction(0)))
        return Schedule(phases=tuple(phases)).without(self.stalled(subtask))

    def stalled(self, subtask: int) -> tuple[Span, ...]:
        """Return when the task of a subtask stands still: when any of its stages does."""
        return merged(span for member in self.members for span in member.stage.stalled(subtask))

    def new_operators(self) -> list[AnyOperator]:
        """Return the operators of one subtask, before the first record."""
        return [replace(operator) for operator in self.operators]

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


def graph_of(scenario: Scenario) -> tuple[tuple[JobEdge, ...], tuple[JobVertex, ...]]:
    """Return links in declared order, and tasks in topological order.

    What a job's start takes stalls its sources: nobody else has anything to do before them.
    """
    start = start_us(scenario)
    links = tuple(_link(scenario, edge) for edge in scenario.edges if not edge.chain)
    chained = {edge.receiver for edge in scenario.edges if edge.chain}
    heads = [stage for stage in scenario.topological() if stage.name not in chained]
    late = [_from(head, start) if head.is_source and start else head for head in heads]
    return links, tuple(_plan(scenario, links, head) for head in late)


def _from(source: Stage, start: int) -> Stage:
    """Return a source that begins to work at a moment."""
    every = tuple(range(source.parallelism))
    wait = Stall(at_s=Fraction(0), for_s=Fraction(start, MICROSECONDS), subtasks=every)
    return source.model_copy(update={"stalls": (wait, *source.stalls)})


def _plan(scenario: Scenario, links: Sequence[JobEdge], head: Stage) -> JobVertex:
    members, operators = _members_of(scenario, head)
    inputs = tuple(link for link in links if link.edge.receiver == head.name)
    outputs = tuple(
        link for member in members for link in links if link.edge.sender == member.stage.name
    )
    return JobVertex(head, inputs, outputs, members, operators)


def _members_of(
    scenario: Scenario, head: Stage
) -> tuple[tuple[Member, ...], tuple[AnyOperator, ...]]:
    """Return a task's stages, and their operators before the first record.

    The head comes first, then those chained to it, senders before receivers.
    """
    operators: list[AnyOperator] = []
    found = [_member(scenario, head, None, operators)]
    for member in found:  # grows as it goes
        found += [
            _member(scenario, scenario.stage(edge.receiver), member, operators)
            for edge in scenario.outputs(member.stage.name)
            if edge.chain
        ]
    return tuple(found), tuple(operators)


def _member(
    scenario: Scenario, stage: Stage, before: Member | None, operators: list[AnyOperator]
) -> Member:
    """Return a stage that takes what another one puts out; append its operators."""
    start = before or Member(stage, is_sink=False)
    output, ratio, most = start.output, start.ratio_out, start.most_outputs
    for operator in operators_of(stage.selectivity_exact, window_ratio(scenario, stage)):
        operator.input, output = output, len(operators)
        ratio *= operator.ratio
        most *= operator.most_outputs
        operators.append(operator)
    is_sink = not scenario.outputs(stage.name)
    return Member(stage, is_sink, start.output, output, start.ratio_out, ratio, most)


def _link(scenario: Scenario, edge: Edge) -> JobEdge:
    sender, receiver = scenario.stage(edge.sender), scenario.stage(edge.receiver)
    widths = sender.parallelism, receiver.parallelism
    if edge.partitioner in POINTWISE:
        targets = [pointwise_channels(index, *widths) for index in range(widths[0])]
        for own in targets:
            own.sort(key=lambda one: pointwise_subpartition(one, *widths))
        receivers = np.array([target for own in targets for target in own], np.int64)
        senders = np.repeat(np.arange(widths[0]), [len(own) for own in targets])
    else:
        senders, receivers = (grid.ravel() for grid in np.indices(widths))
    here, there = np.array(sender.placement)[senders], np.array(receiver.placement)[receivers]
    local = (here == there) | (scenario.system.transport == "local")
    return JobEdge(edge, senders, receivers, local, sender.record_bytes)


def _rate_at(rated: Sequence[Member], index: int, at_us: int) -> Fraction | None:
    """Records of the task's input a second that its rated stages can serve together."""
    seconds, limited = Fraction(0), False
    for member in rated:
        share = member.ratio_in
        schedule = member.stage.rates(index)
        rate = schedule.rate_at(at_us) if schedule is not None else Fraction(0)
        if share > 0 and rate == 0:
            return Fraction(0)
        if share > 0:
            seconds += share / rate
            limited = True
    return 1 / seconds if limited else None
