"""The coordinator of checkpoints on the live clock: in every stage the same, on the same rows.

It is a function of what the tasks have reported, which stands in the ledgers. So each stage runs
its own, hears all tasks, and takes from its orders those of its own subtasks; nothing but the
ledgers is shared. What it remembers stands in the rows of the stage's first subtask, under
``control``: a killed driver goes on from there.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flowcontrol.job import Job, JobVertex, Subtask
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.checkpointed_task import COMPLETED, TaskOrder, task_number
from flowcontrol.protocol.states import CheckpointReport

Rows = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Rows of a round by edge name and side."""


class StageCoordination:
    """The coordinator beside the subtasks of one stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with checkpoints.
    plan : JobVertex
        The stage.
    subtasks : sequence of Subtask
        Its subtasks, by index.

    Attributes
    ----------
    notified : list of (int, int, int)
        Of its subtasks: the round in which one hears that a checkpoint is complete, which subtask,
        and which checkpoint; from the present round on.
    """

    def __init__(self, job: Job, plan: JobVertex, subtasks: Sequence[Subtask]) -> None:
        self.control = CheckpointControl(job)
        self.control.on_notification = self._note_notified
        self.notified: list[tuple[int, int, int]] = []
        self._job, self._subtasks = job, subtasks
        self._first = task_number(job, plan, 0)

    def resume(self, own: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what the rows of the stage's first subtask hold."""
        states = [json.loads(row["task_state"]) for row in own if row["task_state"] is not None]
        [state] = [state for state in states if state.get("control") is not None]
        self.control.restore(state["control"])
        self.notified = [(at, index, id) for at, index, id in state["control"]["notified"]]

    def before_round(self, number: int, rows: Rows) -> None:
        """Hear what was reported in the round before; tell the stage's subtasks their orders.

        Parameters
        ----------
        number : int
            The round that is about to run.
        rows : mapping
            Ledger rows of the round before, of all edges; none before the first round.
        """
        self.notified = [one for one in self.notified if one[0] >= number]
        if rows:
            self.control.hear(reports_of(self._job, rows))
        for order in self.control.before_round(number):
            if 0 <= order.task - self._first < len(self._subtasks):
                self._subtasks[order.task - self._first].hear_coordinator(order)
        self.control.forget_ended()

    def state_of(self, subtask: Subtask) -> dict[str, Any] | None:
        """Return what a subtask's rows keep of the coordinator; None of all but the first."""
        if subtask.index > 0:
            return None
        return {**self.control.state(), "notified": self.notified}

    def _note_notified(self, order: TaskOrder) -> None:
        index = order.task - self._first
        if order.kind == COMPLETED and 0 <= index < len(self._subtasks):
            self.notified.append((order.message.arrives, index, order.message.checkpoint))


def reports_of(job: Job, rows: Rows) -> Iterator[CheckpointReport]:
    """Yield what all tasks have reported in a round, task by task."""
    for plan in job.stages:
        side = "sender" if plan.is_source else "receiver"
        link = plan.outputs[0] if plan.is_source else plan.inputs[0]
        found = [row for row in rows[link.name][side] if row["task_state"] is not None]
        for row in sorted(found, key=lambda row: row[side]):
            for report in json.loads(row["task_state"])["checkpoints"]["reports"]:
                yield CheckpointReport(**report)
