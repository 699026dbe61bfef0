"""What a failure takes with it, when it is noticed, and which tasks restart, in a job."""

from collections.abc import Callable, Hashable, Iterable, Mapping

from flowcontrol.job.job import Job
from flowcontrol.protocol.restarts import (
    failover_tasks,
    pipelined_regions,
    refused_death_seen_us,
    silent_death_seen_us,
)
from flowcontrol.scenario.fault_models import Failure
from flowcontrol.scenario.fault_tolerance import Heartbeat

Edge = tuple[int, int, str]


class Failover:
    """The tasks of a job by number, in the order of the job: regions, machines, connections.

    Parameters
    ----------
    job : Job
        The scenario, laid out.

    Attributes
    ----------
    count : int
        Tasks.
    managers : list of int
        Task manager of each.
    sources : dict of int to bool
        Tasks of sources, and whether each is replayable.
    regions : list of int
        The pipelined region of each task: the first task in it.
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
