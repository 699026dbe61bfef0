"""Replayed rows in windows on the virtual clock: times, keys and values are those of the rows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from flowcontrol.analysis.event_time import time_frame
from flowcontrol.layout.job import Job
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")
rows_in_windows = load("tests/job/rows_in_windows.py")

EPOCH_MS = 1_356_998_400_000
COUNT = 400


def rows(seed: int = 1) -> pd.DataFrame:
    """Some out of order by up to 0.2 s, some without a key or a value."""
    draw = np.random.default_rng(seed)
    at = EPOCH_MS + 10 * np.arange(COUNT) - draw.integers(0, 200, COUNT)
    return pd.DataFrame(
        {
            "at": at,
            "city": draw.choice(np.array(["Rome", "Bonn", "Oslo", None], object), COUNT),
            "size": pd.array(draw.choice([3, 7, -7, None], COUNT), "Int64"),
            "price": draw.choice([0.1, 2.25, -3.5, np.nan], COUNT),
        }
    )


def replay(
    made: ModuleType, folder: Path, given: pd.DataFrame, window: dict[str, Any], **more: Any
) -> Job:
    path = made.write(folder, **{name: given[name].array for name in given})
    source = made.source(path, emit_rate=250, watermark={"delay_s": 0.2})
    count = {**made.window(**window), **more.pop("count", {})}
    stages = {"source": source, "count": count, "sink": more.pop("sink", {})}
    into = more.pop("into", None)
    edges = {"source->count": into, "count->sink": {"partitioner": "rebalance"}}
    return made.job(stages, edges, **more)


def results(job: Job) -> pd.DataFrame:
    """Results in order of window and key."""
    found = run_job(job).tables["output/count"].to_pandas().drop(columns="emitted_s")
    return found.sort_values(["window_start", "key"], ignore_index=True)


def grouped(given: pd.DataFrame, column: str, functions: dict[str, str]) -> pd.DataFrame:
    """The same by pandas: windows of 1 s."""
    start = (given["at"] // 1000).astype(float)
    keys = [start.rename("window_start"), given["city"].fillna("null").rename("key")]
    found = given.groupby(keys)[column].agg(list(functions.values())).reset_index()
    found = found.rename(columns={name: own for own, name in functions.items()})
    found.insert(1, "window_end", found["window_start"] + 1)
    return found.sort_values(["window_start", "key"], ignore_index=True)


AGGREGATES = {"s": "sum", "lo": "min", "hi": "max", "mean": "mean", "n": "size"}


def aggregates(column: str) -> dict[str, str]:
    own = {"mean": "avg", "size": "count"}
    found = {name: own.get(function, function) for name, function in AGGREGATES.items()}
    return {k: f if f == "count" else f"{f}({column})" for k, f in found.items()}


@pytest.mark.parametrize("column", ["size", "price"])
@pytest.mark.parametrize("width", [1, 3])
def test_results_are_those_of_pandas(tmp_path: Path, column: str, width: int) -> None:
    given = rows()
    into = {"partitioner": "hash"} if width > 1 else None
    more = {"count": {"parallelism": width}, "into": into}
    window = {"aggregate": aggregates(column)}
    found = results(replay(rows_in_windows, tmp_path, given, window, **more))
    expected = grouped(given, column, AGGREGATES)
    has_none = expected["lo"].isna()
    expected.loc[has_none, "s"] = np.nan  # SQL: the sum of no values is none
    numbers = dict.fromkeys(AGGREGATES, "float64")
    pd.testing.assert_frame_equal(
        found[expected.columns].astype(numbers), expected.astype(numbers), rtol=1e-12
    )


SEVERAL = {"s": "sum(size)", "hi": "max(price)", "mean": "avg(price)", "lo": "min(size)",
           "far": "sum(way)", "n": "count", "near": "min(way)"}  # fmt: skip


def with_ways(given: pd.DataFrame) -> pd.DataFrame:
    """Rows with a third column of numbers."""
    draw = np.random.default_rng(2)
    return given.assign(way=pd.array(draw.choice([1, 1 << 40, None], len(given)), "Int64"))


def assert_is_of_pandas(found: pd.DataFrame, given: pd.DataFrame) -> None:
    """Assert that results, in order, are what pandas makes of the rows."""
    expected = grouped(given, "size", {"s": "sum", "lo": "min", "n": "size"})
    for column, functions in (
        ("price", {"hi": "max", "mean": "mean"}),
        ("way", {"far": "sum", "near": "min"}),
    ):
        expected = expected.merge(grouped(given, column, functions))
    for total, least in (("s", "lo"), ("far", "near")):
        expected.loc[expected[least].isna(), total] = np.nan  # SQL: the sum of no values is none
    numbers = dict.fromkeys(SEVERAL, "float64")
    pd.testing.assert_frame_equal(
        found[expected.columns].astype(numbers), expected.astype(numbers), rtol=1e-12
    )


@pytest.mark.parametrize("width", [1, 3])
def test_several_columns_are_aggregated_at_once(tmp_path: Path, width: int) -> None:
    """Whole numbers, decimals, a column that has none where another has a value."""
    given = with_ways(rows())
    into = {"partitioner": "hash"} if width > 1 else None
    more = {"count": {"parallelism": width}, "into": into}
    job = replay(rows_in_windows, tmp_path, given, {"aggregate": SEVERAL}, **more)
    found = results(job)
    schema = run_job(job).tables["output/count"].schema
    assert schema.names[3:-1] == list(SEVERAL)
    whole = ["s", "lo", "far", "n", "near"]
    assert [name for name in SEVERAL if schema.field(name).type == pa.int64()] == whole
    assert given[["size", "price", "way"]].isna().value_counts().size == 8
    assert_is_of_pandas(found, given)


@pytest.mark.parametrize("mode", ["append", "update", "complete"])
def test_so_they_are_in_windows_of_spark(tmp_path: Path, mode: str) -> None:
    given = with_ways(rows())
    window = {"aggregate": SEVERAL, "output": mode}
    job = replay(rows_in_windows, tmp_path, given, window, time_model="spark", batch_s=0.3)
    clocks.compare(job, every=(1, 7))
    found = run_job(job).tables["output/count"].to_pandas()
    answers = found.groupby(["window_start", "key"]).size().max()
    assert answers == 1 if mode == "append" else answers > 1
    last = found.drop_duplicates(["window_start", "key"], keep="last").drop(columns="emitted_s")
    last = last.sort_values(["window_start", "key"], ignore_index=True)
    starts = (given["at"] // 1000).to_numpy()
    is_out = np.isin(starts, last["window_start"])
    assert is_out.sum() > COUNT / 2
    assert is_out.all() == (mode != "append")
    assert_is_of_pandas(last, given[is_out])


def test_each_of_several_columns_may_have_no_value(tmp_path: Path) -> None:
    none = pd.array([None, 3], "Int64")
    given = pd.DataFrame(
        {"at": [EPOCH_MS] * 2, "city": ["Bonn", "Rome"], "size": none, "way": none[::-1]}
    )
    window = {"aggregate": {"s": "sum(size)", "far": "max(way)", "mean": "avg(way)"}}
    found = results(replay(rows_in_windows, tmp_path, given, window))
    assert found[["s", "far", "mean"]].isna().to_numpy().tolist() == [
        [True, False, False],
        [False, True, True],
    ]
    assert found[["s", "far", "mean"]].sum().tolist() == [3, 3, 3]


def test_a_full_log_begins_again_with_all_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of two stages, of which one has more columns."""
    given, first = with_ways(rows()), LogSizes.first
    path = rows_in_windows.write(tmp_path, **{name: given[name].array for name in given})
    stages = {
        "source": rows_in_windows.source(path, emit_rate=250, watermark={"delay_s": 0.2}),
        "one": rows_in_windows.window(aggregate={"n": "count", "far": "sum(way)"}),
        "all": rows_in_windows.window(aggregate=SEVERAL),
    }
    job = rows_in_windows.job(stages, {"source->one": None, "source->all": None})
    roomy = run_job(job).tables
    whole, grown = LogSizes.grown, list[LogSizes]()

    def tight(*given: Any) -> LogSizes:
        return replace(first(*given), windows=1, results=2)

    def noted(self: LogSizes, *given: Any) -> LogSizes:
        grown.append(whole(self, *given))
        return grown[-1]

    monkeypatch.setattr(LogSizes, "first", tight)
    monkeypatch.setattr(LogSizes, "grown", noted)
    found = run_job(job).tables
    assert len(grown) >= 2
    assert {one.further for one in grown} == {2}
    for name in ("output/one", "output/all"):
        assert found[name].equals(roomy[name])
    everything = found["output/all"].to_pandas()
    one = found["output/one"].to_pandas()
    keys = ["window_start", "key", "n", "far"]
    pd.testing.assert_frame_equal(one[keys], everything[keys])


