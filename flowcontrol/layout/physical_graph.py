"""A scenario laid out on task managers, within what a run may count to."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.buffers import Demand, demands_of, largest_sizes, size_buffers
from flowcontrol.layout.graph import JobEdge, JobVertex, check_start, graph_of
from flowcontrol.layout.job import Job, faults_of, settings_of
from flowcontrol.protocol.service import MOST
from flowcontrol.scenario import Scenario
from flowcontrol.systems.transports.rate_window import ITEM_OVERHEAD

# --- What a run may count to, so that nothing leaves 64 bits: one table, checked before it
# begins.
#
# The ranges of single numbers stand in flowcontrol.scenario.fields; here is what they make
# together. The rules rely on it (flowcontrol.protocol.service).


MOST_RECORDS: Final = 1 << 55
"""Records that the tasks of a stage emit or take up in a run, at the most: 1,000,000 a second for
a thousand years. Each has 64 units of work, or more."""

MOST_BYTES: Final = MOST
"""Bytes that an edge carries in a run, at the most, with what an item weighs besides."""

MOST_OUTPUTS: Final = 10**6
"""Records that one becomes in a task, at the most: as in one stage."""


def check_limits(job: Job) -> None:
    """Refuse a job that could count to more than 64 bits hold.

    Raises ScenarioError with every limit that it could pass. What could be counted follows from
    rates, selectivities and the length of the run, whether or not a stage ever gets so much to do.
    """
    problems = list(_problems(job))
    if problems:
        raise ScenarioError(problems, job.scenario.name)


def _problems(job: Job) -> Iterator[Problem]:
    taken: dict[str, Fraction] = {}
    for plan in job.stages:  # senders before receivers
        records = Fraction(0)
        for link in plan.inputs:
            records += _carried(taken, job.stage(link.edge.sender), link)
        own = _capacity(job, plan)
        if own is not None:
            records = own if plan.is_source else min(records, own)
        written = _written(job, plan)
        if written is not None:
            records = min(records, written)
        taken[plan.name] = records
        if records > MOST_RECORDS:
            text = "records to emit or to process by the end: lower the rate or shorten the run"
            yield _above(f"stages.{plan.name}", records, MOST_RECORDS, text)
        for link in plan.outputs:
            place = f"edges.{link.name}"
            outputs = plan.member(link).most_outputs
            if outputs > MOST_OUTPUTS:
                text = "records out of one record into the task: lower the selectivities"
                yield _above(place, outputs, MOST_OUTPUTS, text)
            nbytes = _carried(taken, plan, link) * (link.record_bytes + ITEM_OVERHEAD)
            if nbytes > MOST_BYTES:
                text = "bytes by the end: lower the rate or record_bytes, or shorten the run"
                yield _above(place, nbytes, MOST_BYTES, text)


def _written(job: Job, plan: JobVertex) -> Fraction | None:
    """Records that are written to the logs of a source; None where it reads none."""
    if plan.stage.arrival_rate is None:
        return None
    until_us = (job.rounds + 2) * job.round_us
    return Fraction(sum(rate.records_until(until_us) + 1 for rate in plan.stage.arrival_rate))


def _carried(taken: dict[str, Fraction], plan: JobVertex, link: JobEdge) -> Fraction:
    """Records that an edge could carry out of a task, copies of a broadcast counted."""
    copies = len(link.places("sender", 0)) if link.edge.partitioner == "broadcast" else 1
    return taken[plan.name] * plan.member(link).ratio_out * copies


def _capacity(job: Job, plan: JobVertex) -> Fraction | None:
    """Records that the tasks of a stage could emit or process together; None: any number."""
    until_us, total = (job.rounds + 2) * job.round_us, Fraction(0)
    for index in range(plan.stage.parallelism):
        schedule = plan.rates(index)
        if schedule is None:
            return None
        total += schedule.records_until(until_us) + 1
    return total


def _above(place: str, value: Fraction | int, limit: int, text: str) -> Problem:
    return Problem(place, f"{float(value):.3g} is more than {float(limit):.3g} {text}")


# --- A scenario laid out: subtasks on task managers, channels, gates and partitions with sizes


def build_physical_graph(scenario: Scenario, *, round_us: int | None = None) -> Job:
    """Lay a scenario out.

    ``round_us``: emulated time of a round, microseconds; by default the live clock's.

    Raises ScenarioError if a task manager has too few network buffers, with Flink's text and
    figures. Where jobs start and stop, that is seen when they start. If something is to happen to
    tasks before they run (:mod:`flowcontrol.layout.graph`), or if the run could count to more than
    64 bits hold (:mod:`flowcontrol.layout.physical_graph`). Raises ValueError if the round is not a
    whole number of microseconds, or less than one.
    """
    round_us = scenario.live_round_us if round_us is None else round_us
    given: object = round_us  # from a notebook it may be anything
    if not isinstance(given, int) or given < 1:
        raise ValueError(f"round_us is {given!r}: state whole microseconds, at least 1")
    rounds = -(-scenario.duration_us // round_us)
    check_start(scenario)
    links, stages = graph_of(scenario)
    sized = largest_sizes if scenario.shares_memory else size_buffers
    sizes = sized(scenario, stages)
    names = {member.stage.name: plan for plan in stages for member in plan.members}
    how = settings_of(scenario), faults_of(scenario)
    job = Job(scenario, round_us, rounds, stages, links, sizes, *how, names)
    check_limits(job)
    return job


def demands_by_job(scenario: Scenario) -> dict[str, list[Demand]]:
    """Return what the gates and partitions of each job ask for, in order of creation.

    ``scenario``: read and checked. Without ``jobs`` its one job is called "".
    """
    owners = {name: job.name for job in scenario.jobs for name in job.stages}
    found: dict[str, list[Demand]] = {}
    for plan in graph_of(scenario)[1]:
        found.setdefault(owners.get(plan.name, ""), []).extend(demands_of(scenario, plan))
    return found
