"""A link used through Spark Connect; ``test_connect.py`` runs it as a process of its own."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from flowcontrol import Link

PATIENCE_S = 1800.0
LATE = "Timed out while waiting for the Python worker to connect back"


class Append:
    """A foreachBatch function that appends to a folder; it is pickled and runs in the server."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        frame.write.mode("overwrite").parquet(f"{self.folder}/batch={batch_id}")


def until(condition: Callable[[], bool], *queries: Any) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        for query in queries:
            assert query.exception() is None, query.exception()
        assert time.monotonic() < end, [query.status for query in queries]
        time.sleep(0.2)


def started(writer: Any) -> Any:
    """Start a query; Spark gives up on a Python worker that is not there within 10 s."""
    for _ in range(20):
        try:
            return writer.start()
        except PySparkException as error:
            if LATE not in str(error):
                raise
            print("a worker was late: started again", flush=True)
    raise AssertionError(LATE)


def main(base: Path) -> None:
    """Send 500 rows, stop a sender that waits for credit, start again, receive all of them."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    files = base / "in"
    spark.range(0, 500, 1, 5).selectExpr("id", "id % 7 AS key").write.parquet(str(files))
    stream = spark.readStream.schema("id long, key long").option("maxFilesPerTrigger", 1)
    rows = stream.parquet(str(files))
    link = Link(base / "link", key="key", channels=2, exclusive_buffers=1, floating_buffers=0,
                buffer_bytes="1 KiB", schema=rows.schema)  # fmt: skip

    def send() -> Any:
        writer = rows.writeStream.foreachBatch(link.sender("connect"))
        return started(writer.option("checkpointLocation", str(base / "a")))

    def is_blocked() -> bool:
        from flowcontrol.ledger.link_ledger import member_rows

        if not (base / "link" / "ledger").exists():
            return False
        found = member_rows(link.storage.child("ledger")).to_pylist()
        return any(row["pool_used"] == row["pool_size"] for row in found)

    up = send()
    until(is_blocked, up)
    up.stop()
    assert not up.isActive
    print("stopped while it waited for credit", flush=True)

    up = send()
    frame = link.receive(spark)
    writer = frame.writeStream.foreachBatch(Append(base / "out"))
    down = started(writer.option("checkpointLocation", str(base / "b")))

    def count() -> int:
        if not any((base / "out").glob("batch=*/_SUCCESS")):
            return 0
        return spark.read.schema("id long, key long").parquet(str(base / "out")).count()

    until(lambda: count() == 500, up, down)
    up.stop()
    down.stop()
    found = spark.read.parquet(str(base / "out")).select("id").distinct().count()
    print(f"rows: {count()}, distinct: {found}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
