"""Whom the coordinator of checkpoints triggers: the sources, or whoever stands in for them."""

from collections.abc import Collection, Hashable

from flowcontrol.job.graph import POINTWISE
from flowcontrol.job.job import Job
from flowcontrol.protocol.checkpoints import checkpoint_plan
from flowcontrol.protocol.checkpoints.plan import ALL
from flowcontrol.protocol.checkpoints.plan import POINTWISE as BY_INDEX


class TriggeredTasks:
    """The tasks that a trigger is sent to, given those that have finished.

    Parameters
    ----------
    job : Job
        The scenario, laid out; its tasks are numbers, in the order of its subtasks.
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
