"""Through Spark: checkpoints that were put back, and a receiver that starts from a checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException

from flowcontrol import Link

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Upstream:
    """A query from a folder of files into a link, which ends when all is sent."""

    def __init__(self, spark, folder: Path, link: Link) -> None:
        self.spark, self.folder, self.link = spark, folder, link
        self.checkpoint, self.count = folder / "checkpoint", 0

    def write(self, rows: int, files: int = 1) -> None:
        """Put new files into the source: ``id`` counts, ``key`` says the channel's key."""
        for _ in range(files):
            frame = self.spark.range(self.count, self.count + rows).selectExpr(
                "id", "id % 5 AS key"
            )
            frame.coalesce(1).write.mode("append").parquet(str(self.folder / "in"))
            self.count += rows

    def run(self) -> None:
        """Send what is there."""
        source = self.spark.readStream.schema("id long, key long").parquet(str(self.folder / "in"))
        query = source.writeStream.foreachBatch(self.link.sender("a"))
        query = query.option("checkpointLocation", str(self.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()


def receive(spark, link: Link, folder: Path, channels: list[int] | None = None) -> list[int]:
    """Run a receiver until it has read what is there; return all ids that it ever read."""
    name = "-".join(map(str, channels or ["all"]))
    frame = link.receive(spark, channels=channels)
    query = frame.writeStream.format("parquet").option("path", str(folder / f"out-{name}"))
    query = query.option("checkpointLocation", str(folder / f"read-{name}"))
    query.trigger(availableNow=True).start().awaitTermination()
    found = spark.read.schema("id long, key long").parquet(str(folder / f"out-{name}"))
    return sorted(row["id"] for row in found.collect())


def test_a_senders_checkpoint_that_is_a_batch_back_sends_nothing_twice_and_loses_nothing(
    spark, tmp_path
):
    link = Link(tmp_path / "link", key="key")
    source = Upstream(spark, tmp_path, link)
    source.write(10)
    source.run()
    shutil.copytree(source.checkpoint, tmp_path / "old")
    source.write(10, files=2)
    source.run()
    for _ in range(2):
        shutil.rmtree(source.checkpoint)
        shutil.copytree(tmp_path / "old", source.checkpoint)
        source.run()  # the same files again: known, and not sent twice
    assert receive(spark, link, tmp_path) == list(range(30))
    shutil.rmtree(source.checkpoint)
    shutil.copytree(tmp_path / "old", source.checkpoint)
    source.write(10)
    with pytest.raises(StreamingQueryException, match="runs batch 1 again with other rows"):
        source.run()
    assert receive(spark, link, tmp_path) == list(range(30))


@pytest.mark.long  # without Spark: tests/link/test_log_model.py
def test_a_receiver_that_starts_from_a_checkpoint_of_the_log_reads_every_row(spark, tmp_path):
    """Several files a batch, and a channel that lags: its files stay, others are trimmed."""
    link = Link(tmp_path / "link", key="key", channels=2, floating_buffers=64)
    source = Upstream(spark, tmp_path, link)
    spark.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))  # a task a file
    try:
        source.write(7, files=3)
        source.run()
        receive(spark, link, tmp_path, [1])
        for _ in range(2):
            before = receive(spark, link, tmp_path, [0])
            for _ in range(3):
                source.write(5, files=2)
                source.run()
            DeltaTable(str(tmp_path / "link" / "exchange")).create_checkpoint()
            assert set(before) < set(receive(spark, link, tmp_path, [0]))
    finally:
        spark.conf.unset("spark.sql.files.openCostInBytes")
    both = receive(spark, link, tmp_path, [0]) + receive(spark, link, tmp_path, [1])
    assert sorted(both) == list(range(source.count))
