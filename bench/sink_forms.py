"""The two forms of a link's sender beside each other: foreachBatch, and the sink by name.

    ./spark-submit.sh --driver-memory 4g bench/sink_forms.py [--rows 4000000] [--batches 40]
        [--repeats 3]

The same files through the same link into a sink that keeps nothing, in turn: rows a second from the
start of the queries until the last row is released, CPU time of all processes for a million rows,
and the median time of a batch of one row. The sink runs as it is, and with Spark's
``maxBytesPerBatch`` at the value at which it does not measure each row. Ratios are of medians, to
the function of foreachBatch; there is no goal: docs/decisions/038-a-sink-by-name.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from measured import note
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flowcontrol import Link
from flowcontrol.link.batches import MOST_BYTES, NO_LIMIT
from flowcontrol.spark.session import get_session
from link import cpu_s

FILES = 4
"""Of the rows: a source batch each."""

FORMS = ("foreachBatch", "the sink", "the sink, rows not measured")

WARM_UP = 5
"""Batches of a row that do not count."""

DDL = "id long, key long, text string"


class Figures(NamedTuple):
    """What a run has shown."""

    rows_s: float
    cpu_s_a_million: float
    batch_s: float  # Median time of a source batch


def write(spark: SparkSession, folder: Path, rows: int, files: int) -> None:
    """Write files of rows of 100 bytes."""
    frame = spark.range(0, rows, 1, files)
    text = F.concat_ws("", *(F.sha2(F.concat(F.lit(n), F.col("id")), 256) for n in range(2)))
    columns = ("id", (F.col("id") % 997).alias("key"), F.substring(text, 1, 76).alias("text"))
    frame.select(*columns).write.parquet(str(folder))


def run(spark: SparkSession, form: str, files: Path, rows: int, folder: Path) -> Figures:
    """Send all files in one form, a batch each."""
    link = Link(folder / "link", key="key", schema=DDL)
    source = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(files))
    down = begin(link.receive(spark), folder / "down", lambda batch, _: keep_none(batch)).start()
    if form == FORMS[0]:
        up = begin(source, folder / "up", link.sender("a"))
    else:
        options = {"path": str(link.storage), "name": "a", "checkpointLocation": str(folder / "up")}
        up = source.writeStream.format("flowcontrol").options(**options)
    if form == FORMS[2]:
        spark.conf.set(MOST_BYTES, str(NO_LIMIT))
    try:
        began, cpu = time.monotonic(), cpu_s()
        query = up.trigger(availableNow=True).start()
        query.awaitTermination()
        took, cpu = time.monotonic() - began, cpu_s() - cpu
    finally:
        spark.conf.unset(MOST_BYTES)
        down.stop()
    times = [one.durationMs["triggerExecution"] / 1000 for one in query.recentProgress]
    batch_s = statistics.median(times[WARM_UP:] or times)
    return Figures(rows / took, 1e6 * cpu / rows, batch_s)


def begin(frame: DataFrame, checkpoint: Path, work: Callable[..., None]) -> Any:
    """Return the writer of a query with a function of foreachBatch."""
    return frame.writeStream.foreachBatch(work).option("checkpointLocation", str(checkpoint))


def keep_none(batch: DataFrame) -> None:
    """Read a batch, and keep none of it."""
    batch.write.format("noop").mode("overwrite").save()


def compare(spark: SparkSession, rows: int, files: int, repeats: int) -> dict[str, list[Figures]]:
    """Run all forms in turn; the first turn warms up."""
    found: dict[str, list[Figures]] = {form: [] for form in FORMS}
    with tempfile.TemporaryDirectory(prefix="flowcontrol-bench-") as place:
        write(spark, Path(place) / "in", rows, files)
        for number in range(repeats + 1):
            for form in FORMS:
                folder = Path(place) / f"{number}-{FORMS.index(form)}"
                folder.mkdir()
                figures = run(spark, form, Path(place) / "in", rows, folder)
                if number:
                    found[form].append(figures)
    return found


def middle(found: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return Figures(*(statistics.median(column) for column in zip(*found, strict=True)))


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batches", type=int, default=40, help="of a row each")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spark = get_session("bench sink forms")
    spark.sparkContext.setLogLevel("ERROR")
    many = compare(spark, options.rows, FILES, options.repeats)
    single = compare(spark, options.batches, options.batches, 1)
    first = middle(many[FORMS[0]])
    for form in FORMS:
        own, batch_s = middle(many[form]), middle(single[form]).batch_s
        print(
            f"{form}: {own.rows_s:,.0f} rows/s, {own.cpu_s_a_million:.2f} CPU-s for a million "
            f"rows, {1000 * batch_s:.0f} ms for a batch of a row"
        )
        note(f"time of a batch of a row, {form}", 1000 * batch_s, "ms")
        if form != FORMS[0]:
            note(f"rows/s of {form}", own.rows_s / first.rows_s, "times", beside=FORMS[0])
            ratio = own.cpu_s_a_million / first.cpu_s_a_million
            note(f"CPU time a row of {form}", ratio, "times", beside=FORMS[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
