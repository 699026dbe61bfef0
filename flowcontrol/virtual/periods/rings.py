"""Queues in the memory, oldest first: where in its ring one begins makes no difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowcontrol.protocol import rows as w
from flowcontrol.protocol.motions import Motion, cells_of_motion
from flowcontrol.protocol.rings import FIRST_SPAN
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import Ring
from flowcontrol.virtual.cells import slot_cells
from flowcontrol.virtual.fields import KernelRing
from flowcontrol.virtual.places import Ints

_PLACE, _ROOM = cell(KernelRing, "place"), cell(KernelRing, "room")


Area = tuple[Ints, Ints, Ints]
"""Where the slots of some queues begin, how many each has there, and the numbers of the queues."""


@dataclass(frozen=True)
class Rings:
    """Queues of one kind.

    Attributes
    ----------
    at : ndarray of int64, shape (queues,)
        Where each begins.
    most : ndarray of int64, shape (queues,)
        What each may hold.
    cls : type or None
        What is queued; None: plain integers.
    sent : ndarray of int64, shape (queues,)
        Of queues of credits: where the messages of each one's channel are counted.
    areas : list of Area or None
        All places of the slots of channels' rings. Of other queues they stand behind the ends.
    """

    at: Ints
    most: Ints
    cls: type[Any] | None = None
    sent: Ints | None = None
    areas: list[Area] | None = None

    @classmethod
    def of_channels(cls, cells: Ints, at: Ints, most: Ints, kind: type[Any]) -> Rings:
        """Return the queues of channels; their slots may move to their rooms from now on."""
        place, room = at + cells[at + _PLACE], at + cells[at + _ROOM]
        stay = np.flatnonzero(place != room)
        first = place[stay], np.minimum(FIRST_SPAN, most[stay]), stay
        return cls(at, most, kind, areas=[(room, most, np.arange(len(at))), first])

    @property
    def _each(self) -> int:
        if self.cls is None:
            return 1
        return width(self.cls) if self.areas is None else slot_cells(self.cls)

    @property
    def _ends(self) -> tuple[int, int, int]:
        """Cells of the oldest's place, of the count, and of the ends."""
        if self.cls is None:
            return w.FIFO_HEAD, w.FIFO_COUNT, w.FIFO_SLOTS
        ends = width(Ring) if self.areas is None else width(KernelRing)
        return cell(Ring, "head"), cell(Ring, "count"), ends

    @property
    def _areas(self) -> list[Area]:
        if self.areas is not None:
            return self.areas
        return [(self.at + self._ends[2], self.most, np.arange(len(self.at)))]

    def cells(self) -> Ints:
        """Return all cells that they take."""
        ends = self.at[:, None] + np.arange(self._ends[2])
        slots = [
            np.repeat(first, counts * self._each) + _counted(counts * self._each)
            for first, counts, _ in self._areas
        ]
        return np.concatenate([ends.ravel(), *slots])

    def of_motion(self, motion: Motion) -> tuple[Ints, Ints]:
        """Return the cells in all places that move in one way, and the number of each one's queue.

        Parameters
        ----------
        motion : Motion
            The way.
        """
        offsets = [] if self.cls is None else cells_of_motion(self.cls, motion)
        found, queues = [], []
        for first, counts, numbers in self._areas:
            slots = np.repeat(first, counts) + _counted(counts) * self._each
            found.append((slots[:, None] + np.array(offsets, np.int64)).ravel())
            queues.append(np.repeat(np.repeat(numbers, counts), len(offsets)))
        return np.concatenate(found), np.concatenate(queues)

    def _first_slots(self, cells: Ints) -> Ints:
        """Return where the slots of each are now."""
        return self.at + (self._ends[2] if self.areas is None else cells[self.at + _PLACE])

    def _spans(self, cells: Ints) -> Ints:
        """Return how many slots each goes round in."""
        if self.cls is None:
            return self.most
        found: Ints = cells[self.at + cell(Ring, "span")]
        return found

    def contents(self, cells: Ints, now: int) -> list[Ints]:
        """Return how much is in each, and what, oldest first, relative to the moment.

        Parameters
        ----------
        cells : ndarray of int64
            The memory.
        now : int
            The next round.
        """
        head, count, _ = self._ends
        counts = cells[self.at + count]
        queues = np.repeat(np.arange(len(self.at)), counts)
        places = (cells[self.at + head][queues] + _counted(counts)) % self._spans(cells)[queues]
        slots = self._first_slots(cells)[queues] + places * self._each
        found = cells[slots[:, None] + np.arange(1 if self.cls is None else width(self.cls))]
        if self.cls is not None:
            found[:, cells_of_motion(self.cls, Motion.ROUND)] -= now
            if self.sent is not None:
                offsets = cells_of_motion(self.cls, Motion.CREDITS)
                found[:, offsets] -= cells[self.sent[queues]][:, None]
        return [counts, found.ravel()]


def _counted(lengths: Ints) -> Ints:
    """Return 0, 1, 2 ... as far as each length says, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - lengths, lengths)
