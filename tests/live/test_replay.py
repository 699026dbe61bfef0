"""The input of a replaying source, split by subtask and routed by key. No JVM."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flowcontrol.errors import RunError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.live.replay import Replay, stage_replay
from flowcontrol.protocol.network.partitioners import channel_of_key, default_max_parallelism
from flowcontrol.scenario import parse_scenario

ROWS = {
    "city": ["Oslo", "Rome", None, "Oslo", "Bonn", "Rome", "Oslo"],
    "value": [1, 2, 3, 4, 5, None, 7],
    "share": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5],
}
CSV = "city,value,share\nOslo,1,0.5\nRome,2,1.5\n,3,2.5\nOslo,4,3.5\nBonn,5,4.5\nRome,,5.5\nOslo,7,6.5\n"  # noqa: E501


Replayed = Callable[..., Replay]


def job_of(kind: str, path: Path, *, key: str | None = "city", width: int = 1) -> Job:
    stages = [
        {"name": "source", "parallelism": width, "emit_rate": 10, "record_bytes": 100,
         "input": {"format": kind, "path": str(path), **({"key": key} if key else {})}},
        {"name": "sink", "parallelism": 3, "service_rate": 10},
    ]  # fmt: skip
    partitioner = "hash" if key else "rebalance"
    edges = [{"from": "source", "to": "sink", "partitioner": partitioner}]
    mapping = {"schema": 1, "name": "replay", "duration_s": 2, "stages": stages, "edges": edges}
    return build_physical_graph(parse_scenario(mapping))


def write_csv(folder: Path) -> Path:
    (folder / "rows.csv").write_text(CSV)
    return folder / "rows.csv"


def write_gz(folder: Path) -> Path:
    with gzip.open(folder / "rows.csv.gz", "wt") as file:
        file.write(CSV)
    return folder / "rows.csv.gz"


def write_zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "rows.csv.zip", "w") as archive:
        archive.writestr("rows.csv", CSV)
    return folder / "rows.csv.zip"


def write_parquet(folder: Path) -> Path:
    pq.write_table(pa.table(ROWS), folder / "rows.parquet")
    return folder / "rows.parquet"


def write_delta(folder: Path) -> Path:
    write_deltalake(str(folder / "delta"), pa.table(ROWS))
    return folder / "delta"


@pytest.fixture
def replayed(runs: ModuleType) -> Replayed:
    """A function that splits the input of a job into a folder, without Spark."""

    def split(job: Job, folder: Path, spark: Any = None) -> Replay:
        return stage_replay(spark or runs.NoSpark(), job, job.stage("source"), folder)

    return split


@pytest.mark.parametrize(
    ("kind", "write", "missing"),
    [
        ("csv", write_csv, ""),
        ("csv", write_gz, ""),
        ("csv", write_zip, ""),
        ("parquet", write_parquet, None),
        ("delta", write_delta, None),
    ],
)
def test_every_format_gives_the_rows_in_their_order(
    kind: str,
    write: Callable[[Path], Path],
    missing: str | None,
    tmp_path: Path,
    replayed: Replayed,
) -> None:
    replay = replayed(job_of(kind, write(tmp_path)), tmp_path / "replay")
    assert replay.counts == [7]
    assert replay.schema().names == ["city", "value", "share"]
    expected = {**ROWS, "city": [missing if c is None else c for c in ROWS["city"]]}
    assert pq.read_table(replay.file(0)).to_pydict() == expected


def test_rows_are_dealt_to_the_subtasks_in_turn(tmp_path: Path, replayed: Replayed) -> None:
    replay = replayed(job_of("parquet", write_parquet(tmp_path), width=3), tmp_path / "replay")
    assert replay.counts == [3, 2, 2]
    found = [pq.read_table(replay.file(i)).column("share").to_pylist() for i in range(3)]
    assert found == [ROWS["share"][i::3] for i in range(3)]


def test_dealing_goes_on_over_batches(tmp_path: Path, replayed: Replayed) -> None:
    """A subtask's turn does not start again with each batch that the reader yields."""
    count = 200_001
    pq.write_table(pa.table({"n": range(count)}), tmp_path / "rows.parquet", row_group_size=50_000)
    job = job_of("parquet", tmp_path / "rows.parquet", key=None, width=2)
    replay = replayed(job, tmp_path / "replay")
    assert replay.counts == [100_001, 100_000]
    for subtask in range(2):
        column = pq.read_table(replay.file(subtask)).column("n").to_pylist()
        assert column == list(range(subtask, count, 2))


