"""Commits that take time: when they begin and end, and what is in them, on either clock.

Sources: ``CommitterOperator`` (a commit of its own holds the thread of its sink), and the one
committer of Iceberg and Delta, which commits the files of all subtasks, one checkpoint behind the
other.
"""

from typing import Any, Final

from flowcontrol.layout.job import Job
from flowcontrol.scenario.fault_tolerance import Commit
from flowcontrol.state.declared import Kept
from flowcontrol.state.network import CoordinatorMessage

MOST_KEPT: Final = 100
"""Checkpoints whose ends are remembered: more than there may be under way."""


class Commits(Kept):
    """The commits of the sinks of a job.

    - ``rows``: those of the table ``commits`` so far.
    """

    _kept = ("rows", "_taken", "_begun", "_over", "_files", "_savepoints")

    def __init__(self, job: Job) -> None:
        self.rows: list[dict[str, Any]] = []
        self._round_us = job.round_us
        self._sinks: dict[int, tuple[str, int, Commit]] = {
            task: (plan.name, index, plan.stage.commit)
            for task, (plan, index) in enumerate(job.subtasks)
            if plan.stage.commit is not None
        }
        self._taken: dict[int, int] = {}
        """Records that a task had taken up at its last checkpoint, of sinks that share a commit."""
        self._files: dict[int, dict[str, int]] = {}
        """Files of a checkpoint, by the sink whose subtasks share a commit."""
        self._begun: dict[int, dict[str, int]] = {}
        """Round in which the shared commit of a checkpoint is over, by the sink."""
        self._over: dict[str, int] = {}
        """Round in which the last one of a sink is over."""
        self._savepoints: list[int] = []

    def takes_time(self, task: int) -> bool:
        """Tell whether a task has a sink whose commits take time."""
        return task in self._sinks

    def is_savepoint(self, checkpoint: int) -> bool:
        """Tell whether a completed checkpoint is a savepoint."""
        return checkpoint in self._savepoints

    def take(self, task: int, checkpoint: int, records: int) -> None:
        """Note that a task has taken a checkpoint, having taken up so many records."""
        if task not in self._sinks:
            return
        stage, _, commit = self._sinks[task]
        if not commit.shared:
            return
        files = self._files.setdefault(checkpoint, {})
        files[stage] = files.get(stage, 0) + commit.files * (records > self._taken.get(task, 0))
        self._taken[task] = records

    def complete(self, task: int, message: CoordinatorMessage) -> int | None:
        """Note that a checkpoint is complete; return the round in which what it has is visible.

        None: a commit of the task itself will tell (:meth:`begin`).
        """
        if task not in self._sinks:
            return message.arrives
        stage, _, commit = self._sinks[task]
        if message.is_savepoint > 0:
            self._savepoints.append(message.checkpoint)
        if not commit.shared:
            return None
        known = self._begun.setdefault(message.checkpoint, {})
        for old in [one for one in self._begun if one + MOST_KEPT < message.checkpoint]:
            del self._begun[old]
        if stage not in known:
            files = self._files.pop(message.checkpoint, {}).get(stage, 0)
            first = max(message.arrives, self._over.get(stage, 0))
            length = commit.length_us(files) if files else 0
            known[stage] = self._over[stage] = first + self._rounds(length)
            if files:
                self._add(message.checkpoint, stage, None, files, first, length)
        return known[stage]

    def begin(self, task: int, number: int, checkpoint: int, length: int, files: int) -> int:
        """Note that a task begins a commit in a round; return the round in which it is over.

        ``length``: what it takes, microseconds.
        """
        stage, index, _ = self._sinks[task]
        if length:
            self._add(checkpoint, stage, index, files, number, length)
        return number + self._rounds(length)

    def _rounds(self, us: int) -> int:
        return -(-us // self._round_us)

    def _add(
        self, checkpoint: int, stage: str, subtask: int | None, files: int, first: int, length: int
    ) -> None:
        self.rows.append(
            {
                "checkpoint_id": checkpoint,
                "stage": stage,
                "subtask": subtask,
                "files": files,
                "started_s": first * self._round_us / 1e6,
                "duration_ms": length / 1000,
            }
        )
