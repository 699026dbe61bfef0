"""Two queries write into a link, one far ahead in event time; a third one reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.link.monitoring.monitor import LinkMonitor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ALIGN_S, DELAY_S = 100, 5

ROWS, FILES = 50, 10
"""Of a file, and files of each source; a row a second."""

BATCH_S = 200
"""What a batch of the receiver spans at most: 4 buffers of 1 KiB, with rows of some 30 bytes."""


class TwoSinks:
    """Notes how far each sender is after each batch."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int]] = []
        self.drifts: list[int] = []

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        self.rows += [(row["source"], row["event_id"]) for row in frame.collect()]
        self.drifts.append(self.reach("fast") - self.reach("slow"))

    def reach(self, name: str) -> int:
        """Return the last event of a sender."""
        return max((number for source, number in self.rows if source == name), default=0)


def test_a_sender_waits_for_the_other_and_both_arrive(
    spark: SparkSession, tmp_path: Path, events: Any, until: Callable[..., None]
) -> None:
    slow_events = type(events)(spark, tmp_path / "slow events")
    slow_events.write(ROWS, 2)
    events.write(ROWS, FILES)
    sources = {"fast": events, "slow": slow_events}
    streams = {
        name: own.stream().select(
            F.lit(name).alias("source"),
            "event_id",
            "customer_id",
            F.timestamp_seconds("event_id").alias("at"),
        )
        for name, own in sources.items()
    }
    link = Link(
        tmp_path / "link", key="customer_id", channels=2, exclusive_buffers=1, floating_buffers=2,
        buffer_bytes=1024, schema=streams["fast"].schema, event_time_column="at",
        watermark_delay_s=DELAY_S, align_s=ALIGN_S, idle_after_s=3600,
    )  # fmt: skip
    sink, monitor = TwoSinks(), LinkMonitor(link.storage)
    work = {
        name: stream.writeStream.foreachBatch(link.sender(name)) for name, stream in streams.items()
    }
    work["reader"] = link.receive(spark).writeStream.foreachBatch(sink)
    queries = [
        one.option("checkpointLocation", str(tmp_path / f"checkpoint {name}")).start()
        for name, one in work.items()
    ]
    try:
        until(lambda: monitor.snapshot().receivers[:1] != (), *queries)
        until(lambda: monitor.snapshot().receivers[0].paused == ("fast",), *queries)
        until(lambda: sink.reach("slow") == 2 * ROWS - 1, *queries)
        assert sink.reach("fast") < ROWS * FILES - 1
        slow_events.write(ROWS, FILES - 2)
        until(lambda: len(sink.rows) >= 2 * ROWS * FILES, *queries)
        until(lambda: all(not c.backlog_rows for c in monitor.snapshot().channels), *queries)
        found = monitor.snapshot()
    finally:
        for query in queries:
            query.stop()
    wanted = [(name, number) for name in ("fast", "slow") for number in range(ROWS * FILES)]
    assert sorted(sink.rows) == wanted
    assert max(sink.drifts) <= ALIGN_S + BATCH_S
    last_ms = 1000 * (ROWS * FILES - 1 - DELAY_S) - 1
    for name in sources:
        own = [c.written_watermark_ms for c in found.channels if c.sender == name]
        assert max(moment for moment in own if moment is not None) == last_ms
