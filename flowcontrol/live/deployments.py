"""What result tables of a live run need of its restarts: who was gone, and what counts go on.

Counters of results go on over a restart, whose tasks count from a checkpoint again; levels of a
task that is not deployed are 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from flowcontrol.job import Job, JobVertex
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.live.attempts import SeenAttempts
from flowcontrol.live.history import History, Row, rows_of

EDGE_LEVELS: Final = (
    *("credit", "backlog", "exclusive_free", "floating_held"),
    *("queued", "in_flight_records", "in_flight_bytes"),
)
"""Columns of a channel that are levels."""


def failures_of(job: Job, history: History, number: int = -1) -> FailureControl | None:
    """Return what has failed in a run by a round, as its first stage noted it.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers.
    number : int, optional
        The round; by default the last one.

    Returns
    -------
    FailureControl or None
        None: nothing can fail in the job, or the round is not done.
    """
    last = history.rounds - 1 if number < 0 else number
    if job.faults is None or not 0 <= last < history.rounds:
        return None
    kept = history.tasks(job.stages[0], last)[0].get("control")
    control = FailureControl(job, SeenAttempts(job))
    if kept is not None:
        control.restore(kept["failures"])
    return control


class Deployments:
    """The attempts of a run's tasks.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers.
    """

    def __init__(self, job: Job, history: History) -> None:
        self._job, self._history = job, history
        self._places = [(plan, i) for plan in job.stages for i in range(plan.stage.parallelism)]
        self._carried: list[tuple[int, str, int, int, int]] = []
        self._gone: tuple[int, set[tuple[str, int]]] = (-1, set())
        control = failures_of(job, history)
        for restart in [] if control is None else control.restarts:
            if 0 < restart.running < history.rounds:
                for task in restart.tasks:
                    self._carry(restart.running, *self._places[task])

    def _carry(self, number: int, plan: JobVertex, subtask: int) -> None:
        """Note what a task had counted when it began anew in a round, beyond what it then had."""
        history, records_in, records_out = self._history, 0, 0
        state, sides = history.tasks(plan, number)[subtask], history.sides
        if not plan.is_source:
            took = [
                rows_of(sides[link.name]["receiver"][number], receiver=subtask)
                for link in plan.inputs
            ]
            first = state["task"]["taken"] - sum(map(_moved, took))
            records_in = history.taken(plan, number - 1)[subtask] - first
        if not plan.is_sink:
            rows = rows_of(sides[plan.outputs[0].name]["sender"][number], sender=subtask)
            waiting = state["partitions"][0]["pending"]
            fresh = _moved(rows) - sum(entry >= 0 for entry in waiting)  # the others are marks
            first = history.sent(plan, subtask, number) - fresh
            records_out = history.sent(plan, subtask, number - 1) - first
        self._carried.append((number, plan.name, subtask, records_in, records_out))

    def carried(self, stage: str, subtask: int, number: int) -> tuple[int, int]:
        """Return the records in and out that a task has counted by a round in attempts before."""
        own = [one for one in self._carried if one[0] <= number and one[1:3] == (stage, subtask)]
        return sum(one[3] for one in own), sum(one[4] for one in own)

    def is_gone(self, stage: str, subtask: int, number: int) -> bool:
        """Tell whether a task was not deployed in a round."""
        if self._gone[0] != number:
            control = failures_of(self._job, self._history, number)
            gone = {
                (plan.name, index)
                for task, (plan, index) in enumerate(self._places)
                if control is not None and not control.is_deployed(task)
            }
            self._gone = number, gone
        return (stage, subtask) in self._gone[1]


def _moved(rows: Iterable[Row]) -> int:
    """Return the records that rows say were moved in their round."""
    return sum(row["rows"] for row in rows)
