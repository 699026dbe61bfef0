"""What coordinates checkpoints and failures on the live clock: in every stage the same.

Both are functions of what stands in the ledgers: what the tasks have reported, how far they are.
So each stage runs its own, hears all tasks, and takes from the orders those of its own subtasks;
nothing but the ledgers, and the table of the run's state, is shared. What they remember stands in
the rows of the stage's first subtask, under ``control``: a killed driver goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flowcontrol.job import Job, JobVertex, Subtask
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.checkpointed_task import task_number
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.ledger.state_table import StateView
from flowcontrol.live.attempts import StageAttempts
from flowcontrol.live.marks_in_flight import SentMarks
from flowcontrol.live.seen import Rows, reports_of
from flowcontrol.live.sink_mail import SinkMail


def is_coordinated(job: Job) -> bool:
    """Tell whether each stage of a job hears all the others: it has checkpoints, or may fail."""
    return job.checkpoints is not None or job.faults is not None


class StageCoordination:
    """The coordinators beside the subtasks of one stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with checkpoints or faults.
    plan : JobVertex
        The stage.
    subtasks : list of Subtask
        Its subtasks, by index; changed in place where they begin anew.
    fresh : callable
        Given an index, returns a new subtask.
    state : StateView, optional
        What is kept of checkpoints.
    sent : SentMarks, optional
        Of a job with event time: the marks that senders have put out.

    Attributes
    ----------
    checkpoints : CheckpointControl or None
        None: the job has no checkpoints.
    failures : FailureControl or None
        None: nothing can fail in it.
    attempts : StageAttempts
        The tasks.
    mail : SinkMail
        What the stage's subtasks hear of checkpoints that are complete.
    """

    def __init__(
        self,
        job: Job,
        plan: JobVertex,
        subtasks: list[Subtask],
        fresh: Callable[[int], Subtask],
        state: StateView | None = None,
        sent: SentMarks | None = None,
    ) -> None:
        self.checkpoints = None if job.checkpoints is None else CheckpointControl(job)
        self.attempts = StageAttempts(job, plan, subtasks, fresh, state, self._began, sent)
        self.mail = SinkMail(job, plan)
        if self.checkpoints is not None:
            self.checkpoints.on_notification = self.mail.note
        self.failures: FailureControl | None = None
        if job.faults is not None:
            self.failures = FailureControl(job, self.attempts, self.checkpoints)
            self.failures.watcher = self.mail
        self._job, self._subtasks = job, subtasks
        self._first = task_number(job, plan, 0)
        self._needed, self._next_id = frozenset[int](), 0

    def resume(self, own: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what the rows of the stage's first subtask hold."""
        states = [json.loads(row["task_state"]) for row in own if row["task_state"] is not None]
        [state] = [state for state in states if state.get("control") is not None]
        if self.checkpoints is not None:
            self.checkpoints.restore(state["control"]["checkpoints"])
        self.mail.restore(state["control"]["mail"])
        self.attempts.restore(state["control"]["attempts"])
        if self.failures is not None:
            self.failures.restore(state["control"]["failures"])
            for subtask in self._subtasks:
                subtask.is_running = self.failures.is_deployed(self._first + subtask.index)

    def before_round(self, number: int, rows: Rows) -> None:
        """Act on what stood in the ledgers after the round before; tell the subtasks their orders.

        Parameters
        ----------
        number : int
            The round that is about to run.
        rows : mapping
            Ledger rows of the round before, of all edges; none before the first round.
        """
        self.attempts.look(number, rows)
        self._note_needed()
        orders = []
        if self.checkpoints is not None:
            if rows:
                self.checkpoints.hear(reports_of(self._job, rows))
            orders = self.checkpoints.before_round(number)
        if self.failures is not None and self.failures.is_due(number):
            orders += self.failures.before_round(number)
        self.mail.deliver(number, self._subtasks, self.attempts.restarted)
        for order in orders:
            subtask = self.attempts.own(order.task)
            if subtask is not None and subtask.is_running:
                subtask.hear_coordinator(order)
        if self.checkpoints is not None:
            self.checkpoints.forget_ended()

    def _note_needed(self) -> None:
        """Note from which checkpoints an attempt may yet begin, as of the round before.

        A stage that still runs that round, or begins this one, needs no others.
        """
        if self.checkpoints is None:
            return
        own = self.checkpoints.coordinator
        restarts = [] if self.failures is None else self.failures.restarts
        restored = [one.checkpoint for one in restarts if one.running < 0 and not one.is_superseded]
        self._needed = frozenset({own.latest_completed, *own.pending, *restored})
        self._next_id = own.next_id

    def is_needed(self, checkpoint: int) -> bool:
        """Tell whether an attempt may yet begin from a checkpoint, in this round or later."""
        return checkpoint in self._needed or checkpoint >= self._next_id

    def began_after(self, number: int) -> bool:
        """Tell whether tasks have begun anew after a round: their channels count from a cut on."""
        restarts = [] if self.failures is None else self.failures.restarts
        return any(one.running > number for one in restarts)

    def state_of(self, subtask: Subtask) -> dict[str, Any] | None:
        """Return what a subtask's rows keep of both; None of all but the first."""
        if subtask.index != 0:
            return None
        return {
            "checkpoints": None if self.checkpoints is None else self.checkpoints.state(),
            "failures": None if self.failures is None else self.failures.state(),
            "mail": self.mail.state(),
            "attempts": self.attempts.state(),
        }

    def _began(self, checkpoint: int) -> int:
        """Return the round in which a checkpoint was triggered."""
        assert self.checkpoints is not None
        return self.checkpoints.coordinator.trigger_of(checkpoint)[0] // self._job.round_us
