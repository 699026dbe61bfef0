"""The slow sink of the tutorial in real-time mode: a topic, a slow call for each row, a topic.

    ./spark-submit.sh --jars "$(scripts/kafka.sh jars)" bench/real_time_mode.py --servers HOST:PORT

``bench/link_or_limit.py`` starts a broker, makes the topics ``in`` and ``out`` and runs this. The
mode writes to no function of foreachBatch, and a sink in Python gets its rows when the batch ends.
So the sink is a call in the JVM, which sleeps as long as the tutorial's sink takes. With --fail the
query is stopped when half of the slow time is over, and started again.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from flowcontrol.spark.session import get_session
from link import cpu_s

FAST, SLOW, ON_TIME_S = 4.0, 0.25, 10
"""As ``examples/slow_sink.py`` has them."""

SLEEP_ROWS = 8
"""Rows of which one sleeps for all: a sleep is whole milliseconds."""

WARM_S = 45.0
"""From the start of the queries to the first second that counts."""

IDLE_S = 20.0

READER_S = 2.0
"""Until the reader has what came out."""


class Arrived(NamedTuple):
    """What a batch of the reader has found: the last row, its times, and the latest row."""

    number: int
    made_s: float
    at_s: float
    late_s: float
    rows: int


class Outcome:
    """Reads the last topic."""

    def __init__(self) -> None:
        self.batches: list[Arrived] = []
        self._lock = threading.Lock()

    def take(self, batch: DataFrame, _: int) -> None:
        """Note a batch; how late a row is says the broker's time."""
        late = F.col("arrived") - F.col("made")
        columns = [F.max(name) for name in ("number", "made", "arrived")]
        found = batch.agg(*columns, F.max(late), F.count("*")).first()
        if found is not None and found[4]:
            with self._lock:
                self.batches.append(Arrived(*found))


def slow_call(rate: int, slow_s: tuple[float, float]) -> Column:
    """Return the sink's call for a row; it is slow between two points in time, Unix time."""
    now_ms = F.expr("reflect('java.lang.System', 'currentTimeMillis')").cast("long")
    is_slow = (now_ms >= F.lit(int(1000 * slow_s[0]))) & (now_ms < F.lit(int(1000 * slow_s[1])))
    fast, slow = (round(1000 * SLEEP_ROWS / (rate * times)) for times in (FAST, SLOW))
    took_ms = F.when(is_slow, F.lit(slow)).otherwise(F.lit(fast)).cast("long")
    call = F.call_function("reflect", F.lit("java.lang.Thread"), F.lit("sleep"), took_ms)
    return F.when(F.col("number") % SLEEP_ROWS == 0, call)


def topic(spark: SparkSession, servers: str, name: str) -> DataFrame:
    """Return a topic's rows: number, when they were made and when they came, Unix time."""
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = read.option("subscribe", name).option("startingOffsets", "earliest").load()
    return rows.select(
        F.col("key").cast("string").cast("long").alias("number"),
        F.col("value").cast("string").cast("double").alias("made"),
        F.col("timestamp").cast("double").alias("arrived"),
    )


def write(rows: DataFrame, servers: str, name: str, folder: Path, **trigger: str) -> StreamingQuery:
    """Start a query into a topic."""
    texts = rows.select(
        F.col("number").cast("string").alias("key"), F.col("made").cast("string").alias("value")
    )
    query = texts.writeStream.format("kafka").option("kafka.bootstrap.servers", servers)
    query = query.option("topic", name).option("checkpointLocation", str(folder))
    return (query.trigger(**trigger).outputMode("update") if trigger else query).start()


def summary(batches: list[Arrived], began_s: float, third_s: float) -> dict[str, float | None]:
    """Return what ``examples/slow_sink.py`` says of a run, as far as this has it."""
    timed = [one for one in batches if one.at_s >= began_s]
    after = [one.at_s - began_s - 2 * third_s for one in timed if one.late_s < ON_TIME_S]
    on_time = [at_s for at_s in after if at_s >= 0]
    rows = sum(one.rows for one in batches)
    return {
        "latest_row_s": max(one.late_s for one in timed),
        "on_time_after_s": on_time[0] if on_time else None,
        "doubled_rows": rows - len({*range(max(one.number for one in batches) + 1)}),
    }


def main() -> int:
    """Run the pipeline once; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", required=True, help="of the broker, HOST:PORT")
    parser.add_argument("--seconds", type=float, default=240, help="of the run, default 240")
    parser.add_argument("--rate", type=int, default=400, help="rows a second, default 400")
    parser.add_argument("--batch", default="1 minute", help="length of a batch, default 1 minute")
    parser.add_argument("--fail", action="store_true", help="stop the query in the slow time")
    parser.add_argument("--out", type=Path, required=True, help="folder, new")
    options = parser.parse_args()
    spark, third_s = get_session("real_time_mode.py"), options.seconds / 3
    spark.sparkContext.setLogLevel("ERROR")
    events = spark.readStream.format("rate").option("rowsPerSecond", options.rate).load()
    events = events.select(
        F.col("value").alias("number"), F.col("timestamp").cast("double").alias("made")
    )
    outcome, began_s = Outcome(), time.time() + WARM_S
    slow_s = began_s + third_s, began_s + 2 * third_s
    source = write(events, options.servers, "in", options.out / "source")
    called = topic(spark, options.servers, "in").withColumn(
        "answer", slow_call(options.rate, slow_s)
    )
    nothing = F.substring(F.coalesce("answer", F.lit("")), 100, 1)  # so that the call is kept
    called = called.withColumn("made", F.concat(F.col("made").cast("string"), nothing))

    def start() -> StreamingQuery:
        folder = options.out / "call"
        return write(called, options.servers, "out", folder, realTime=options.batch)

    call = start()
    reader = topic(spark, options.servers, "out").writeStream.foreachBatch(outcome.take)
    reader = reader.option("checkpointLocation", str(options.out / "reader")).start()
    lost_s, most_s = 0.0, 0.0
    while time.time() < began_s + 3 * third_s:
        spark.streams.awaitAnyTermination(1)
        if outcome.batches and time.time() > began_s:
            most_s = max(most_s, time.time() - max(one.made_s for one in outcome.batches))
        if options.fail and not lost_s and time.time() > began_s + 1.5 * third_s:
            stopped_s = time.time()
            call.stop()
            time.sleep(READER_S)
            last, count = max(one.number for one in outcome.batches), len(outcome.batches)
            call = start()
            while not any(one.number > last for one in outcome.batches[count:]):
                time.sleep(0.1)
            lost_s = time.time() - stopped_s - READER_S
            spark.streams.resetTerminated()
    found = summary(outcome.batches, began_s, third_s)
    for query in (source, reader):
        query.stop()
    time.sleep(IDLE_S / 4)
    before = cpu_s()
    time.sleep(IDLE_S)
    found |= {
        "lost_s": lost_s,
        "most_between_rows": most_s * options.rate,
        "idle_cpu": (cpu_s() - before) / IDLE_S,
    }
    print(json.dumps(found, indent=1))
    (options.out / "summary.json").write_text(json.dumps(found, indent=1))
    call.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
