"""A sink that becomes slow: what waits, and how long micro-batches take, with a link and without.

    ./spark-submit.sh bench/slow_sink.py [--seconds 60] [--target 2]

First: a source of a steady rate, and a sink that drops to a tenth of its speed half way. With the
link what is in flight stays within the buffers and batches stay within 1.5 times their target; the
plain Delta -> Delta chain of the same run shows what happens without.

Second: one of eight key ranges is 20 times slower. With a receiver per channel the other seven keep
at least 90 % of their rate, measured against the same pipeline without a slow range; with one
receiver for all each batch keeps its target.

The sinks sleep for as long as their rows would take: how busy the machine is does not matter much.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from measured import note
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import member_rows
from flowcontrol.spark.session import get_session

TIME_LIMIT = 1.5
"""Times the target that a batch may take."""

RATE_GOAL = 0.9

CHANNELS = 8
EVERY_S = 0.25
"""Between two files of the source."""


class Source:
    """Appends rows to a Delta table at a steady rate, from a thread."""

    def __init__(self, folder: Path, rows_per_s: int) -> None:
        self.folder, self.each = folder, int(rows_per_s * EVERY_S)
        self.written = 0
        self._stop = threading.Event()
        self._write(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _write(self, rows: int) -> None:
        numbers = np.arange(self.written, self.written + rows, dtype=np.int64)
        text = pa.array(["x" * 84] * rows, pa.string())
        table = pa.table({"id": numbers, "key": numbers % 1000, "text": text})
        write_deltalake(str(self.folder), table, mode="append")
        self.written += rows

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._write(self.each)
            due += EVERY_S
            self._stop.wait(max(0.0, due - time.monotonic()))

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join()


class SlowSink:
    """A foreachBatch function that takes its time, and notes how long each batch took.

    Parameters
    ----------
    cost_s : callable
        Seconds that a batch's rows take, from its rows by channel.
    """

    def __init__(self, cost_s: Callable[[dict[int, int]], float]) -> None:
        self.cost_s = cost_s
        self.batches: list[tuple[float, float, int]] = []
        self.rows: dict[int, int] = defaultdict(int)
        self.ended = threading.Event()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        began = time.monotonic()
        channel = F.pmod(F.hash("key"), F.lit(CHANNELS))
        counts = frame.groupBy(channel.alias("c")).count().collect()
        found = {row["c"]: row["count"] for row in counts}
        left = self.cost_s(found) - (time.monotonic() - began)
        self.ended.wait(max(0.0, left))
        now = time.monotonic()
        self.batches.append((began, now - began, sum(found.values())))
        for c, count in found.items():
            self.rows[c] += count

    @property
    def total(self) -> int:
        """Rows taken."""
        return sum(self.rows.values())


def start(frame: DataFrame, work: Callable[..., None], checkpoint: Path) -> StreamingQuery:
    """Start a query."""
    name = checkpoint.name
    frame.sparkSession.sparkContext.setLocalProperty("spark.scheduler.pool", name)
    writer = frame.writeStream.foreachBatch(work)
    return writer.option("checkpointLocation", str(checkpoint)).start()


def batch_times(query: StreamingQuery, since_batch: int) -> list[float]:
    """Seconds of each of a query's batches with rows, from one on."""
    return [
        progress.durationMs["triggerExecution"] / 1000
        for progress in query.recentProgress
        if progress.batchId >= since_batch and progress.numInputRows > 0
    ]


