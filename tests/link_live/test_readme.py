"""The example of docs/link.md, which README.md may repeat, is this code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]


def example(what: str) -> str:
    """Return the one block of Python of docs/link.md that has a text in it."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / "docs/link.md").read_text(), re.DOTALL)
    (block,) = [block for block in found if what in block]
    return str(block)


def test_the_example_moves_every_row_once(
    spark: SparkSession, tmp_path: Path, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    code = example('link.sender("events")')
    assert "/tmp/links/orders" in code
    events.write(500, files=3)
    names = {
        "spark": spark,
        "events": events.stream(),
        "write_slow_sink": sink,
        "a": str(tmp_path / "a"),
        "b": str(tmp_path / "b"),
    }
    before = {query.id for query in spark.streams.active}
    exec(code.replace("/tmp/links/orders", str(tmp_path / "orders")), names)
    queries = [query for query in spark.streams.active if query.id not in before]
    assert len(queries) == 2
    try:
        until(lambda: len(sink.rows) >= 1500, *queries)
    finally:
        for query in queries:
            query.stop()
    sink.assert_exactly(1500)
    spark.sql("DROP TABLE IF EXISTS flow_ledger")
    publish = example("link.publish").replace("main.ops.flow_ledger", "flow_ledger")
    exec(publish, names)
    exec(publish, names)
    ledger = spark.table("flow_ledger")
    assert {row.side for row in ledger.select("side").distinct().collect()} == {
        "sender",
        "receiver",
    }
    assert (
        ledger.count()
        == ledger.dropDuplicates(["member", "batch_id", "sender", "receiver"]).count()
    )
    spark.sql("DROP TABLE flow_ledger")


def test_the_sink_of_the_example_writes_a_batch_once(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(example("txnAppId").replace("/tmp/lake/orders", str(tmp_path / "orders")), names)
    for batch_id in (0, 0, 1):
        names["write_slow_sink"](spark.range(10), batch_id)
    assert spark.read.format("delta").load(str(tmp_path / "orders")).count() == 20


def test_the_format_reads_the_same(
    spark: SparkSession, tmp_path: Path, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    from flowcontrol import Link

    events.write(300)
    link = Link(tmp_path / "link", key="customer_id", channels=4)
    up = events.stream().writeStream.foreachBatch(link.sender("events"))
    first = up.option("checkpointLocation", str(tmp_path / "a")).start()
    rows = spark.readStream.format("flowcontrol").option("path", str(tmp_path / "link")).load()
    down = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "b"))
    second = down.start()
    try:
        until(lambda: len(sink.rows) >= 300, first, second)
    finally:
        first.stop()
        second.stop()
    sink.assert_exactly(300)
