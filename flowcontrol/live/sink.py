"""A sink that writes exactly once: its mail of checkpoints, and its two-phase commit.

What executors write of a round is cut at the records before which the task took a checkpoint. The
files lie in the folder of the sink's table; which transaction each belongs to stands in the row of
the ledger of the round that wrote it, so a file is staged if and only if its round is over. Where
a checkpoint's completion is heard, all files of all subtasks up to it are committed in one Delta
transaction, whose version is the checkpoint's number.

A round first restores and commits, then its files are written, then the ledger notes all of it at
once. A kill before that repeats the round, from the state of the one before: the commit finds its
version, a deleted file is not there, and files are written to the same names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from flowcontrol.control.failures import Watcher
from flowcontrol.control.task_orders import COMPLETED, TaskOrder
from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.ledger.exchange import (
    OutputTable,
    PackedFile,
    StagedFiles,
    oldest_batch,
    sweep_staged,
)
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.live.rows import EdgeOrder
from flowcontrol.live.stage_rows import Ints, SubtaskRound, side_of_state
from flowcontrol.protocol.checkpoints.barriers import ENDED, FINISHED, TAKEN
from flowcontrol.protocol.commits.transactions import SinkState, TwoPhaseCommitSink
from flowcontrol.spark.crash_points import CrashPoint, crash_point
from flowcontrol.state.declared import Kept

# --- What the subtasks of a sink hear of checkpoints, round by round, on the live clock


class Heard(NamedTuple):
    """What a sink stage hears by the start of a round."""

    # Subtasks that run and hear that a checkpoint is complete, and which.
    completed: Sequence[tuple[int, int]] = ()
    # Subtasks that begin anew in this round, and from which checkpoint; -1: from none.
    restored: Sequence[tuple[int, int]] = ()


class SinkMail(Kept, Watcher):
    """The notifications of completed checkpoints to the subtasks of a stage.

    ``heard``: what they hear by the start of the present round.
    """

    _kept = ("_waiting",)

    def __init__(self, job: Job, plan: JobVertex) -> None:
        self.heard = Heard()
        self._tasks = job.tasks[plan.name]
        self._latency = job.latency
        self._waiting: list[tuple[int, int, int]] = []

    def note(self, order: TaskOrder) -> None:
        """Take an order of the coordinator; that a checkpoint is complete concerns the sinks."""
        message = order.message
        if order.kind == COMPLETED and order.task in self._tasks:
            index = order.task - self._tasks.start
            self._waiting.append((message.arrives, index, message.checkpoint))

    def deliver(
        self, number: int, runs: Callable[[int], bool], restored: Mapping[int, int]
    ) -> None:
        """Find out what the subtasks hear in a round, once all is known that happens before it.

        - ``number``: the round that is about to run.
        - ``runs``: given a subtask, tells whether it runs in it.
        """
        left = [one for one in self._waiting if one[1] not in restored]
        completed = [
            (index, checkpoint)
            for arrives, index, checkpoint in left
            if arrives == number and runs(index)
        ]
        self._waiting = [one for one in left if one[0] > number]
        self.heard = Heard(completed, sorted(restored.items()))

    def leader_died(self, number: int) -> None:
        """Note that the JobManager dies before a round: what it says in that round is lost."""
        lost = number + self._latency
        self._waiting = [one for one in self._waiting if one[0] != lost]


# --- A sink that writes exactly once on the live clock: the two-phase commit of all its subtasks.


UNFINISHED = -2
"""Round of a state that holds a part of a round; it counts as none."""

ROW_GROUP = 1 << 20
"""Most rows of a row group of a sink's file."""

STATE = "sink"
"""Key of the states of sinks, by name, in the ledger's text of their task."""


class Piece(NamedTuple):
    """Records of a round between two snapshots: rows ``first`` to ``last`` of the round's.

    ``checkpoint`` was taken behind them; None: none was.
    """

    first: int
    last: int
    checkpoint: int | None


def pieces_of(done: SubtaskRound) -> list[Piece]:
    """Return a round's records, cut where the task took a checkpoint."""
    first, pieces = 0, list[Piece]()
    for report in done.reports:
        if report.kind == TAKEN:
            last = report.records - done.first
            if done.answered is not None:
                last = done.cuts[report.checkpoint]
            pieces.append(Piece(first, last, report.checkpoint))
            first = last
    return [*pieces, Piece(first, done.records, None)]


