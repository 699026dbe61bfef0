"""Random jobs with event time: which records are late."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

from hypothesis import assume, given, note, settings

from flowcontrol.layout.job import Job

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12
"""Runs until what is seldom has happened."""


def test_nothing_is_late_where_the_delay_is_the_out_of_orderness(
    random_jobs: ModuleType, random_event_time: ModuleType, late: ModuleType, draw_until: Any
) -> None:
    """Wherever a record is taken up, it is later than the watermark that was taken before it."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    @settings(max_examples=max(1, EXAMPLES // 5))
    @given(job=random_event_time.jobs(random_jobs, shape, is_late=False))
    def look(job: Job) -> None:
        note(job.scenario.to_yaml())
        assume(job.links)
        counts = late.run(job)
        assert counts["late"] == 0
        seen.update(counts)

    draw_until(look, lambda: seen["behind a watermark"] > 100, MOST_RUNS)
    print(dict(seen))
    assert seen["behind a watermark"] > 100


def test_records_are_late_where_it_is_less(
    random_jobs: ModuleType, random_event_time: ModuleType, late: ModuleType, draw_until: Any
) -> None:
    """The law above can fail."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    @settings(max_examples=max(1, EXAMPLES // 5))
    @given(job=random_event_time.jobs(random_jobs, shape))
    def look(job: Job) -> None:
        seen.update(late.run(job))

    draw_until(look, lambda: seen["late"] > 0, MOST_RUNS)
    assert seen["late"] > 0
