"""Two million orders through a link into a slow sink, with everything going wrong on the way.

    python bench/orders.py [--rows 2000000] [--rate 20000] [--target 2] [--keep DIR]

Two applications, each a Spark of its own: one sends orders (structs, arrays, maps, decimals, both
timestamps, dates, bytes, nulls), the other hands them to a sink that takes ``rate`` rows a second.
Each is killed with SIGKILL in the middle of its work and started again; half way the orders get a
new column; the sink throws twice. Afterwards the sink's table is compared, value by value, with
what the orders were made of. Printed: rows lost, doubled and changed, how long micro-batches took
beside their target after the first ten of each start, and rows a second beside what the sink can
do.
Exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_GOAL, RATE_GOAL = 1.2, 0.8
WARM_BATCHES = 10
FILES = 40
THROWS = (7, 19)
"""Batches of the sink that fail, once each."""

ORDER = """
    id,
    named_struct('number', id % 997, 'name', concat('customer ', id % 997),
                 'address', named_struct('street', repeat('s', cast(id % 7 as int)),
                                         'zip', if(id % 11 = 0, null, cast(id % 99999 as int))))
        AS customer,
    transform(sequence(1, cast(1 + id % 3 as int)), n -> named_struct(
        'sku', concat('sku-', id % 1009, '-', n), 'quantity', n,
        'price', cast((id * 31 + n * 7) % 1000000 as decimal(12, 4)) / cast(100 as decimal(3, 0))))
        AS items,
    if(id % 13 = 0, null,
       map('channel', if(id % 2 = 0, 'web', 'shop'), 'day', cast(id % 31 as string))) AS tags,
    cast(if(id % 17 = 0, null, id * 1.2345) as decimal(38, 10)) AS total,
    timestamp_micros(1700000000000000 + id * 1000003) AS ordered_at,
    cast(timestamp_micros(1600000000000000 + id * 999983) as timestamp_ntz) AS local_time,
    date_add(date'1970-01-01', cast(id % 30000 - 9000 as int)) AS due,
    if(id % 5 = 0, null, cast(concat('photo', id) as binary)) AS photo,
    cast(id as double) / 3 AS rating,
    if(id % 3 = 0, null, concat('note ', id)) AS note
"""
COUPON = ", if(id % 4 = 0, null, concat('coupon ', id)) AS coupon"
"""The column that comes half way."""


def orders(spark: SparkSession, first: int, end: int, *, with_coupon: bool) -> DataFrame:
    """Return the orders of a range of numbers."""
    text = ORDER + (COUPON if with_coupon else "")
    spark.range(first, end).createOrReplaceTempView("ids")
    return spark.sql(f"SELECT {text} FROM ids")


def write_files(spark: SparkSession, folder: Path, first: int, end: int, with_coupon: bool) -> None:
    """Add files of orders to a folder that is read as a stream."""
    made = folder.parent / f"made-{first}"
    rows = orders(spark, first, end, with_coupon=with_coupon)
    rows.repartitionByRange(max(1, FILES // 2), "id").write.parquet(str(made))
    folder.mkdir(exist_ok=True)
    for number, file in enumerate(sorted(made.glob("part-*.parquet"))):
        target = folder / f"{first:012d}-{number:04d}.parquet"
        file.rename(target)
        os.utime(target, (first + number, first + number))  # the order in which Spark reads them


# ---------------------------------------------------------------------- the two applications


def session(name: str) -> SparkSession:
    """Return a session whose time zone says nothing of the machine's."""
    from flowcontrol.spark.session import get_session

    spark = get_session(name)
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def send(base: Path, *, with_coupon: bool) -> None:
    """Send all orders that are there, then end."""
    from flowcontrol import Link

    spark = session("orders up")
    schema = orders(spark, 0, 1, with_coupon=with_coupon).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    link = Link(base / "link", key="id", evolve_schema=True)
    writer = rows.parquet(str(base / "orders")).writeStream.foreachBatch(link.sender("shop"))
    writer = writer.option("checkpointLocation", str(base / "up")).trigger(availableNow=True)
    writer.start().awaitTermination()


class SlowSink:
    """Appends to a Delta table, each batch once, and takes its time; throws now and then.

    Parameters
    ----------
    base : Path
        Of the run.
    rate : float
        Rows a second that it can do.
    """

    def __init__(self, base: Path, rate: float) -> None:
        self.base, self.rate = base, rate

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        began = time.monotonic()
        if batch_id in THROWS and not (mark := self.base / f"thrown-{batch_id}").exists():
            mark.touch()
            raise RuntimeError(f"the sink fails at batch {batch_id}")
        rows = frame.count()
        writer = frame.write.format("delta").mode("append").option("mergeSchema", "true")
        writer = writer.option("txnAppId", "orders").option("txnVersion", batch_id)
        writer.save(str(self.base / "sink"))
        time.sleep(max(0.0, rows / self.rate - (time.monotonic() - began)))


