"""The kernel lets tasks sleep; one that looks at every task in every round has the same cells.

A task that sleeps a round too long, or one that finds something else when it is looked at for
nothing, shows here. Stages apart, which live by the same wheel, would not show the former.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_jobs as draws
from flowcontrol.job import Job
from flowcontrol.replicas.standing import Standing
from flowcontrol.virtual import loop
from flowcontrol.virtual import parts as k
from flowcontrol.virtual.areas import inputs_of, outputs_of
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.parts import parts_of

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = max(2, settings.default.max_examples // 12)

ALWAYS_ACTIVE = k.JOBS
"""Where tasks share a pool, whoever is looked at tries to get of it."""


def cells_of(memory: Memory, job: Job) -> Iterator[tuple[str, Any]]:
    """Yield what a memory holds of each task and each channel, by a name for it."""
    standing = Standing(memory)
    count = sum(plan.stage.parallelism for plan in job.stages)
    for task in range(count):
        yield f"task {task}", memory.cells[standing.beside(task)]
        for channel in inputs_of(memory, task):
            for part in ("input", "received"):
                yield f"{part} {channel}", memory.cells[standing.queues(part, channel)]
        for channel in outputs_of(memory, task):
            for part in ("output", "finished"):
                yield f"{part} {channel}", memory.cells[standing.queues(part, channel)]


@pytest.mark.holds("credit", "virtual", "a kernel that looks at every task in every round")
@pytest.mark.parametrize("name", draws.STRATA)
def test_who_sleeps_misses_nothing(clocks: ModuleType, name: str) -> None:
    need, slept = draws.STRATA[name], Counter[str]()

    @settings(max_examples=EXAMPLES)
    @given(job=draws.jobs(need), is_interpreted=st.booleans())
    def look(job: Job, is_interpreted: bool) -> None:
        step = loop._advance if is_interpreted else loop.advance
        asleep = clocks.kernel_memories(job)
        awake = clocks.kernel_memories(job, is_awake=True, step=step)
        for (one, state), (other, seen) in zip(asleep, awake, strict=True):
            assert state == seen, f"after round {state.number}"
            for (where, cells), (_, expected) in zip(
                cells_of(one, job), cells_of(other, job), strict=True
            ):
                assert np.array_equal(cells, expected), f"{where} after round {state.number}"
            slept["rounds"] += int((one.tasks["wake"] != state.number + 1).sum())

    look()
    assert slept["rounds"] > 0
