"""Replayed rows on the virtual clock: as many and by the same channels as on the live one."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flowcontrol.errors import RunError
from flowcontrol.layout import replay as replay_rules
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import read_replayed, routes_of_keys
from flowcontrol.live.replay import stage_replay, staged_rows
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.protocol.event_time import id_of, time_of
from flowcontrol.protocol.network.partitioners import channel_of_key
from flowcontrol.results.tables import checkpoint_tables
from flowcontrol.scenario import parse_scenario
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import run_job, simulate
from modules import load

watched_runs = load("tests/job/watched_runs.py")

CITIES = ["Oslo", "Rome", None, "Bonn", "Lima", "Kiel", "Bern"]
COUNT = 1_000
ROWS = {
    "city": [CITIES[i * i % 7] for i in range(COUNT)],
    "number": [i % 11 for i in range(COUNT)],
    "at": [datetime(2026, 1, 1, 0, 0, i % 10, 1000, tzinfo=UTC) for i in range(COUNT)],
}


def job_of(
    kind: str,
    path: Path,
    key: str | None = "city",
    *,
    width: int = 1,
    rate: float = 2000,
    service: float = 500,
) -> Job:
    source = {"format": kind, "path": str(path), **({"key": key} if key else {})}
    return build_physical_graph(
        parse_scenario(
            {
                "schema": 1,
                "name": "replayed",
                "duration_s": 1.2,
                "round_ms": 10,
                "sample_interval_s": 0.1,
                "options": {"taskmanager.memory.segment-size": "4kb"},
                "stages": [
                    {
                        "name": "source",
                        "parallelism": width,
                        "emit_rate": rate,
                        "record_bytes": 100,
                        "input": source,
                    },
                    {"name": "sink", "parallelism": 3, "service_rate": service},
                ],
                "edges": [
                    {"from": "source", "to": "sink", "partitioner": "hash" if key else "rebalance"}
                ],
            }
        )
    )


def write_csv(folder: Path) -> Path:
    lines = (f"{c or ''},{n},{at.isoformat()}" for c, n, at in zip(*ROWS.values(), strict=True))
    (folder / "rows.csv").write_text("city,number,at\n" + "\n".join(lines) + "\n")
    return folder / "rows.csv"


def write_gz(folder: Path) -> Path:
    with gzip.open(folder / "rows.csv.gz", "wb") as file:
        file.write(write_csv(folder).read_bytes())
    return folder / "rows.csv.gz"


def write_parquet(folder: Path) -> Path:
    """Nanoseconds, which the live clock's rows are not in."""
    schema = pa.schema(
        [("city", pa.string()), ("number", pa.int64()), ("at", pa.timestamp("ns", "Europe/Rome"))]
    )
    table = pa.table(ROWS).cast(schema)
    pq.write_table(table, folder / "rows.parquet", row_group_size=77)
    return folder / "rows.parquet"


def write_folder(folder: Path) -> Path:
    (folder / "parts").mkdir()
    table = pa.table(ROWS)
    for i in range(3):
        part = table.slice(400 * i, 400)
        pq.write_table(part, folder / "parts" / f"part-{i}.parquet", row_group_size=77)
    return folder / "parts"


def write_delta(folder: Path) -> Path:
    write_deltalake(str(folder / "delta"), pa.table(ROWS))
    return folder / "delta"


class NoSpark:
    """Runs the one task of a job here: enough for the live clock to split an input."""

    def __init__(self) -> None:
        self.sparkContext = self

    def parallelize(self, *_: Any) -> NoSpark:
        return self

    def map(self, task: Callable[[int], Any]) -> NoSpark:
        self.task = task
        return self

    def collect(self) -> list[Any]:
        return [self.task(0)]


