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
from flowcontrol.protocol.rows import WORD
from flowcontrol.protocol.state import cell, width
from flowcontrol.replicas.standing import Standing
from flowcontrol.virtual import loop
from flowcontrol.virtual.areas import inputs_of, outputs_of
from flowcontrol.virtual.fields import KernelTask
from flowcontrol.virtual.memory import Memory

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = max(3, settings.default.max_examples // 12)
MOST_RUNS = 12

OF_A_LOOK = ("has_sent", "emitted", "due")
"""What of a task is of the round in which it was looked at last, and means nothing in the next."""


def cells_of(memory: Memory, job: Job) -> Iterator[tuple[str, Any]]:
    """Yield what a memory holds of each task and each channel, by a name for it.

    Without the bits of channels that are to be looked at when something is sent: they may be set
    for nothing, which takes a look to find out.
    """
    standing, head = Standing(memory), memory.head
    for task in range(sum(plan.stage.parallelism for plan in job.stages)):
        row = head.tasks_at + task * width(KernelTask)
        left = [row + cell(KernelTask, name) for name in OF_A_LOOK]
        first = int(memory.tasks["first_partition"][task])
        for part in memory.partitions[first:][: int(memory.tasks["partitions"][task])]:
            left += range(
                int(part["dirty"]), int(part["dirty"]) + int(part["channels"]) // WORD + 1
            )
        yield f"task {task}", memory.cells[np.setdiff1d(standing.beside(task), left)]
        for channel in inputs_of(memory, task):
            for side in ("input", "received"):
                yield f"{side} {channel}", memory.cells[standing.queues(side, channel)]
        for channel in outputs_of(memory, task):
            for side in ("output", "finished"):
                yield f"{side} {channel}", memory.cells[standing.queues(side, channel)]


@pytest.mark.holds("credit", "virtual", "a kernel that looks at every task in every round")
@pytest.mark.parametrize("name", draws.STRATA)
def test_who_sleeps_misses_nothing(clocks: ModuleType, draw_until: Any, name: str) -> None:
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

    draw_until(look, lambda: slept["rounds"] > 0, MOST_RUNS)
    assert slept["rounds"] > 0
