"""Source -> link -> sink beside the plain Delta -> Delta chain: rows a second, and hand-over time.

    ./spark-submit.sh --driver-memory 4g bench/link.py [--rows 16000000] [--repeats 3]
        [--bytes 100 2000] [--ends cheap delta]

Both move the same rows from a source through an intermediate log to a sink, as two streaming
queries that run at the same time, in one session, with the same compression. The plain chain
writes a Delta table in between and reads it with maxFilesPerTrigger at several settings, the link
has buffers of several numbers; the best setting of each counts. Cheap ends, rows made in the JVM
and Spark's noop, which takes every row and keeps none, compare the hand-over; with Delta tables at
both ends, reading and writing those is most of what both chains do. With the 1 GB of heap that a
local Spark has by default, the plain chain runs out of memory now and then: hence the 4.

Runs alternate; ratios are of medians. The goals with cheap ends: the link with its defaults has at
least 1.5 times the rows a second with rows of 100 bytes, and twice with 2 KB; its best setting has
twice. With Delta tables at both ends it is not slower. The median hand-over at a low rate, from the
call of the upstream function with a row to the call of the sink's with it, is at most half as long;
memory stays flat. The whole way, from the commit at a Delta source to the end of a Delta sink's
batch, is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from measured import note
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol import Link
from flowcontrol.ledger.link_ledger import member_rows
from flowcontrol.ledger.storage import Storage
from flowcontrol.spark.session import get_session

BEST_GOAL, DELTA_GOAL, DELAY_GOAL = 2.0, 1.0, 0.5
DEFAULTS_GOAL = {100: 1.5, 2000: 2.0}
"""By the size of a row, with cheap ends."""

FILES = 16
"""Files of the source table: source batches at one file a trigger."""

SOURCE_FILES = 4
"""Files that the source hands out a trigger, in both chains."""

SOURCE_BATCH_BYTES = 100_000_000
"""Size of a source batch where rows are made in the JVM."""

PLAIN_FILES = (8, 32)
"""maxFilesPerTrigger of the plain chain's second query."""

LINK_BUFFERS = (None, 8, 64)
"""Floating buffers of the link: ``None`` is the default, a pool that sizes itself."""

CODEC = "lz4_raw"

IDLE_S = 10.0
"""How long to look at the CPU time of queries that have nothing to do."""


def make_source(folder: Path, rows: int, width: int) -> None:
    """Write the source table: a key, a number and bytes that do not compress to nothing."""
    random = np.random.default_rng(1)
    each = rows // FILES
    for file in range(FILES):
        numbers = np.arange(file * each, (file + 1) * each, dtype=np.int64)
        raw = random.integers(97, 123, size=each * (width - 24), dtype=np.uint8).tobytes()
        size = width - 24
        text = [raw[i * size : (i + 1) * size].decode() for i in range(each)]
        table = pa.table({"id": numbers, "key": numbers % 997, "text": text})
        write_deltalake(str(folder), table, mode="append")


def made_rows(spark: SparkSession, rows: int, width: int) -> DataFrame:
    """Return a stream of rows made in the JVM: the text is cut out of random bytes."""
    raw = np.random.default_rng(1).integers(97, 123, size=1 << 20, dtype=np.uint8).tobytes()
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows)
    size = width - 24
    at = F.pmod(F.xxhash64("value"), F.lit(len(raw) - size)).cast("int") + F.lit(1)
    text = F.substring(F.lit(raw), at, F.lit(size)).cast("string")
    number = F.col("value")
    return stream.load().select(number.alias("id"), (number % 997).alias("key"), text.alias("text"))


