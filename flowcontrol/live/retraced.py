"""What the coordinators of a run did, retraced from its ledgers: checkpoints, and what readers saw.

All of it follows from what the tasks reported and how far they were, which the ledgers have round
by round. What restarts began from was noted by the stages, as the table of the run's state forgets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flowcontrol.job import Job
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.delivery_control import DeliveryControl
from flowcontrol.job.delivery_table import has_delivery
from flowcontrol.job.failure_control import ChannelCounts, FailureControl
from flowcontrol.live.attempts import SeenAttempts
from flowcontrol.live.history import History
from flowcontrol.live.seen import reports_of


class HistoryAttempts(SeenAttempts):
    """The tasks of a run by its ledgers, and what they began from in the round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers.
    """

    def __init__(self, job: Job, history: History) -> None:
        super().__init__(job)
        self._history = history

    def position(self, task: int, checkpoint: int) -> int:
        """Return how far a source was when it took a checkpoint that is restored in the round."""
        found = 0
        for one in self._begun(checkpoint):
            found = dict(one["positions"]).get(task, found)
        return found

    def cut_channels(self, checkpoint: int) -> ChannelCounts:
        """Return what was written to each channel and taken up by a checkpoint, likewise."""
        for one in self._begun(checkpoint):
            return {
                edge: [(written, taken) for written, taken in counts]
                for edge, counts in one["channels"].items()
            }
        return {}

    def _begun(self, checkpoint: int) -> list[dict[str, Any]]:
        """Return what the restarts of the round from a checkpoint began from."""
        kept = self._history.tasks(self.job.stages[0], self.number)[0].get("control")
        found = [] if kept is None else kept["attempts"]["begun"]
        return [one for one in found if one["checkpoint"] == checkpoint]


@dataclass(frozen=True)
class Retraced:
    """What was retraced of a run.

    Attributes
    ----------
    checkpoints : CheckpointControl or None
        The coordinator at the end; None: the job has no checkpoints.
    delivery : DeliveryControl or None
        What the readers of its sinks saw; None: the run has no such table.
    """

    checkpoints: CheckpointControl | None = None
    delivery: DeliveryControl | None = None


def retrace(job: Job, history: History) -> Retraced:
    """Retrace a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers. An interrupted run has fewer rounds.
    """
    checkpoints = None if job.checkpoints is None else CheckpointControl(job)
    delivery = DeliveryControl(job) if has_delivery(job) else None
    if checkpoints is None and delivery is None:
        return Retraced()
    attempts = HistoryAttempts(job, history)
    failures = None if job.faults is None else FailureControl(job, attempts, checkpoints)
    if delivery is not None:
        delivery.attach(checkpoints, failures)
    attempts.look(0, {})
    for number in range(history.rounds):
        if checkpoints is not None:
            checkpoints.before_round(number)
        if failures is not None and failures.is_due(number):
            failures.before_round(number)
        rows = history.rows(number)
        reports = [] if checkpoints is None else list(reports_of(job, rows))
        if checkpoints is not None:
            checkpoints.hear(reports)
        attempts.look(number + 1, rows)
        if delivery is not None:
            delivery.advance(number)
            delivery.hear(reports)
            delivery.end_round(number, attempts.taken)
    if delivery is not None:
        delivery.advance(history.rounds)
    return Retraced(checkpoints, delivery)
