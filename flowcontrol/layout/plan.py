"""Before a run: network memory asked for and granted, and whether rates fit into credits."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.layout.buffers import Allocation, Demand
from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import demands_by_job
from flowcontrol.scenario import JobSpan, Scenario, Schedule
from flowcontrol.scenario.models import PIPELINED
from flowcontrol.systems.transports.rules import first_grant, transport_named
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport

# --- Tell whether a scenario's rates fit into the windows of its channels.
#
# A credit that is announced in round r is used in r + 1, its message arrives in r + 2, or as
# many rounds later each as the network's latency has: a channel carries at most exclusive +
# floating buffers in two latencies, and a gate's channels share its floating buffers. More is
# honestly slow; here it is said beforehand, with the figures.


QUOTA_OF_ONE = (
    "taskmanager.network.memory.max-buffers-per-channel: 1 counts the open buffer, so a task that "
    "has written a record smaller than a segment waits for ever, as in Flink: raise it to 2."
)


def window_warnings(job: Job) -> list[str]:
    """Return a sentence for each edge whose rate is beyond its windows."""
    if job.record_transport is None and job.scenario.system.transport != "credit":
        return []
    rates = _stage_rates(job)
    quota = [QUOTA_OF_ONE] if _waits_for_ever(job) else []
    of_link = _link_warnings if job.record_transport is None else _grant_warnings
    return quota + [text for link in job.links for text in of_link(job, link, rates)]


def _round_trip(job: Job) -> int:
    """Return the rounds from announcing a credit to receiving the message that uses it."""
    return 2 * job.latency


def _shorten(job: Job) -> str:
    """Say what shortens it."""
    return "Shorten round_ms" if job.latency == 1 else "Shorten cluster.network_latency_ms"


def _waits_for_ever(job: Job) -> bool:
    """Tell whether a pool is unavailable while a buffer is open that no further record fills."""
    options = job.scenario.options
    return options.max_buffers_per_channel == 1 and any(
        link.record_bytes < options.segment_bytes and link.edge.partition_type in PIPELINED
        for link in job.links
    )


def _stage_rates(job: Job) -> dict[str, Fraction]:
    """Most records/s that each stage can put out, also one inside a chain."""
    rates: dict[str, Fraction] = {}
    for plan in job.stages:
        able = [plan.rates(index) for index in range(plan.stage.parallelism)]
        taken = sum((rates[link.edge.sender] for link in plan.inputs), Fraction(0))
        own = [_highest(schedule) for schedule in able if schedule is not None]
        if own:
            taken = sum(own, Fraction(0)) if plan.is_source else min(taken, sum(own, Fraction(0)))
        rates |= {member.stage.name: taken * member.ratio_out for member in plan.members}
    return rates


def _highest(schedule: Schedule) -> Fraction:
    return max(phase.rate for phase in schedule.phases)


def _link_warnings(job: Job, link: JobEdge, rates: dict[str, Fraction]) -> Iterator[str]:
    """Compare the even share of each receiver with its gate's window."""
    receivers = sorted(set(link.receivers.tolist()))
    options = job.scenario.options
    share, trip = rates[link.edge.sender] / len(receivers), _round_trip(job)
    for receiver in receivers:
        places = link.places("receiver", receiver)
        remote = len(places) - int(link.is_local[places].sum())
        if not remote:
            continue
        size = job.sizes.gates[link.name, receiver]
        window = remote * size.exclusive + size.floating
        part = Fraction(remote, len(places))
        per_round = share * part * link.record_bytes * job.round_us / 1_000_000
        needed = per_round / options.segment_bytes * trip
        if needed > window:
            most = Fraction(window, trip) * options.segment_bytes / link.record_bytes
            able = most * 1_000_000 / job.round_us
            yield (
                f"{link.name}, receiver {receiver}: {float(share * part):,.0f} records/s need "
                f"{float(needed):,.1f} buffers in flight per round trip of {trip} rounds, "
                f"its channels have {window} (exclusive and floating): at most "
                f"{float(able):,.0f} records/s. {_shorten(job)} or raise the buffers."
            )
            return


