"""A case in Structured Streaming itself: files as batches, one file of each stream a batch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from flowcontrol.spec.spark_aggregation import Group, MicroBatch
from modules import load

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

cases: Any = load("tests/spec/spark_time/cases.py")

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # A plan is run a few times: not worth compiling.
    "spark.sql.codegen.wholeStage": "false",
    # All batches' progress is compared.
    "spark.sql.streaming.numRecentProgressUpdates": "100",
}
AT_ONCE = 2
"""Queries beside each other."""


def answers(spark: SparkSession, given: Iterable[Any], folder: Path) -> list[list[MicroBatch]]:
    """Return what Spark's batches of each case put out."""
    sessions = Sessions(spark)
    streams = [Stream(sessions.of(one), one, folder / str(at)) for at, one in enumerate(given)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(Stream.run, streams))


class Sessions:
    """Sessions beside the one of the tests, one for each choice of settings.

    Parameters
    ----------
    spark : SparkSession
        The session of the tests.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._made: dict[tuple[str, ...], SparkSession] = {}

    def of(self, case: Any) -> SparkSession:
        """Return the session in which a case runs."""
        chosen = {
            "multipleWatermarkPolicy": case.policy,
            "noDataMicroBatches.enabled": str(case.no_data_batches).lower(),
            "statefulOperator.allowMultiple": str(case.multiple).lower(),
        }
        if tuple(chosen.values()) not in self._made:
            session = self._made[tuple(chosen.values())] = self._spark.newSession()
            for key, value in SETTINGS.items():
                session.conf.set(key, value)
            for key, value in chosen.items():
                session.conf.set(f"spark.sql.streaming.{key}", value)
        return self._made[tuple(chosen.values())]


class Stream:
    """A query, and the files that it reads.

    Parameters
    ----------
    spark : SparkSession
        The session of :class:`Sessions` with the case's settings.
    case : Case
        What to run.
    folder : Path
        Where files and checkpoint go.
    """

    def __init__(self, spark: SparkSession, case: Any, folder: Path) -> None:
        self._case, self._folder = case, folder
        self._session = spark
        for at in range(case.inputs):
            (folder / str(at)).mkdir(parents=True)
        self._files = 0
        self._answers = dict[int, list[Group]]()
        self._progress = dict[int, Any]()

    def run(self) -> list[MicroBatch]:
        """Run the case to its end; return its batches."""
        for number, run in enumerate(self._case.runs):
            if self._case.is_stepped:
                self._step(run)
                continue
            for batch in run:
                self._write(batch)
            is_once = self._case.is_once and number == 0
            query = self._start(**{"once" if is_once else "availableNow": True})
            query.awaitTermination()
            self._keep(query)
        return [self._batch(number) for number in sorted(self._answers)]

    def _step(self, run: list[Any]) -> None:
        """Run one batch at a time, and what follows of it, in one query."""
        query = self._start()
        try:
            for batch in run:
                self._write(batch)
                query.processAllAvailable()
        finally:
            query.stop()
        self._keep(query)

    def _write(self, batch: list[list[Any]]) -> None:
        """Write a file of each stream, in the order in which Spark must take them."""
        for at, rows in enumerate(batch):
            path = self._folder / str(at) / f"{self._files:05d}.csv"
            hidden = path.with_name(f".{path.name}")
            hidden.write_text("".join(f"{time},{key or ''}\n" for time, key in rows))
            os.utime(hidden, (1_700_000_000 + self._files,) * 2)
            hidden.rename(path)
        self._files += 1

    def _start(self, **trigger: bool) -> StreamingQuery:
        writer = self.frame().writeStream.outputMode(self._case.mode).foreachBatch(self._take)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def _take(self, frame: DataFrame, number: int) -> None:
        self._answers[number] = [Group(*row) for row in frame.collect()]

    def _keep(self, query: StreamingQuery) -> None:
        for progress in query.recentProgress:
            # A query that waits says so too, with the number of the batch to come: the last is it.
            if progress["batchId"] in self._answers:
                self._progress[progress["batchId"]] = progress

    def _batch(self, number: int) -> MicroBatch:
        progress = self._progress[number]
        (state,) = progress["stateOperators"]
        told = progress["eventTime"].get("watermark", "1970-01-01T00:00:00.000Z")
        watermark = round(datetime.fromisoformat(told).timestamp() * 1_000)
        found = (watermark, self._answers[number], state["numRowsDroppedByWatermark"])
        return MicroBatch(number, *found, state["numRowsTotal"])

    def frame(self) -> DataFrame:
        """Return the query: the streams united, each with its watermark, grouped and counted."""
        first, *others = [self._input(at) for at in range(self._case.inputs)]
        for other in others:
            first = first.union(other)
        keys = ["key"] if self._case.is_keyed else []
        counted = first.groupBy(self._window().alias("window"), *keys).count()
        bounds = [F.unix_millis(f"window.{one}") for one in ("start", "end")]
        key = F.col("key") if keys else F.lit(None).cast("string")
        return counted.select(*bounds, key, "count")

    def _input(self, at: int) -> DataFrame:
        reader = self._session.readStream.schema("time long, key string")
        rows = reader.option("maxFilesPerTrigger", 1).csv(str(self._folder / str(at)))
        rows = rows.select(F.timestamp_millis("time").alias("at"), "key")
        delays = self._case.delays
        return rows if delays is None else rows.withWatermark("at", f"{delays[at]} milliseconds")

    def _window(self) -> Column:
        kind, numbers = self._case.windows
        lengths = [f"{number} milliseconds" for number in numbers]
        if kind == "session":
            return F.session_window("at", lengths[0] if lengths else _gap())
        if kind == "tumbling":
            lengths.insert(1, lengths[0])
        return F.window("at", *lengths)


def _gap() -> Column:
    """Return the gap of a row's key."""
    gap = F.lit(f"{cases.GAPS[None]} milliseconds")
    for key, number in cases.GAPS.items():
        if key is not None:
            gap = F.when(F.col("key") == key, f"{number} milliseconds").otherwise(gap)
    return gap