def test_a_window_without_values_has_no_sum(tmp_path: Path) -> None:
    given = pd.DataFrame({"at": [EPOCH_MS], "city": ["Rome"], "size": pd.array([None], "Int64")})
    found = results(replay(rows_in_windows, tmp_path, given, {"aggregate": aggregates("size")}))
    [row] = found.to_dict("records")
    assert row["n"] == 1
    assert all(pd.isna(row[name]) for name in ("s", "lo", "hi", "mean"))


@pytest.mark.parametrize("sign", [1, -1])
def test_an_average_is_right_where_a_sum_stops(sign: int, tmp_path: Path) -> None:
    """Of the first column and of a further one."""
    size, count = sign * 17 * 10**17, 8
    city, at = ["Rome"] * count, [EPOCH_MS] * count
    given = pd.DataFrame({"at": at, "city": city, "small": 1, "size": size})
    for more in ({}, {"first": "sum(small)"}):
        window = {"aggregate": {**more, **aggregates("size")}}
        folder = tmp_path / str(len(more))
        folder.mkdir()
        [row] = results(replay(rows_in_windows, folder, given, window)).to_dict("records")
        assert row["mean"] == size
        assert row["s"] == (2**63 - 1 if sign > 0 else -(2**63))
        assert (row["lo"], row["hi"], row["n"]) == (size, size, count)


