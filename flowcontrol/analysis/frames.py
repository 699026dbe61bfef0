"""Turn result tables into frames that carry the length of each sample's interval.

Rates, shares and latencies of a sample cover the time since the previous one. Intervals may differ
in length (the last sample is at the end of the run), so every mean over time is weighted by
``interval_s``, the column that this module adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from flowcontrol.records import RESULTS, TIME
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Tables = Mapping[str, "pa.Table"]
"""The result tables of a run by name: ``stages``, ``channels`` and ``latency``."""


def result_frame(tables: Tables, name: str) -> pd.DataFrame:
    """Return one result table as a frame with the length of its intervals.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        Results of a run by table name; a missing table counts as empty.
    name : {"stages", "channels", "latency", "time"}
        Name of the table.

    Returns
    -------
    pandas.DataFrame
        The columns of :mod:`flowcontrol.records` and ``interval_s`` (float64, s, the
        time since the previous sample), ordered by time, otherwise in the order of the table.

    Raises
    ------
    ValueError
        If a column is missing.
    """
    expected = TIME if name == TIME.name else RESULTS[name]
    table = tables.get(name)
    if table is None:
        table = expected.arrow_schema().empty_table()
    missing = [column for column in expected.names if column not in table.column_names]
    if missing:
        raise ValueError(f"result table {name} lacks {', '.join(missing)}")
    frame: pd.DataFrame = table.select(list(expected.names)).to_pandas()
    lengths = _interval_lengths(_sample_times(tables))
    frame["interval_s"] = frame["t_s"].map(lengths).astype("float64")
    return frame.sort_values("t_s", kind="stable", ignore_index=True)


def _sample_times(tables: Tables) -> list[float]:
    """Return the times of all samples in order; the latency table may leave some out."""
    times: set[float] = set()
    for name in (*RESULTS, TIME.name):  # other tables have moments of their own
        if name in tables and "t_s" in tables[name].column_names:
            times.update(tables[name]["t_s"].unique().to_pylist())
    return sorted(times)


def _interval_lengths(times: Sequence[float]) -> dict[float, float]:
    """Return for each sample the time since the sample before, the first one's since 0."""
    return {at: at - before for before, at in zip([0.0, *times], times, strict=False)}


def in_flight_buffers(channels: pd.DataFrame, scenario: Scenario) -> pd.Series[int]:
    """Return the buffers released and not yet consumed on each row of the table ``channels``.

    Notes
    -----
    The counters of a stopped job keep their last values, but its data in flight is gone.
    """
    found = channels["released"] - channels["consumed"]
    for job in scenario.jobs:
        if job.stop_us is not None:
            edges = [edge.name for edge in scenario.edges if edge.sender in job.stages]
            is_gone = channels["edge"].isin(edges) & (channels["t_s"] > job.stop_us / 1e6)
            found = found.mask(is_gone, 0)
    return found


def end_of(tables: Tables) -> float:
    """Return the time of the last sample in seconds; 0 when nothing was sampled."""
    return max(_sample_times(tables), default=0.0)


def second_half_start(tables: Tables) -> float:
    """Return where the second half of a run starts, in seconds.

    Returns
    -------
    float
        Time of the last sample at or before the middle, so that no interval is split; 0 if the
        first sample is after the middle.
    """
    middle = end_of(tables) / 2
    return max((at for at in _sample_times(tables) if at <= middle), default=0.0)


def mean_over_time(frame: pd.DataFrame, column: str) -> float:
    """Return the mean of a column, each row weighted by the length of its interval.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows with ``interval_s``; rows of one sample (subtasks) have equal weight.
    column : str
        Name of a numeric column.

    Returns
    -------
    float
        The mean; 0 if the frame covers no time.
    """
    weight = float(frame["interval_s"].sum())
    if weight <= 0:
        return 0.0
    return float((frame[column] * frame["interval_s"]).sum()) / weight


def means_by(frame: pd.DataFrame, owner: str, column: str) -> dict[int, float]:
    """Return :func:`mean_over_time` of a column for each subtask; ``owner`` numbers them."""
    parts = frame.groupby(owner)
    return {int(str(number)): mean_over_time(part, column) for number, part in parts}


def summed(rows: pd.DataFrame, columns: str | list[str], how: str = "sum") -> pd.DataFrame:
    """Return a row per sample: columns over subtasks or channels, and the interval's length.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of a result table with ``interval_s``.
    columns : str or list of str
        Columns of numbers.
    how : {"sum", "mean", "max", "min", "median"}, default "sum"
        How the rows of one sample become one.

    Returns
    -------
    pandas.DataFrame
        ``t_s``, ``interval_s`` and the columns, ordered by time.
    """
    grouped = rows.groupby("t_s")
    frame = grouped[[columns] if isinstance(columns, str) else columns].agg(how)
    frame["interval_s"] = grouped["interval_s"].first()
    return frame.reset_index()