def _grant_warnings(job: Job, link: JobEdge, rates: dict[str, Fraction]) -> Iterator[str]:
    """Compare the even share of each channel with what its receiver grants at first."""
    window = first_grant(
        job.record_transport or RecordTransport(), ChannelGrant(), link.record_bytes
    )
    adapts = transport_named(job.scenario.system.transport).adapts
    share, trip = rates[link.edge.sender] / link.width, _round_trip(job)
    needed = share * job.round_us / 1_000_000 * trip
    if needed > window and not adapts:
        able = Fraction(window, trip) * 1_000_000 / job.round_us
        yield (
            f"{link.name}: {float(share):,.0f} records/s of a channel need {float(needed):,.0f} "
            f"records in flight per round trip of {trip} rounds, its receiver grants "
            f"{window:,}: at most {float(able):,.0f} records/s. {_shorten(job)} or grant more."
        )


# --- What the network memory of a scenario is asked for and grants, before anything runs


WHOLE = JobSpan(name="", stages=())
"""Stands for the one job of a scenario without ``jobs``."""


@dataclass(frozen=True)
class Grant:
    """What one gate or partition asks for, and the size that its local pool gets."""

    demand: Demand  # Who asks for how much
    granted: int | None  # Size of its pool, buffers; None if its job did not start


@dataclass(frozen=True)
class ManagerPlan:
    """Network memory of one task manager."""

    manager: int  # Its number
    total: int  # Its buffers
    grants: tuple[Grant, ...]  # In order of creation

    @property
    def required(self) -> int:
        """Buffers without which not everything starts: minima and exclusive ones."""
        return sum(grant.demand.required + grant.demand.unpooled for grant in self.grants)

    @property
    def wanted(self) -> int:
        """Buffers with which every pool is at its maximum; an unlimited one at its minimum."""
        return sum(_most(grant.demand) + grant.demand.unpooled for grant in self.grants)

    @property
    def granted(self) -> int:
        """Buffers that are shared out."""
        return sum(
            grant.granted + grant.demand.unpooled
            for grant in self.grants
            if grant.granted is not None
        )


@dataclass(frozen=True)
class Moment:
    """The memory after some jobs have started or stopped."""

    at_s: float  # When, s
    events: tuple[str, ...]  # What happened then, in words; empty where the scenario is one job
    managers: tuple[ManagerPlan, ...]  # Of every task manager, with all jobs that should run
    failures: dict[str, str]  # By job that could not start at this moment, Flink's text


@dataclass(frozen=True)
class MemoryPlan:
    """The network memory over a whole run."""

    scenario: Scenario  # What was planned
    moments: tuple[Moment, ...]  # The start, and whenever a job starts or stops
    slots: int  # Slots of a task manager: as stated, else as many as the placement needs

    @property
    def required(self) -> int:
        """Buffers that a task manager must have for everything to start."""
        return max(plan.required for moment in self.moments for plan in moment.managers)

    @property
    def wanted(self) -> int:
        """Buffers of a task manager with which every pool is at its maximum."""
        return max(plan.wanted for moment in self.moments for plan in moment.managers)

    @property
    def rule(self) -> int:
        """The classic rule of Flink's documentation: slots^2 x task managers x 4."""
        return self.slots**2 * self.scenario.cluster.task_managers * 4

    @property
    def failures(self) -> list[str]:
        """Texts of everything that does not fit, in the order of time."""
        return [
            f"{job}: {text}" if job else text
            for moment in self.moments
            for job, text in moment.failures.items()
        ]


