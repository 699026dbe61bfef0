"""Stages chained into one task: what a record goes through there, and how fast the task is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.operators.states import TASK_INPUT
from flowcontrol.operators.table import AnyOperator, operators_of
from flowcontrol.scenario import Scenario, Schedule, Stage
from flowcontrol.scenario.schedule import Phase, merged


@dataclass(frozen=True)
class Member:
    """One stage of a task.

    Attributes
    ----------
    stage : Stage
        Which.
    is_sink : bool
        Whether no edge leaves it, chained or not.
    input, output : int
        Operator of the task that puts out what it takes, and what it puts out; TASK_INPUT: what
        the task takes up is that.
    ratio_in, ratio_out : Fraction
        Records that it takes and puts out for each that the task takes up, in the long run.
    most_outputs : int
        Records that it puts out for one that the task takes up, at the most.
    """

    stage: Stage
    is_sink: bool
    input: int = TASK_INPUT
    output: int = TASK_INPUT
    ratio_in: Fraction = Fraction(1)
    ratio_out: Fraction = Fraction(1)
    most_outputs: int = 1


def members_of(
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
    for operator in operators_of(stage):
        operator.input, output = output, len(operators)
        ratio *= operator.ratio
        most *= operator.most_outputs
        operators.append(operator)
    is_sink = not scenario.outputs(stage.name)
    return Member(stage, is_sink, start.output, output, start.ratio_out, ratio, most)


def chained_stalls(members: Sequence[Member], index: int) -> tuple[tuple[int, int], ...]:
    """Return when a subtask of a chain stands still: when any of its stages does."""
    return merged(span for member in members for span in member.stage.stalled(index))


def chained_rates(members: Sequence[Member], index: int) -> Schedule | None:
    """Return how many records of its input a task can take, records/s; None: any number.

    Notes
    -----
    One thread runs all stages of a chain, so their times a record of the input add up: 1/rate
    of each, times the records that reach it. A source emits at its own rate or, where its chain
    is slower, at that of the chain.
    """
    head = members[0].stage
    if len(members) == 1:
        return head.rates(index)
    stalls = chained_stalls(members, index)
    rated = [m for m in members if m.stage.service_rate is not None]
    emission = head.rates(index) if head.is_source else None
    schedules = [m.stage.rates(index) for m in rated]
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
        rate = _rate_at(rated, index, at_us)
        if emission is not None:
            own = emission.rate_at(at_us)
            rate = own if rate is None else min(own, rate)
        phases.append(Phase(at_us=at_us, rate=rate or Fraction(0)))
    return Schedule(phases=tuple(phases)).without(stalls)


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
