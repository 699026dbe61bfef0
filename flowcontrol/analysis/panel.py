"""Rows of a result table as plain arrays, ordered by time: sums, means, growth.

A sweep summarises thousands of small tables, and there a frame of pandas costs a hundred times what
its sums do. A :class:`Panel` has columns of numpy, taken from the table when they are asked for.
Nothing here relies on a table having the same rows in each sample: jobs stop, a run is interrupted,
a controller changes how many subtasks there are. A group of rows, those of a sample or those of a
subtask, is a stretch of an order of the rows; where each sample has one row that order is the
table's own and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]

Window = tuple[float, float]
"""From (exclusive) until (inclusive), in emulated seconds, as the interval of a sample is."""

INTERVAL: Final = "interval_s"
"""The column that every panel has besides those of its table: time since the sample before, s."""

_HOW: Final = {"sum": np.add, "max": np.maximum}


class Columns(Protocol):
    """What has columns by name: a panel, or a frame of pandas."""

    def __getitem__(self, name: str, /) -> Any:
        """Return a column."""


def mean_over_time(rows: Columns, column: str) -> float:
    """Return the mean of a column, each row weighted by the length of its interval.

    ``rows``: rows with ``interval_s``; rows of one sample (subtasks) have equal weight.

    Returns the mean; 0 if the rows cover no time.
    """
    weight = float(rows[INTERVAL].sum())
    if weight <= 0:
        return 0.0
    return float((rows[column] * rows[INTERVAL]).sum()) / weight


@dataclass(frozen=True)
class Groups:
    """Rows in groups, each in the order of time."""

    order: Array | slice  # The rows, those of each group together
    starts: Array  # Where each group begins in that order (shape (groups,))

    def reduced(self, values: Array, how: Literal["sum", "max"] = "sum") -> Array:
        """Return one value a group; rows are the last axis of ``values``."""
        ordered = values[..., self.order]
        if len(self.starts) == ordered.shape[-1]:
            return ordered
        found: Array = _HOW[how].reduceat(ordered, self.starts, axis=-1)
        return found

    def first(self, values: Array) -> Array:
        """Return the value of each group's first row."""
        return values[self.order][self.starts]


class Panel:
    """Rows of a result table, ordered by time.

    - ``read``: returns a column by its name, shape (rows,); called once for each that is asked for.
    - ``times`` (s): column ``t_s``, in order.
    """

    def __init__(self, read: Callable[[str], Array], times: Array) -> None:
        self._read = read
        self._columns: dict[str, Array] = {"t_s": times}
        self._parts: dict[tuple[str, Any], Panel] = {}
        self._groups: dict[tuple[str, ...], Groups] = {}

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> Panel:
        """Return the rows of a frame of pandas that are ordered by time."""
        return cls(lambda name: frame[name].to_numpy(), frame["t_s"].to_numpy())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._columns["t_s"])

    def __getitem__(self, name: str) -> Array:
        """Return a column, shape (rows,)."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._read(name)
        return found

    def matrix(self, names: Sequence[str]) -> Array:
        """Return columns as float64, shape (columns, rows)."""
        return np.array([self[name] for name in names], np.float64)

    def with_columns(self, **columns: Array) -> Panel:
        """Return the same rows with further columns."""
        found = Panel(self.__getitem__, self["t_s"])
        found._columns |= columns
        return found

    def take(self, rows: Array | slice) -> Panel:
        """Return some of the rows: a mask, a slice, or numbers that rise; itself if it is all."""
        times = self["t_s"][rows]
        return self if len(times) == len(self) else Panel(lambda name: self[name][rows], times)

    def of(self, column: str, value: Any) -> Panel:
        """Return the rows that have a value in a column; made once."""
        key = (column, value)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = self.take(np.flatnonzero(self[column] == value))
        return found

    def among(self, column: str, values: Collection[Any]) -> Panel:
        """Return the rows that have one of some values in a column."""
        is_one = set(values).__contains__
        return self.take(np.fromiter(map(is_one, self[column].tolist()), bool, len(self)))

    def within(self, window: Window) -> Panel:
        """Return the samples whose interval lies in a window; made once."""
        found = self._parts.get(("t_s", window))
        if found is None:
            first, last = self["t_s"].searchsorted(window, "right")
            found = self._parts["t_s", window] = self.take(slice(first, last))
        return found

    @cached_property
    def samples(self) -> Groups:
        """The rows of each sample."""
        times = self["t_s"]
        starts = np.flatnonzero(np.append(True, times[1:] != times[:-1])[: len(times)])
        return Groups(slice(None), starts)

    def by(self, *columns: str) -> Groups:
        """Return the rows by owner, ordered by the values of some columns of numbers; made once."""
        found = self._groups.get(columns)
        if found is None:
            found = self._groups[columns] = self._by(columns)
        return found

    def _by(self, columns: Sequence[str]) -> Groups:
        keys = [self[name] for name in reversed(columns)]
        if all((key == key[:1]).all() for key in keys):  # as of a stage with one subtask
            return Groups(slice(None), np.zeros(min(1, len(self)), np.int64))
        order = np.lexsort(keys)
        differ = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys])
        return Groups(order, np.flatnonzero(np.append(True, differ)))

    def means(self, names: Sequence[str]) -> dict[str, float]:
        """Return :func:`mean_over_time` of several columns by name."""
        weight = float(self[INTERVAL].sum())
        if weight <= 0:
            return dict.fromkeys(names, 0.0)
        sums = (self.matrix(names) * self[INTERVAL]).sum(axis=1)
        return dict(zip(names, (sums / weight).tolist(), strict=True))

    def means_by(self, owner: str, names: Sequence[str]) -> dict[int, list[float]]:
        """Return the means of several columns for each owner; ``owner`` numbers them."""
        groups, lengths = self.by(owner), self[INTERVAL]
        weights = groups.reduced(lengths)
        sums = groups.reduced(self.matrix(names) * lengths)
        means = np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0)
        return dict(zip(groups.first(self[owner]).tolist(), means.T.tolist(), strict=True))

    def per_sample(self, names: Sequence[str], how: Literal["sum", "max"] = "sum") -> Panel:
        """Return a row a sample: sums or maxima over its rows, and the interval's length."""
        groups = self.samples
        if len(groups.starts) == len(self):
            return self
        found = {name: groups.reduced(self[name], how) for name in names}
        lengths = groups.first(self[INTERVAL])
        return Panel(found.__getitem__, groups.first(self["t_s"])).with_columns(
            **{INTERVAL: lengths}
        )

    def growth(
        self, owner: Sequence[str], names: Sequence[str], window: Window
    ) -> tuple[Groups, list[Array]]:
        """Return how much cumulative columns grew in a window.

        - ``owner``: columns that name who counts: ``["subtask"]``, ``["sender", "receiver"]``.
        - ``names``: columns of whole numbers that only grow.
        - ``window`` (s): from and until. Rows before it are needed too.

        Returns the rows by owner, and of each column its growth, shape (owners,): the last figure
        at or before the window's end less the last one at or before its start, or 0.
        """
        groups = self.by(*owner)
        counts = groups.reduced((self["t_s"] <= np.array(window)[:, None]).astype(np.int64))
        last = groups.starts + np.maximum(counts, 1) - 1
        values = np.array([self[name] for name in names])[:, groups.order][:, last]
        start, end = (values * (counts > 0)).swapaxes(0, 1)
        return groups, list(end - start)
