"""Sinks that are chained behind the first stage of their task: numbers, and when they begin."""

from fractions import Fraction

import numpy as np

from flowcontrol.job.graph import JobVertex, Member
from flowcontrol.scenario import Scenario, Schedule
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder


def fill_sinks(build: Builder) -> None:
    """Number the chained sinks of all subtasks, and tell their tasks of them."""
    scenario, tasks = build.job.scenario, build.blocks["tasks_at"]
    for task, (plan, index) in zip(tasks, build.job.subtasks, strict=False):
        if sinks := [member for member in plan.members[1:] if member.is_sink]:
            found = [_sink(build, scenario, plan, member, index) for member in sinks]
            task["sinks"] = len(found)
            task["sinks_at"] = build.put(np.concatenate([cells_of(one) for one in found]))


def _sink(
    build: Builder, scenario: Scenario, plan: JobVertex, member: Member, index: int
) -> f.ChainedSink:
    number = build.places.sinks.setdefault((member.stage.name, index), len(build.places.sinks))
    sink = f.ChainedSink(number=number, operator=member.input)
    if phases := times_before(scenario, plan, member, index):
        sink.before = build.put(np.array(phases, np.int64).ravel())
        sink.before_count = len(phases)
    return sink


def times_before(
    scenario: Scenario, plan: JobVertex, member: Member, index: int
) -> list[tuple[int, int]]:
    """Return how long a record is in the stages of its task before it reaches one of them.

    Parameters
    ----------
    scenario : Scenario
        Of the job.
    plan : JobVertex
        The chain.
    member : Member
        The stage, not the first one.
    index : int
        The subtask.

    Returns
    -------
    list of (int, int)
        From when on, and how long, microseconds; empty without any service rate.

    Notes
    -----
    Each stage on the way takes the record its own service time, and of several outputs of one
    record none waits for the others. What a source takes to emit is before the emission. The result
    of a window is made when the window fires, so neither the window's time counts nor what is
    before it. While a rate is 0 nothing is taken up, and the time of before stands.
    """
    rates: list[Schedule] = []
    for name in _before(scenario, plan, member):
        stage = scenario.stage(name)
        if scenario.window_of(name) is not None:
            rates.clear()
        elif stage.service_rate is not None and (schedule := stage.rates(index)) is not None:
            rates.append(schedule)
    starts = sorted({phase.at_us for schedule in rates for phase in schedule.phases})
    found: list[tuple[int, int]] = []
    for at_us in starts:
        now = [schedule.rate_at(at_us) for schedule in rates]
        if min(now) > 0:
            seconds = sum((1 / Fraction(rate) for rate in now), Fraction(0))
            found.append((at_us, round(seconds * MICROSECONDS)))
    return found


def _before(scenario: Scenario, plan: JobVertex, member: Member) -> list[str]:
    """Return the stages of a chain on the way to one of them, the first one first."""
    names: list[str] = []
    name = member.stage.name
    while name != plan.name:
        name = next(edge.sender for edge in scenario.inputs(name) if edge.chain)
        names.insert(0, name)
    return names
