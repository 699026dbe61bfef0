"""What is taken of the memory at a sample: the cells of some fields, in one operation.

A field of states that stand one behind the other is a view of the memory, so where its cells are
follows from the view, however the states are laid out. Taking all of them at once costs two
microseconds; a column of its own for each, with what is worked out of it, cost a run of a minute
twenty times what its rounds did. So columns are worked out later, of many samples at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def places_in(cells: Ints, view: Any) -> Ints:
    """Return which cells of the memory a view of one of its fields shows, shape (states,)."""
    first = view.__array_interface__["data"][0] - cells.__array_interface__["data"][0]
    step = view.strides[0] if len(view) else 0
    found: Ints = first // cells.itemsize + np.arange(len(view)) * (step // cells.itemsize)
    return found


class Gathered:
    """Cells that samples are made of.

    Parameters
    ----------
    cells : ndarray of int64
        The memory.
    places : mapping of str to ndarray of int64
        By name, which cells.
    """

    def __init__(self, cells: Ints, places: Mapping[str, Ints]) -> None:
        self._cells = cells
        self._at = np.concatenate([np.zeros(0, np.int64), *places.values()])
        ends = np.cumsum([len(own) for own in places.values()]).tolist()
        self._parts = {
            name: slice(end - len(own), end)
            for (name, own), end in zip(places.items(), ends, strict=True)
        }

    def take(self) -> Ints:
        """Return the present values."""
        return self._cells.take(self._at)

    def columns(self, samples: Iterable[Ints]) -> dict[str, Ints]:
        """Return the values of some samples by name, each of shape (samples, cells)."""
        values = np.array(list(samples))
        return {name: values[:, part] for name, part in self._parts.items()}