def drop_with_link(spark: SparkSession, base: Path, options: argparse.Namespace) -> bool:
    """Run the drop with a link; whether it stays within its limits."""
    source = Source(base / "source", options.rate)
    speed = [options.rate * 2.0]
    sink = SlowSink(lambda found: sum(found.values()) / speed[0])
    rows = spark.readStream.format("delta").load(str(base / "source"))
    link = Link(
        base / "link", key="key", channels=CHANNELS, exclusive_buffers=2, floating_buffers=8,
        buffer_bytes="256 KiB", schema=rows.schema, target_batch_s=options.target,
    )  # fmt: skip
    up = start(rows, link.sender("source"), base / "up")
    down = start(link.receive(spark), sink, base / "down")
    source.start()
    time.sleep(options.seconds / 2)
    batch_of_drop = len(sink.batches)
    speed[0] = options.rate / 5  # a tenth
    time.sleep(options.seconds)
    source.stop()
    after = batch_times(down, batch_of_drop + 1)
    rows_of = member_rows(link.storage.child("ledger")).to_pylist()
    used = max(row["pool_used"] for row in rows_of if row["side"] == "sender")
    waiting = source.written - sink.total
    stop([sink], up, down)
    size = link.settings.pool_size
    print(f"link, target {options.target:g} s, {size} buffers of 256 KiB:")
    print(f"  in flight at most {used} buffers (limit {size})")
    print(
        f"  batches after the one in which the sink dropped: median "
        f"{statistics.median(after):.2f}, longest {max(after):.2f} s of {len(after)} "
        f"(limit {TIME_LIMIT * options.target:g} s)"
    )
    print(f"  not yet at the sink: {waiting:,} rows, of which all but the buffers and at most one")
    print("  source batch wait at the source", flush=True)
    limit = TIME_LIMIT * options.target
    what = f"longest batch after the sink fell to a tenth, target {options.target:g} s"
    note(what, max(after), "s", goal=limit, is_met="at most")
    note(f"buffers in flight, of {size}", used, "buffers", goal=size, is_met="at most")
    return used <= size and max(after) <= TIME_LIMIT * options.target


def drop_plain(spark: SparkSession, base: Path, options: argparse.Namespace) -> None:
    """Run the same drop through a plain Delta table."""
    source = Source(base / "source", options.rate)
    speed = [options.rate * 2.0]
    sink = SlowSink(lambda found: sum(found.values()) / speed[0])
    middle = base / "middle"
    empty = DeltaTable(str(base / "source")).to_pyarrow_table()
    write_deltalake(str(middle), empty)

    def append(frame: DataFrame, batch_id: int) -> None:
        frame.write.format("delta").mode("append").save(str(middle))

    stream = spark.readStream.format("delta")
    up = start(stream.load(str(base / "source")), append, base / "up")
    down = start(spark.readStream.format("delta").load(str(middle)), sink, base / "down")
    source.start()
    time.sleep(options.seconds / 2)
    batch_of_drop = len(sink.batches)
    speed[0] = options.rate / 5
    time.sleep(options.seconds)
    source.stop()
    after = [seconds for _, seconds, _ in sink.batches[batch_of_drop + 1 :]]
    passed = int(
        sum(DeltaTable(str(middle)).get_add_actions(flatten=True)["num_records"].to_pylist())
    )
    running = time.monotonic() - sum(sink.batches[-1][:2])
    stop([sink], up, down)
    longest = max([*after, running])
    print("plain chain, default settings:")
    print(f"  between the two queries at the end: {passed - sink.total:,} rows, and growing")
    print(
        f"  batches after the drop: {len(after)} ended, the longest took {longest:.1f} s or more",
        flush=True,
    )


