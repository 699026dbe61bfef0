"""The kernel's memory of processors: filled from a job, and read for a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.job.processors import cpu_shares, new_processors, tasks_by_manager
from flowcontrol.protocol.state import width
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder
from flowcontrol.virtual.processor_fields import KernelProcessor, KernelProcessors

if TYPE_CHECKING:
    from flowcontrol.virtual.memory import Memory


def fill_processors(build: Builder) -> None:
    """Put the processors of each task manager there, and the claims of its tasks; these are filled.

    Those of one task manager stand one behind the other.
    """
    job, head, tasks = build.job, build.head, build.blocks["tasks_at"]
    managers = []
    for numbers in tasks_by_manager(job):
        claims = []
        for number in numbers:
            shares = cpu_shares(job, *job.subtasks[number]) or []
            at = build.put(np.array(shares, np.int64).ravel())
            claims.append(cells_of(KernelProcessor(shares=at, share_count=len(shares))))
        first = build.put(np.concatenate(claims)) if claims else 0
        for place, number in enumerate(numbers):
            tasks["processor"][number] = first + place * width(KernelProcessor)
        managers.append(cells_of(KernelProcessors(new_processors(job), first, len(numbers))))
    head.has_processors, head.managers = 1, len(managers)
    head.managers_at = build.put(np.concatenate(managers))


def used_of(memory: Memory) -> list[int]:
    """Return what the tasks of each task manager have used of its processors, parts of a round."""
    head = memory.head
    found = memory.table(head.managers_at, head.managers, KernelProcessors)
    used: list[int] = found["own"]["used"].tolist()
    return used
