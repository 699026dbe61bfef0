"""What is written to the logs that sources read, and when; the same for both clocks."""

from __future__ import annotations

from dataclasses import dataclass

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.work import ServiceCurve
from flowcontrol.operators import source_log as rules
from flowcontrol.operators.states import SourceLog
from flowcontrol.protocol.service import CONSTANT, PHASE_RATE
from flowcontrol.scenario.parts_table import THROTTLE_PARTS


def has_log(job: Job, plan: JobVertex) -> bool:
    """Tell whether a task reads a log: its own, or that of a throttle that reads in batches."""
    return plan.is_source and (
        plan.stage.reads_log or THROTTLE_PARTS[job.scenario.system.throttle].has_log
    )


@dataclass(frozen=True)
class Arrivals:
    """What is written to the log of one subtask of a source.

    Attributes
    ----------
    curve : ServiceCurve
        The rate.
    limit : int
        Records that a replaying source has; -1: no end.
    """

    curve: ServiceCurve
    limit: int = -1

    @classmethod
    def of(cls, job: Job, plan: JobVertex, index: int, limit: int = -1) -> Arrivals | None:
        """Return the arrivals of a subtask; None for a task that states no ``arrival_rate``."""
        rates = plan.stage.arrival_rate
        if rates is None or not plan.is_source:
            return None
        return cls(ServiceCurve.of_arrivals(job, plan.stage, index), limit)

    @classmethod
    def read_from(cls, job: Job, plan: JobVertex, index: int) -> Arrivals | None:
        """Return what comes to the log that a subtask reads, be it that of a throttle in batches.

        To that one the records come when they fall due at the source.
        """
        found = cls.of(job, plan, index)
        if found is None and has_log(job, plan):
            curve = ServiceCurve.of(job, plan, index)
            found = None if curve is None else cls(curve)
        return found

    @property
    def may_end(self) -> bool:
        """Whether nothing is written any more from some moment on."""
        return self.limit >= 0 or self.curve.phases[-1][PHASE_RATE] == 0

    def written_by(self, us: int) -> int:
        """Return how many records the rate has written by a moment, microseconds."""
        return rules.written_by(self.curve.phases, self.curve.unit, us)

    def written_us(self, offset: int) -> int:
        """Return the microsecond by which the record at an offset is written."""
        return rules.written_us(self.curve.phases, self.curve.unit, offset)

    def levels(self, log: SourceLog, us: int) -> tuple[int, float]:
        """Return ``lag_records`` and ``lag_s`` of a log at a moment, microseconds."""
        waiting = rules.lag(log)
        if waiting == 0:
            return 0, 0.0
        if self.curve.kind != CONSTANT:  # only the rate is known, and so how long these take
            us = min(us, self.written_us(log.end))
        return waiting, max(0, us - self.written_us(rules.begun(log))) / 1e6

    def round_of(self, offset: int, round_us: int) -> int:
        """Return the round in which the record at an offset is written."""
        return rules.written_round(self.curve.phases, self.curve.unit, offset, round_us)


def arrival_rounds(
    job: Job, plan: JobVertex, index: int, first: int, count: int
) -> list[tuple[int, int]]:
    """Return when records that a source emits came to its log, if their latency counts from then.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        Its stage.
    index : int
        Which subtask of it.
    first, count : int
        Offset of the first record, and how many they are.

    Returns
    -------
    list of (int, int)
        Runs of records, in order: the round, and how many. None if their latency counts from when
        they are emitted; what waits for a throttle in batches counts from when it fell due.
    """
    curve = None
    if plan.stage.reads_log and plan.stage.latency_from == "arrival":
        curve = ServiceCurve.of_arrivals(job, plan.stage, index)
    elif not plan.stage.reads_log and has_log(job, plan):
        curve = ServiceCurve.of(job, plan, index)
    if curve is None:
        return []
    arrivals, runs, offset = Arrivals(curve), list[tuple[int, int]](), first
    while offset < first + count:
        number = arrivals.round_of(offset, job.round_us)
        end = min(arrivals.written_by((number + 1) * job.round_us), first + count)
        runs.append((number, end - offset))
        offset = end
    return runs
