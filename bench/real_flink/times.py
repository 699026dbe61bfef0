"""Event time of a run on Flink: the tables ``time`` and ``output/STAGE``, and figures of both runs.

Watermarks and late records are Flink's metrics. What no metric says, the program counts: windows
that are open, results, and for how long sources wait for others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from flowcontrol.records import TABLES
from flowcontrol.results.windows import table_name
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.stage_models import Stage

Figure = tuple[tuple[str, str, str], float]
"""Place, figure, unit; and the value."""

EARLY_S = 0.3
"""As of `beside`: a sample so little after a phase belongs to it."""

_NONE = 2.0**62
"""Watermarks beyond this, either way, are Flink's smallest and largest ones."""

_NO_BOUND = 2**63 - 1


def metrics(stages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the metrics of operators that a job with event time is asked for."""
    if not any(stage["have_ids"] for stage in stages):
        return []
    names = [stage["name"] for stage in stages]
    found = [f"Source__{name}.currentOutputWatermark" for name in names]
    found += [f"{name}.currentInputWatermark" for name in names]
    own = ("numRecordsOut", "numLateRecordsDropped")
    return found + [f"{name}_window.{metric}" for name in names for metric in own]


def time_table(
    readings: Sequence[tuple[float, Mapping[tuple[str, int], Mapping[str, float]]]],
    scenario: Scenario,
    windows: Sequence[Mapping[str, Any]],
    pauses: Sequence[Mapping[str, Any]],
) -> pa.Table:
    """Return the table ``time``; Flink has no metric of what is idle.

    Parameters
    ----------
    readings : sequence
        The moment of each poll, s, and the metrics of each subtask, by the head of its task.
    scenario : Scenario
        What ran.
    windows, pauses : sequence of mapping
        What the program has counted at its samples, of each subtask.
    """
    held, waited = _series(windows), _series(pauses)
    rows = []
    before: dict[tuple[str, int], tuple[float, float]] = {}
    for at_s, found in readings:
        for stage in scenario.stages:
            for subtask in range(stage.parallelism):
                place = (stage.name, subtask)
                own = found.get((_head(scenario, stage.name), subtask), {})
                window = _at(held, place, at_s)
                moment, paused = _paused(waited, place, at_s)
                last, paused_by = before.get(place, (0.0, 0.0))
                before[place] = (moment, paused)
                mark_s = _watermark_s(own, scenario, stage)
                rows.append(
                    {
                        "t_s": at_s,
                        "stage": stage.name,
                        "subtask": subtask,
                        "watermark_s": mark_s,
                        "watermark_lag_ms": None if mark_s is None else 1000 * (at_s - mark_s),
                        "paused_ms_per_s": (paused - paused_by) / max(moment - last, 1e-9),
                        "late_records": int(
                            own.get(f"{stage.name}_window.numLateRecordsDropped", 0)
                        ),
                        "open_windows": window.get("open_windows", 0),
                        "window_state_bytes": _state_bytes(stage, window),
                        "fired": window.get("fired", 0),
                    }
                )
    return pa.Table.from_pylist(rows, _schema("time"))


def _schema(name: str) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in TABLES[name].arrow_schema()])


def _head(scenario: Scenario, name: str) -> str:
    """As `placing.head_of`, which is told of chained edges."""
    for edge in scenario.inputs(name):
        if edge.chain:
            return _head(scenario, edge.sender)
    return name


def _series(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
    found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["stage"], row["subtask"]), []).append(row)
    return found


def _at(
    series: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
    place: tuple[str, int],
    at_s: float,
) -> Mapping[str, Any]:
    """Return the sample of the program that is nearest to a poll; empty: it has none."""
    return min(series.get(place, ()), key=lambda row: abs(row["t_s"] - at_s), default={})


def _paused(
    series: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]],
    place: tuple[str, int],
    at_s: float,
) -> tuple[float, float]:
    own = _at(series, place, at_s)
    return own.get("t_s", at_s), own.get("paused_ms", 0.0)


def _watermark_s(own: Mapping[str, float], scenario: Scenario, stage: Stage) -> float | None:
    """Return a source's own watermark, otherwise that of its inputs; None: there is none."""
    key = f"{stage.name}.currentInputWatermark"
    if not scenario.inputs(stage.name):
        key = f"Source__{stage.name}.currentOutputWatermark"
    ms = own.get(key)
    return None if ms is None or abs(ms) > _NONE else ms / 1000


def _state_bytes(stage: Stage, window: Mapping[str, Any]) -> int:
    each = 0 if stage.window is None else stage.window.bytes_per_key
    return each * window.get("open_windows", 0)


def result_tables(
    scenario: Scenario, results: Mapping[str, Sequence[Sequence[Any]]]
) -> dict[str, pa.Table]:
    """Return the tables ``output/STAGE``, in the order in which results were put out.

    Parameters
    ----------
    scenario : Scenario
        What ran.
    results : mapping
        By ``stage/subtask``: start and end, ms, key, records, and when it was put out, s.
    """
    found = {}
    for stage in scenario.stages:
        if stage.window is None:
            continue
        own = [
            row for name, rows in results.items() if _stage_of(name) == stage.name for row in rows
        ]
        own.sort(key=lambda row: row[4])
        [count] = [name for name, text in stage.window.aggregate.items() if text == "count"]
        columns = {
            "window_start": [_seconds(row[0]) for row in own],
            "window_end": [_seconds(row[1]) for row in own],
            "key": [row[2] for row in own],
            count: [row[3] for row in own],
            "emitted_s": [row[4] for row in own],
        }
        found[table_name(stage.name)] = pa.table(columns)
    return found


def _stage_of(subtask: str) -> str:
    return subtask.rpartition("/")[0]


def _seconds(ms: int) -> float | None:
    return None if ms == _NO_BOUND else ms / 1000


def figures(
    scenario: Scenario, tables: Mapping[str, pa.Table], window: tuple[float, float]
) -> Iterator[Figure]:
    """Yield the figures of event time of a run over a phase: means of samples, rates, delays."""
    if "time" in tables:
        yield from _samples(scenario, _within(tables["time"].to_pandas(), "t_s", window))
    for stage in scenario.topological():
        if stage.window is not None and table_name(stage.name) in tables:
            own = tables[table_name(stage.name)].to_pandas()
            yield from _results(stage, own, window)


def _within(rows: pd.DataFrame, column: str, window: tuple[float, float]) -> pd.DataFrame:
    begin, end = (moment + EARLY_S for moment in window)
    return rows[(rows[column] > begin) & (rows[column] <= end)]


def _samples(scenario: Scenario, inside: pd.DataFrame) -> Iterator[Figure]:
    for stage in scenario.topological():
        own = inside[inside["stage"] == stage.name]
        lag = own["watermark_lag_ms"].dropna()
        if len(lag):
            yield (stage.name, "watermark lag", "ms"), float(lag.mean())
        if stage.watermark is not None and stage.watermark.alignment is not None:
            yield (stage.name, "paused", "ms/s"), float(own["paused_ms_per_s"].mean())
        if stage.window is not None:
            sums = own.groupby("t_s")[["open_windows", "late_records"]].sum()
            late, length_s = sums["late_records"], sums.index[-1] - sums.index[0]
            yield (stage.name, "open windows", "windows"), float(sums["open_windows"].mean())
            yield (stage.name, "late", "1/s"), float((late.iloc[-1] - late.iloc[0]) / length_s)


def _results(stage: Stage, own: pd.DataFrame, window: tuple[float, float]) -> Iterator[Figure]:
    begin, end = window
    inside = own[(own["emitted_s"] > begin) & (own["emitted_s"] <= end)]
    if not len(inside):
        return
    yield (stage.name, "results", "1/s"), len(inside) / (end - begin)
    yield (stage.name, "in a result", "records"), float(inside[_count(stage)].mean())
    delay_ms = 1000 * (inside["emitted_s"] - inside["window_end"]).dropna()
    if len(delay_ms):
        yield (stage.name, "delay p50", "ms"), float(delay_ms.median())
        yield (stage.name, "delay p99", "ms"), float(delay_ms.quantile(0.99))


def _count(stage: Stage) -> str:
    assert stage.window is not None
    return next(name for name, text in stage.window.aggregate.items() if text == "count")


def alike(
    scenario: Scenario, measured: Mapping[str, pa.Table], emulated: Mapping[str, pa.Table]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield of each stage with exact windows how many both runs have closed, and how many alike.

    A window of a key is alike if its last result counts as many records.
    """
    for stage in scenario.topological():
        name = table_name(stage.name)
        if is_exact(scenario, stage) and name in measured and name in emulated:
            both = [tables[name].to_pandas() for tables in (measured, emulated)]
            yield stage.name, _compared(stage, both)


def is_exact(scenario: Scenario, stage: Stage) -> bool:
    """Tell whether the results of a window follow from the scenario alone.

    Its sources read logs, so that event times do not depend on when they are read; and no record
    can come too late.
    """
    if stage.window is None or stage.window.kind == "global":
        return False
    if stage.window.trigger != "event_time" or not stage.window.accumulate:
        return False
    lateness_s = stage.window.allowed_lateness_s
    for source in scenario.sources_of(stage.name):
        times, marks = source.event_time, source.watermark
        if source.arrival_rate is None or times is None or marks is None:
            return False
        spread_s = max(times.out_of_orderness_s)
        if marks.idle_after_s is not None or (spread_s and times.distribution != "uniform"):
            return False
        if spread_s > marks.delay_s + lateness_s:
            return False
    return True


def _compared(stage: Stage, both: Sequence[pd.DataFrame]) -> tuple[float, float]:
    assert stage.window is not None
    lateness_s = float(stage.window.allowed_lateness_s)
    until_s = min(own["window_end"].max() for own in both) - lateness_s
    last = [
        own[own["window_end"] < until_s]
        .groupby(["key", "window_start", "window_end"])[_count(stage)]
        .last()
        for own in both
    ]
    joined = pd.concat(last, axis=1, keys=("measured", "emulated"))
    same = joined["measured"] == joined["emulated"]
    return float(len(joined)), float(same.sum())