@pytest.mark.parametrize("key", ["city", "number", "at"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("csv", write_csv),
        ("csv", write_gz),
        ("parquet", write_parquet),
        ("parquet", write_folder),
        ("delta", write_delta),
    ],
)
def test_the_live_clock_splits_them_alike(
    kind: str, write: Callable[[Path], Path], width: int, key: str, tmp_path: Path
) -> None:
    job = job_of(kind, write(tmp_path), key, width=width)
    found = read_replayed(job)
    live = stage_replay(NoSpark(), job, job.stage("source"), tmp_path / "replay")  # type: ignore[arg-type]
    assert [found.limits["source", i] for i in range(width)] == live.counts
    for index in range(width):
        table = live.table(job.links[0], index)
        assert table is not None
        assert np.array_equal(found.tables["source->sink", index], table)
        assert len(set(table.tolist())) > 1


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("kind", "write"), [("csv", write_csv), ("parquet", write_folder), ("delta", write_delta)]
)
def test_the_live_clock_stamps_them_alike(
    kind: str, write: Callable[[Path], Path], width: int, tmp_path: Path
) -> None:
    """Whatever batches the rows come in: a window of keys and numbers, another of all rows."""
    mapping = job_of(kind, write(tmp_path), "city", width=width).scenario.canonical()
    mapping["stages"][0] |= {"event_time": {"column": "at"}, "watermark": {}}
    window = {"kind": "tumbling", "size_s": 1, "aggregate": {"n": "sum(number)"}}
    mapping["stages"] += [{"name": "count", "window": window}]
    mapping["edges"] += [{"from": "source", "to": "count", "partitioner": "global"}]
    job = build_physical_graph(parse_scenario(mapping))
    folder = tmp_path / "replay"
    stage_replay(NoSpark(), job, job.stage("source"), folder)  # type: ignore[arg-type]
    live, found = staged_rows(job, lambda stage: folder), read_replayed(job)
    assert live.limits == found.limits
    assert {key: own.tolist() for key, own in live.stamps.items()} == {
        key: own.tolist() for key, own in found.stamps.items()
    }
    missing = "" if kind == "csv" else "null"
    names = {missing if city is None else city for city in ROWS["city"]}
    assert live.keys.names == found.keys.names == {"count": tuple(sorted(names))}
    for name, edge in found.keys.edges.items():
        assert np.array_equal(live.keys.edges[name].numbers, edge.numbers)
        assert np.array_equal(live.keys.edges[name].firsts, edge.firsts)
    values, stamps = live.keys.columns_of("count").first, found.stamps["source", 0]
    assert [int(values[id_of(one)]) for one in stamps.tolist()] == ROWS["number"][::width]
    assert [time_of(one) for one in stamps.tolist()] == [
        round(at.timestamp() * 1000) for at in ROWS["at"][::width]
    ]


def test_a_key_decides_the_channel_as_flink_does(tmp_path: Path) -> None:
    found = read_replayed(job_of("parquet", write_parquet(tmp_path)))
    expected = [channel_of_key(city or "null", 3, 128) for city in ROWS["city"]]
    assert found.tables["source->sink", 0].tolist() == expected


def test_only_the_key_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read_rows = [], replay_rules.read_rows

    def watched(source: Any, columns: Any) -> Any:
        asked.append(columns)
        for batch in read_rows(source, columns):
            assert batch.schema.names == columns
            yield batch

    monkeypatch.setattr(replay_rules, "read_rows", watched)
    for kind, write in (("csv", write_csv), ("parquet", write_parquet), ("delta", write_delta)):
        read_replayed(job_of(kind, write(tmp_path)))
    assert asked == [["city"]] * 3


def test_without_a_key_they_are_counted(tmp_path: Path) -> None:
    found = read_replayed(job_of("parquet", write_parquet(tmp_path), None, width=3))
    assert found.tables == {}
    assert found.limits == {("source", 0): 334, ("source", 1): 333, ("source", 2): 333}


@pytest.mark.parametrize(("key", "width"), [("city", 1), ("city", 3), (None, 2)])
@pytest.mark.parametrize("every", [1, 7, 1000])
def test_a_replay_runs_stage_by_stage(
    clocks: ModuleType, tmp_path: Path, key: str | None, width: int, every: int
) -> None:
    """Blocked on its way, and idle when all rows are gone."""
    job = job_of("parquet", write_parquet(tmp_path), key, width=width)
    assert job.rounds == 120
    clocks.compare(job, every=every)


@pytest.mark.parametrize("service", [500, 20_000])
def test_each_row_comes_once(tmp_path: Path, service: float) -> None:
    job = job_of("parquet", write_parquet(tmp_path), width=3, service=service)
    stages = simulate(job.scenario).tables["stages"].to_pandas()
    last = stages[stages.t_s == stages.t_s.max()]
    assert last[last.stage == "source"].records_out.tolist() == [334, 333, 333]
    counts = np.bincount([channel_of_key(city or "null", 3, 128) for city in ROWS["city"]])
    assert last[last.stage == "sink"].records_in.tolist() == counts.tolist()
    assert counts.min() > 100
    idle = last[last.stage == "source"].idle_ms_per_s
    assert idle.tolist() == [1000, 1000, 1000]