def skewed(
    spark: SparkSession, base: Path, options: argparse.Namespace, *, slow: int, receivers: int,
    spill: str,
) -> tuple[dict[int, float], list[float]]:  # fmt: skip
    """Run eight key ranges, one perhaps 20 times slower.

    Returns
    -------
    tuple
        Rows a second of each channel in the second half; seconds of batches then.
    """
    rate = options.rate // 4
    source = Source(base / "source", rate)
    row_s = CHANNELS / rate / 2  # a channel alone could take twice what comes

    def cost(found: dict[int, int]) -> float:
        return sum(count * row_s * (20 if c == slow else 1) for c, count in found.items())

    rows = spark.readStream.format("delta").load(str(base / "source"))
    link = Link(
        base / "link", key="key", channels=CHANNELS, exclusive_buffers=2, floating_buffers=8,
        buffer_bytes="64 KiB", schema=rows.schema, target_batch_s=options.target,
        spill_bytes=spill,
    )  # fmt: skip
    sinks, queries = [], [start(rows, link.sender("source"), base / "up")]
    groups = [[c] for c in range(CHANNELS)] if receivers > 1 else [None]
    for number, channels in enumerate(groups):
        sinks.append(SlowSink(cost if receivers > 1 else lambda found: cost(found) / CHANNELS))
        frame = link.receive(spark, channels=channels)
        queries.append(start(frame, sinks[-1], base / f"down-{number}"))
    source.start()
    time.sleep(options.seconds / 2)
    before = [dict(sink.rows) for sink in sinks]
    first, began = [len(sink.batches) for sink in sinks], time.monotonic()
    time.sleep(options.seconds)
    took = time.monotonic() - began
    rates: dict[int, float] = {}
    for sink, old in zip(sinks, before, strict=True):
        for c, count in sink.rows.items():
            rates[c] = (count - old.get(c, 0)) / took
    times = [
        value for query, batch in zip(queries[1:], first, strict=True)
        for value in batch_times(query, batch)
    ]  # fmt: skip
    source.stop()
    stop(sinks, *queries)
    return rates, times


def stop(sinks: Sequence[SlowSink], *queries: StreamingQuery) -> None:
    """Stop queries, the last one first; sinks take no more time."""
    for sink in sinks:
        sink.ended.set()
    for query in reversed(queries):
        query.stop()


def skew(spark: SparkSession, base: Path, options: argparse.Namespace) -> bool:
    """Run and print the second part; whether both goals are met."""
    even, _ = skewed(spark, base / "even", options, slow=-1, receivers=8, spill="1 gb")
    slow = 3
    own, _ = skewed(spark, base / "own", options, slow=slow, receivers=8, spill="1 gb")
    kept = {c: own.get(c, 0.0) / even[c] for c in even if c != slow}
    print("one of eight key ranges 20 times slower, a receiver per channel, 1 GB may spill:")
    print(f"  rows/s without it {min(even.values()):,.0f} to {max(even.values()):,.0f}; with it")
    least = min(kept.values())
    print(f"  the slow one {own.get(slow, 0.0):,.0f}, the others keep at least {least:.0%}")
    strict, _ = skewed(spark, base / "strict", options, slow=slow, receivers=8, spill="0")
    left = {c: strict.get(c, 0.0) / even[c] for c in even if c != slow}
    print(f"  without spilling the sender waits, and the others keep {min(left.values()):.0%}")
    _, times = skewed(spark, base / "one", options, slow=slow, receivers=1, spill="1 gb")
    print(
        f"one receiver, target {options.target:g} s: median {statistics.median(times):.2f}, "
        f"longest {max(times):.2f} s of {len(times)} batches", flush=True,
    )  # fmt: skip
    what = "rate of seven key ranges beside one that is 20 times slower"
    note(what, least, "times", beside="without the slow one", goal=RATE_GOAL)
    return min(kept.values()) >= RATE_GOAL and max(times) <= TIME_LIMIT * options.target


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="after the change")
    parser.add_argument("--target", type=float, default=2.0, help="of a batch, seconds")
    parser.add_argument("--rate", type=int, default=10_000, help="of the source, rows/s")
    parser.add_argument("--only", choices=["drop", "skew"])
    options = parser.parse_args()
    spark = get_session("bench slow sink")
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    base, met = Path(tempfile.mkdtemp(prefix="bench-slow-")), True
    try:
        if options.only != "skew":
            met = drop_with_link(spark, base / "link", options) and met
            drop_plain(spark, base / "plain", options)
        if options.only != "drop":
            met = skew(spark, base / "skew", options) and met
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print("goals met" if met else "goals missed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
