"""Columns with a dot or a backtick in their name, from one query to the other."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flowcontrol import Link

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KEY = ["a.b", "c`d"]


@pytest.mark.parametrize("evil", [KEY, ["a.b"], ["`"], ["a.`b`.c"]], ids=str)
def test_keys_of_any_name_route_and_keep_their_order(
    spark: SparkSession, tmp_path: Path, evil: list[str]
) -> None:
    others = [name for name in KEY if name not in evil]
    rows = pa.table(
        {
            **{name: [number % 7 for number in range(200)] for name in evil},
            **{name: ["x"] * 200 for name in others},
            "a": [{"b": number} for number in range(200)],  # what an unquoted a.b would mean
            "number": range(200),
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(rows, tmp_path / "in" / "rows.parquet")
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    link = Link(tmp_path / "link", key=evil, channels=3)
    stream = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    send = stream.writeStream.foreachBatch(link.sender("events")).trigger(availableNow=True)
    send.option("checkpointLocation", str(tmp_path / "up")).start().awaitTermination()

    found: list[dict[str, object]] = []

    def sink(frame: DataFrame, _: int) -> None:
        found.extend(row.asDict(recursive=True) for row in frame.collect())

    receive = link.receive(spark).writeStream.foreachBatch(sink).trigger(availableNow=True)
    receive.option("checkpointLocation", str(tmp_path / "down")).start().awaitTermination()
    assert sorted(found, key=lambda row: row["number"]) == rows.to_pylist()
    order = defaultdict(list)
    for row in found:
        order[row[evil[0]]].append(row["number"])
    assert all(numbers == sorted(numbers) for numbers in order.values())
    assert len(order) == 7
