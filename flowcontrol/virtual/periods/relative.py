"""A state relative to its moment: two that are equal are followed by the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.periods.clocks import NANOSECONDS, Flushers, Stretch
from flowcontrol.virtual.periods.layout import Layout
from flowcontrol.virtual.places import Ints


@dataclass(frozen=True)
class Relative:
    """What looks at the states of a stretch.

    Attributes
    ----------
    memory : Memory
        Stopped between two rounds.
    layout : Layout
        Its layout.
    stretch : Stretch
        The rounds in which it is.
    flushers : Flushers
        When these run.
    """

    memory: Memory
    layout: Layout
    stretch: Stretch
    flushers: Flushers

    def state(self, *, flushes: bool) -> list[Ints]:
        """Return the state relative to the present moment.

        Parameters
        ----------
        flushes : bool
            Whether it makes a difference when the flushers run.
        """
        cells, head, layout = self.memory.cells, self.memory.head, self.layout
        now_us = head.round * head.round_us
        found = [cells[layout.levels], work_ahead(self.memory, self.stretch, now_us)]
        found += [cells[grows] - cells[base] for grows, base in layout.pairs]
        moments = cells[layout.moments]
        found += [np.where(moments < 0, moments, moments - now_us)]
        found += [self.stretch.written_in_part(now_us)]
        for rings in layout.rings:
            found += rings.contents(cells, head.round)
        found += layout.runs.contents(cells, head.round)[0]
        return [*found, self.flushers.until_next(now_us)] if flushes else found


def work_ahead(memory: Memory, stretch: Stretch, now_us: int) -> Ints:
    """Return by how much each task is ahead of its rate, and each wire of the clock."""
    tasks = memory.tasks
    ahead: Ints = tasks["ready"].copy()
    ahead[stretch.rated] -= stretch.work_by(now_us)
    wires = tasks["kind"] == f.CONNECTION
    ahead[wires] = np.maximum(0, ahead[wires] - now_us * NANOSECONDS)
    return ahead


def are_equal(one: list[Ints], other: list[Ints]) -> bool:
    """Tell whether two relative states are equal."""
    return len(one) == len(other) and all(map(np.array_equal, one, other))
