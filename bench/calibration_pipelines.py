"""Small real Spark pipelines, and what they say of themselves: inputs for `flowcontrol calibrate`.

    ./spark-submit.sh bench/calibration_pipelines.py OUT [RUN ...]

Writes ``OUT/<run>.jsonl``, the progress of the run's query, and for runs with a link
``OUT/<run>-link``, the link's settings and ledger. Each pipeline runs as it is, with a sink that
takes twice as long for a row (``-slow``), and with twice the rows a batch, or twice the buffers
(``-more``).

- ``files``: files of differing length, one a batch, a transformation, ``foreachBatch``.
- ``counts``: the rate source, which grows for 20 s, an aggregation, a trigger of 6 s.
- ``link``: files, a link, and a second query with the sink.

A sink takes a fixed time a batch and a time a row, whatever part of it Spark needs itself.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol import Link
from flowcontrol.spark.session import get_session

SIZES = (4000, 2000, 6000, 8000, 3000, 7000, 5000, 2500)
"""Rows of the files, again and again."""

LEFT_S = 600
"""After which a run that hangs is given up, s."""


class Sink:
    """Stands for a service: so long a request, and so long a row."""

    def __init__(self, batch_s: float, row_s: float) -> None:
        self.batch_s, self.row_s, self.rows = batch_s, row_s, 0
        self._stop = threading.Event()

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        began = time.monotonic()
        self.take(batch.count(), began)

    def take(self, count: int, began: float) -> None:
        """Take as long as a request with so many rows takes."""
        left = self.batch_s + self.row_s * count - (time.monotonic() - began)
        self._stop.wait(max(0.0, left))
        self.rows += count


class CountSink(Sink):
    """The same for an aggregation: what counts is the rows that were aggregated."""

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Take a batch of counts, each of how many rows came since the batch before."""
        began = time.monotonic()
        total = batch.agg(F.sum("rows")).first()
        count = int((total and total[0]) or 0)
        before, self.total = getattr(self, "total", 0), count
        self.take(max(0, count - before), began)


def write_files(spark: SparkSession, folder: Path, files: int, text: int = 80) -> None:
    """Write files of differing length, in their order of time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    first = 0
    for number in range(files):
        rows = SIZES[number % len(SIZES)]
        ids = pa.array(np.arange(first, first + rows, dtype=np.int64))
        table = pa.table({"id": ids, "text": pa.array(["x" * text] * rows, pa.string())})
        pq.write_table(table, folder / f"{number:05d}.parquet")
        first += rows


def read_files(spark: SparkSession, folder: Path, per_trigger: int) -> DataFrame:
    """Return a stream of the files."""
    reader = spark.readStream.schema("id long, text string")
    return reader.option("maxFilesPerTrigger", per_trigger).parquet(str(folder))


def keep(query: StreamingQuery, done: Callable[[], bool], file: Path) -> None:
    """Keep the progress of a query until it is done; then stop it."""
    until = time.monotonic() + LEFT_S
    seen: dict[tuple[str, int, str], str] = {}
    while not done() and time.monotonic() < until:
        for one in query.recentProgress:
            seen[one.runId, one.batchId, one.timestamp] = one.json
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.2)
    for one in query.recentProgress:
        seen[one.runId, one.batchId, one.timestamp] = one.json
    query.stop()
    lines = [" ".join(text.split()) for text in seen.values()]
    file.write_text("\n".join(lines) + "\n")
    print(f"{file.name}: {len(lines)} lines", flush=True)


def batches(query: StreamingQuery) -> int:
    """Return how many batches had rows."""
    return len({one.batchId for one in query.recentProgress if one.numInputRows > 0})


def run_files(spark: SparkSession, work: Path, out: Path, name: str) -> None:
    """Files of differing length, a transformation, a sink."""
    per_trigger = 2 if name.endswith("more") else 1
    sink = Sink(0.6, 0.0008 if name.endswith("slow") else 0.0004)
    write_files(spark, work / "in", 24 * per_trigger)
    frame = read_files(spark, work / "in", per_trigger).withColumn("hash", F.sha2("text", 256))
    query = (
        frame.writeStream.foreachBatch(sink).queryName(name)
        .option("checkpointLocation", str(work / "checkpoint")).start()
    )  # fmt: skip
    keep(query, lambda: batches(query) >= 24, out / f"{name}.jsonl")


def run_counts(spark: SparkSession, work: Path, out: Path, name: str) -> None:
    """The rate source, an aggregation, a trigger."""
    sink = CountSink(0.9, 0.0012 if name.endswith("slow") else 0.0006)
    rate = 1000 if name.endswith("more") else 500
    source = spark.readStream.format("rate").option("rowsPerSecond", rate)
    frame = source.option("rampUpTime", "20s").option("numPartitions", 2).load()
    counts = frame.groupBy((F.col("value") % 100).alias("k")).agg(F.count("*").alias("rows"))
    query = (
        counts.writeStream.outputMode("complete").foreachBatch(sink).queryName(name)
        .trigger(processingTime="6 seconds")
        .option("checkpointLocation", str(work / "checkpoint")).start()
    )  # fmt: skip
    keep(query, lambda: batches(query) >= 20, out / f"{name}.jsonl")


def run_link(spark: SparkSession, work: Path, out: Path, name: str) -> None:
    """Files, a link, a second query with the sink."""
    sink = Sink(0.5, 0.0008 if name.endswith("slow") else 0.0004)
    times = 2 if name.endswith("more") else 1
    files = 50
    write_files(spark, work / "in", files, text=180)
    frame = read_files(spark, work / "in", 1)
    link = Link(
        work / "link", key="id", schema=frame.schema, channels=4, buffer_bytes="64 KiB",
        exclusive_buffers=2 * times, floating_buffers=8 * times,
    )  # fmt: skip
    first = (
        frame.writeStream.foreachBatch(link.sender("files")).queryName(f"{name}-sender")
        .option("checkpointLocation", str(work / "first")).start()
    )  # fmt: skip
    second = (
        link.receive(spark).writeStream.foreachBatch(sink).queryName(f"{name}-receiver")
        .option("checkpointLocation", str(work / "second")).start()
    )  # fmt: skip
    rows = sum(SIZES[n % len(SIZES)] for n in range(files))
    # The end, when nothing more comes in, is not what is looked at.
    keep(second, lambda: sink.rows >= 0.85 * rows, out / f"{name}.jsonl")
    first.stop()
    kept = out / f"{name}-link"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    shutil.copy(work / "link" / "link.json", kept)
    shutil.copytree(work / "link" / "ledger", kept / "ledger")


KINDS = {"files": run_files, "counts": run_counts, "link": run_link}
RUNS = tuple(f"{kind}{change}" for kind in KINDS for change in ("", "-slow", "-more"))


def main(arguments: list[str]) -> int:
    """Run the pipelines that are named, or all."""
    out = Path(arguments[0]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    spark = get_session("calibration pipelines")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    for name in arguments[1:] or RUNS:
        with tempfile.TemporaryDirectory() as work:
            KINDS[name.partition("-")[0]](spark, Path(work), out, name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