def staged_prefix(run_id: str, stage: str) -> str:
    """Return how the names of a sink's files begin."""
    return f"{run_id}-{stage}-"


def staged_orders(
    table: Path,
    prefix: str,
    number: int,
    done: SubtaskRound,
    parents: Ints,
    beside: pa.Table | None = None,
) -> Iterator[EdgeOrder]:
    """Yield the files that a subtask of a sink writes in a round, one for each of its pieces.

    - ``prefix``: of the names of its files (:func:`staged_prefix`).
    - ``beside``: further columns of the rows that come in.
    """
    for place, piece in enumerate(pieces_of(done)):
        own = parents[(parents >= piece.first) & (parents < piece.last)]
        yield EdgeOrder(
            root=str(table),
            folder="",
            receivers=(done.index,),
            first=(done.first + piece.first,),
            routes=own * 0,
            parents=own,
            group_rows=ROW_GROUP,
            name=f"{prefix}{done.index}-{number}-{place}.parquet",
            is_table=True,
            beside=beside,
        )


class _Own:
    """The sink of one subtask: its files, its rules, and what checkpoints hold of it."""

    def __init__(self, index: int, longest: int | None) -> None:
        self.store = StagedFiles(index, longest)
        self.sink = TwoPhaseCommitSink(self.store)
        self.kept = dict[int, SinkState]()


