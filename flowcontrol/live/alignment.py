"""Alignment of sources on the live clock: each aligned source runs the coordinators of all groups.

They know nothing but what sources reported after the round before, which is in the ledgers, so all
come to the same. What they remember stands in the rows of the first subtask.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from flowcontrol.job import Job, JobEdge, JobVertex, Subtask
from flowcontrol.job.alignment_control import AlignmentControl
from flowcontrol.job.checkpointed_task import task_number
from flowcontrol.job.timed_settings import alignment_of
from flowcontrol.operators.aligning import reported
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.state import put_back

Row = Mapping[str, Any]


def links_of_groups(job: Job, plan: JobVertex) -> tuple[JobEdge, ...]:
    """Return a link of each source whose group is aligned; none unless a stage is one of them."""
    if alignment_of(job, plan) is None:
        return ()
    return tuple(one.outputs[0] for one in job.stages if alignment_of(job, one) is not None)


class StageAlignment:
    """The coordinators of a job's groups, beside an aligned source.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The source.
    """

    def __init__(self, job: Job, plan: JobVertex) -> None:
        self._job, self._control = job, AlignmentControl(job)
        self._first = task_number(job, plan, 0)
        self._links = links_of_groups(job, plan)

    def before_round(
        self,
        number: int,
        sent: Mapping[str, Sequence[Row]],
        subtasks: Sequence[Subtask],
        renewed: Collection[int] = (),
    ) -> None:
        """Have the source's subtasks hear what their group allows before a round.

        Parameters
        ----------
        number : int
            The round.
        sent : mapping of str to sequence of mapping
            The senders' rows of the round before, by edge name; empty before the first.
        subtasks : sequence of Subtask
            Of the source.
        renewed : collection of int, optional
            Tasks that began anew before this round, and have no watermark any more.
        """
        times = dict[int, TaskTime]()
        for link in self._links:
            first = task_number(self._job, self._job.stage(link.edge.sender), 0)
            for row in sent.get(link.name, ()):
                if row["task_state"] is not None and first + row["sender"] not in renewed:
                    time = times[first + row["sender"]] = TaskTime()
                    put_back(time, json.loads(row["task_state"])["time"]["state"])
        told = self._control.before_round(
            number, lambda task: reported(times.get(task, TaskTime()))
        )
        for task, allowed in told:
            if 0 <= task - self._first < len(subtasks):
                subtasks[task - self._first].hear_allowed(allowed)

    def state_of(self, subtask: Subtask) -> Any:
        """Return what a subtask's rows keep of it; None of most."""
        return self._control.state() if subtask.index == 0 else None

    def resume(self, rows: Iterable[Row]) -> None:
        """Go on from the rows of the first subtask."""
        for row in rows:
            if row["task_state"] is not None:
                self._control.restore(json.loads(row["task_state"])["alignment"])
                return
