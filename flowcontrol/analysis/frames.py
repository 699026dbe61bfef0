"""Turn result tables into panels, or frames, that carry the length of each sample's interval.

Rates, shares and latencies of a sample cover the time since the previous one. Intervals may differ
in length (the last sample is at the end of the run), so every mean over time is weighted by
``interval_s``, the column that this module adds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.analysis.panel import Array, Columns, Panel, Window
from flowcontrol.analysis.panel import mean_over_time as mean_over_time
from flowcontrol.records import RECORD, REQUESTS, RESULTS, TIME
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Tables = Mapping[str, "pa.Table"]
"""The result tables of a run by name: ``stages``, ``channels`` and ``latency``."""


class Panels(Mapping[str, "pa.Table"]):
    """The tables of a run, and the panel of each, which is made once.

    ``tables``: results of a run by table name.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._panels: dict[str, Panel] = {}

    def __getitem__(self, name: str) -> pa.Table:
        """Return a table."""
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the tables."""
        return iter(self._tables)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._tables)

    @cached_property
    def times(self) -> Array:
        """Times of all samples in order, s; the latency table may leave some out."""
        found = [np.zeros(0)]
        for name in (*RESULTS, TIME.name):  # other tables have moments of their own
            if name in self._tables and "t_s" in self._tables[name].column_names:
                times = self._tables[name]["t_s"].to_numpy()
                found.append(times[np.append(True, times[1:] != times[:-1])[: len(times)]])
        return np.unique(np.concatenate(found))

    def panel(self, name: str) -> Panel:
        """Return the rows of a result table with ``interval_s``; see :func:`panel_of`."""
        found = self._panels.get(name)
        if found is None:
            found = self._panels[name] = self._made(name)
        return found

    def _made(self, name: str) -> Panel:
        table = complete_table(self._tables, name)
        times = table["t_s"].to_numpy()
        order: Array | slice = slice(None)
        if not (times[1:] >= times[:-1]).all():
            order = np.argsort(times, kind="stable")

        def read(column: str) -> Array:
            values: Array = table[column].to_numpy()
            return values[order]

        return Panel(read, times[order]).with_columns(interval_s=self.lengths(times[order]))

    def lengths(self, times: Array) -> Array:
        """Return for the times of samples the time since the sample before, the first since 0."""
        found: Array = self._lengths[np.searchsorted(self.times, times)]
        return found

    @cached_property
    def _lengths(self) -> Array:
        return np.diff(self.times, prepend=0.0)


def panels_of(tables: Tables) -> Panels:
    """Return the tables with their panels; themselves if they have them."""
    return tables if isinstance(tables, Panels) else Panels(tables)


def panel_of(tables: Tables, name: str) -> Panel:
    """Return one result table as a panel with the length of its intervals.

    ``tables``: results of a run by table name; a missing table counts as empty. Of :class:`Panels`
    each panel is made once.

    Returns the columns of :mod:`flowcontrol.records` and ``interval_s`` (float64, s, the time since
    the previous sample), ordered by time, otherwise in the order of the table. Raises ValueError if
    a column is missing.
    """
    return panels_of(tables).panel(name)


def complete_table(tables: Tables, name: str) -> pa.Table:
    """Return a result table with the columns that are declared; an empty one if it is missing.

    Raises ValueError if a column is missing.
    """
    expected = {**RESULTS, TIME.name: TIME, REQUESTS.name: REQUESTS}[name]
    table = tables.get(name)
    if table is None:
        table = expected.arrow_schema().empty_table()
    names = table.column_names
    if names == list(expected.names):
        return table
    missing = [column for column in expected.names if column not in names]
    if missing:
        raise ValueError(f"result table {name} lacks {', '.join(missing)}")
    return table.select(list(expected.names))


def result_frame(tables: Tables, name: str) -> pd.DataFrame:
    """Return one result table as a frame of pandas: as :func:`panel_of`, for charts.

    Raises ValueError if a column is missing.
    """
    frame: pd.DataFrame = complete_table(tables, name).to_pandas()
    frame["interval_s"] = panels_of(tables).lengths(frame["t_s"].to_numpy())
    return frame.sort_values("t_s", kind="stable", ignore_index=True)


def in_flight_buffers(channels: Columns, scenario: Scenario) -> Array:
    """Return the buffers released and not yet consumed on each row of the table ``channels``.

    The counters of a stopped job keep their last values, but its data in flight is gone.

    The array has the shape (rows,).
    """
    found: Array = np.asarray(channels["released"]) - np.asarray(channels["consumed"])
    for job in scenario.jobs:
        if job.stop_us is not None:
            edges = [edge.name for edge in scenario.edges if edge.sender in job.stages]
            is_over = np.asarray(channels["t_s"]) > job.stop_us / 1e6
            found = np.where(np.isin(np.asarray(channels["edge"]), edges) & is_over, 0, found)
    return found


def end_of(tables: Tables) -> float:
    """Return the time of the last sample in seconds; 0 when nothing was sampled."""
    times = panels_of(tables).times
    return float(times[-1]) if len(times) else 0.0


def second_half_start(tables: Tables) -> float:
    """Return where the second half of a run starts, in seconds.

    Returns the time of the last sample at or before the middle, so that no interval is split; 0 if
    the first sample is after the middle.
    """
    times, middle = panels_of(tables).times, end_of(tables) / 2
    return float(times[times <= middle].max(initial=0.0))


def means_by(frame: pd.DataFrame, owner: str, column: str) -> dict[int, float]:
    """Return :func:`mean_over_time` of a column for each subtask; ``owner`` numbers them."""
    parts = frame.groupby(owner)
    return {int(str(number)): mean_over_time(part, column) for number, part in parts}


def summed(rows: pd.DataFrame, columns: str | list[str], how: str = "sum") -> pd.DataFrame:
    """Return a row per sample: columns over subtasks or channels, and the interval's length.

    ``rows``: rows of a result table with ``interval_s``.

    Returns ``t_s``, ``interval_s`` and the columns, ordered by time.
    """
    grouped = rows.groupby("t_s")
    frame = grouped[[columns] if isinstance(columns, str) else columns].agg(how)
    frame["interval_s"] = grouped["interval_s"].first()
    return frame.reset_index()


def within(samples: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Return the samples whose interval lies in the window."""
    return samples[(samples["t_s"] > window[0]) & (samples["t_s"] <= window[1])]


