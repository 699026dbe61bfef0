"""What a run may count to, so that nothing leaves 64 bits: one table, checked before it begins.

The ranges of single numbers stand in :mod:`flowcontrol.scenario.fields`; here is what they make
together. The rules rely on it (:mod:`flowcontrol.protocol.ratios`).
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.protocol.ratios import MOST
from flowcontrol.systems.transports.rate_window import ITEM_OVERHEAD

MOST_RECORDS: Final = 1 << 55
"""Records that the tasks of a stage emit or take up in a run, at the most: 1,000,000 a second for
a thousand years. Each has 64 units of work, or more."""

MOST_BYTES: Final = MOST
"""Bytes that an edge carries in a run, at the most, with what an item weighs besides."""

MOST_OUTPUTS: Final = 10**6
"""Records that one becomes in a task, at the most: as in one stage."""


def check_limits(job: Job) -> None:
    """Refuse a job that could count to more than 64 bits hold.

    Parameters
    ----------
    job : Job
        The scenario, laid out.

    Raises
    ------
    ScenarioError
        With every limit that it could pass. What could be counted follows from rates, selectivities
        and the length of the run, whether or not a stage ever gets so much to do.
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
