"""Event time that cannot be: the command says where, what and what to do, and writes nothing."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from flowcontrol.cli.main import main

TUMBLING = {"kind": "tumbling", "size_s": 5}
MADE: dict[str, Any] = {
    "schema": 1,
    "name": "bad",
    "duration_s": 1,
    "round_ms": 100,
    "stages": [
        {"name": "source", "emit_rate": 100, "event_time": {}, "watermark": {"delay_s": 1}},
        {"name": "count", "window": TUMBLING},
    ],
    "edges": [{"from": "source", "to": "count"}],
}
INPUT = {"format": "parquet", "path": "rows.parquet", "key": "city"}
WINDOW = "stages[1].window"
SPARK = {"time_model": "spark", "batch_s": 1}


def window(**own: Any) -> dict[str, Any]:
    return {"count": {"window": own}}


def summed(column: str) -> dict[str, Any]:
    return rows(**window(**TUMBLING, aggregate={"s": f"sum({column})"}))


def rows(column: str = "at", **own: Any) -> dict[str, Any]:
    return {"source": {"input": INPUT, "event_time": {"column": column}}, **own}


CASES: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "a window of 0 s": (
        window(kind="tumbling", size_s=0), f"{WINDOW}.size_s",
        ["0 is out of range", "more than 0"],
    ),
    "a slide above Spark's size": (
        window(kind="sliding", size_s=5, slide_s=10) | SPARK, f"{WINDOW}.slide_s",
        ["slide_duration(10000000) must be <=", "at most 5"],
    ),
    "a negative gap": (
        window(kind="session", gap_s=-1), f"{WINDOW}.gap_s", ["-1 is out of range", "more than 0"],
    ),
    "an offset above the size": (
        window(**TUMBLING, offset_s=7), f"{WINDOW}.offset_s", ["7: ", "5: state the remainder, 2"],
    ),
    "a column that is not a time": (
        rows("size"), "stages[0].event_time.column",
        ["'size' is not a time: its type is int64", "name another column"],
    ),
    "lateness without a window": (
        {"count": {"window": None, "allowed_lateness_s": 5}}, "stages[1].allowed_lateness_s",
        ["unknown key", "it is a key of window"],
    ),
    "lateness by the clock": (
        window(**TUMBLING, trigger="processing_time", allowed_lateness_s=3),
        f"{WINDOW}.allowed_lateness_s", ["3: nothing is late", "remove it"],
    ),
    "no event time": (
        {"source": {"event_time": None, "watermark": None}}, f"{WINDOW}.trigger",
        ["'event_time': the records of 'source' have no event time", "processing_time"],
    ),
    "no watermark": (
        {"source": {"watermark": None}}, f"{WINDOW}.trigger",
        ["'source' sends no watermark", "watermark: {delay_s: 5}"],
    ),
    "an unknown column": (
        summed("siz"), f"{WINDOW}.aggregate.s", ["unknown column 'siz'; did you mean 'size'?"],
    ),
    "a column of texts": (
        summed("city"), f"{WINDOW}.aggregate.s", ["'city' holds no numbers", "or use count"],
    ),
    "a number beyond 64 bits": (
        summed("big"), "stages[0].input",
        [f"'big' of rows.parquet is {2**63} in row 1", "whole numbers lie between", "mend the row"],
    ),
    "Spark without batches": (
        {"time_model": "spark"}, "batch_s", ["is missing", "state the length of a batch"],
    ),
    "an alignment under Spark": (
        {"source": {"watermark": {"alignment": {"group": "g", "max_drift_s": 3}}}, **SPARK},
        "stages[0].watermark.alignment", ["'g': a watermark of Spark", "time_model: flink"],
    ),
}  # fmt: skip


def write(folder: Path, own: dict[str, Any]) -> str:
    """A scenario of a source and a window, and the rows that it may replay."""
    count = 20
    at = [datetime(2013, 1, 1) + timedelta(seconds=i) for i in range(count)]
    big = pa.array([2**63 + i for i in range(count)], pa.uint64())
    values = {"at": at, "city": ["a", "b"] * (count // 2), "size": range(count), "big": big}
    price = pa.array(range(count), pa.decimal128(9, 2))
    pq.write_table(pa.table({**values, "price": price}), folder / "rows.parquet")
    given, top = deepcopy(MADE), dict(own)
    for stage in given["stages"]:
        changed = stage | top.pop(stage["name"], {})
        stage.clear()
        stage.update({key: value for key, value in changed.items() if value is not None})
    (folder / "job.yaml").write_text(yaml.safe_dump(given | top))
    return str(folder / "job.yaml")


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_before_anything_is_written(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, place, texts = CASES[case]
    out, given = tmp_path / "out", write(tmp_path, own)
    before = sorted(tmp_path.iterdir())
    assert main(["emulate", given, "--clock", "virtual", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    for text in ["is refused (1 problem)", f"{place}: ", *texts]:
        assert text in said
    assert sorted(tmp_path.iterdir()) == before


def test_what_the_refusals_ask_for_runs(tmp_path: Path) -> None:
    """Of the same rows, also a column of decimals."""
    given = write(tmp_path, summed("price"))
    assert main(["emulate", given, "--clock", "virtual", "--out", str(tmp_path / "out")]) == 0