def receive(base: Path, rate: float, target_s: float) -> None:
    """Hand the link's rows to the sink until it is told to stop; note what each batch took."""
    from flowcontrol import Link

    spark = session("orders down")
    rows = Link(base / "link", key="id").receive(spark, target_batch_s=target_s)
    writer = rows.writeStream.foreachBatch(SlowSink(base, rate))
    query = writer.option("checkpointLocation", str(base / "down")).start()
    life, seen = time.time(), -1
    with (base / "batches.jsonl").open("a") as notes:
        while query.isActive and not (base / "stop").exists():
            for found in query.recentProgress:
                if found.batchId > seen and found.numInputRows > 0:
                    seen, took_ms = found.batchId, found.durationMs["triggerExecution"]
                    note = {"life": life, "seconds": took_ms / 1000, "rows": found.numInputRows}
                    notes.write(json.dumps({**note, "at": time.time()}) + "\n")
                    notes.flush()
            time.sleep(0.1)
    if (error := query.exception()) is not None:
        sys.exit(f"down: {str(error).splitlines()[0][:300]}")
    query.stop()


# ---------------------------------------------------------------------- what goes wrong


class Application:
    """One of the two, started again whenever it ends before its time.

    Parameters
    ----------
    command : list of str
        Starts it.
    kills_after_s : sequence of float
        Seconds after which each of its first starts is killed.
    environment : mapping of str to str
        Of the process.
    """

    def __init__(
        self, command: list[str], kills_after_s: list[float], environment: dict[str, str]
    ) -> None:
        self.command, self.kills_after_s = command, list(kills_after_s)
        self.environment, self.starts, self.kills = environment, 0, 0
        self.start()

    def start(self) -> None:
        """Start it."""
        self.process = subprocess.Popen(self.command, env=self.environment, start_new_session=True)
        self.since, self.starts = time.monotonic(), self.starts + 1

    def look(self) -> bool:
        """Kill it if its time has come, start it again if it failed; whether it has ended well."""
        status = self.process.poll()
        if status == 0:
            return True
        if status is not None:
            self.start()
        elif self.kills_after_s and time.monotonic() - self.since > self.kills_after_s[0]:
            self.kills_after_s.pop(0)
            self.kills += 1
            self.kill()
            self.start()
        return False

    def kill(self) -> None:
        """End it and its JVM as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run(
    spark: SparkSession,
    base: Path,
    rows: int,
    rate: float,
    target_s: float,
    kills_s: dict[str, list[float]],
    environment: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Run the whole way; return what happened.

    Parameters
    ----------
    rows : int
        Orders, half of them with the new column.
    rate : float
        Rows a second that the sink can do.
    target_s : float
        Of a receiver's micro-batch.
    kills_s : dict of str to list of float
        Seconds after which starts of ``up`` and ``down`` are killed.
    """
    environment = {**os.environ, **(environment or {})}
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        environment.pop(name, None)
    root = Path(__file__).resolve().parents[1]
    script = [str(root / "spark-submit.sh"), str(Path(__file__).resolve()), "--base", str(base)]
    half = rows // 2
    write_files(spark, base / "orders", 0, half, with_coupon=False)
    down_command = [*script, "--role", "down", "--rate", str(rate), "--target", str(target_s)]
    down = Application(down_command, kills_s["down"], environment)
    starts = kills = 0
    try:
        for role, kills_of_up in (("up", kills_s["up"][:1]), ("up-wide", kills_s["up"][1:])):
            up = Application([*script, "--role", role], kills_of_up, environment)
            try:
                while not up.look():
                    down.look()
                    time.sleep(0.1)
            finally:
                if up.process.poll() is None:
                    up.kill()
            starts, kills = starts + up.starts, kills + up.kills
            if role == "up":
                write_files(spark, base / "orders", half, rows, with_coupon=True)
        while taken(spark, base) < rows:
            down.look()
            time.sleep(1.0)
        (base / "stop").touch()
        while not down.look():
            time.sleep(0.1)
    finally:
        if down.process.poll() is None:
            down.kill()
    return {
        "starts": {"up": starts, "down": down.starts},
        "kills": {"up": kills, "down": down.kills},
        "thrown": len(list(base.glob("thrown-*"))),
        **batches_of(base),
    }


