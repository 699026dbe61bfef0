"""Random jobs with checkpoints: each completed one is a consistent cut, and nothing is stuck."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

from hypothesis import assume, given, note, settings

EXAMPLES = settings.default.max_examples * 2
MOST_RUNS = 12

EVENTS = {
    "aligned_barrier",
    "timeoutable_barrier",
    "unaligned_barrier",
    "at_least_once_barrier",
    "cancel_marker",
    "blocked channel",
    "blocked subpartition",
    "waits for outputs",
    "waits for inputs",
    "trigger waits",
    "end in alignment",
    "switched",
    "persisted",
    "output overtaken",
    "finished",
    "completed",
    "expired",
    "declined",
    "aborted",
}
"""What must have happened in some of the runs."""


def test_each_checkpoint_is_a_consistent_cut(
    random_jobs: ModuleType, random_checkpoints: ModuleType, cuts: ModuleType, draw_until: Any
) -> None:
    happened: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 70), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_checkpoints.jobs(random_jobs, shape))
    def look(job: Any) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        run = cuts.CheckpointRun(job)
        run.run()
        own = run.control.coordinator
        for checkpoint in own.ids:
            happened[own.statistics(checkpoint).status] += 1
        if job.checkpoints.mode != 3:
            for checkpoint in run.completed:
                run.check_cut(checkpoint)
        happened.update(+run.seen)

    draw_until(look, lambda: set(happened) >= EVENTS, MOST_RUNS)
    print(dict(happened))
    assert EVENTS - set(happened) == set()
