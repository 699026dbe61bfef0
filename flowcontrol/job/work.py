"""What a subtask's rate allows, in the integers of :mod:`flowcontrol.protocol.service`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.limits import MOST_RECORDS
from flowcontrol.job.routing import mix, stream_of
from flowcontrol.protocol import service as s
from flowcontrol.protocol.ratios import MOST, ratio_of, whole_rates
from flowcontrol.protocol.times import FLUSH_DRIFTS
from flowcontrol.scenario import Schedule, Stage
from flowcontrol.scenario.schedule import MICROSECONDS, Phase

KINDS = {"constant": s.CONSTANT, "exponential": s.EXPONENTIAL, "lognormal": s.LOGNORMAL}


def uniform(seed: int, stream: int, number: int) -> float:
    """Return a number uniform in [0, 1), a pure function of three integers."""
    return float(mix(seed, stream, number) >> 11) * 2.0**-53


def flush_phase_us(job: Job, link: JobEdge, sender: int) -> int:
    """Return when the flusher of an output runs first, microseconds.

    Its remainder by ``FLUSH_DRIFTS`` is that of the stage's depth: flushers that stand behind one
    another have different periods.
    """
    interval = job.scenario.options.flush_interval_us
    if interval < FLUSH_DRIFTS:
        return 0
    depths: dict[str, int] = {}
    for plan in job.stages:
        before = [depths[job.stage(own.edge.sender).name] for own in plan.inputs]
        depths[plan.name] = 1 + max(before, default=-1)
    drawn = mix(job.scenario.seed, stream_of(f"flusher {link.name}/{sender}"), 0)
    phase = drawn % (interval // FLUSH_DRIFTS) * FLUSH_DRIFTS
    return phase + depths[job.stage(link.edge.sender).name] % FLUSH_DRIFTS


def emission_cost_ns(job: Job, plan: JobVertex) -> int:
    """Return what an emission of a source takes its thread, nanoseconds; 0 for other stages.

    Notes
    -----
    ``RecordWriter.emit`` runs in the task's thread: on each output edge a record is serialised
    and copied into a buffer, a broadcast one once. More than a whole round is as good as that.
    """
    if not plan.is_source:
        return 0
    nbytes = sum(link.record_bytes * plan.member(link).ratio_out for link in plan.outputs)
    rate = Fraction(repr(job.scenario.cluster.serialization_bytes_per_s))
    return min(int(nbytes * 10**9 / rate), 1000 * job.round_us)


def byte_cost(bytes_per_s: float) -> tuple[int, int]:
    """Return what bytes take at a speed: so many nanoseconds for so many bytes."""
    cost = ratio_of(10**9 / Fraction(repr(bytes_per_s)))
    return cost.numerator, cost.denominator


@dataclass(frozen=True)
class ServiceCurve:
    """A subtask's rate as work over time.

    Attributes
    ----------
    phases : list of list of int, shape (phases, PHASE_WIDTH)
        Rows as :func:`flowcontrol.protocol.service.work_by` takes them.
    unit : int
        Work of a record of mean size, units.
    kind : int
        Distribution of the service times, or of the times between two emissions.
    cv : float
        Coefficient of variation of a lognormal one.
    seed, stream : int
        Of its random numbers.
    """

    phases: list[list[int]]
    unit: int
    kind: int
    cv: float
    seed: int
    stream: int

    @classmethod
    def of(cls, job: Job, plan: JobVertex, index: int) -> ServiceCurve | None:
        """Return the curve of a subtask; None for a stage without a rate."""
        schedule, stage = plan.rates(index), plan.stage
        if schedule is None:
            return None
        until_us = _until_us(job)
        if not plan.is_source or stage.reads_log:
            schedule = _at_most(schedule, Fraction(MOST_RECORDS * MICROSECONDS, until_us))
        return cls(
            *_whole(schedule, until_us),
            KINDS[stage.service_time],
            round(stage.service_time_cv, 6),  # the kernel holds it as whole millionths
            job.scenario.seed,
            stream_of(f"service {stage.name}/{index}"),
        )

    @classmethod
    def of_arrivals(cls, job: Job, stage: Stage, index: int) -> ServiceCurve:
        """Return what is written to the log of a source's subtask: evenly, whatever stalls it."""
        assert stage.arrival_rate is not None
        whole = _whole(stage.arrival_rate[index], _until_us(job))
        return cls(*whole, s.CONSTANT, 0.0, job.scenario.seed, 0)


def _until_us(job: Job) -> int:
    """A moment after which nothing of a run counts, microseconds."""
    return (job.rounds + 2) * job.round_us


def _whole(schedule: Schedule, until_us: int) -> tuple[list[list[int]], int]:
    """Rows of a schedule up to a moment, and the units of a record, as small as they may be."""
    return _phases(schedule, until_us, MOST // (schedule.records_until(until_us) + 1))


def _at_most(schedule: Schedule, rate: Fraction) -> Schedule:
    """Return a schedule whose rates are at most a rate: no run has more to process."""
    if all(phase.rate <= rate for phase in schedule.phases):
        return schedule
    phases = (Phase(at_us=phase.at_us, rate=min(phase.rate, rate)) for phase in schedule.phases)
    return Schedule(phases=tuple(phases))


def _phases(schedule: Schedule, until_us: int, most: int) -> tuple[list[list[int]], int]:
    """Rows of a schedule up to a moment, and the units of a record, at most ``most``.

    Of what comes later only whether the last rate is 0 is kept: then a source ends.
    """
    kept = [phase for phase in schedule.phases if phase.at_us < until_us]
    rates, unit = whole_rates([phase.rate / MICROSECONDS for phase in kept], most, MICROSECONDS)
    if len(kept) < len(schedule.phases):
        last = schedule.phases[-1].rate
        kept.append(Phase(at_us=until_us, rate=last))
        rates.append(1 if last > 0 else 0)
    rows: list[list[int]] = []
    for phase, rate in zip(kept, rates, strict=True):
        base = s.work_by(rows, phase.at_us) if rows else 0
        rows.append([phase.at_us, base, rate])
    return rows, unit
