"""What a job can do beside what comes: the rates of the closed form of a restart."""

from fractions import Fraction
from typing import NamedTuple

from flowcontrol.job.failover import Failover
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job


class RestartRates(NamedTuple):
    """Records/s of the source of a job.

    Attributes
    ----------
    arrival : Fraction
        Records that come; of a source without a log: that it emits.
    capacity : Fraction
        Records that the job can process.
    has_log : bool
        Whether what comes while the job is down waits in a log.
    """

    arrival: Fraction
    capacity: Fraction
    has_log: bool


def restart_rates(job: Job) -> RestartRates | None:
    """Return the rates of a job's closed form; None if it has none.

    Notes
    -----
    It has one if there is a single source, records are spread evenly, and rates do not change.
    """
    sources = [plan for plan in job.stages if plan.is_source]
    uneven = any(
        link.edge.partitioner in {"broadcast", "global", "custom", "hash"} for link in job.links
    )
    if len(sources) != 1 or uneven:
        return None
    source = sources[0].stage
    schedules = source.arrival_rate or [source.rates(i) for i in range(source.parallelism)]
    if any(one is None or len(one.phases) > 1 for one in schedules):
        return None
    comes = sum((one.phases[0].rate for one in schedules if one is not None), Fraction(0))
    capacity = _capacity(job)
    return None if capacity is None else RestartRates(comes, capacity, source.reads_log)


def surviving_sources(job: Job) -> dict[str, float]:
    """Return by what is to fail which share of the sources emits until it is cancelled."""
    failover = Failover(job)
    found = {}
    for failure in job.scenario.failures:
        failed = [] if failure.job_manager else failover.victims(failure)
        found[failure.victim] = 1 - sum(task in failover.sources for task in failed) / len(
            failover.sources
        )
    return found


def _capacity(job: Job) -> Fraction | None:
    """Return how many records of the source the slowest stage can take; None: it changes."""
    reach: dict[str, Fraction] = {}
    found = []
    for plan in job.stages:
        own = Fraction(1)
        if plan.inputs:
            own = sum((reach[link.name] for link in plan.inputs), Fraction(0))
        for link in plan.outputs:
            reach[link.name] = own * plan.member(link).ratio_out
        rates = _rates(plan)
        if len(rates) != plan.stage.parallelism:
            return None
        if None not in rates and own > 0:
            found.append(sum((rate for rate in rates if rate is not None), Fraction(0)) / own)
    return min(found, default=None)


def _rates(plan: JobVertex) -> list[Fraction | None]:
    """Return the rate of each subtask of a stage that does not change; None: no limit."""
    schedules = [plan.rates(index) for index in range(plan.stage.parallelism)]
    return [
        None if one is None else one.phases[0].rate
        for one in schedules
        if one is None or len(one.phases) == 1
    ]
