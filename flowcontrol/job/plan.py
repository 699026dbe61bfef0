"""What the network memory of a scenario is asked for and grants, before anything runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.job.allocation import Allocation
from flowcontrol.job.buffers import Demand
from flowcontrol.job.physical_graph import demands_by_job
from flowcontrol.scenario import JobSpan, Scenario

WHOLE = JobSpan(name="", stages=())
"""Stands for the one job of a scenario without ``jobs``."""


@dataclass(frozen=True)
class Grant:
    """What one gate or partition asks for, and the size that its local pool gets.

    Attributes
    ----------
    demand : Demand
        Who asks for how much.
    granted : int or None
        Size of its pool, buffers; None if its job did not start.
    """

    demand: Demand
    granted: int | None


@dataclass(frozen=True)
class ManagerPlan:
    """Network memory of one task manager.

    Attributes
    ----------
    manager : int
        Its number.
    total : int
        Its buffers.
    grants : tuple of Grant
        In order of creation.
    """

    manager: int
    total: int
    grants: tuple[Grant, ...]

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
    """The memory after some jobs have started or stopped.

    Attributes
    ----------
    at_s : float
        When, s.
    events : tuple of str
        What happened then, in words; empty where the scenario is one job.
    managers : tuple of ManagerPlan
        Of every task manager, with all jobs that should run.
    failures : dict of str to str
        By job that could not start at this moment, Flink's text.
    """

    at_s: float
    events: tuple[str, ...]
    managers: tuple[ManagerPlan, ...]
    failures: dict[str, str]


@dataclass(frozen=True)
class MemoryPlan:
    """The network memory over a whole run.

    Attributes
    ----------
    scenario : Scenario
        What was planned.
    moments : tuple of Moment
        The start, and whenever a job starts or stops.
    slots : int
        Slots of a task manager: as stated, else as many as the placement needs.
    """

    scenario: Scenario
    moments: tuple[Moment, ...]
    slots: int

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

    Parameters
    ----------
    scenario : Scenario
        Read and checked. It need not fit.

    Raises
    ------
    ScenarioError
        If the transport has no network buffers.

    Notes
    -----
    Sizes are those that redistribution aims at (reference section 5.1): a pool above its new
    size gives buffers back only as they are recycled.
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
