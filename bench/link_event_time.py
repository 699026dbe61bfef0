"""A link with event time beside the same link without: what it costs to have watermarks.

    python bench/link_event_time.py [--rows 4000000] [--repeats 5] [--only pack]

First what an executor does alone, rows to a file, by CPU time; then a whole link with rows that
are made in the JVM and a sink that keeps none, rows a second. Runs alternate, ratios are of
medians: with event time over without. The goals: at most 1.05 of the CPU time, at least 0.95 of the
rows a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from measured import note

from flowcontrol import Link
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.packing import HOLD_BYTES, PackRows
from flowcontrol.link.schema import CHANNEL
from flowcontrol.spark.session import get_session
from link import CODEC, SOURCE_BATCH_BYTES, LinkChain, made_rows, throughput

CPU_GOAL, SPEED_GOAL = 1.05, 0.95

WIDTH = 100
"""Size of a row, bytes."""

COLUMNS = (None, "id")
"""``event_time_column``: none, and one."""


class TimedChain(LinkChain):
    """The chain of ``bench/link.py`` over a link whose column ``id`` is the event time."""

    def start(self) -> None:
        """Start both queries."""
        folder, schema = self.folder / "link", self.rows.schema
        link = Link(folder, key="key", schema=schema, event_time_column="id", watermark_delay_s=5)
        self._begin(link.receive(self.spark), "down", self.sink)
        self._begin(self.rows, "up", self._limited(link.sender("source")))


def pack(column: str | None, rows: pa.Table) -> float:
    """Return the CPU time of a task that writes one file, s."""
    with tempfile.TemporaryDirectory() as folder:
        work = PackRows(Storage(folder), 0, 4 << 20)
        work.event_time_column = column
        began = time.process_time()
        work.write(rows)
        return time.process_time() - began


def pack_ratio(repeats: int) -> float:
    """Print and return the CPU time with event time over that without."""
    count, random = HOLD_BYTES // WIDTH, np.random.default_rng(1)
    rows = pa.table(
        {
            "id": np.arange(count),
            "text": ["x" * (WIDTH - 24)] * count,
            CHANNEL: pa.array(random.integers(0, 8, count), pa.int32()),
        }
    )
    times: dict[str | None, list[float]] = {column: [] for column in COLUMNS}
    for _ in range(repeats):
        for column in COLUMNS:
            times[column].append(pack(column, rows))
    without, timed = (statistics.median(times[column]) for column in COLUMNS)
    print(
        f"a file of {count:,} rows: {1000 * without:.1f} ms of CPU time, with event time "
        f"{1000 * timed:.1f} ms, ratio {timed / without:.2f} (goal: at most {CPU_GOAL})"
    )
    what = "processor time of a file"
    note(what, timed / without, "times", beside="without", goal=CPU_GOAL, is_met="at most")
    return timed / without


def speed_ratio(rows: int, repeats: int) -> float:
    """Print and return the rows a second with event time over those without."""
    spark = get_session("bench link event time")
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.sql.parquet.compression.codec", CODEC)
    batch = SOURCE_BATCH_BYTES // WIDTH
    batches = max(1, rows // batch)
    speeds: dict[type[LinkChain], list[float]] = {LinkChain: [], TimedChain: []}
    for number in range(repeats + 1):  # the first warms up
        for kind, own in speeds.items():
            with tempfile.TemporaryDirectory() as folder:
                source = made_rows(spark, batch, WIDTH)
                chain = kind(spark, Path(folder), source, "cheap", None, batches)
                found = throughput(chain, batches * batch)
            own += [found] if number else []
    without, timed = (statistics.median(own) for own in speeds.values())
    print(
        f"{without:,.0f} rows/s, with event time {timed:,.0f} rows/s, ratio {timed / without:.2f} "
        f"(goal: at least {SPEED_GOAL})"
    )
    note("rows/s", timed / without, "times", beside="without", goal=SPEED_GOAL)
    return timed / without


def main() -> int:
    """Run both; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["pack", "speed"])
    options = parser.parse_args()
    is_met = True
    if options.only != "speed":
        is_met &= pack_ratio(4 * options.repeats) <= CPU_GOAL
    if options.only != "pack":
        is_met &= speed_ratio(options.rows, options.repeats) >= SPEED_GOAL
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
