"""A sink that takes longer than the target however few rows it gets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import member_rows
from flowcontrol.link.monitoring.monitor import LinkMonitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROWS, FIXED_S, TARGET_S = 2_000_000, 1.0, 0.5


def test_a_sink_that_costs_a_second_a_batch_gets_larger_batches(
    spark: SparkSession, tmp_path: Path, until: Callable[..., None]
) -> None:
    """Batches went down to some rows, and the backlog would have taken minutes."""
    files = tmp_path / "in"
    spark.range(0, ROWS, 1, 2).withColumn("key", F.col("id") % 97).write.parquet(str(files))
    rows: Any = spark.readStream.schema("id long, key long").parquet(str(files))
    link = Link(tmp_path / "link", key="key", target_batch_s=TARGET_S, schema=rows.schema)
    counts: dict[int, int] = {}

    def slow(frame: DataFrame, batch_id: int) -> None:
        counts[batch_id] = frame.count()
        time.sleep(FIXED_S)

    up = rows.writeStream.foreachBatch(link.sender("backlog"))
    down = link.receive(spark).writeStream.foreachBatch(slow)
    queries = [
        work.option("checkpointLocation", str(tmp_path / name)).start()
        for work, name in ((up, "a"), (down, "b"))
    ]
    try:
        until(lambda: sum(counts.values()) >= ROWS, *queries)
    finally:
        for query in queries:
            query.stop()

    assert sum(counts.values()) == ROWS
    sizes = [counts[batch] for batch in sorted(counts) if counts[batch]]
    assert len(sizes) < 30
    assert max(sizes) > 4 * sizes[0]
    ledger = member_rows(link.storage.child("ledger")).to_pylist()
    tasks = [json.loads(r["task_state"]) for r in ledger if r["side"] == "receiver"
             and r["task_state"]]  # fmt: skip
    known = [task for task in tasks if task.get("fixed_s") is not None]
    assert not known[-1]["keeps_target"]
    assert known[-1]["fixed_s"] > TARGET_S
    (reader,) = LinkMonitor(str(link.storage)).snapshot(time.time()).receivers
    assert not reader.keeps_target