def test_fewer_rows_than_subtasks(clocks: ModuleType, tmp_path: Path) -> None:
    pq.write_table(pa.table({"city": ["Oslo", "Rome"]}), tmp_path / "rows.parquet")
    job = job_of("parquet", tmp_path / "rows.parquet", width=5)
    assert list(read_replayed(job).limits.values()) == [1, 1, 0, 0, 0]
    clocks.compare(job)


def test_the_last_row_may_wait_for_a_buffer(clocks: ModuleType, tmp_path: Path) -> None:
    """What falls due at a source meanwhile is lost, as ever."""
    pq.write_table(pa.table({"city": ["Oslo", "Rome", "Kiel"]}), tmp_path / "rows.parquet")
    mapping = job_of("parquet", tmp_path / "rows.parquet", None, service=5).scenario.canonical()
    mapping["stages"][0]["record_bytes"] = 60_000
    mapping["stages"][1] |= {"parallelism": 1, "placement": [0], "service_rate": 5}
    waited = []

    def look(state: RoundState) -> None:
        task = state.task("source")
        waited.append(task.taken == 0 and task.backpressured_us > 0 and task.state.taken == 3)

    clocks.compare(build_physical_graph(parse_scenario(mapping)), every=(1, 7), look=look)
    assert sum(waited) > 10


def test_an_input_without_rows_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"city": pa.array([], pa.string())}), tmp_path / "rows.parquet")
    with pytest.raises(RunError, match=r"input of stage source holds no rows: .*rows\.parquet"):
        simulate(job_of("parquet", tmp_path / "rows.parquet").scenario)


def test_an_input_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write_csv(tmp_path)
    job = job_of("csv", path)
    path.write_text('city,value\nOslo,1\n"Rome,2,3,4\n')
    with pytest.raises(RunError, match=r"stage source: its input .*rows\.csv cannot be read: "):
        simulate(job.scenario)


def test_a_job_that_makes_its_rows_up_reads_nothing(jobs: ModuleType) -> None:
    found = read_replayed(jobs.single())
    assert (found.limits, found.tables) == ({}, {})


def test_a_state_grows_with_the_keys_that_have_come(clocks: ModuleType, tmp_path: Path) -> None:
    """10 bytes a key; every fifth row has a new one, until 60 rows have come."""
    keys = [i // 5 if i < 60 else i % 12 for i in range(200)]
    pq.write_table(pa.table({"key": keys}), tmp_path / "rows.parquet")
    job = job_of("parquet", tmp_path / "rows.parquet", "key", rate=200)
    mapping = job.scenario.canonical()
    mapping["options"]["execution.checkpointing.interval"] = "50ms"
    mapping["stages"][1]["state"] = {"bytes_per_key": 10}
    job = build_physical_graph(parse_scenario(mapping))
    clocks.compare(job, every=(1, 1000))
    run, taken = watched_runs.WatchedRun(job), dict[tuple[int, int], int]()
    for state in run.rounds():
        for task in state.tasks:
            for one in () if task.checkpoints is None else task.checkpoints.reports:
                if one.kind == TAKEN:
                    taken[one.checkpoint, one.task] = one.records
    routes = routes_of_keys(pa.chunked_array([keys]), 3).tolist()
    own = [[key for key, to in zip(keys, routes, strict=True) if to == i] for i in range(3)]
    found = run_job(job).tables["checkpoint_tasks"].to_pylist()
    sizes = [row for row in found if row["stage"] == "sink" and row["state_bytes"] is not None]
    assert len(sizes) > 30
    for row in sizes:
        index = row["subtask"]
        first = own[index][: taken[row["checkpoint_id"], 1 + index]]
        assert row["state_bytes"] == 10 * len(set(first)), row
    assert len({row["state_bytes"] for row in sizes}) > 3
    assert sum(row["state_bytes"] for row in sizes[-3:]) == 10 * 12
    expected = checkpoint_tables(job, run.checkpoints.coordinator)["checkpoint_tasks"].to_pylist()
    assert found == expected