def source(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the source table as a stream."""
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", SOURCE_FILES)
    return reader.load(str(folder))


def append_to(target: Path, app: str) -> Callable[..., None]:
    """Return a foreachBatch function that appends to a Delta table, once per batch."""

    def append(frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", app).option("txnVersion", batch_id).save(str(target))

    return append


class Sink:
    """What both chains end in: it counts the rows that it has been given.

    Parameters
    ----------
    target : Path or None
        A Delta table to append to; ``None`` takes the rows and keeps none.
    seen : callable
        Called with every batch that was written, and the time at which it came.
    """

    def __init__(
        self, target: Path | None, seen: Callable[[DataFrame, float], None] | None = None
    ) -> None:
        self.target, self.seen, self.rows = target, seen, 0

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch."""
        called = time.monotonic()
        count = Observation()
        counted = frame.observe(count, F.count(F.lit(1)).alias("rows"))
        if self.target is None:
            counted.write.format("noop").mode("overwrite").save()
        else:
            append_to(self.target, "sink")(counted, batch_id)
        self.rows += int(count.get["rows"])
        if self.seen is not None:
            self.seen(frame, called)


class Chain:
    """Two queries and what is between them.

    Parameters
    ----------
    folder : Path
        Where everything of this run is.
    rows : DataFrame
        The source.
    kind : str
        Of the sink: ``cheap`` or ``delta``.
    setting : int or None
        Floating buffers, or files a trigger.
    batches : int or None
        Source batches to send; ``None``: all.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        rows: DataFrame,
        kind: str,
        setting: int | None,
        batches: int | None = None,
    ) -> None:
        self.spark, self.folder, self.rows, self.setting = spark, folder, rows, setting
        self.batches, self.is_over = batches, threading.Event()
        self.sink = Sink(folder / "sink" if kind == "delta" else None)
        self.calls: list[float] = []
        self.queries: list[StreamingQuery] = []

    def start(self) -> None:
        """Start both queries."""
        raise NotImplementedError

    def _limited(self, work: Callable[..., None]) -> Callable[..., None]:
        """Have a source that never ends stop after the batches that are wanted."""

        def send(frame: DataFrame, batch_id: int) -> None:
            self.calls.append(time.monotonic())
            if self.batches is not None and batch_id >= self.batches:
                self.is_over.wait()
            else:
                work(frame, batch_id)

        return send

    def _begin(self, frame: DataFrame, name: str, work: Callable[..., None]) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        writer = frame.writeStream.foreachBatch(work)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
        self.queries.append(writer.start())

    def wait(self, rows: int) -> None:
        """Wait until the sink has a number of rows."""
        while self.sink.rows < rows:
            for query in self.queries:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the queries."""
        self.is_over.set()
        for query in self.queries:
            query.stop()


class LinkChain(Chain):
    """Source -> link -> sink."""

    def start(self) -> None:
        """Start both queries."""
        folder, schema = self.folder / "link", self.rows.schema
        link = Link(folder, key="key", schema=schema, floating_buffers=self.setting)
        self._begin(link.receive(self.spark), "down", self.sink)
        self._begin(self.rows, "up", self._limited(link.sender("source")))


class PlainChain(Chain):
    """Source -> Delta table -> sink."""

    def start(self) -> None:
        """Start both queries; the second as soon as its table is there."""
        middle = self.folder / "middle"
        write_deltalake(str(middle), pa.table({"id": pa.array([], pa.int64()),
                                               "key": pa.array([], pa.int64()),
                                               "text": pa.array([], pa.string())}))  # fmt: skip
        self._begin(self.rows, "up", self._limited(append_to(middle, "middle")))
        stream = self.spark.readStream.format("delta").option("maxFilesPerTrigger", self.setting)
        self._begin(stream.load(str(middle)), "down", self.sink)


def processes() -> list[int]:
    """Return this process, the JVM that started it or was started by it, and all below them."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue
    todo, seen = [os.getpid(), os.getppid()], set[int]()
    while todo:
        pid = todo.pop()
        if pid not in seen:
            seen.add(pid)
            todo += parents.get(pid, [])
    return list(seen)


def _of_all(file: str, take: Callable[[str], int]) -> int:
    found = 0
    for pid in processes():
        with suppress(OSError, IndexError):
            found += take((Path("/proc") / str(pid) / file).read_text())
    return found


def resident_mb() -> float:
    """Return the memory of all processes, MB."""
    pages = _of_all("statm", lambda text: int(text.split()[1]))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_s() -> float:
    """Return the CPU time of all processes, s."""
    ticks = _of_all("stat", lambda text: sum(map(int, text.rsplit(")", 1)[1].split()[11:13])))
    return ticks / os.sysconf("SC_CLK_TCK")


def throughput(chain: Chain, rows: int) -> float:
    """Return rows a second from the start of the queries to the sink's last row."""
    began = time.monotonic()
    chain.start()
    chain.wait(rows)
    took = time.monotonic() - began
    chain.stop()
    return rows / took


def wake_up_s(link: Path) -> float:
    """Return the median time from a release to the receiver's next decision, by the ledger, s."""
    rows = member_rows(Storage(link / "ledger")).to_pylist()
    released: dict[tuple[int, int], datetime] = {}
    for row in rows:
        if row["side"] == "sender" and row["released"] > 0:
            released.setdefault((row["receiver"], row["released"]), row["committed_at"])
    decided = sorted({row["committed_at"] for row in rows if row["side"] == "receiver"})
    waits = [
        (min(after) - at).total_seconds()
        for at in set(released.values())
        if (after := [other for other in decided if other > at])
    ]
    return statistics.median(waits)


def delay(chain: Chain, table: Path, rows: int, every_s: float, batches: int) -> list[float]:
    """Return median times, s: of the hand-over, and of the whole way; and CPU used when idle."""
    handed: dict[int, float] = {}
    arrived: dict[int, float] = {}

    def note(frame: DataFrame, called: float) -> None:
        now = time.monotonic()
        for row in frame.select("key").distinct().collect():
            handed.setdefault(row["key"], called)
            arrived.setdefault(row["key"], now)

    chain.sink.seen = note
    chain.start()
    committed: dict[int, float] = {}
    for batch in range(batches):
        block = pa.table(
            {
                "id": np.arange(rows, dtype=np.int64),
                "key": np.full(rows, batch, dtype=np.int64),
                "text": ["x" * 76] * rows,
            }
        )
        write_deltalake(str(table), block, mode="append")
        committed[batch] = time.monotonic()
        time.sleep(every_s)
    chain.wait(rows * batches)
    time.sleep(IDLE_S / 5)
    before = cpu_s()
    time.sleep(IDLE_S)
    idle = (cpu_s() - before) / IDLE_S
    chain.stop()
    warm = list(committed)[batches // 3 :]
    # Both queries are idle when a commit comes: the next call upstream is the one with its rows.
    sent = {batch: min(at for at in chain.calls if at > committed[batch]) for batch in warm}
    return [
        statistics.median(handed[batch] - sent[batch] for batch in warm),
        statistics.median(arrived[batch] - committed[batch] for batch in warm),
        idle,
    ]


def kinds_of(
    spark: SparkSession, base: Path, rows: int, width: int, ends: str
) -> dict[str, Callable[[Path], Chain]]:
    """Return what makes each chain, by name."""
    batches = max(1, rows * width // SOURCE_BATCH_BYTES) if ends == "cheap" else None
    if ends == "delta":
        make_source(base / "source", rows, width)

    def make(kind: type[Chain], setting: int | None) -> Callable[[Path], Chain]:
        def made(folder: Path) -> Chain:
            if batches is not None:
                stream = made_rows(spark, rows // batches, width)
            else:
                stream = source(spark, base / "source")
            return kind(spark, folder, stream, ends, setting, batches)

        return made

    return {
        **{link_name(count): make(LinkChain, count) for count in LINK_BUFFERS},
        **{f"plain, {files} files": make(PlainChain, files) for files in PLAIN_FILES},
    }


def link_name(floating: int | None) -> str:
    """Return how the tables call a link with so many floating buffers."""
    return "link, defaults" if floating is None else f"link, {floating} floating"


def compare_speed(
    spark: SparkSession, base: Path, rows: int, width: int, ends: str, repeats: int
) -> bool:
    """Print rows a second of both; whether the goal is met."""
    kinds = kinds_of(spark, base, rows, width, ends)
    found: dict[str, list[float]] = {name: [] for name in kinds}
    print(f"{width} bytes a row, {rows:,} rows, {ends} ends; a turn's rows/s:", flush=True)
    for repeat in range(repeats + 1):  # the first one warms the JVM up
        for name, make in kinds.items():
            folder = base / f"{name}-{repeat}".replace(" ", "-").replace(",", "")
            value = throughput(make(folder), rows)
            if repeat:
                found[name].append(value)
            shutil.rmtree(folder, ignore_errors=True)
        turn = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in found.items() if values)
        print(f"  {turn or 'warmed up'}; {resident_mb():,.0f} MB", flush=True)
    medians = {name: statistics.median(values) for name, values in found.items()}
    print(f"medians of {repeats}:")
    for name, value in medians.items():
        print(f"  {name:<18}{value:>12,.0f} rows/s{value * width / 1e6:>9,.1f} MB/s")
    link, plain = (
        max((name for name in medians if name.startswith(kind)), key=lambda name: medians[name])
        for kind in ("link", "plain")
    )
    is_cheap = ends == "cheap"
    goals = {link: BEST_GOAL if is_cheap else DELTA_GOAL}
    goals[link_name(None)] = DEFAULTS_GOAL.get(width, 1.0) if is_cheap else DELTA_GOAL
    met = True
    for name, goal in goals.items():
        ratio = medians[name] / medians[plain]
        print(f"  {name} / {plain}: {ratio:.2f} (goal: at least {goal})", flush=True)
        where = "rows that cost nothing" if is_cheap else "Delta tables at both ends"
        what = f"rows/s, {name}, rows of {width:,} bytes, {where}"
        note(what, ratio, "times", beside="a Delta table between", goal=goal)
        met = met and ratio >= goal
    print(flush=True)
    return met


def compare_delay(spark: SparkSession, base: Path, repeats: int) -> bool:
    """Print the median hand-over of both at a low rate; whether the goal is met."""
    found: dict[str, list[list[float]]] = {"link": [], "plain": []}
    wakes = []
    for repeat in range(repeats):
        for name in found:
            folder = base / f"delay-{name}-{repeat}"
            table = folder / "source"
            empty = {"id": pa.array([], pa.int64()), "key": pa.array([], pa.int64())}
            write_deltalake(str(table), pa.table({**empty, "text": pa.array([], pa.string())}))
            rows = source(spark, table)
            chain = (
                LinkChain(spark, folder, rows, "delta", LINK_BUFFERS[0])
                if name == "link"
                else PlainChain(spark, folder, rows, "delta", 1)
            )
            found[name].append(delay(chain, table, 100, 2.0, 12))
            if name == "link":
                wakes.append(wake_up_s(folder / "link"))
            shutil.rmtree(folder, ignore_errors=True)
        turn = ", ".join(f"{n} {v[-1][0]:.2f} of {v[-1][1]:.2f}" for n, v in found.items())
        print(f"  hand-over of the whole way, s: {turn}", flush=True)
    ratios = []
    for part, title in enumerate(("hand-over", "the whole way, Delta to Delta")):
        link, plain = (statistics.median(v[part] for v in values) for values in found.values())
        ratios.append(link / plain)
        print(f"{title}, 50 rows/s: link {link:.2f} s, plain {plain:.2f} s: {ratios[-1]:.2f}")
        note(f"{title}, 50 rows/s", ratios[-1], "times", beside=f"a Delta table, {plain:.2f} s")
    idle = ", ".join(
        f"{name} {statistics.median(v[2] for v in values) * 1000:.0f} ms/s"
        for name, values in found.items()
    )
    print(f"from a release to the receiver's decision: {statistics.median(wakes) * 1000:.0f} ms")
    print(f"CPU of all processes when nothing comes: {idle}")
    print(f"(goal: a hand-over of at most {DELAY_GOAL})")
    return ratios[0] <= DELAY_GOAL


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=16_000_000, help="of 100 bytes; wider: fewer")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bytes", type=int, nargs="+", default=[100, 2000])
    parser.add_argument("--ends", nargs="+", default=["cheap", "delta"], choices=["cheap", "delta"])
    parser.add_argument("--only", choices=["speed", "delay"])
    options = parser.parse_args()
    spark = get_session("bench link")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.parquet.compression.codec", CODEC)
    base = Path(tempfile.mkdtemp(prefix="bench-link-"))
    met = True
    try:
        for width in options.bytes if options.only != "delay" else []:
            rows = max(FILES, options.rows * 100 // width // FILES * FILES)
            for ends in options.ends:
                folder = base / f"{width}-{ends}"
                met = compare_speed(spark, folder, rows, width, ends, options.repeats) and met
        if options.only != "speed":
            met = compare_delay(spark, base, options.repeats) and met
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