def growth_by(
    samples: pd.DataFrame, owner: Sequence[str], columns: Sequence[str], window: Window
) -> pd.DataFrame:
    """Return how much cumulative columns grew in a window, a row per owner.

    - ``samples``: rows of a result table, ordered by time; those before the window are needed too.
    - ``owner``: columns that name who counts: ``["subtask"]``, ``["sender", "receiver"]``.
    - ``columns``: columns of whole numbers that only grow.
    - ``window`` (s): from and until.

    Returns whole numbers, indexed by owner: the last figure at or before the window's end less the
    last one at or before its start, 0 where there was none.
    """
    start, end = (
        samples[samples["t_s"] <= at].groupby(list(owner))[list(columns)].last() for at in window
    )
    return end - start.reindex(end.index, fill_value=0)


def growth(samples: pd.DataFrame, owner: Sequence[str], column: str, window: Window) -> int:
    """Return the growth of a cumulative column in a window, summed over its owners."""
    return int(growth_by(samples, owner, [column], window)[column].sum())


# --- Combine the latencies of many intervals and subtasks into one row.
#
# Counts, means and maxima combine exactly. Percentiles do not: the records behind them are gone.
# What is left of an interval says that half of its records took at most p50, nine tenths at most
# p90, and so on. So each record counts with the *next known figure at or above it*: 50 % of an
# interval's records with its p50, the next 40 % with its p90, the next 9 % with its p99 and the
# last 1 % with its maximum. The percentile of these is never below the true one (but for the
# rounding to whole records within each interval) and never above the maximum; one interval alone
# gives back its own figures.


_QUANTILES = {"p50_ms": 0.50, "p90_ms": 0.90, "p99_ms": 0.99}
_STEPS = (("p50_ms", 0.50), ("p90_ms", 0.40), ("p99_ms", 0.09), ("max_ms", 0.01))
_TOLERANCE = 1e-9
"""Share of all records by which a sum of weights may miss a quantile and still reach it."""


def latency_frame(tables: Tables, kind: str = RECORD) -> pd.DataFrame:
    """Return the rows of the table ``latency`` of one kind.

    - ``tables``: results of a run by table name; a missing table counts as empty.
    - ``kind``: of records, or of latency markers (``marker``).

    As :func:`flowcontrol.analysis.frames.result_frame` returns it.
    """
    frame = result_frame(tables, "latency")
    return frame[frame["kind"] == kind].reset_index(drop=True)


def latency_panel(tables: Tables, kind: str = RECORD) -> Panel:
    """Return the rows of the table ``latency`` of one kind, as :func:`latency_frame`."""
    return panel_of(tables, "latency").of("kind", kind)


def combine_latencies(rows: Columns) -> dict[str, float] | None:
    """Combine rows of the latency table into one.

    ``rows``: rows of :data:`flowcontrol.records.LATENCY`, of any intervals and subtasks.

    Returns ``count`` (records), ``mean_ms`` (weighted by count, exact), ``p50_ms``, ``p90_ms``,
    ``p99_ms`` (upper bounds, see the top of this module) and ``max_ms`` (exact). None when no
    record was taken up.
    """
    count = int(rows["count"].sum())
    if count <= 0:
        return None
    weighted = float((rows["mean_ms"] * rows["count"]).sum())
    combined = {"count": count, "mean_ms": weighted / count}
    combined |= _upper_quantiles(rows)
    combined["max_ms"] = float(rows["max_ms"].max())
    return combined


def _upper_quantiles(rows: Columns) -> dict[str, float]:
    """Return upper bounds of the quantiles, from the steps that each row is made of."""
    counts = np.asarray(rows["count"], np.float64)
    values = np.concatenate([np.asarray(rows[name], np.float64) for name, _ in _STEPS])
    weights = np.concatenate([counts * share for _, share in _STEPS])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / counts.sum()
    last = len(order) - 1
    return {
        name: float(values[order[min(last, int(np.searchsorted(reached, q - _TOLERANCE)))]])
        for name, q in _QUANTILES.items()
    }
