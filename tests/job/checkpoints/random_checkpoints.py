"""Random jobs with checkpoints: what the tests of several folders draw."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from flowcontrol.job import Job
from flowcontrol.job.checkpoint_settings import CheckpointSettings
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)

MODES = (TIMEOUTABLE, ALIGNED, UNALIGNED, AT_LEAST_ONCE)


@st.composite
def settings_of(draw: Any, round_us: int) -> CheckpointSettings:
    """How a job checkpoints: a checkpoint every few rounds, and timeouts of some."""
    mode = draw(st.sampled_from(MODES))
    concurrent = 1 if mode in {TIMEOUTABLE, UNALIGNED} else draw(st.sampled_from([1, 1, 2, 3]))
    return CheckpointSettings(
        mode=mode,
        interval_us=draw(st.sampled_from([4, 2, 7, 11, 1.5])) * round_us // 1,
        aligned_timeout_us=draw(st.sampled_from([3, 2, 5, 8])) * round_us,
        timeout_us=draw(st.sampled_from([1000, 12, 6, 20])) * round_us,
        min_pause_us=draw(st.sampled_from([0, 0, 3])) * round_us,
        max_concurrent=concurrent,
        tolerable_failures=1000,
        after_tasks_finish=draw(st.sampled_from([True, True, True, False])),
    )


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, shape: Any) -> Job:
    """A random job that checkpoints."""
    job = random_jobs.laid_out(draw(random_jobs.scenarios(shape)))
    return with_checkpoints(job, draw(settings_of(job.round_us)))


def with_checkpoints(job: Job, settings: CheckpointSettings) -> Job:
    """Return a job that checkpoints, whose times need not be Flink's whole milliseconds."""
    settings = replace(settings, interval_us=int(settings.interval_us or 0) or None)
    return replace(job, checkpoints=settings)
