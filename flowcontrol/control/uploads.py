"""Uploads of snapshots: when each task has written its part of a checkpoint.

It works off what tasks report in order of time, whenever it is looked at; so looking late gives
the same as looking at once. The upload of a state begins when the synchronous part is over, that of
channel state when the last barrier is in; those of one task manager share its bandwidth.
"""

from bisect import insort
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from flowcontrol.layout.fault_tolerance import Sizes, task_states
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.checkpoints.snapshots import Uploads
from flowcontrol.state.declared import Kept
from flowcontrol.state.network import CheckpointReport

SYNCED: Final = -1
"""Kind of an event: the synchronous part is over. The others are reports of tasks and ABORTED."""
ABORTED: Final = -2
"""Kind of an event: tasks hear that a checkpoint was aborted, and give its uploads up."""
ORDER: Final = (ABORTED, b.TAKEN, SYNCED, b.ACKNOWLEDGED, b.DECLINED, b.FINISHED)
"""Kinds of event as they follow one another in one moment."""

STATE: Final = 0
CHANNELS: Final = 1


class Event(NamedTuple):
    """Something that happens at a moment, microseconds: its place in ORDER, and the round."""

    at: int
    order: int
    task: int
    checkpoint: int
    number: int


@dataclass
class Writing:
    """What a task writes for a checkpoint."""

    synced_at: int  # End of the synchronous part, microseconds
    full: int  # full, written: size of the state, and what the checkpoint writes of it, bytes
    written: int
    left: int = 2  # Uploads that have not ended, or begun
    # What the task has measured, once all is known that has to be written.
    report: CheckpointReport | None = None


class Written(NamedTuple):
    """An acknowledgement that leaves a task, or a task that has finished and written all."""

    at: int  # When, microseconds
    task: int  # Which
    report: CheckpointReport  # Of kind ACKNOWLEDGED or FINISHED
    sync: int = 0  # sync, async_: blocking part, and from its end until now, microseconds
    async_: int = 0
    full: int = 0  # full, written: size of the state, and what was written of it, bytes
    written: int = 0


