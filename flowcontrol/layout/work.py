"""What rates allow a subtask, in integers: its work, its processor, its log."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.layout.graph import JobEdge, JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import MOST_RECORDS
from flowcontrol.layout.shares import mix, stream_of
from flowcontrol.protocol import service as s
from flowcontrol.protocol.tasks import reading as rules
from flowcontrol.protocol.tasks.processors import UNLIMITED, WHOLE_ROUND, Processors
from flowcontrol.scenario import Schedule, Stage
from flowcontrol.scenario.schedule import MICROSECONDS, Phase
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.state.tasks import SourceLog

# --- What a subtask's rate allows, in the integers of flowcontrol.protocol.service


KINDS = {"constant": s.CONSTANT, "exponential": s.EXPONENTIAL, "lognormal": s.LOGNORMAL}


def uniform(seed: int, stream: int, number: int) -> float:
    """Return a number uniform in [0, 1), a pure function of three integers."""
    return float(mix(seed, stream, number) >> 11) * 2.0**-53


def flush_interval_us(job: Job) -> int:
    """Return the time between two runs of a flusher, microseconds: Flink's, or the transport's."""
    own = job.record_transport
    return job.scenario.options.flush_interval_us if own is None else own.flush_us


def flush_phase_us(job: Job, link: JobEdge, sender: int) -> int:
    """Return when the flusher of an output runs first, microseconds.

    Its remainder by ``FLUSH_DRIFTS`` is that of the stage's depth: flushers that stand behind one
    another have different periods.
    """
    interval = flush_interval_us(job)
    if interval < s.FLUSH_DRIFTS:
        return 0
    depths: dict[str, int] = {}
    for plan in job.stages:
        before = [depths[job.stage(own.edge.sender).name] for own in plan.inputs]
        depths[plan.name] = 1 + max(before, default=-1)
    drawn = mix(job.scenario.seed, stream_of(f"flusher {link.name}/{sender}"), 0)
    phase = drawn % (interval // s.FLUSH_DRIFTS) * s.FLUSH_DRIFTS
    return phase + depths[job.stage(link.edge.sender).name] % s.FLUSH_DRIFTS


def emission_cost_ns(job: Job, plan: JobVertex) -> int:
    """Return what an emission of a source takes its thread, nanoseconds; 0 for other stages.

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
    cost = s.ratio_of(10**9 / Fraction(repr(bytes_per_s)))
    return cost.numerator, cost.denominator


@dataclass(frozen=True)
class ServiceCurve:
    """A subtask's rate as work over time."""

    # Rows as :func:`flowcontrol.protocol.service.work_by` takes them (shape (phases, PHASE_WIDTH)).
    phases: list[list[int]]
    unit: int  # Work of a record of mean size, units
    kind: int  # Distribution of the service times, or of the times between two emissions
    cv: float  # Coefficient of variation of a lognormal one
    seed: int  # seed, stream: of its random numbers
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
    return _phases(schedule, until_us, s.MOST // (schedule.records_until(until_us) + 1))


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
    rates, unit = s.whole_rates([phase.rate / MICROSECONDS for phase in kept], most, MICROSECONDS)
    if len(kept) < len(schedule.phases):
        last = schedule.phases[-1].rate
        kept.append(Phase(at_us=until_us, rate=last))
        rates.append(1 if last > 0 else 0)
    rows: list[list[int]] = []
    for phase, rate in zip(kept, rates, strict=True):
        base = s.work_by(rows, phase.at_us) if rows else 0
        rows.append([phase.at_us, base, rate])
    return rows, unit


# --- What the tasks of a job ask of processors, and how many there are: of a job that counts them


Shares = list[list[int]]
"""Rows as :func:`flowcontrol.protocol.tasks.processors.cpu_at` takes them."""


def cpu_shares(job: Job, plan: JobVertex, index: int) -> Shares | None:
    """Return which part of its time a subtask's task needs a processor, over time.

    A record takes a chain the sum of its stages' times, and a processor the sum of their parts.

    None: it never needs one, or nobody counts that.
    """
    curve = ServiceCurve.of(job, plan, index)
    if curve is None or not job.scenario.counts_processors:
        return None
    moments = [phase[s.PHASE_START] for phase in curve.phases]
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

    ``at_us``: when, microseconds of the run; a stage that stands still then takes no time.
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

    Returns a list for each task manager, perhaps empty.
    """
    found: list[list[int]] = [[] for _ in range(job.scenario.cluster.task_managers)]
    for number, (plan, index) in enumerate(job.subtasks):
        if cpu_shares(job, plan, index) is not None:
            found[plan.stage.placement[index]].append(number)
    return found


# --- What is written to the logs that sources read, and when; the same for both clocks


def has_log(job: Job, plan: JobVertex) -> bool:
    """Tell whether a task reads a log: its own, or that of a throttle that reads in batches."""
    return plan.is_source and (
        plan.stage.reads_log or THROTTLE_PARTS[job.scenario.system.throttle].has_log
    )


@dataclass(frozen=True)
class Arrivals:
    """What is written to the log of one subtask of a source."""

    curve: ServiceCurve  # The rate
    limit: int = -1  # Records that a replaying source has; -1: no end

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
        return self.limit >= 0 or self.curve.phases[-1][s.PHASE_RATE] == 0

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
        if self.curve.kind != s.CONSTANT:  # only the rate is known, and so how long these take
            us = min(us, self.written_us(log.end))
        return waiting, max(0, us - self.written_us(rules.begun(log))) / 1e6

    def round_of(self, offset: int, round_us: int) -> int:
        """Return the round in which the record at an offset is written."""
        return rules.written_round(self.curve.phases, self.curve.unit, offset, round_us)


def arrival_rounds(
    job: Job, plan: JobVertex, index: int, first: int, count: int
) -> list[tuple[int, int]]:
    """Return when records that a source emits came to its log, if their latency counts from then.

    Returns runs of records in order: the round, and their number. None if their latency counts from
    emission; records that wait for a throttle in batches count from when they fell due.
    """
    arrivals = Arrivals.read_from(job, plan, index)
    if arrivals is None or (plan.stage.reads_log and plan.stage.latency_from != "arrival"):
        return []
    runs, offset = list[tuple[int, int]](), first
    while offset < first + count:
        number = arrivals.round_of(offset, job.round_us)
        end = min(arrivals.written_by((number + 1) * job.round_us), first + count)
        runs.append((number, end - offset))
        offset = end
    return runs


# --- How fast a source can be at most: a bound for whoever looks only now and then


def most_emitted(job: Job, plan: JobVertex, index: int) -> int:
    """Return how many records a subtask of a source emits in a round at most.

    Returns 0 if there is no bound because its intervals are random.
    """
    curve = ServiceCurve.of(job, plan, index)
    if curve is None or curve.kind != s.CONSTANT:
        return 0
    fastest = max(int(phase[s.PHASE_RATE]) for phase in curve.phases)
    return fastest * job.round_us // curve.unit + 2