def taken(spark: SparkSession, base: Path) -> int:
    """Return the rows in the sink."""
    if not (base / "sink" / "_delta_log").exists():
        return 0
    return spark.read.format("delta").load(str(base / "sink")).count()


def batches_of(base: Path) -> dict[str, Any]:
    """Return how long batches took after the first ten of each start, and rows a second there."""
    lives: dict[float, list[dict[str, float]]] = {}
    for line in (base / "batches.jsonl").read_text().splitlines():
        note = json.loads(line)
        lives.setdefault(note["life"], []).append(note)
    warm = [
        note for own in lives.values() for note in own[WARM_BATCHES:-1]
    ]  # the last: what is left
    return {
        "batches": sum(map(len, lives.values())),
        "seconds": [note["seconds"] for note in warm],
        "rows_per_s": sum(n["rows"] for n in warm) / max(1e-9, sum(n["seconds"] for n in warm)),
    }


def expected(spark: SparkSession, rows: int) -> DataFrame:
    """Return what the sink should hold."""
    half = rows // 2
    first = orders(spark, 0, half, with_coupon=False).selectExpr(
        "*", "cast(null AS string) AS coupon"
    )
    return first.union(orders(spark, half, rows, with_coupon=True))


def comparable(frame: DataFrame) -> DataFrame:
    """Return the rows with their maps as sorted entries, which Spark can compare."""
    return frame.selectExpr(
        *(
            f"array_sort(map_entries({name})) AS {name}" if name == "tags" else name
            for name in frame.columns
        )
    )


def compare(spark: SparkSession, base: Path, rows: int) -> dict[str, int]:
    """Return how many rows of the sink are missing, or are not what they should be, or twice."""
    found = spark.read.format("delta").load(str(base / "sink"))
    made = expected(spark, rows).select(*found.columns)
    assert made.schema.simpleString() == found.schema.simpleString(), found.schema.simpleString()
    found, made = comparable(found), comparable(made)
    return {
        "missing or changed": made.exceptAll(found).count(),
        "too many or changed": found.exceptAll(made).count(),
    }


def main() -> int:
    """Run the benchmark, or one of its applications."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rate", type=float, default=20_000, help="rows/s that the sink can do")
    parser.add_argument("--target", type=float, default=2.0, help="seconds of a micro-batch")
    parser.add_argument("--keep", type=Path, help="empty folder for everything; it stays")
    parser.add_argument("--role", choices=["up", "up-wide", "down"], help=argparse.SUPPRESS)
    parser.add_argument("--base", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role == "down":
        receive(options.base, options.rate, options.target)
    elif options.role:
        send(options.base, with_coupon=options.role == "up-wide")
    else:
        return report(options)
    return 0


def report(options: argparse.Namespace) -> int:
    """Run the whole, print what happened; 1 if a goal is missed."""
    base = options.keep or Path(tempfile.mkdtemp(prefix="bench-orders-"))
    base.mkdir(parents=True, exist_ok=True)
    spark = session("orders")
    kills_s = {"up": [25.0, 25.0], "down": [40.0, 60.0]}
    try:
        found = run(spark, base, options.rows, options.rate, options.target, kills_s)
        wrong = compare(spark, base, options.rows)
    finally:
        if options.keep is None:
            shutil.rmtree(base, ignore_errors=True)
    seconds = sorted(found["seconds"])
    times = [one / options.target for one in seconds]
    share = found["rows_per_s"] / options.rate
    over = sum(one > TIME_GOAL for one in times)
    print(f"{options.rows:,} orders; starts {found['starts']}, kills {found['kills']}, ", end="")
    print(f"the sink threw {found['thrown']} times")
    print("rows " + ", ".join(f"{name}: {count}" for name, count in wrong.items()))
    print(
        f"{len(times)} of {found['batches']} batches, all but the first {WARM_BATCHES} of a ",
        end="",
    )
    print("start: ", end="")
    print(
        f"median {statistics.median(times):.2f}, longest {times[-1]:.2f} times the target of ",
        end="",
    )
    print(f"{options.target:g} s; {over} above {TIME_GOAL} times")
    print(f"{found['rows_per_s']:,.0f} rows/s, {share:.0%} of what the sink can do ", end="")
    print(f"(goal: {RATE_GOAL:.0%})")
    met = not any(wrong.values()) and over == 0 and share >= RATE_GOAL
    return 0 if met and found["thrown"] == len(THROWS) else 1


if __name__ == "__main__":
    sys.exit(main())