def plan_memory(scenario: Scenario) -> MemoryPlan:
    """Work out what every gate and partition asks for and gets.

    Sizes are those that redistribution aims at (reference section 5.1): a pool above its new
    size gives buffers back only as they are recycled.

    ``scenario``: read and checked. It need not fit.

    Raises ScenarioError if the transport has no network buffers.
    """
    if scenario.system.counts_records:
        text = (
            f"{scenario.system.transport!r} has queues of records and no network buffers, so there "
            "is no network memory to plan: use credit or tcp, as --set system=flink does"
        )
        raise ScenarioError([Problem("system.transport", text)], scenario.name)
    demands = demands_by_job(scenario)
    jobs = scenario.jobs or (WHOLE,)
    allocation = Allocation(scenario.options, scenario.cluster.task_managers)
    times = {job.start_us for job in jobs} | {job.stop_us for job in jobs} - {None}
    due: list[JobSpan] = []
    moments = []
    for at_us in sorted(time for time in times if time is not None):
        stopped = [job for job in due if job.stop_us == at_us]
        started = [job for job in jobs if job.start_us == at_us]
        for job in stopped:
            if job.name in allocation.held:
                allocation.end(job.name)
        due = [job for job in due if job not in stopped] + started
        failures = {}
        for job in started:
            text = allocation.begin(job.name, demands[job.name])
            if text:
                failures[job.name] = text
        words = [f"{job.name} stops" for job in stopped if job.name]
        words += [
            f"{job.name} {'does not start' if job.name in failures else 'starts'}"
            for job in started
            if job.name
        ]
        own = [demand for job in due for demand in demands[job.name]]
        moments.append(Moment(at_us / 1e6, tuple(words), _managers(allocation, own), failures))
    return MemoryPlan(scenario, tuple(moments), _slots(scenario))


def _managers(allocation: Allocation, demands: Sequence[Demand]) -> tuple[ManagerPlan, ...]:
    sizes = {
        id(holding.demand): holding.pool.size
        for held in allocation.held.values()
        for holding in held
    }
    return tuple(
        ManagerPlan(
            manager,
            network.total_buffers,
            tuple(
                Grant(demand, sizes.get(id(demand)))
                for demand in demands
                if demand.manager == manager
            ),
        )
        for manager, network in enumerate(allocation.networks)
    )


def _most(demand: Demand) -> int:
    return demand.required if demand.maximum is None else demand.maximum


def _slots(scenario: Scenario) -> int:
    """Slots as stated, else the most subtasks of a stage on one task manager, of all jobs."""
    if scenario.cluster.slots is not None:
        return scenario.cluster.slots
    needed: Counter[int] = Counter()
    for job in scenario.jobs or (JobSpan(name="", stages=tuple(s.name for s in scenario.stages)),):
        most: Counter[int] = Counter()
        for name in job.stages:
            most |= Counter(scenario.stage(name).placement)
        needed += most
    return max(needed.values())


def network_memory(scenario: Scenario) -> int:
    """Return the network memory that a job is granted, on all task managers together.

    Flink's ``NetworkBufferPool`` allocates all of its segments when a task manager starts, so what
    a job is granted is what those options have to be sized for; a pool without a maximum is
    granted all that is left. Overdraft is not in it: it is taken while it is free, never reserved.

    Returns the exclusive buffers of all remote channels and the sizes of all local pools, of gates
    and of result partitions, times the size of a buffer: the totals of ``GRANTED`` that
    ``flowcontrol plan`` prints, added up over task managers. Where jobs come and go, at the moment
    with the most (bytes). Raises ScenarioError if the transport has no network buffers.
    """
    moments = plan_memory(scenario).moments
    buffers = max(sum(manager.granted for manager in moment.managers) for moment in moments)
    return buffers * scenario.options.segment_bytes


def slots_used(scenario: Scenario) -> int:
    """Return how many slots a job occupies: a slot holds at most one subtask of each stage."""
    most: Counter[int] = Counter()
    for stage in scenario.stages:
        most |= Counter(stage.placement)
    return sum(most.values())
