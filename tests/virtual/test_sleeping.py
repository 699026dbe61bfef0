"""The kernel lets tasks sleep; one that looks at every task in every round has the same cells.

A task that sleeps a round too long, or one that finds something else when it is looked at for
nothing, shows here. Stages apart, which live by the same wheel, would not show the former.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import random_jobs as draws
from flowcontrol.kernel import loop
from flowcontrol.kernel import views as v
from flowcontrol.kernel.views import inputs_of, outputs_of
from flowcontrol.layout.job import Job
from flowcontrol.live.shares import Standing
from flowcontrol.memory.cells import slot_cells
from flowcontrol.memory.fields import (
    KernelCredit,
    KernelGate,
    KernelMessage,
    KernelRing,
    KernelTask,
)
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import SpillingPartition
from flowcontrol.state.declared import cell, columns, width
from flowcontrol.state.network import Message, ReceivedMessage, Ring
from flowcontrol.state.rows import WORD

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = max(3, settings.default.max_examples // 12)
MOST_RUNS = 12

OF_A_LOOK = ("has_sent", "emitted", "due")
"""What of a task is of the round in which it was looked at last, and means nothing in the next.

Likewise what a gate found at producers; and of a partition that spills since when a look has found
it waiting, which with the rounds before that is the same sum.
"""


def cells_of(memory: Memory, job: Job, soon: Container[int]) -> Iterator[tuple[str, Any]]:
    """Yield what a memory holds of each task and each channel, by a name for it.

    Of tasks that are looked at in the next round, ``soon``, without what they are taken for while
    they sleep.

    Without the bits of channels that are to be looked at when something is sent: they may be set
    for nothing, which takes a look to find out.
    """
    standing, head = Standing(memory), memory.head
    for task in range(sum(plan.stage.parallelism for plan in job.stages)):
        row = head.tasks_at + task * width(KernelTask)
        left = [row + cell(KernelTask, name) for name in OF_A_LOOK]
        if task in soon:
            left.append(row + cell(KernelTask, "status"))
        own = memory.tasks[task]
        gates, first = int(own["first_gate"]), int(own["first_partition"])
        for gate in range(gates, gates + int(own["gates"])):
            at = head.gates_at + gate * width(KernelGate)
            left.append(at + cell(KernelGate, "waits_at_producers"))
        for part in memory.partitions[first:][: int(own["partitions"])]:
            left += range(
                int(part["dirty"]), int(part["dirty"]) + int(part["channels"]) // WORD + 1
            )
            left += [int(part["spill"]) + cell(SpillingPartition, n) for n in ("since", "waited")]
        yield f"task {task}", memory.cells[np.setdiff1d(standing.beside(task), left)]
        for channel in inputs_of(memory, task):
            into = v.in_row(head, channel)
            yield f"input {channel}", memory.cells[standing.row("input", channel)]
            yield f"received {channel}", held(memory, into.received, ReceivedMessage)
            yield f"under way {channel}", held(memory, into.under_way, KernelMessage)
            if into.credits > 0:
                credits = v.credit_queue(head, into.credits, into.credits_most)
                told = [credits.slots[i] for i in slots_of(credits.ends)]
                names = columns(KernelCredit)
                yield (
                    f"credits {channel}",
                    np.array([[getattr(one, name) for name in names] for one in told]),
                )
        for channel in outputs_of(memory, task):
            yield f"output {channel}", memory.cells[standing.row("output", channel)]
            yield f"finished {channel}", held(memory, v.out_row(head, channel).finished, Message)


def slots_of(ring: Ring) -> list[int]:
    """Return which slots of a ring are in use, the oldest first."""
    return [(ring.head + i) % ring.span for i in range(ring.count)]


def held(memory: Memory, ring: KernelRing, cls: type[Any]) -> Any:
    """Return what is in a queue, oldest first; where in the ring that stands means nothing."""
    each = slot_cells(cls)
    return np.array([memory.cells[ring.place + i * each :][:each] for i in slots_of(ring)])


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
            soon = np.flatnonzero(one.tasks["wake"] == state.number + 1).tolist()
            for (where, cells), (_, expected) in zip(
                cells_of(one, job, soon), cells_of(other, job, soon), strict=True
            ):
                assert np.array_equal(cells, expected), f"{where} after round {state.number}"
            slept["rounds"] += int((one.tasks["wake"] != state.number + 1).sum())

    draw_until(look, lambda: slept["rounds"] > 0, MOST_RUNS)
    assert slept["rounds"] > 0