class SnapshotUploads(Kept):
    """What the tasks of a job write for its checkpoints.

    - ``managers``: the task manager of each task.
    - ``writes_nothing``: neither state nor data in flight: a task acknowledges in the round in
      which it takes a checkpoint, and nothing has to be asked here.
    """

    _kept = (
        *("_events", "_reports", "_open", "_finished", "_full", "_bases", "_savepoints"),
        "_uploads",
    )
    _values = (Event, Writing, CheckpointReport)

    def __init__(self, job: Job) -> None:
        self._round_us = job.round_us
        self._states = task_states(job)
        self.managers = [plan.stage.placement[index] for plan, index in job.subtasks]
        rate = Fraction(repr(job.scenario.cluster.upload_bytes_per_s))
        self._uploads = {manager: Uploads(rate) for manager in sorted(set(self.managers))}
        self._events: list[Event] = []
        self._reports: dict[tuple[int, int, int], CheckpointReport] = {}
        self._open: dict[tuple[int, int], Writing] = {}
        self._finished: dict[int, CheckpointReport] = {}
        self._full: dict[int, dict[int, Sizes]] = {}
        self._bases: list[tuple[int, int]] = []
        self._savepoints: set[int] = set()
        self.writes_nothing = job.checkpoints is not None and (
            not job.checkpoints.is_unaligned and not any(state.has_state for state in self._states)
        )

    # ------------------------------------------------------------------ what it hears

    def hear(self, reports: Iterable[CheckpointReport]) -> None:
        """Take what tasks have reported."""
        if self.writes_nothing:
            return
        for report in reports:
            if report.kind == b.ENDED:
                continue  # it goes on taking checkpoints
            at = report.round * self._round_us
            self._reports[report.kind, report.task, report.checkpoint] = report
            self._plan(at, report.kind, report.task, report.checkpoint, report.round)

    def begin(self, checkpoint: int, *, is_savepoint: bool) -> None:
        """Note that a checkpoint was triggered; a savepoint refers to no other one."""
        if is_savepoint:
            self._savepoints.add(checkpoint)

    def complete(self, checkpoint: int, heard: int) -> None:
        """Note that tasks hear in a round that a checkpoint is complete: others refer to it."""
        if self.writes_nothing:
            return
        self._bases.append((heard, checkpoint))

    def abort(self, checkpoint: int, heard: int) -> None:
        """Note that tasks hear in a round that a checkpoint was aborted."""
        if self.writes_nothing:
            return
        self._plan(heard * self._round_us, ABORTED, -1, checkpoint)

    def _plan(self, at: int, kind: int, task: int, checkpoint: int, number: int = 0) -> None:
        insort(self._events, Event(at, ORDER.index(kind), task, checkpoint, number))

    def fence(self, tasks: Iterable[int], now: int) -> list[Written]:
        """Give up at a moment what tasks write that begin anew, and forget what they reported.

        Returns what has left the tasks until then, as :meth:`advance` does.
        """
        gone, done = set(tasks), self.advance(now)
        for key in [key for key in sorted(self._open) if key[0] in gone]:
            self._drop(now, key, done)
        self._events = [event for event in self._events if event.task not in gone]
        self._reports = {
            key: report for key, report in self._reports.items() if report.task not in gone
        }
        for task in gone:
            self._finished.pop(task, None)
        return [written for written in done if written.task not in gone]

    # ------------------------------------------------------------------ what it does

    def next_us(self) -> int | None:
        """Return when :meth:`advance` will do something next, microseconds; None: never."""
        if self.writes_nothing:
            return None
        ends = [end for one in self._uploads.values() if (end := one.next_end()) is not None]
        if self._events:
            ends.append(self._events[0].at)
        return min(ends, default=None)

    def busy_managers(self) -> set[int]:
        """Return the task managers that upload, as of the last call of :meth:`advance`."""
        return {manager for manager, own in self._uploads.items() if own.is_busy}

    def advance(self, now: int) -> list[Written]:
        """Work off everything up to a moment.

        ``now``: microseconds; all reports of rounds that begin by then were heard.

        Returns what leaves the tasks by then, in order.
        """
        done: list[Written] = []
        while (at := self.next_us()) is not None and at <= now:
            for manager in sorted(self._uploads):
                for key in sorted(self._uploads[manager].tick(at), key=_as_key):
                    self._end_part(at, *_as_key(key)[:2], done)
            while self._events and self._events[0].at <= at:
                self._act(self._events.pop(0), done)
        return done

    def _act(self, event: Event, done: list[Written]) -> None:
        at, order, task, checkpoint, number = event
        kind, key = ORDER[order], (task, checkpoint)
        report = self._reports.pop((kind, task, checkpoint), None)
        if kind == b.TAKEN and report is not None:
            self._take(at, number, report)
        elif kind == SYNCED and key in self._open:
            self._upload(at, STATE, key, self._open[key].written, done)
        elif kind == b.ACKNOWLEDGED and report is not None and key in self._open:
            self._open[key].report = report
            self._upload(at, CHANNELS, key, report.persisted, done)
        elif kind == b.DECLINED:
            self._drop(at, key, done)
        elif kind == ABORTED:
            for other in sorted(self._open):
                if other[1] == checkpoint:
                    self._drop(at, other, done)
            self._full.pop(checkpoint, None)
        elif kind == b.FINISHED and report is not None:
            self._finished[task] = report
            self._release(at, task, done)

    def _take(self, at: int, number: int, report: CheckpointReport) -> None:
        """Begin the synchronous part of a snapshot; what it will write is known."""
        state, key = self._states[report.task], (report.task, report.checkpoint)
        full = state.full(report.records, report.contents)
        last = self._last(report.task, number)
        if report.checkpoint in self._savepoints:
            last = None
        elif full:
            self._full.setdefault(report.checkpoint, {})[report.task] = full
        synced_at = at + state.sync_us
        self._open[key] = Writing(synced_at, sum(full), state.written(full, last))
        self._plan(synced_at, SYNCED, *key)

    def _last(self, task: int, number: int) -> Sizes | None:
        """Return a task's sizes at the last completed checkpoint that it had heard of in a round.

        Checkpoints that no task refers to any more are forgotten.
        """
        while len(self._bases) > 1 and self._bases[1][0] <= number:
            del self._bases[0]
        if not self._bases or self._bases[0][0] > number:
            return None
        base = self._bases[0][1]
        for older in [one for one in self._full if one < base]:
            del self._full[older]
        return self._full.get(base, {}).get(task)

    def _upload(
        self, at: int, part: int, key: tuple[int, int], nbytes: int, done: list[Written]
    ) -> None:
        if nbytes > 0:
            self._uploads[self.managers[key[0]]].start(at, (*key, part), nbytes)
        else:
            self._end_part(at, *key, done)

    def _end_part(self, at: int, task: int, checkpoint: int, done: list[Written]) -> None:
        """Note that one of the two uploads of a task has ended; acknowledge if both have."""
        writing = self._open[task, checkpoint]
        writing.left -= 1
        if writing.left > 0:
            return
        assert writing.report is not None
        del self._open[task, checkpoint]
        sync, async_ = self._states[task].sync_us, at - writing.synced_at
        done.append(Written(at, task, writing.report, sync, async_, writing.full, writing.written))
        self._release(at, task, done)

    def _drop(self, at: int, key: tuple[int, int], done: list[Written]) -> None:
        """Give up what a task writes for a checkpoint."""
        if self._open.pop(key, None) is not None:
            for part in (STATE, CHANNELS):
                self._uploads[self.managers[key[0]]].cancel((*key, part), at)
            self._release(at, key[0], done)

    def _release(self, at: int, task: int, done: list[Written]) -> None:
        """Let a task finish that has waited for its last snapshots (``afterInvoke``)."""
        if task in self._finished and all(other != task for other, _ in self._open):
            done.append(Written(at, task, self._finished.pop(task)))


def _as_key(key: Hashable) -> tuple[int, int, int]:
    """Return the key of an upload: task, checkpoint, STATE or CHANNELS."""
    assert isinstance(key, tuple)
    return key
