"""Local pools that share the global pool of their task manager, as those of several jobs do.

What a pool gives back another one may take in the same round, so the order of tasks within a
round matters here: it is that of the scenario.
"""

from __future__ import annotations

from flowcontrol.protocol.pool_rules import fetch_segment
from flowcontrol.protocol.rows import Row
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import JOBS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.views import (
    gate_row,
    global_pool,
    partition_row,
    task_row,
)
from flowcontrol.virtual.wheel import wake


@part_of(JOBS)
def in_order(m: KernelMemory, active: Row, count: int) -> None:
    """Sort the first ``count`` tasks of a list; most of them stand in order already."""
    for i in range(1, count):
        task = active[i]
        j = i - 1
        while j >= 0 and active[j] > task:
            active[j + 1] = active[j]
            j -= 1
        active[j + 1] = task


@part_of(JOBS)
def serve_waiting(m: KernelMemory, now: int) -> None:
    """Let pools without a free segment fetch one that others gave back in this round.

    ``LocalBufferPool.onGlobalPoolAvailable``: partitions first, then gates. A partition that is
    available again has its task looked at in the next round.
    """
    for i in range(m.partitions):
        p = partition_row(m, i)
        got = fetch_segment(p.pool, global_pool(m, p.global_at))
        if got == 1 and task_row(m, p.task).status != f.ABSENT:
            wake(m, p.task, now + 1)
    for i in range(m.gates):
        g = gate_row(m, i)
        fetch_segment(g.pool, global_pool(m, g.global_at))
