"""What the live tests of the link share: a source of known rows, a sink that remembers."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flowcontrol.spark.versions import has_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 1800.0
"""Rows that take so long to arrive never do: no machine is as slow as that."""


class Events:
    """Numbered events, a file a batch, read as a stream: a Delta table, if this Spark reads one."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder, self.written = spark, folder, 0

    def write(self, rows: int, files: int = 1) -> None:
        """Append events, so many files of so many rows."""
        for _ in range(files):
            numbers = np.arange(self.written, self.written + rows, dtype=np.int64)
            table = pa.table(
                {
                    "event_id": numbers,
                    "customer_id": numbers % 17,
                    "text": pa.array([f"event {n}" for n in numbers.tolist()], pa.string()),
                }
            )
            if has_delta():
                write_deltalake(str(self._folder), table, mode="append")
            else:
                self._folder.mkdir(exist_ok=True)
                file = self._folder / f"{self.written:09d}-{rows}.parquet"
                pq.write_table(table, file)
                moment = 1_700_000_000 + len([*self._folder.iterdir()])  # Spark reads them by age
                os.utime(file, (moment, moment))
            self.written += rows

    def stream(self) -> DataFrame:
        """Return the events as a stream, a file a batch."""
        reader = self._spark.readStream.option("maxFilesPerTrigger", 1)
        if has_delta():
            return reader.format("delta").load(str(self._folder))
        columns = "event_id long, customer_id long, text string"
        return reader.schema(columns).parquet(str(self._folder))


class Sink:
    """Remembers the rows of each batch; a batch that is run again replaces what it had."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.calls = 0
        self.lock = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch."""
        found = frame.collect()
        with self.lock:
            self.calls += 1
            self.batches[batch_id] = found

    @property
    def rows(self) -> list[Any]:
        """All rows, batch by batch."""
        with self.lock:
            return [row for batch in sorted(self.batches) for row in self.batches[batch]]

    def assert_exactly(self, count: int) -> None:
        """Assert that the events 0 to ``count`` came, once each, in order by customer."""
        rows = self.rows
        numbers = [row["event_id"] for row in rows]
        assert len(numbers) == len(set(numbers)), "doubled"
        assert sorted(numbers) == list(range(count))
        last: dict[int, int] = {}
        for row in rows:
            assert row["event_id"] > last.get(row["customer_id"], -1), row
            last[row["customer_id"]] = row["event_id"]
            assert row["text"] == f"event {row['event_id']}"


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Events:
    """Return an empty source with its columns."""
    made = Events(spark, tmp_path / "events")
    made.write(0)
    return made


@pytest.fixture
def sink() -> Sink:
    """Return a sink that remembers."""
    return Sink()


@pytest.fixture
def until() -> Callable[..., None]:
    """Return a function that waits for something, and fails if a query ends first."""

    def wait(what: Callable[[], bool], *queries: StreamingQuery) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            for query in queries:
                error = query.exception()
                assert error is None, error
                assert query.isActive
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.05)

    return wait
