"""Records in flight, channel by channel: which of the runs hold them makes no difference."""

from dataclasses import dataclass

import numpy as np

from flowcontrol.protocol.state import cell, width
from flowcontrol.virtual.fields import Run
from flowcontrol.virtual.places import Ints


@dataclass(frozen=True)
class Runs:
    """The lists of runs in a memory.

    Attributes
    ----------
    heads : ndarray of int64, shape (lists,)
        Cells that say which run of each list is the oldest.
    at : int
        Where the runs begin.
    """

    heads: Ints
    at: int

    def contents(self, cells: Ints, now: int) -> tuple[list[Ints], Ints]:
        """Return what is in the lists relative to the moment, and where the rounds of it are.

        Parameters
        ----------
        cells : ndarray of int64
            The memory.
        now : int
            The next round.

        Returns
        -------
        list of ndarray of int64
            Of the oldest run of each list, then of the second ones, and so on: whose they are, and
            each field.
        ndarray of int64
            Cells with the rounds in which all these were emitted.
        """
        lists = np.arange(len(self.heads))
        found: list[Ints] = []
        rounds = [np.zeros(0, np.int64)]
        following = cells[self.heads]
        while True:
            lists, following = lists[following > 0], following[following > 0]
            if len(lists) == 0:
                return found, np.concatenate(rounds)
            places = self.at + (following - 1) * width(Run)
            rounds.append(places + cell(Run, "round"))
            fields = [cells[places + cell(Run, name)] for name in ("count", "stamp", "kind")]
            found += [lists, cells[rounds[-1]] - now, *fields]
            following = cells[places + cell(Run, "next")]
