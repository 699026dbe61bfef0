"""A sink that slows down on the way, with a link before it or with a plain table.

    ./spark-submit.sh examples/slow_sink.py --plain
    ./spark-submit.sh examples/slow_sink.py

docs/link.md explains what it prints. A line says how the pipeline stands; at the end a summary.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.spark.session import get_session

FAST, SLOW = 4.0, 0.25
"""Rows that the sink takes, times those that come in."""

ON_TIME_S = 10

LINE = "{:>6} {:>8} {:>13} {:>12} {:>11} {:>11}"
HEAD = LINE.format("time", "sink", "in between", "on disk", "last batch", "row is late")


class Batch(NamedTuple):
    """A batch of the sink: when it began, how long it took and how late its oldest row was, s."""

    at_s: float
    took_s: float
    late_s: float
    rows: int


class Sink:
    """Stands for a service that takes so many rows a second, and far fewer for a while."""

    def __init__(self, rate: int, third_s: float) -> None:
        self.rate, self.third_s, self.rows = rate, third_s, 0
        self.began: float | None = None  # when rows first came in time: until then Spark warms up
        self.batches: list[Batch] = []

    @property
    def time_s(self) -> float:
        """Seconds since Spark was warm."""
        return 0.0 if self.began is None else time.time() - self.began

    @property
    def is_slow(self) -> bool:
        """Whether this is the second third of the run."""
        return self.third_s <= self.time_s < 2 * self.third_s

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Take the rows of a batch; this is the function for ``foreachBatch``."""
        at_s, began = self.time_s, time.time()
        oldest = F.min(F.col("timestamp").cast("double"))
        count, oldest_s = batch.agg(F.count("*"), oldest).first() or (0, 0.0)
        left, seen = 0.0 if self.began is None else float(count), time.time()
        while left > 0:
            time.sleep(0.02)
            now = time.time()
            left -= self.rate * (SLOW if self.is_slow else FAST) * (now - seen)
            seen = now
        now = time.time()
        self.rows += count
        if not count:
            return
        if self.began is not None:
            self.batches.append(Batch(at_s, now - began, now - oldest_s, count))
        elif now - oldest_s < ON_TIME_S:
            self.began = now


def with_link(rows: DataFrame, sink: Sink, out: Path) -> Callable[[], int]:
    """Start both queries with a link in between; return what tells the rows there."""
    link = Link(
        out / "between", key="customer_id", schema=rows.schema,
        target_batch_s=2, buffer_bytes="64 KiB", max_pool_bytes="8 MiB",
    )  # fmt: skip
    first = rows.writeStream.foreachBatch(link.sender("events"))
    first.option("checkpointLocation", str(out / "first")).start()
    second = link.receive(rows.sparkSession).writeStream.foreachBatch(sink.write)
    second.option("checkpointLocation", str(out / "second")).start()
    return lambda: sum(one["backlog_rows"] for one in link.describe()["receivers"])


def plain(rows: DataFrame, sink: Sink, out: Path) -> Callable[[], int]:
    """Start both queries with a Delta table in between; return what tells the rows there."""
    spark, table = rows.sparkSession, str(out / "between")
    spark.createDataFrame([], rows.schema).write.format("delta").save(table)
    first = rows.writeStream.format("delta")
    first.option("checkpointLocation", str(out / "first")).start(table)
    second = spark.readStream.format("delta").load(table).writeStream.foreachBatch(sink.write)
    second.option("checkpointLocation", str(out / "second")).start()
    return lambda: rows_of(table) - sink.rows


def rows_of(table: str) -> int:
    """Return how many rows a Delta table has, by its log."""
    return int(sum(DeltaTable(table).get_add_actions(flatten=True)["num_records"].to_pylist()))


def bytes_of(folder: Path) -> int:
    """Return the size of a folder's files; some may go while they are counted."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def watch(spark: SparkSession, sink: Sink, between: Callable[[], int], folder: Path) -> None:
    """Print a line every few seconds until the time is over, and then a summary."""
    most_rows, most_bytes, size, printed = 0, 0, 0, 0.0
    spark.streams.resetTerminated()
    print(HEAD)
    while sink.time_s < 3 * sink.third_s:
        spark.streams.awaitAnyTermination(1)  # raises what ends a query
        waiting, size = between(), bytes_of(folder)
        most_rows, most_bytes = max(most_rows, waiting), max(most_bytes, size)
        if sink.batches and sink.time_s - printed >= sink.third_s / 6:
            printed, last = sink.time_s, sink.batches[-1]
            cells = [f"{printed:.0f} s", "slow" if sink.is_slow else "fast", f"{waiting:,} rows"]
            cells += [f"{size / 1e6:.1f} MB", f"{last.took_s:.1f} s", f"{last.late_s:.1f} s"]
            print(LINE.format(*cells), flush=True)
    slow = [one.took_s for one in sink.batches if sink.third_s <= one.at_s < 2 * sink.third_s]
    after = [one for one in sink.batches if one.at_s + one.took_s >= 2 * sink.third_s]
    on_time = [one.at_s + one.took_s - 2 * sink.third_s for one in after if one.late_s < ON_TIME_S]
    print(
        f"\nbatches that began while the sink was slow: {len(slow)}, median "
        f"{statistics.median(slow or [0]):.1f} s, longest {max(slow, default=0):.1f} s\n"
        f"largest batch: {max((one.rows for one in sink.batches), default=0):,} rows\n"
        f"in between at most {most_rows:,} rows, {most_bytes / 1e6:.1f} MB on disk; "
        f"{size / 1e6:.1f} MB at the end\n"
        f"latest row: {max((one.late_s for one in sink.batches), default=0):.0f} s late; less than "
        f"{ON_TIME_S} s late "
        + (f"{on_time[0]:.0f} s after the sink was fast again" if on_time else "never again")
    )


def main() -> int:
    """Run the pipeline once; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="a Delta table in place of the link")
    parser.add_argument("--seconds", type=float, default=240, help="of the run, default 240")
    parser.add_argument("--rate", type=int, default=400, help="rows a second, default 400")
    parser.add_argument("--out", type=Path, default=Path("out/slow-sink"), help="folder, replaced")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    spark = get_session("slow_sink.py")
    spark.sparkContext.setLogLevel("ERROR")
    texts = [F.sha2(F.concat("timestamp", F.lit(number)), 512) for number in range(8)]
    events = (
        spark.readStream.format("rate").option("rowsPerSecond", options.rate).load()
        .withColumn("customer_id", F.col("value") % 1000)
        .withColumn("text", F.concat(*texts))
    )  # fmt: skip
    sink = Sink(options.rate, options.seconds / 3)
    between = (plain if options.plain else with_link)(events, sink, options.out)
    try:
        watch(spark, sink, between, options.out / "between")
    except KeyboardInterrupt:
        return 130
    finally:
        for query in spark.streams.active:
            query.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
