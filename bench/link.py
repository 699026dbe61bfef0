"""Source -> link -> sink beside the plain Delta -> Delta chain: rows a second, and hand-over time.

    ./spark-submit.sh bench/link.py [--rows 2000000] [--repeats 3] [--bytes 100 2000]

Both move the same rows, from one Delta table through an intermediate log to another Delta table,
as two streaming queries that run at the same time, in one session, with the same compression. The
plain chain writes a Delta table in between and reads it with maxFilesPerTrigger at several
settings; its best one counts. Runs alternate; ratios are of medians. The goals: at least twice
the rows a second with rows of 100 bytes and of 2 KB; the median hand-over at a low rate, from a
row's commit at the source to its sink's batch, at most half as long; memory that stays flat.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol import Link
from flowcontrol.streaming.session import get_session

SPEED_GOAL, DELAY_GOAL = 2.0, 0.5

FILES = 16
"""Files of the source table: source batches at one file a trigger."""

SOURCE_FILES = 4
"""Files that the source hands out a trigger, in both chains."""

SETTINGS = (1, 4, 16)
"""maxFilesPerTrigger of the plain chain's second query."""

CODEC = "lz4_raw"


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


def source(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the source as a stream."""
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", SOURCE_FILES)
    return reader.load(str(folder))


def append_to(
    target: Path, app: str, seen: Callable[[DataFrame, int], None]
) -> Callable[..., None]:
    """Return a foreachBatch function that appends to a Delta table, once per batch."""

    def append(frame: DataFrame, batch_id: int) -> None:
        writer = frame.write.format("delta").mode("append")
        writer.option("txnAppId", app).option("txnVersion", batch_id).save(str(target))
        seen(frame, batch_id)

    return append


def count_of(target: Path) -> int:
    """Return the rows of a Delta table, from its log."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(target)):
        return 0
    return int(
        sum(DeltaTable(str(target)).get_add_actions(flatten=True)["num_records"].to_pylist())
    )


class Chain:
    """Two queries and what is between them."""

    def __init__(self, spark: SparkSession, folder: Path, rows: DataFrame) -> None:
        self.spark, self.folder, self.rows = spark, folder, rows
        self.sink = folder / "sink"
        self.queries: list[StreamingQuery] = []

    def start(self, seen: Callable[[DataFrame, int], None]) -> None:
        """Start both queries."""
        raise NotImplementedError

    def _begin(self, frame: DataFrame, name: str, work: Callable[..., None]) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", name)
        writer = frame.writeStream.foreachBatch(work)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{name}"))
        self.queries.append(writer.start())

    def wait(self, rows: int) -> None:
        """Wait until the sink has so many rows."""
        while count_of(self.sink) < rows:
            for query in self.queries:
                if query.exception() is not None:
                    raise RuntimeError(str(query.exception()))
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the queries."""
        for query in self.queries:
            query.stop()


class LinkChain(Chain):
    """Source -> link -> sink."""

    def start(self, seen: Callable[[DataFrame, int], None]) -> None:
        """Start both queries."""
        link = Link(self.folder / "link", key="key", schema=self.rows.schema)
        self._begin(link.receive(self.spark), "down", append_to(self.sink, "sink", seen))
        self._begin(self.rows, "up", link.sender("source"))


class PlainChain(Chain):
    """Source -> Delta table -> sink."""

    def __init__(self, spark: SparkSession, folder: Path, rows: DataFrame, files: int) -> None:
        super().__init__(spark, folder, rows)
        self.files = files

    def start(self, seen: Callable[[DataFrame, int], None]) -> None:
        """Start both queries; the second as soon as its table is there."""
        middle = self.folder / "middle"
        write_deltalake(str(middle), pa.table({"id": pa.array([], pa.int64()),
                                               "key": pa.array([], pa.int64()),
                                               "text": pa.array([], pa.string())}))  # fmt: skip
        self._begin(self.rows, "up", append_to(middle, "middle", lambda *_: None))
        stream = self.spark.readStream.format("delta").option("maxFilesPerTrigger", self.files)
        self._begin(stream.load(str(middle)), "down", append_to(self.sink, "sink", seen))


def resident_mb() -> float:
    """Return the memory of this process and all that it started, MB."""
    mine, found = os.getpid(), 0
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
        except (OSError, IndexError):
            continue
    todo = [mine, os.getppid()]
    seen = set()
    while todo:
        pid = todo.pop()
        if pid in seen:
            continue
        seen.add(pid)
        todo += parents.get(pid, [])
        try:
            found += int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
    return found * os.sysconf("SC_PAGE_SIZE") / 1e6


def throughput(chain: Chain, rows: int) -> float:
    """Return rows a second from the start of the queries to the sink's last row."""
    began = time.monotonic()
    chain.start(lambda *_: None)
    chain.wait(rows)
    took = time.monotonic() - began
    chain.stop()
    return rows / took


def delay(chain: Chain, table: Path, rows: int, every_s: float, batches: int) -> float:
    """Return the median time from a commit at the source to the end of its batch at the sink, s."""
    arrived: dict[int, float] = {}

    def note(frame: DataFrame, batch_id: int) -> None:
        now = time.monotonic()
        for row in frame.select("key").distinct().collect():
            arrived.setdefault(row["key"], now)

    chain.start(note)
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
    chain.stop()
    warm = list(committed)[batches // 3 :]
    return statistics.median(arrived[batch] - committed[batch] for batch in warm)


def compare_speed(spark: SparkSession, base: Path, rows: int, width: int, repeats: int) -> bool:
    """Print rows a second of both; whether the goal is met."""
    table = base / f"source-{width}"
    make_source(table, rows, width)
    kinds: dict[str, Callable[[Path], Chain]] = {
        "link": lambda folder: LinkChain(spark, folder, source(spark, table))
    }
    for files in SETTINGS:
        kinds[f"plain, {files} files"] = lambda folder, files=files: PlainChain(
            spark, folder, source(spark, table), files
        )
    found: dict[str, list[float]] = {name: [] for name in kinds}
    memory = []
    for repeat in range(repeats + 1):  # the first one warms the JVM up
        for name, make in kinds.items():
            folder = base / f"{width}-{name}-{repeat}".replace(" ", "-")
            value = throughput(make(folder), rows)
            if repeat:
                found[name].append(value)
            shutil.rmtree(folder, ignore_errors=True)
        memory.append(resident_mb())
        print(f"  {width} bytes, turn {repeat}: " + ", ".join(
            f"{name} {values[-1] if values else 0:,.0f}" for name, values in found.items()
        ) + f"; {memory[-1]:,.0f} MB", flush=True)  # fmt: skip
    medians = {name: statistics.median(values) for name, values in found.items()}
    best = max((name for name in medians if name != "link"), key=lambda name: medians[name])
    ratio = medians["link"] / medians[best]
    print(f"{width} bytes a row, {rows:,} rows, medians of {repeats}:")
    for name, value in medians.items():
        print(f"  {name:<16}{value:>12,.0f} rows/s{value * width / 1e6:>9,.1f} MB/s")
    print(f"  link / best plain chain ({best}): {ratio:.2f} (goal: at least {SPEED_GOAL})\n")
    return ratio >= SPEED_GOAL


def compare_delay(spark: SparkSession, base: Path, repeats: int) -> bool:
    """Print the median hand-over of both at a low rate; whether the goal is met."""
    found: dict[str, list[float]] = {"link": [], "plain": []}
    for repeat in range(repeats):
        for name in found:
            folder = base / f"delay-{name}-{repeat}"
            table = folder / "source"
            empty = {"id": pa.array([], pa.int64()), "key": pa.array([], pa.int64())}
            write_deltalake(str(table), pa.table({**empty, "text": pa.array([], pa.string())}))
            rows = source(spark, table)
            chain = (
                LinkChain(spark, folder, rows)
                if name == "link"
                else PlainChain(spark, folder, rows, 1)
            )
            found[name].append(delay(chain, table, 100, 2.0, 12))
            shutil.rmtree(folder, ignore_errors=True)
        print("  delay, s: " + ", ".join(f"{n} {v[-1]:.2f}" for n, v in found.items()), flush=True)
    link, plain = (statistics.median(values) for values in found.values())
    print(f"hand-over at 50 rows/s: link {link:.2f} s, plain {plain:.2f} s: {link / plain:.2f}")
    print(f"(goal: at most {DELAY_GOAL})")
    return link / plain <= DELAY_GOAL


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="of 100 bytes; wider: fewer")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--bytes", type=int, nargs="+", default=[100, 2000])
    parser.add_argument("--no-delay", action="store_true")
    options = parser.parse_args()
    spark = get_session("bench link")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.parquet.compression.codec", CODEC)
    base = Path(tempfile.mkdtemp(prefix="bench-link-"))
    met = True
    try:
        for width in options.bytes:
            rows = max(FILES, options.rows * 100 // width // FILES * FILES)
            met = compare_speed(spark, base, rows, width, options.repeats) and met
        if not options.no_delay:
            met = compare_delay(spark, base, options.repeats) and met
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