def test_a_column_of_decimals_holds_numbers(tmp_path: Path) -> None:
    """As prices in a table mostly do; results are doubles."""
    prices = [Decimal("0.10"), Decimal("0.20"), None, Decimal("-7.25")]
    given = pd.DataFrame({"at": [EPOCH_MS] * 4, "city": ["Rome"] * 4, "price": prices})
    found = results(replay(rows_in_windows, tmp_path, given, {"aggregate": aggregates("price")}))
    [row] = found.to_dict("records")
    assert {name: row[name] for name in AGGREGATES} == {
        "s": -6.95, "lo": -7.25, "hi": 0.2, "mean": pytest.approx(-6.95 / 3), "n": 4,
    }  # fmt: skip


def test_a_slow_sink_changes_no_result(tmp_path: Path) -> None:
    """Sums of decimals neither: they are whole numbers of a power of ten."""
    window = {"aggregate": aggregates("price")}
    fast = results(replay(rows_in_windows, tmp_path, rows(), window))
    slow_sink = {"sink": {"service_rate": 9}, "duration_s": 6}
    slow = results(replay(rows_in_windows, tmp_path, rows(), window, **slow_sink))
    pd.testing.assert_frame_equal(fast, slow, check_exact=True)


def test_each_row_is_counted_once_or_late(tmp_path: Path) -> None:
    job = replay(rows_in_windows, tmp_path, rows(), {})
    mapping = job.scenario.canonical()
    for delay_s, is_late in ((0.2, False), (0, True)):
        mapping["stages"][0]["watermark"]["delay_s"] = delay_s
        tables = run_job(rows_in_windows.laid_out(mapping)).tables
        last = tables["time"].to_pandas().query("stage == 'count'").iloc[-1]
        assert last.late_records + tables["output/count"].to_pandas().n.sum() == COUNT
        assert (last.late_records > 0) == is_late


def test_windows_of_the_clock_take_rows_without_times(tmp_path: Path) -> None:
    given = rows()
    job = replay(rows_in_windows, tmp_path, given, {"trigger": "processing_time"})
    mapping = job.scenario.canonical()
    del mapping["stages"][0]["event_time"], mapping["stages"][0]["watermark"]
    found = run_job(rows_in_windows.laid_out(mapping)).tables["output/count"].to_pandas()
    counts = found.groupby("key").n.sum()
    first = given[: counts.sum()]  # the last windows are open at the end, and never fire
    assert counts.to_dict() == first["city"].fillna("null").value_counts().to_dict()


def test_the_last_watermark_may_wait_for_a_buffer(tmp_path: Path) -> None:
    """Behind the last row; what falls due at the source meanwhile is lost, as it is before."""
    made, few = rows_in_windows, "taskmanager.network.memory."
    source = made.source(
        made.write(tmp_path, city=["Rome"], at=[0]), record_bytes=8167, emit_rate=1500
    )
    options = {
        f"{few}buffers-per-channel": 1,
        f"{few}floating-buffers-per-gate": 1,
        f"{few}max-overdraft-buffers-per-gate": 0,
        "taskmanager.memory.segment-size": "4kb",
        "pipeline.auto-watermark-interval": "10ms",
        "execution.buffer-timeout.interval": -1,
    }
    count = {**made.window(), "parallelism": 3, "service_rate": 5000, "placement": [0, 0, 0]}
    job = made.job({"s": source, "w": count}, {"s->w": {"partitioner": "global"}}, options=options)
    waited = []

    def look(state: RoundState) -> None:
        task = state.task("s")
        waited.append(task.state.open_inputs == 0 and task.backpressured_us > 0)

    clocks.compare(job, every=(1, 7), look=look)
    assert any(waited)


def test_lags_are_behind_the_furthest_source(tmp_path: Path) -> None:
    """Not behind the clock, with which times of 2013 have nothing to do; as the page has them."""
    job = replay(rows_in_windows, tmp_path, rows(), {}, count={"service_rate": 100}, duration_s=5)
    tables = run_job(job).tables
    frame = tables["time"].to_pandas()
    known = frame[frame["watermark_s"].notna()]
    assert set(known["stage"]) == {"source", "count", "sink"}
    assert known["watermark_s"].between(EPOCH_MS / 1000 - 1, EPOCH_MS / 1000 + 4).all()
    of_source = known[known["stage"] == "source"]["watermark_lag_ms"]
    assert (of_source == 0).all()
    of_sink = known[known["stage"] == "sink"]["watermark_lag_ms"]
    assert of_sink.max() > 700
    assert of_sink.min() >= 0
    shown = time_frame(tables, job.scenario)["lag_ms"]
    assert shown.tolist() == pytest.approx(frame["watermark_lag_ms"].tolist(), nan_ok=True)
    assert frame["watermark_lag_ms"].isna().equals(frame["watermark_s"].isna())