class StageSink:
    """The two-phase commit of a sink.

    - ``round_us``: length of a round, microseconds.
    - ``name``: of the sink.
    """

    def __init__(
        self,
        plan: JobVertex,
        member: Member,
        table: OutputTable,
        run_id: str,
        ledger: LedgerView,
        round_us: int,
    ) -> None:
        self.name, self._count = member.stage.name, plan.stage.parallelism
        self._side = side_of_state(plan)
        self._table, self._ledger, self._round_us = table, ledger, round_us
        timeout_us = member.stage.transaction_timeout_us
        self._longest = None if timeout_us is None else timeout_us // round_us
        self._round = UNFINISHED
        self._own: list[_Own] = []
        self._noted: list[CrashPoint] = []
        sweep_staged(table.path, staged_prefix(run_id, self.name))

    # ------------------------------------------------------------------ a round

    def begin_round(self, number: int, heard: Heard) -> None:
        """Restore and commit what the stage hears by the start of a round.

        ``number``: the round: the one after the last, or any other, for which the state is then
        restored.
        """
        if self._round != number - 1:
            self._put_back(number - 1)
        self._round, self._noted = UNFINISHED, []
        for own in self._own:
            own.store.begin_batch(number)
        if number == 0:
            for own in self._own:
                own.sink.open(self._now(0))
        for checkpoint, subtasks in _by_checkpoint(heard.restored):
            self._restore(number, checkpoint, subtasks)
        for checkpoint, subtasks in _by_checkpoint(heard.completed):
            self._complete(number, checkpoint, subtasks)

    def _complete(self, number: int, checkpoint: int, subtasks: Iterable[int]) -> None:
        """Have subtasks hear that a checkpoint is complete."""
        for index in subtasks:
            own = self._own[index]
            own.sink.notify_complete(checkpoint)
            own.kept = {n: state for n, state in own.kept.items() if n >= checkpoint}
        self._commit_waiting(checkpoint)
        if any(own.store.to_show for own in self._own):
            self._reach(number, CrashPoint.BEFORE_COMMIT)
            self._show(checkpoint)
            self._reach(number, CrashPoint.AFTER_COMMIT)
            self._noted.append(CrashPoint.AFTER_COMMIT_NOTED)
        self._delete(number)

    def _restore(self, number: int, checkpoint: int, subtasks: Iterable[int]) -> None:
        """Have subtasks begin anew from a checkpoint; -1: without one."""
        for index in subtasks:
            own = self._own[index]
            own.sink = TwoPhaseCommitSink(own.store)
            own.sink.open(self._now(number), own.kept.get(checkpoint))
            own.store.keep([one.name for one in own.sink.transactions])
            own.kept = {n: state for n, state in own.kept.items() if n <= checkpoint}
        self._commit_waiting(checkpoint)
        self._reach(number, CrashPoint.BEFORE_RESTORE)
        self._show(checkpoint)
        self._reach(number, CrashPoint.AFTER_RESTORE)
        self._delete(number)
        self._noted.append(CrashPoint.AFTER_RESTORE_NOTED)

    def _delete(self, number: int) -> None:
        """Delete the files of transactions that were aborted, or were too old to be committed."""
        doomed = [file for own in self._own for file in own.store.to_delete]
        if doomed:
            self._reach(number, CrashPoint.BEFORE_ABORT)
            for place, file in enumerate(doomed):
                (self._table.path / file.path).unlink(missing_ok=True)
                if place == 0:
                    self._reach(number, CrashPoint.AMID_ABORT)
            self._reach(number, CrashPoint.AFTER_ABORT)
        for own in self._own:
            own.store.to_delete.clear()

    def _commit_waiting(self, checkpoint: int) -> None:
        """Have all commit that is pre-committed up to a checkpoint that is complete.

        Also of subtasks that do not run, and so hear nothing: such a checkpoint is never taken
        back, and a reader sees all of it or nothing.
        """
        for own in self._own:
            for one in own.sink.transactions:
                if one.checkpoint is not None and one.checkpoint <= checkpoint:
                    own.store.commit(one.name)

    def _show(self, checkpoint: int) -> None:
        """Commit to the table what is to be shown, in one Delta transaction."""
        files = [file for own in self._own for file in own.store.to_show]
        if files:
            self._table.commit(checkpoint, files)
        for own in self._own:
            own.store.to_show.clear()

    def end_round(
        self, number: int, works: Sequence[SubtaskRound], files: Mapping[int, Sequence[Any]]
    ) -> None:
        """Stage the files of a round, and pre-commit where a task took a checkpoint.

        ``files``: what executors wrote of the subtasks whose rows moved, by piece.
        """
        now, is_taken = self._now(number), False
        for own, done in zip(self._own, works, strict=True):
            written = files.get(done.index, ())
            for place, piece in enumerate(pieces_of(done)):
                found = written[place] if piece.last > piece.first else None
                if found is not None:
                    own.sink.write(
                        PackedFile(found["path"], done.index, found["bytes"], found["rows"], ())
                    )
                if piece.checkpoint is not None:
                    is_taken = True
                    own.kept[piece.checkpoint] = own.sink.snapshot(now, piece.checkpoint)
            if _has_ended(done):
                own.sink.finish()
        if is_taken:
            self._reach(number, CrashPoint.BEFORE_PRE_COMMIT)
            self._noted.append(CrashPoint.AFTER_PRE_COMMIT)
        self._round = number

    def after_ledger(self, number: int) -> None:
        """Note that the ledger holds the round."""
        for point in self._noted:
            self._reach(number, point)

    def _reach(self, number: int, point: CrashPoint) -> None:
        crash_point(self.name, number, point)

    def _now(self, number: int) -> int:
        """Return the start of a round, ms."""
        return number * self._round_us // 1000

    # ------------------------------------------------------------------ state

    def state_of(self, index: int) -> dict[str, Any]:
        """Return what the ledger keeps of a subtask's sink after a round."""
        own = self._own[index]
        return {
            "commits": own.sink.state(),
            "kept": [[number, state.to_json()] for number, state in own.kept.items()],
            "store": own.store.state(),
        }

    def _put_back(self, before: int) -> None:
        """Put all back as it was after a round; before the first one nothing is open."""
        self._own = [_Own(index, self._longest) for index in range(self._count)]
        if before < 0:
            return
        last = self._states(before)
        first = min(oldest_batch(state["store"], before) for state in last)
        states = [*map(self._states, range(first, before)), last]
        for index, own in enumerate(self._own):
            own.store.restore([state[index]["store"] for state in states])
            own.sink.restore(last[index]["commits"])
            own.kept = {number: SinkState.from_json(state) for number, state in last[index]["kept"]}

    def _states(self, number: int) -> list[dict[str, Any]]:
        """Return what the ledger holds of the subtasks' sinks after a round."""
        found: dict[int, dict[str, Any]] = {}
        for row in self._ledger.rows(self._side, number):
            if row["task_state"] is not None:
                found[row[self._side]] = json.loads(row["task_state"])[STATE][self.name]
        return [found[index] for index in range(self._count)]


def _by_checkpoint(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, list[int]]]:
    """Return pairs of a subtask and a checkpoint by checkpoint, ascending."""
    found: dict[int, list[int]] = {}
    for index, checkpoint in pairs:
        found.setdefault(checkpoint, []).append(index)
    return sorted(found.items())


def _has_ended(done: SubtaskRound) -> bool:
    """Whether a task has processed its last record in the round."""
    return any(report.kind in {ENDED, FINISHED} for report in done.reports)
