"""Random jobs with Spark's time: a window stage puts out what Spark's aggregation does."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, note, settings

from flowcontrol.layout.job import Job
from flowcontrol.protocol.windows.spark_batches import ALL, CHANGED, EVICTING
from modules import load

random_jobs = load("tests/job/random_jobs.py")

random_batches: Any = load("tests/job/random_batches.py")
follow_batches: Any = load("tests/job/follow_batches.py")

EXAMPLES = max(20, settings.default.max_examples // 4)
"""Fewer would be more like each other."""
MOST_RUNS = 24
"""Runs until what is seldom has happened."""

EVENTS = {
    *(f"{kind} windows in {mode}" for kind, mode in random_batches.FORMS),
    "a batch without data",
    "late groups",
    "late groups of a session",
    "a batch that waits for the answer before it",
    "several inputs",
    "several subtasks",
    "ended",
    "no watermark",
}
"""What must have happened in some of the runs."""


def test_a_window_stage_puts_out_what_the_aggregation_does(draw_until: Any) -> None:
    """The rows that it took up in each batch, through dictionaries and sorted lists."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(30, 50), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_batches.jobs(random_jobs, shape))
    def look(job: Job) -> None:
        note(job.scenario.to_yaml())
        seen.update(happened(job))

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


def test_batches_of_a_throttle_are_answered_likewise(draw_until: Any) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(30, 50), is_virtual=True)
    wanted = {"append", "update", "complete"}

    @settings(max_examples=EXAMPLES // 2)
    @given(job=random_batches.jobs(random_jobs, shape, is_throttled=True))
    def look(job: Job) -> None:
        note(job.scenario.to_yaml())
        seen.update(name.rsplit(" ", 1)[-1] for name in happened(job))

    draw_until(look, lambda: set(seen) >= wanted, MOST_RUNS)
    assert wanted - set(seen) == set()


def happened(job: Job) -> Counter[str]:
    """Run a job; tell what happened in it."""
    seen: Counter[str] = Counter()
    rounds = list(follow_batches.follow(job))
    state, followers = rounds[-1][0], rounds[-1][1]
    for batch, _ in rounds:
        ends = (batch.number + 1) * job.round_us % (job.scenario.batch_us or 1 << 40) == 0
        for task in batch.tasks:
            is_answering = task.window is not None and task.window.store.phase in PHASES
            seen["a batch that waits for the answer before it"] += ends and is_answering
    for stage, follower in followers.items():
        window, plan = job.scenario.stage(stage).window, job.stage(stage)
        answers = [batch for batch in follower.done if batch.answer]
        seen[f"{window.kind} windows in {window.output}"] += bool(answers)
        seen["a batch without data"] += sum(not any(rows) for rows in follower.rows)
        seen["late groups"] += follower.query.dropped
        seen["late groups of a session"] += follower.query.dropped * (window.kind == "session")
        seen["several inputs"] += sum(sum(map(bool, rows)) > 1 for rows in follower.rows)
        seen["several subtasks"] += len(answers) * (plan.stage.parallelism > 1)
        seen["no watermark"] += len(answers) * (follower.query._case.delays is None)
        ended = [task for task in state.tasks if task.stage == stage]
        seen["ended"] += all(task.state.is_finished for task in ended)
        if all(task.state.is_finished for task in ended):
            assert not follower.query.needs_no_data_batch
            follower.check()
            held = sum(task.window.open_windows for task in ended)
            assert held == follower.query.state_rows
    return +seen


PHASES = {CHANGED, ALL, EVICTING}
