"""The two applications of bench/orders.py: one sends orders, the other hands them to a slow sink.

    python bench/orders_members.py up|up-wide|down|alone --base DIR [--rate 4000] [--target 5]

Each notes what it does, a line of JSON an event, in ``DIR/<role>.jsonl``: whoever kills it reads
there what it was doing, and the figures are made of it. ``alone`` is the peer: the same sink, the
same rows in batches of the same sizes, without a link and without a query.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orders_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

THROWN = "the sink throws, as it was told to"
NEW_COLUMNS = "does not know"
"""What the link says of rows with columns that came after the query's start."""
LATE_WORKER = "failed to connect back"
"""What Spark says where a busy machine has not started a source's process within 10 s."""


class Notes:
    """Appends events to a file, each with its time.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, what: str, **values: Any) -> None:
        """Add an event."""
        with self.path.open("a") as file:
            file.write(json.dumps({"what": what, "at": time.time(), **values}) + "\n")


def session(name: str) -> SparkSession:
    """Return a session whose time zone says nothing of the machine's."""
    from flowcontrol.spark.session import get_session

    spark = get_session(name)
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "100")
    return spark


def noting(notes: Notes, work: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], None]:
    """Return a foreachBatch function that notes when it begins and ends."""

    def call(frame: DataFrame, batch_id: int) -> None:
        notes.add("begin", batch=batch_id)
        rows = work(frame, batch_id)
        notes.add("end", batch=batch_id, rows=rows)

    return call


def send(base: Path, role: str, channels: int) -> None:
    """Send all orders that are there, then end."""
    from flowcontrol import Link

    notes = Notes(base / f"{role}.jsonl")
    spark = session(f"orders {role}")
    schema = orders_rows.orders(spark, 0, 1, with_coupon=role == "up-wide").schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    link = Link(base / "link", key="id", channels=channels, evolve_schema=True)
    work = noting(notes, link.sender("shop"))
    writer = rows.parquet(str(base / "orders")).writeStream.foreachBatch(work)
    writer = writer.option("checkpointLocation", str(base / "up")).trigger(availableNow=True)
    notes.add("start")
    writer.start().awaitTermination()
    notes.add("done")


class SlowSink:
    """Appends each batch to a Delta table once, and takes its time; throws when it is told to.

    Parameters
    ----------
    base : Path
        Of the run. A file ``throw-before`` or ``throw-after`` there has the next batch fail, before
        or after it wrote its rows.
    table : str
        Name of the table below it.
    rate : float
        Rows a second of what it does beside writing, as a service that it calls for each row.
    notes : Notes
        Where it notes that it threw.
    """

    def __init__(self, base: Path, table: str, rate: float, notes: Notes) -> None:
        self.base, self.table, self.rate, self.notes = base, base / table, rate, notes

    def __call__(self, frame: DataFrame, batch_id: int) -> int:
        """Take a batch; return its rows."""
        self._throw("before", batch_id)
        rows = frame.count()
        writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
        writer = writer.option("txnAppId", "orders").option("txnVersion", batch_id)
        writer.save(str(self.table))  # Delta passes a batch over that it has
        self._throw("after", batch_id)
        time.sleep(rows / self.rate)
        return rows

    def _throw(self, when: str, batch_id: int) -> None:
        order = self.base / f"throw-{when}"
        if order.exists():
            order.rename(self.base / f"thrown-{when}")
            self.notes.add("threw", batch=batch_id, when=when)
            raise RuntimeError(THROWN)


def receive(base: Path, rate: float, target_s: float, channels: int) -> None:
    """Hand the link's rows to the sink until told to stop; start the query again when it fails."""
    from flowcontrol import Link

    notes = Notes(base / "down.jsonl")
    spark = session("orders down")
    sink = SlowSink(base, "sink", rate, notes)
    while not (base / "stop").exists():
        link = Link(base / "link", key="id", channels=channels)
        writer = link.receive(spark, target_batch_s=target_s, wait_s=600).writeStream
        writer = writer.foreachBatch(noting(notes, sink))
        query = writer.option("checkpointLocation", str(base / "down")).start()
        notes.add("start")
        follow(query, notes, base / "stop")
        said = str(query.exception() or "")
        if NEW_COLUMNS in said:
            notes.add("columns")
        elif LATE_WORKER in said:
            notes.add("late")
        elif said and THROWN not in said:
            sys.exit(f"down: {said[:2000]}")
        query.stop()


def follow(query: StreamingQuery, notes: Notes, stop: Path) -> None:
    """Note how long each micro-batch took until the query ends, or is to."""
    seen = -1
    while True:
        is_over = stop.exists() or not query.isActive
        for found in query.recentProgress:
            if found.batchId > seen and found.numInputRows > 0:
                seen = found.batchId
                notes.add(
                    "batch",
                    batch=seen,
                    seconds=found.durationMs["triggerExecution"] / 1000,
                    load=os.getloadavg()[0],
                    parts={name: found.durationMs[name] / 1000 for name in found.durationMs},
                )
        if is_over:
            return
        time.sleep(0.05)


def alone(base: Path, rate: float) -> None:
    """Give the sink the same rows, in batches of the sizes that ``DIR/sizes.json`` lists."""
    notes = Notes(base / "alone.jsonl")
    spark = session("orders alone")
    sizes = json.loads((base / "sizes.json").read_text())
    schema = orders_rows.orders(spark, 0, 1, with_coupon=True).schema
    rows = spark.read.schema(schema).parquet(str(base / "orders"))
    call = noting(notes, SlowSink(base, "alone", rate, notes))
    first = 0
    for number, size in enumerate(sizes):
        call(rows.where(f"id >= {first} AND id < {first + size}"), number)
        first += size


def main() -> None:
    """Run one of the applications."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("role", choices=["up", "up-wide", "down", "alone"])
    parser.add_argument("--base", type=Path, required=True, help="folder of the run")
    parser.add_argument(
        "--rate", type=float, default=4_000, help="rows/s of the sink, beside its table"
    )
    parser.add_argument("--target", type=float, default=5.0, help="seconds of a micro-batch")
    parser.add_argument("--channels", type=int, default=8, help="of the link")
    given = parser.parse_args()
    if given.role == "down":
        receive(given.base, given.rate, given.target, given.channels)
    elif given.role == "alone":
        alone(given.base, given.rate)
    else:
        send(given.base, given.role, given.channels)


if __name__ == "__main__":
    main()
