"""How many records of each age sinks took up in a period, and up to each moment in it."""

import numpy as np

from flowcontrol.virtual.cells import dtype
from flowcontrol.virtual.fields import Age
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.tables import Log

_SPAN = 1 << 40
"""More than any age, rounds."""


class AgesOfPeriod:
    """The ages that a period logs; all that it does repeats them.

    Parameters
    ----------
    logs : list of ndarray of Age
        What was logged in the period, in any order.

    Attributes
    ----------
    whole : ndarray of int64
        How many records there are of each age of each task.
    """

    def __init__(self, logs: list[Log]) -> None:
        log = np.concatenate([np.zeros(0, dtype(Age)), *logs])
        self._keys = np.unique(_key(log))
        self.whole = self.counted(log)

    def counted(self, log: Log) -> Ints:
        """Return how many records a log has of each age that comes up."""
        places = np.searchsorted(self._keys, _key(log))
        counts = np.zeros(len(self._keys), np.int64)
        np.add.at(counts, places, log["count"])
        return counts

    def log(self, counts: Ints) -> Log:
        """Return a log with so many records of each age."""
        found = np.flatnonzero(counts)
        log = np.zeros(len(found), dtype(Age))
        log["task"], log["age"] = np.divmod(self._keys[found], _SPAN)
        log["count"] = counts[found]
        return log


def _key(log: Log) -> Ints:
    key: Ints = log["task"] * _SPAN + log["age"]
    return key
