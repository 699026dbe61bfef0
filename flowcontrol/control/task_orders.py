"""The coordinator's orders to tasks, the triggered tasks, and the outcome of each failure."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flowcontrol.layout.graph import POINTWISE
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.requests import ALL, checkpoint_plan
from flowcontrol.protocol.checkpoints.requests import POINTWISE as BY_INDEX
from flowcontrol.state.network import CoordinatorMessage

# --- What the coordinator of checkpoints tells tasks


TRIGGER: Final = "trigger"
ABORTED: Final = "abort"
COMPLETED: Final = "complete"
SLOWED: Final = "slowed"
RELIEVED: Final = "relieved"


class TaskOrder(NamedTuple):
    """What the coordinator tells one task."""

    task: int  # Which, in the order of the job
    # TRIGGER, ABORTED or COMPLETED; SLOWED, its task manager uploads from now on, or RELIEVED.
    kind: str
    # Which checkpoint, and the round in which the task hears of it; of SLOWED and RELIEVED that
    # round alone.
    message: CoordinatorMessage


# --- Whom the coordinator of checkpoints triggers: the sources, or whoever stands in for them


class TriggeredTasks:
    """The tasks that a trigger is sent to, given those that have finished.

    ``job``: the scenario, laid out; its tasks are numbers, in the order of its subtasks.
    """

    def __init__(self, job: Job) -> None:
        self._vertices = [job.tasks[plan.name] for plan in job.stages]
        self._sources = [task for task, (plan, _) in enumerate(job.subtasks) if plan.is_source]
        places = {plan.name: place for place, plan in enumerate(job.stages)}
        self._edges = [
            (
                places[job.stage(link.edge.sender).name],
                places[job.stage(link.edge.receiver).name],
                BY_INDEX if link.edge.partitioner in POINTWISE else ALL,
            )
            for link in job.links
        ]

    def __call__(self, finished: Collection[Hashable]) -> list[Hashable]:
        """Return the tasks, in the order of the job."""
        if not finished:
            return [*self._sources]
        vertices = [
            (len(own), {task - own.start for task in own if task in finished})
            for own in self._vertices
        ]
        found = checkpoint_plan(vertices, self._edges)
        return [self._vertices[v][index] for v, subtasks in found.items() for index in subtasks]


# --- What became of each failure: the rows of the table `restarts`, and the moments behind them


@dataclass
class Restart:
    """A failure, and the restart that follows; rounds are those before which something happens."""

    number: int  # Of the failure, from 1
    causes: list[str]  # What failed; several failures that one restart makes up for
    failed_us: int  # When the first of them happened, microseconds
    # Rounds: the failure, the JobMaster's knowledge, the restore's begin, the first round of the
    # new attempt, and the one before which no more records waited than at the failure; -1: not so
    # far, or never.
    failed: int
    # Those that restart; not those that another failure took over before they ran.
    tasks: list[int] = field(default_factory=list)
    detected: int = -1
    restarted: int = -1
    running: int = -1
    caught_up: int = -1
    checkpoint: int = -1  # What was restored; -1: nothing, from the beginning
    # Of each of their sources how far it was at the failure, from ``running`` on where it stopped;
    # and what waited in its log at the failure, -1: it has none.
    sources: dict[int, tuple[int, int]] = field(default_factory=dict)
    in_flight: int = 0  # Records in the channels at the failure
    reprocessed: int = -1  # Records that sources emit again
    deployment_us: int = 0  # What it takes to deploy its tasks again, microseconds
    is_final: bool = False  # The strategy allowed no restart
    is_superseded: bool = False  # Another failure came before it was done

    @property
    def cause(self) -> str:
        """What failed, in words."""
        return " and ".join(self.causes)

    def give_up(self, tasks: Collection[int]) -> None:
        """Leave tasks to the restart of a later failure; one that has nothing else is superseded.

        ``ExecutionVertexVersioner.getUnmodifiedExecutionVertices``: when its delay is over, a
        restart deploys those vertices that no later failure has changed.
        """
        rest = [task for task in self.tasks if task not in tasks]
        if self.running >= 0 or not rest:
            self.is_superseded = True
            return
        self.tasks = rest
        self.sources = {task: self.sources[task] for task in rest if task in self.sources}

    def row(self, round_us: int) -> dict[str, Any]:
        """Return its row of the table ``restarts``."""

        def seconds(number: int) -> float | None:
            return None if number < 0 else number * round_us / 1e6

        return {
            "number": self.number,
            "failed_s": self.failed_us / 1e6,
            "cause": self.cause,
            "detected_s": seconds(self.detected),
            "restarted_s": seconds(self.restarted),
            "running_s": seconds(self.running),
            "checkpoint_id": None if self.checkpoint < 0 else self.checkpoint,
            "tasks": 0 if self.is_final else len(self.tasks),
            "records_reprocessed": None if self.running < 0 else self.reprocessed,
            "caught_up_s": seconds(self.caught_up),
        }
