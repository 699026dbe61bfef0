"""Which subtasks are sinks, and how often those that commit say that they write."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from flowcontrol.job.graph import JobVertex, Member
from flowcontrol.job.job import Job
from flowcontrol.protocol.commits import Guarantee

LOOKS: Final = 20
"""How often in a checkpoint's interval it is known when an exactly-once sink wrote, so that its
visibility latencies are up to this part of the interval too long."""

_ONLY_SAVEPOINTS_US: Final = 1_000_000
"""In the place of the interval, of a job that takes only savepoints."""


class SinkSubtask(NamedTuple):
    """A subtask of a sink.

    Attributes
    ----------
    task : int
        Which task it runs in, in the order of the job.
    plan : JobVertex
        The stages of that.
    member : Member
        The sink among them.
    subtask : int
        Which subtask.
    """

    task: int
    plan: JobVertex
    member: Member
    subtask: int


def sink_subtasks(job: Job) -> Iterator[SinkSubtask]:
    """Yield the subtasks of the sinks that are accounted for, stage by stage in the job's order.

    Notes
    -----
    After a restart windows may put out other results than before, and more or fewer of them:
    which come again is not known. So sinks behind windows of a job that may fail are left out.
    """
    for plan in job.stages:
        for member in plan.members:
            if member.is_sink and not (job.faults is not None and _is_behind_windows(job, member)):
                for index, task in enumerate(job.tasks[plan.name]):
                    yield SinkSubtask(task, plan, member, index)


def has_delivery(job: Job) -> bool:
    """Tell whether a run has the table ``delivery``.

    It does if the job checkpoints or may fail, or if a sink has a guarantee of its own, and if any
    of its sinks is accounted for.
    """
    may_repeat = job.checkpoints is not None or job.faults is not None
    usual = Guarantee.AT_LEAST_ONCE
    return any(may_repeat or one.member.stage.guarantee != usual for one in sink_subtasks(job))


def _is_behind_windows(job: Job, member: Member) -> bool:
    above = job.scenario.upstream(member.stage.name)
    return any(job.scenario.stage(name).window is not None for name in above)


def look_rounds(job: Job, plan: JobVertex) -> int:
    """Return the rounds of an interval, in each of which a task says when it begins to write.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        Stages of the task.

    Returns
    -------
    int
        At least 1; 0 of a task without an exactly-once sink, and of a job without checkpoints.
    """
    exact = Guarantee.EXACTLY_ONCE
    if job.checkpoints is None or not any(
        member.is_sink and member.stage.guarantee == exact for member in plan.members
    ):
        return 0
    interval_us = job.checkpoints.interval_us or _ONLY_SAVEPOINTS_US
    return max(1, interval_us // LOOKS // job.round_us)
