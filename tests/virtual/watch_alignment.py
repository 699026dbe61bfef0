"""Sources that wait for one another: the laws after every round, and what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import alignment_of
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.trace.round_state import RoundState, TaskState

EVENTS = {
    "paused",
    "paused with a log",
    "goes on",
    "paused by its own watermark",
    "paused by an answer",
    "paused inside a record",
    "paused and back-pressured",
    "punctuated and paused",
    "idle beside paused",
    "paused at the end of the other",
    "not in a group",
    "a group heard",
}
"""What must have happened in some of the runs."""


class Laws:
    """What must hold of aligned sources after any round, of any job."""

    def __init__(self, job: Job, seen: Counter[str]) -> None:
        self.job, self.seen = job, seen
        self.before: dict[tuple[str, int], TaskState] = {}
        self.since: dict[tuple[str, int], int] = {}
        """When each subtask had its first watermark, microseconds."""

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        sources = [task for task in state.tasks if not task.gates]
        for task in sources:
            if alignment_of(self.job, self.job.stage(task.stage)) is None:
                self.seen["not in a group"] += 1
                assert task.time.state.paused_us == task.time.state.aligned.is_paused == 0
            else:
                self._look(task, state.end_us - state.start_us)
            if task.time.watermark != MIN_TIME:
                self.since.setdefault((task.stage, task.subtask), state.end_us)
        self._look_at_groups(sources, state)
        for task in sources:
            self.before[task.stage, task.subtask] = task

    def _look(self, task: TaskState, round_us: int) -> None:
        time, aligned = task.time.state, task.time.state.aligned
        if time.has_ended == 1:
            assert aligned.is_paused == 0
            return
        assert aligned.is_paused == int(time.generator.watermark > aligned.allowed)
        before = self.before.get((task.stage, task.subtask))
        if before is None:
            return
        old = before.time.state
        assert time.paused_us - old.paused_us == (task.idle_us if aligned.is_paused == 1 else 0)
        assert task.idle_us + task.backpressured_us <= round_us
        if before.time.watermark > aligned.allowed:
            in_hand = 0 if before.log is None else before.log.reading
            assert task.state.taken - before.state.taken <= in_hand, "it begins none"
        self.seen.update(_happened(before, task))

    def _look_at_groups(self, sources: list[TaskState], state: RoundState) -> None:
        """Nobody is allowed more than the slowest has, and the drift, but for who was silent.

        Who was silent until now counts when it has reported, and an answer has come back.
        """
        plans = {task.stage: alignment_of(self.job, self.job.stage(task.stage)) for task in sources}
        for group in self.job.scenario.alignment_groups:
            members = [
                task for task in sources
                if (plan := plans[task.stage]) is not None and plan.group == group
            ]  # fmt: skip
            paused = [task for task in members if task.time.state.aligned.is_paused == 1]
            if paused and any(task.time.is_idle for task in members):
                self.seen["idle beside paused"] += 1
            if paused and any(task.time.state.has_ended for task in members):
                self.seen["paused at the end of the other"] += 1
            never_idle = all(
                self.job.scenario.stage(task.stage).watermark.idle_after_us is None
                for task in members
            )
            lasts_us = 2 * self.job.round_us * (self.job.latency + 1) + 2 * max(
                (plans[task.stage].interval_us for task in members), default=0
            )
            heard = [self.since.get((task.stage, task.subtask), state.end_us) for task in members]
            if not never_idle or any(state.end_us - us < lasts_us for us in heard):
                continue
            self.seen["a group heard"] += 1
            slowest = min((task.time.watermark for task in members), default=MAX_TIME)
            for task in members:
                allowed, drift = task.time.state.aligned.allowed, plans[task.stage].max_drift_ms
                if allowed < MAX_TIME:
                    assert allowed <= slowest + drift


def _happened(before: TaskState, task: TaskState) -> Iterator[str]:
    old, new = before.time.state.aligned, task.time.state.aligned
    if new.is_paused == 1:
        yield "paused"
        if task.log is not None and task.log.end > task.log.position:
            yield "paused with a log"
            if task.log.reading == 1:
                yield "paused inside a record"
        if task.backpressured_us > 0:
            yield "paused and back-pressured"
        if task.time.state.generator.is_punctuated == 1:
            yield "punctuated and paused"
        if old.is_paused == 0:
            is_own = task.time.watermark > before.time.watermark
            yield "paused by its own watermark" if is_own else "paused by an answer"
    elif old.is_paused == 1 and task.state.taken > before.state.taken:
        yield "goes on"
