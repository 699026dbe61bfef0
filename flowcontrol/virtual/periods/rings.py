"""Queues in the memory, oldest first: where in its ring one begins makes no difference."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowcontrol.protocol import rows as w
from flowcontrol.protocol.motions import Motion, cells_of_motion
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import Ring
from flowcontrol.virtual.places import Ints


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
    """

    at: Ints
    most: Ints
    cls: type[Any] | None = None
    sent: Ints | None = None

    @property
    def _each(self) -> int:
        return 1 if self.cls is None else width(self.cls)

    @property
    def _ends(self) -> tuple[int, int, int]:
        """Cells of the oldest's place, of the count, and the first of what is queued."""
        if self.cls is None:
            return w.FIFO_HEAD, w.FIFO_COUNT, w.FIFO_SLOTS
        return cell(Ring, "head"), cell(Ring, "count"), width(Ring)

    def length(self, most: int) -> int:
        """Return how many cells a queue has that may hold so much."""
        return self._ends[2] + most * self._each

    def cells(self) -> Ints:
        """Return all cells that they take."""
        lengths = self._ends[2] + self.most * self._each
        return np.repeat(self.at, lengths) + _counted(lengths)

    def of_motion(self, motion: Motion) -> tuple[Ints, Ints]:
        """Return the cells in all places that move in one way, and the number of each one's queue.

        Parameters
        ----------
        motion : Motion
            The way.
        """
        offsets = [] if self.cls is None else cells_of_motion(self.cls, motion)
        first = np.repeat(self.at + self._ends[2], self.most) + _counted(self.most) * self._each
        found = (first[:, None] + np.array(offsets, np.int64)).ravel()
        queues = np.repeat(np.repeat(np.arange(len(self.at)), self.most), len(offsets))
        return found, queues

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
        head, count, first = self._ends
        counts = cells[self.at + count]
        queues = np.repeat(np.arange(len(self.at)), counts)
        places = (cells[self.at + head][queues] + _counted(counts)) % self._spans(cells)[queues]
        slots = self.at[queues] + first + places * self._each
        found = cells[slots[:, None] + np.arange(self._each)]
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
