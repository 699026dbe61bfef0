"""What a failure takes with it, which tasks restart, and how fast a job catches up."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.protocol.restarts.recovery import (
    failover_tasks,
    pipelined_regions,
    refused_death_seen_us,
    silent_death_seen_us,
)
from flowcontrol.scenario.fault_tolerance import Failure, Heartbeat

# --- What a failure takes with it, when it is noticed, and which tasks restart, in a job


Edge = tuple[int, int, str]


class Failover:
    """The tasks of a job by number, in the order of the job: regions, machines, connections.

    - ``count``: tasks.
    - ``managers``: task manager of each.
    - ``sources``: tasks of sources, and whether each is replayable.
    - ``regions``: the pipelined region of each task: the first task in it.
    """

    def __init__(self, job: Job) -> None:
        self._tasks, self.count = job.tasks, len(job.subtasks)
        self.managers = [plan.stage.placement[index] for plan, index in job.subtasks]
        self.sources = {
            task: plan.stage.replayable
            for task, (plan, _) in enumerate(job.subtasks)
            if plan.is_source
        }
        self._edges: list[Edge] = [
            (senders[channel.sender], receivers[channel.receiver], "pipelined")
            for link in job.links
            for senders, receivers in [(job.tasks[link.edge.sender], job.tasks[link.edge.receiver])]
            for channel in link.channels
        ]
        regions = pipelined_regions(self._edges, range(self.count))
        first_of = {region: min(map(int, map(str, region))) for region in set(regions.values())}
        self.regions = [first_of[regions[task]] for task in range(self.count)]

    def number(self, stage: str, subtask: int) -> int:
        """Return the number of a stage's subtask; of a chain's it is that of its head."""
        return self._tasks[stage][subtask]

    def victims(self, failure: Failure) -> list[int]:
        """Return the tasks that a failure takes with it, running or not; of a JobManager all."""
        if failure.stage is not None and failure.subtask is not None:
            return [self.number(failure.stage, failure.subtask)]
        return [
            task
            for task, manager in enumerate(self.managers)
            if failure.job_manager or manager == failure.task_manager
        ]

    def restarted(self, victims: Iterable[int]) -> list[int]:
        """Return the tasks that restart if some of them fail."""
        found: set[int] = set()
        for task in victims:
            if task not in found:
                found |= {int(str(one)) for one in failover_tasks(self._edges, task)}
        return sorted(found)

    def breaks_connection(self, manager: int, is_running: Callable[[int], bool]) -> bool:
        """Tell whether a task elsewhere reads from one on a task manager, and both run."""
        return any(
            self.managers[sender] == manager
            and self.managers[receiver] != manager
            and is_running(sender)
            and is_running(receiver)
            for sender, receiver, _ in self._edges
        )

    def by_manager(
        self, nbytes: Mapping[int, tuple[int, int]]
    ) -> list[dict[Hashable, tuple[int, int]]]:
        """Return what tasks restore, those of one task manager together."""
        found: dict[int, dict[Hashable, tuple[int, int]]] = {}
        for task, sizes in nbytes.items():
            found.setdefault(self.managers[task], {})[task] = sizes
        return list(found.values())


def death_seen_us(failed_us: int, heartbeat: Heartbeat) -> int:
    """Return when a process that died is given up, microseconds.

    Its host answers and refuses the connection, so failed heartbeats count if they may.
    """
    interval_us = heartbeat.interval_us
    silent_us = silent_death_seen_us(failed_us, interval_us, heartbeat.timeout_us)
    if heartbeat.rpc_failures is None:
        return silent_us
    refused = max(1, heartbeat.rpc_failures)
    return min(silent_us, refused_death_seen_us(failed_us, interval_us, refused))


# --- What a job can do beside what comes: the rates of the closed form of a restart


class RestartRates(NamedTuple):
    """Records/s of the source of a job."""

    arrival: Fraction  # Records that come; of a source without a log: that it emits
    capacity: Fraction  # Records that the job can process
    has_log: bool  # Whether what comes while the job is down waits in a log


def restart_rates(job: Job) -> RestartRates | None:
    """Return the rates of a job's closed form; None if it has none.

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
