"""What the tasks of a job ask of processors, and how many there are: of a job that counts them."""

from fractions import Fraction

from flowcontrol.job.graph import JobVertex, Member
from flowcontrol.job.job import Job
from flowcontrol.job.work import ServiceCurve
from flowcontrol.protocol.processors import UNLIMITED, WHOLE_ROUND, Processors
from flowcontrol.protocol.service import PHASE_START

Shares = list[list[int]]
"""Rows as :func:`flowcontrol.protocol.processors.cpu_at` takes them."""


def counts_processors(job: Job) -> bool:
    """Tell whether a run follows what its tasks use of the processors."""
    return job.scenario.counts_processors


def cpu_shares(job: Job, plan: JobVertex, index: int) -> Shares | None:
    """Return which part of its time a subtask's task needs a processor, over time.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage, or the chain, that it runs.
    index : int
        Which subtask.

    Returns
    -------
    list of list of int, or None
        None: it never needs one, or nobody counts that.

    Notes
    -----
    A record takes a chain the sum of its stages' times, and a processor the sum of their parts.
    """
    curve = ServiceCurve.of(job, plan, index)
    if curve is None or not counts_processors(job):
        return None
    moments = [phase[PHASE_START] for phase in curve.phases]
    parts = [int(_cpu_at(plan, index, at_us) * WHOLE_ROUND) for at_us in moments]
    shares = [[at_us, part] for at_us, part in zip(moments, parts, strict=True)]
    return shares if any(parts) else None


def _cpu_at(plan: JobVertex, index: int, at_us: int) -> Fraction:
    """Processors that a task uses while it works; 0 while it stands still, and at most 1."""
    whole = plan.rates(index)
    rate = Fraction(0) if whole is None else whole.rate_at(at_us)
    if rate == 0:
        return Fraction(0)
    return min(Fraction(1), rate * processor_seconds(plan, index, at_us))


def processor_seconds(plan: JobVertex, index: int, at_us: int) -> Fraction:
    """Return how long a record needs a processor, s: one that a subtask's task takes up, or emits.

    Parameters
    ----------
    plan : JobVertex
        The stage, or the chain, that it runs.
    index : int
        Which subtask.
    at_us : int
        When, microseconds of the run; a stage that stands still then takes no time.
    """
    return sum((_seconds(member, index, at_us) for member in plan.members), Fraction(0))


def _seconds(member: Member, index: int, at_us: int) -> Fraction:
    """Seconds of a processor that a stage takes for a record that its task takes up, or emits."""
    stage = member.stage
    schedule, share = stage.rates(index), stage.processor_share * member.ratio_in
    if schedule is None or share == 0:
        return Fraction(0)
    rate = schedule.rate_at(at_us)
    return share / rate if rate > 0 else Fraction(0)


def new_processors(job: Job) -> Processors:
    """Return the processors of a task manager before the first round."""
    cores = job.scenario.cluster.cores
    return Processors(UNLIMITED if cores is None else max(1, int(cores * WHOLE_ROUND)))


def tasks_by_manager(job: Job) -> list[list[int]]:
    """Return the tasks of each task manager that need a processor: numbers in the order of the job.

    Returns
    -------
    list of list of int
        One for each task manager, perhaps empty.
    """
    found: list[list[int]] = [[] for _ in range(job.scenario.cluster.task_managers)]
    for number, (plan, index) in enumerate(job.subtasks):
        if cpu_shares(job, plan, index) is not None:
            found[plan.stage.placement[index]].append(number)
    return found
