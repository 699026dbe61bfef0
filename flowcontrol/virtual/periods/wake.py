"""All tasks put on the wheel for the next round, as before the first one."""

import numpy as np

from flowcontrol.protocol.rows import WORD
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory


def wake_all(memory: Memory) -> None:
    """Have every task looked at in the next round, whatever it was to be looked at for.

    The wheel says when there is something to do; a task that is looked at before does nothing.
    So a state that is put into the memory needs no plans, and each task makes its own anew.
    """
    head, tasks = memory.head, memory.tasks
    tasks["next"] = np.arange(2, len(tasks) + 2)
    tasks["next"][-1:] = 0
    tasks["previous"] = np.arange(len(tasks))
    tasks["wake"] = head.round
    memory.partitions["flush_at"] = 0
    slot = head.round % f.WHEEL_SLOTS
    for at, cells, place, value in (
        (head.wheel, f.WHEEL_SLOTS, slot, 1),
        (head.wheel_bits, f.WHEEL_SLOTS // WORD, slot // WORD, 1 << (slot % WORD)),
    ):
        memory.cells[at : at + cells] = 0
        memory.cells[at + place] = value
