"""A sink that slows down on the way, with a link before it or with a plain table.

    ./spark-submit.sh examples/slow_sink.py --plain
    ./spark-submit.sh examples/slow_sink.py --limit 600kb
    ./spark-submit.sh examples/slow_sink.py

docs/link.md explains what it prints, docs/howto/link-or-limit.md compares the forms. A line says
how the pipeline stands; at the end a summary, which is also in out/slow-sink/summary.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol import Link
from flowcontrol.spark.session import get_session

FAST, SLOW = 4.0, 0.25
"""Rows that the sink takes, times those that come in."""

ON_TIME_S = 10

SETTINGS = {"target_batch_s": 2, "buffer_bytes": "64 KiB", "max_pool_bytes": "8 MiB"}

LINE = "{:>6} {:>8} {:>13} {:>12} {:>11} {:>11}"
HEAD = LINE.format("time", "sink", "in between", "on disk", "last batch", "row is late")


SUMMARY = """
batches that began while the sink was slow: {slow_batches}, median \
{slow_batch_median_s:.1f} s, longest {slow_batch_longest_s:.1f} s
largest batch: {largest_batch_rows:,} rows
in between at most {most_between_rows:,} rows, {most_between_mb:.1f} MB on disk; \
{last_between_mb:.1f} MB at the end
latest row: {latest_row_s:.0f} s late"""


class Batch(NamedTuple):
    """A batch of the sink: when it began, how long it took and how late its oldest row was, s."""

    at_s: float
    took_s: float
    late_s: float
    rows: int


class Sink:
    """Stands for a service that takes so many rows a second, and far fewer for a while.

    With ``fails`` it loses the batch that it has when half of the slow time is over.
    """

    def __init__(self, rate: int, third_s: float, *, fails: bool = False) -> None:
        self.rate, self.third_s, self.rows = rate, third_s, 0
        self.fails, self.lost_at, self.lost_s = fails, 0.0, 0.0
        self.began: float | None = None  # when rows first came in time: until then Spark warms up
        self.batches: list[Batch] = []
        self.failed: list[Batch] = []

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
        if self.lost_at:  # the rows of the failed batch come again
            self.lost_s, self.lost_at = began - self.lost_at, 0.0
        oldest = F.min(F.col("timestamp").cast("double"))
        count, oldest_s = batch.agg(F.count("*"), oldest).first() or (0, 0.0)
        left, seen = 0.0 if self.began is None else float(count), time.time()
        while left > 0:
            time.sleep(0.02)
            now = time.time()
            left -= self.rate * (SLOW if self.is_slow else FAST) * (now - seen)
            seen = now
        now = time.time()
        if self.fails and self.time_s > 1.5 * self.third_s:
            self.fails, self.lost_at = False, began
            self.failed = [Batch(at_s, now - began, 0.0, count)]
            raise RuntimeError("the sink fails once, as --fail asks")
        self.rows += count
        if not count:
            return
        if self.began is not None:
            self.batches.append(Batch(at_s, now - began, now - oldest_s, count))
        elif now - oldest_s < ON_TIME_S:
            self.began = now


def with_link(
    rows: DataFrame, out: Path, **settings: Any
) -> tuple[DataFrame, Callable[[Sink], int]]:
    """Start the first query with a link behind it; return its rows, and what counts those there."""
    link = Link(out / "between", key="customer_id", schema=rows.schema, **settings)
    first = rows.writeStream.foreachBatch(link.sender("events"))
    first.option("checkpointLocation", str(out / "first")).start()
    there = link.receive(rows.sparkSession)
    return there, lambda _: sum(one["backlog_rows"] for one in link.describe()["receivers"])


def plain(rows: DataFrame, out: Path, limit: str | None) -> tuple[DataFrame, Callable[[Sink], int]]:
    """Start the first query with a Delta table behind it, of which a batch reads so many bytes."""
    spark, table = rows.sparkSession, str(out / "between")
    spark.createDataFrame([], rows.schema).write.format("delta").save(table)
    first = rows.writeStream.format("delta")
    first.option("checkpointLocation", str(out / "first")).start(table)
    there = spark.readStream.format("delta")
    if limit is not None:
        there = there.option("maxBytesPerTrigger", limit)
    return there.load(table), lambda sink: rows_of(table) - sink.rows


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


def watch(
    start: Callable[[], object], sink: Sink, between: Callable[[Sink], int], folder: Path
) -> dict[str, float | None]:
    """Print a line every few seconds until the time is over, and then a summary; return that."""
    streams = SparkSession.active().streams
    most_rows, most_bytes, size, printed = 0, 0, 0, 0.0
    streams.resetTerminated()
    print(HEAD)
    while sink.time_s < 3 * sink.third_s:
        try:
            streams.awaitAnyTermination(1)  # raises what ends a query
        except StreamingQueryException:
            if not sink.lost_at:
                raise
            streams.resetTerminated()
            start()
        waiting, size = between(sink), bytes_of(folder)
        most_rows, most_bytes = max(most_rows, waiting), max(most_bytes, size)
        if sink.batches and sink.time_s - printed >= sink.third_s / 6:
            printed, last = sink.time_s, sink.batches[-1]
            cells = [f"{printed:.0f} s", "slow" if sink.is_slow else "fast", f"{waiting:,} rows"]
            cells += [f"{size / 1e6:.1f} MB", f"{last.took_s:.1f} s", f"{last.late_s:.1f} s"]
            print(LINE.format(*cells), flush=True)
    begun = [*sink.batches, *sink.failed]
    slow = [one.took_s for one in begun if sink.third_s <= one.at_s < 2 * sink.third_s]
    after = [one for one in sink.batches if one.at_s + one.took_s >= 2 * sink.third_s]
    on_time = [one.at_s + one.took_s - 2 * sink.third_s for one in after if one.late_s < ON_TIME_S]
    found: dict[str, float | None] = {
        "slow_batches": len(slow),
        "slow_batch_median_s": statistics.median(slow or [0]),
        "slow_batch_longest_s": max(slow, default=0),
        "largest_batch_rows": max((one.rows for one in sink.batches), default=0),
        "most_between_rows": most_rows,
        "most_between_mb": most_bytes / 1e6,
        "last_between_mb": size / 1e6,
        "latest_row_s": max((one.late_s for one in sink.batches), default=0),
        "on_time_after_s": on_time[0] if on_time else None,
        "lost_s": sink.lost_s,
    }
    print(SUMMARY.format(**found), end="; ")
    print(f"less than {ON_TIME_S} s late", end=" ")
    print(f"{on_time[0]:.0f} s after the sink was fast again" if on_time else "never again")
    if sink.lost_s:
        print(f"the failure has cost {sink.lost_s:.0f} s")
    return found


def main() -> int:
    """Run the pipeline once; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="a Delta table in place of the link")
    form.add_argument("--limit", metavar="BYTES", help="the same, with this maxBytesPerTrigger")
    form.add_argument("--defaults", action="store_true", help="a link with its default settings")
    parser.add_argument("--fail", action="store_true", help="fail a batch in the slow time")
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
    sink = Sink(options.rate, options.seconds / 3, fails=options.fail)
    if options.plain or options.limit:
        there, between = plain(events, options.out, options.limit)
    else:
        there, between = with_link(events, options.out, **({} if options.defaults else SETTINGS))

    def start() -> StreamingQuery:
        second = there.writeStream.foreachBatch(sink.write)
        return second.option("checkpointLocation", str(options.out / "second")).start()

    start()
    try:
        found = watch(start, sink, between, options.out / "between")
        (options.out / "summary.json").write_text(json.dumps(found, indent=1))
    except KeyboardInterrupt:
        return 130
    finally:
        for query in spark.streams.active:
            query.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
