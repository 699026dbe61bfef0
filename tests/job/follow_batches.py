"""What a window stage takes up batch by batch, given to a plain aggregation: the same must come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from flowcontrol.control.sources import BatchedTask, WindowQuery, window_stages_of
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import new_operators
from flowcontrol.protocol.event_time import id_of, time_of
from flowcontrol.protocol.windows.contents import key_of
from flowcontrol.protocol.windows.firing import RESTING
from flowcontrol.spec.spark_aggregation import MicroBatch, MicroBatches
from flowcontrol.trace.round_state import RoundState, TaskState
from modules import load

cases: Any = load("tests/spec/spark_time/cases.py")
plain: Any = load("tests/spec/spark_time/plain.py")
watched_runs: Any = load("tests/job/watched_runs.py")

Row = tuple[int, int]
"""Event time, ms, and number of the key."""


def case_of(job: Job, stage: str, runs: list[Any] | None = None) -> Any:
    """Return the query that the windows of a stage are."""
    plan, window = job.stage(stage), job.scenario.window_of(stage)
    assert window is not None
    numbers = {
        "tumbling": (window.size_ms, window.offset_ms),
        "sliding": (window.size_ms, window.slide_ms, window.offset_ms),
        "session": (window.gap_ms,),
    }[window.kind]
    delays = tuple(one.delay for one in new_operators(job, plan)) or None
    windows = cases.Windows(window.kind, numbers)
    none: list[Any] = [[[[] for _ in plan.inputs]]]
    return cases.Case(windows, window.output, delays, "min", True, runs or none)


class Follower:
    """Follows the windows of a stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    stage : str
        A stage with Spark's windows.
    """

    def __init__(self, job: Job, stage: str) -> None:
        self.inputs = len(job.stage(stage).inputs)
        self.query = plain.Plain(case_of(job, stage))
        self.batches = MicroBatches(self.query)
        self.taken: list[list[Row]] = [[] for _ in range(self.inputs)]
        self.done: list[MicroBatch] = []
        self.rows: list[list[list[Row]]] = []
        """Of each batch with data, by input."""
        self.found: Counter[tuple[int, int, int, int]] = Counter()
        """What came since the last batch ended."""
        self.looks = 0

    def end(self) -> None:
        """A batch has ended: give what was taken up in it to the aggregation."""
        self.check()
        rows, self.taken = self.taken, [[] for _ in range(self.inputs)]
        batch = self.batches.trigger(*rows) if any(rows) else self.batches.trigger()
        assert batch is not None, "a batch without data that nothing asked for"
        self.rows.append(rows)
        self.done.append(batch)
        self.found.clear()

    def check(self, *, is_whole: bool = True) -> None:
        """What came of the last batch is what had to come, or some of it."""
        wanted = Counter(map(tuple, self.done[-1].answer)) if self.done else Counter()
        assert self.found == wanted or (not is_whole and self.found <= wanted)

    def look(self, tasks: Sequence[TaskState]) -> None:
        """Once a batch has answered, and before the next one has rows, as many groups are held."""
        windows = [task.window for task in tasks if task.window is not None]
        rows = sum(one.held.batch.rows for one in windows)
        is_resting = rows == 0 and all(one.store.phase == RESTING for one in windows)
        if self.done and is_resting:
            assert sum(one.open_windows for one in windows) == self.done[-1].state_rows
            assert sum(one.held.batch.late for one in windows) == 0
            self.looks += 1


def follow(job: Job) -> Iterator[tuple[RoundState, dict[str, Follower]]]:
    """Run a job in memory; yield each state, and those who follow its window stages."""
    followers = {stage: Follower(job, stage) for stage in window_stages_of(job)}
    run = watched_runs.WatchedRun(job)
    run.watch("take_element", before=partial(_take, followers, run.memory.places.tasks))
    with _watched(followers):
        for state in run.rounds():
            for task in state.tasks:
                if task.window is not None:
                    found = followers[task.stage].found
                    found.update((r.start, r.end, r.key, r.records) for r in task.window.results)
            for stage, follower in followers.items():
                follower.look([one for one in state.tasks if one.stage == stage])
            yield state, followers
    for follower in followers.values():
        follower.check(is_whole=False)


def _take(
    followers: dict[str, Follower], firsts: dict[str, int], worker: Any, may_write: int
) -> None:
    stage = max((first, name) for name, first in firsts.items() if first <= worker.number)[1]
    task, keys = worker.task, worker.window_task().keys
    key = key_of(id_of(task.stamp), keys, worker.first_ids(task.gate), [])
    followers[stage].taken[task.gate].append((time_of(task.stamp), key))


@contextmanager
def _watched(followers: dict[str, Follower]) -> Iterator[None]:
    end_batch = WindowQuery.end_batch

    def watched_end(self: WindowQuery, tasks: Sequence[BatchedTask]) -> bool:
        follower = followers[self.plan.name]
        is_firing = any(one.task.is_firing for one in tasks)
        acted = end_batch(self, tasks)
        assert not (is_firing and acted), "before the batch that went before is answered"
        if not is_firing and any(one.task.is_firing for one in tasks):
            follower.end()
            assert sum(one.store.late for one in tasks) == follower.query.dropped
            assert self.watermark.current == follower.query.watermark
        elif not is_firing:
            assert not any(follower.taken), "rows, and no batch"
            assert not follower.query.needs_no_data_batch
        return acted

    with mock.patch.object(WindowQuery, "end_batch", watched_end):
        yield