def test_a_key_decides_the_channel_as_flink_does(tmp_path: Path, replayed: Replayed) -> None:
    job = job_of("parquet", write_parquet(tmp_path))
    routes = replayed(job, tmp_path / "replay").table(job.links[0], 0)
    assert routes is not None
    groups = default_max_parallelism(3)
    keys = ["null" if city is None else city for city in ROWS["city"]]
    assert routes.tolist() == [channel_of_key(key, 3, groups) for key in keys]
    assert len(set(routes.tolist())) > 1


def test_without_a_key_there_is_no_table(tmp_path: Path, replayed: Replayed) -> None:
    job = job_of("parquet", write_parquet(tmp_path), key=None)
    assert replayed(job, tmp_path / "replay").table(job.links[0], 0) is None


def test_a_split_is_made_once(tmp_path: Path, replayed: Replayed, runs: ModuleType) -> None:
    job, spark = job_of("parquet", write_parquet(tmp_path)), runs.NoSpark()
    for _ in range(2):
        replayed(job, tmp_path / "replay", spark)
    assert spark.jobs == 1
    # One that was killed half way is made again: rows.json comes last.
    (tmp_path / "replay" / "rows.json").unlink()
    (tmp_path / "replay" / "subtask-0.parquet").write_bytes(b"half")
    assert replayed(job, tmp_path / "replay", spark).counts == [7]
    assert spark.jobs == 2


def test_columns_have_the_types_that_spark_has(tmp_path: Path, replayed: Replayed) -> None:
    """Nanoseconds, dictionaries, large strings: the JVM's reader knows none of them."""
    table = pa.table(
        {
            "time": pa.array([1_000, 2_000], pa.timestamp("ns", "UTC")),
            "text": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["a", "b"], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "rows.parquet")
    job = job_of("parquet", tmp_path / "rows.parquet", key=None)
    types = [str(field.type) for field in replayed(job, tmp_path / "replay").schema()]
    assert types == ["timestamp[us, tz=UTC]", "string", "string"]


def test_an_input_without_rows_is_refused(tmp_path: Path, replayed: Replayed) -> None:
    pq.write_table(pa.table({"city": pa.array([], pa.string())}), tmp_path / "rows.parquet")
    with pytest.raises(RunError, match=r"input of stage source holds no rows: .*rows\.parquet"):
        replayed(job_of("parquet", tmp_path / "rows.parquet"), tmp_path / "replay")


def test_fewer_rows_than_subtasks(tmp_path: Path, replayed: Replayed) -> None:
    replay = replayed(job_of("parquet", write_parquet(tmp_path), width=9), tmp_path / "replay")
    assert replay.counts == [1] * 7 + [0] * 2
    routes = replay.table(job_of("parquet", tmp_path / "rows.parquet").links[0], 8)
    assert routes is not None
    assert routes.tolist() == []


def test_a_type_that_spark_does_not_know_is_named(tmp_path: Path, replayed: Replayed) -> None:
    pq.write_table(pa.table({"small": pa.array([1], pa.uint8())}), tmp_path / "rows.parquet")
    with pytest.raises(RunError, match=r"cannot be read: .*uint8 is not supported"):
        replayed(job_of("parquet", tmp_path / "rows.parquet", key=None), tmp_path / "replay")


def test_an_input_that_cannot_be_read_is_named(tmp_path: Path, replayed: Replayed) -> None:
    path = write_csv(tmp_path)
    job = job_of("csv", path)
    path.write_text('city,value\nOslo,1\n"Rome,2,3,4\n')
    with pytest.raises(RunError, match=r"stage source: its input .*rows\.csv cannot be read: "):
        replayed(job, tmp_path / "replay")
    assert not (tmp_path / "replay" / "rows.json").exists()


def test_what_stands_beside_the_rows(tmp_path: Path, replayed: Replayed) -> None:
    replayed(job_of("parquet", write_parquet(tmp_path)), tmp_path / "replay")
    names = {path.name for path in (tmp_path / "replay").iterdir()}
    assert names == {"rows.json", "subtask-0.parquet", "routes-source-sink-0.npy"}
    assert json.loads((tmp_path / "replay" / "rows.json").read_text()) == {"counts": [7]}
