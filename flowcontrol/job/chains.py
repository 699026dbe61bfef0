"""Stages chained into one task: what a record goes through there, and how fast the task is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.protocol.ratios import ratio_of
from flowcontrol.scenario import Scenario, Schedule, Stage
from flowcontrol.scenario.schedule import Phase, merged

__all__ = ["Member", "chained_rates", "chained_stalls", "members_of"]

Path = tuple[Fraction, ...]


@dataclass(frozen=True)
class Member:
    """One stage of a task.

    Attributes
    ----------
    stage : Stage
        Which.
    path : tuple of Fraction
        Selectivities between the task's input and this stage's, in order; empty for the head.
    is_sink : bool
        Whether no edge leaves it, chained or not.
    """

    stage: Stage
    path: Path
    is_sink: bool

    @property
    def out_path(self) -> Path:
        """Selectivities between the task's input and this stage's output; ones left out."""
        parts = (*self.path, ratio_of(self.stage.selectivity_exact))
        return tuple(part for part in parts if part != 1)


def members_of(scenario: Scenario, head: Stage) -> tuple[Member, ...]:
    """Return a task's stages: its head, then those chained to it, senders before receivers."""
    found = [Member(head, (), not scenario.outputs(head.name))]
    for member in found:  # grows as it goes
        for edge in scenario.outputs(member.stage.name):
            if edge.chain:
                stage = scenario.stage(edge.receiver)
                is_sink = not scenario.outputs(stage.name)
                found.append(Member(stage, member.out_path, is_sink))
    return tuple(found)


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
        share = Fraction(1)
        for part in member.path:
            share *= part
        schedule = member.stage.rates(index)
        rate = schedule.rate_at(at_us) if schedule is not None else Fraction(0)
        if share > 0 and rate == 0:
            return Fraction(0)
        if share > 0:
            seconds += share / rate
            limited = True
    return 1 / seconds if limited else None
