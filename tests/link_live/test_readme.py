"""The README's example is this code."""

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


def example() -> str:
    """Return the block of Python below "In your own pipeline"."""
    text = (ROOT / "README.md").read_text().partition("## In your own pipeline")[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found.group(1)


def test_the_example_moves_every_row_once(
    spark: SparkSession, tmp_path: Path, events: Any, sink: Any, until: Callable[..., None]
) -> None:
    code = example()
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
