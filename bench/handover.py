"""The peer of a lock-step round: two queries that only hand the round number to each other.

The same reader interface, the same trigger, as many partitions and rows; a batch collects its
rows as one small Arrow table. No row is packed and nothing is committed: what is left is what
Spark itself takes for a micro-batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from flowcontrol.spark.versions import freeze_loaded

WAIT_S = 0.0005


class HandoverReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Starts a round when the peer's file of the round before is there."""

    def __init__(self, options: dict[str, str]) -> None:
        self.rounds, self.peer = int(options["rounds"]), Path(options["peer"])
        self.partition_count, self.rows = int(options["partitions"]), int(options["rows"])

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to prepare."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit."""
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset before the first round."""
        return {"round": -1}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Wait for the peer and return the next round."""
        number = start["round"] + 1
        if number >= self.rounds:
            return start
        while number > 0 and not (self.peer / str(number - 1)).exists():
            time.sleep(WAIT_S)
        return {"round": number}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return as many partitions as the measured job has subtasks."""
        return [InputPartition(index) for index in range(self.partition_count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a partition as one Arrow batch."""
        import numpy as np
        import pyarrow as pa

        numbers = pa.array(np.arange(self.rows, dtype=np.int64))
        yield pa.RecordBatch.from_arrays([numbers], names=["number"])
        freeze_loaded()  # the peer has what the measured job has: see there

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing is held open."""


class HandoverSource(DataSource):
    """The data source ``flowcontrol_handover``."""

    @classmethod
    def name(cls) -> str:
        """Return its name."""
        return "flowcontrol_handover"

    def schema(self) -> str:
        """Return its one column."""
        return "number long"

    def streamReader(self, schema: Any) -> HandoverReader:
        """Return the reader."""
        return HandoverReader(dict(self.options))


def hand_over(
    spark: SparkSession, folder: Path, rounds: int, partitions: int, rows: int
) -> list[float]:
    """Run the two queries; return the seconds at which the second one ended each round."""
    spark.dataSource.register(HandoverSource)
    ended: list[float] = []
    queries = []
    for me, peer in (("a", "b"), ("b", "a")):
        (folder / me).mkdir(parents=True, exist_ok=True)
        (folder / peer).mkdir(parents=True, exist_ok=True)
        reader = spark.readStream.format("flowcontrol_handover")
        for key, value in {
            "rounds": rounds,
            "peer": folder / peer,
            "partitions": partitions,
            "rows": rows,
        }.items():
            reader = reader.option(key, str(value))
        queries.append(
            reader.load()
            .writeStream.foreachBatch(_batch(folder / me, ended if me == "b" else []))
            .queryName(f"handover-{me}")
            .option("checkpointLocation", str(folder / f"checkpoint-{me}"))
            .trigger(availableNow=True)
            .start()
        )
    for query in queries:
        query.awaitTermination()
    return ended


def _batch(folder: Path, ended: list[float]) -> Any:
    def run(rows: DataFrame, batch_id: int) -> None:
        rows.toArrow()
        (folder / str(batch_id)).touch()
        ended.append(time.monotonic())

    return run
