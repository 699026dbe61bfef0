"""Real rows for a replaying source: read once, on executors, and split by subtask.

Row *i* of the input is record *i // n* of subtask *i mod n* (*n* subtasks). For an edge that a key
column routes, the subpartition of every row is stored beside the rows: the rules need it in
advance, since the channel of a record decides when a task blocks. So are the stamps of rows that
have event times or are in windows, and the table of their ids.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy import typing as npt
from pyarrow import parquet as pq

from flowcontrol.errors import RunError
from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed, routes_of_keys, row_keys
from flowcontrol.layout.row_stamps import RowNeeds, RowStamper, StampedRows, dealt, row_needs
from flowcontrol.notices import announce_step
from flowcontrol.scenario.inputs import read_rows
from flowcontrol.scenario.stage_models import Input
from flowcontrol.spark.session import cause_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROW_GROUP_ROWS = 4096
"""Rows of a row group of the split input; a round reads a few of them."""
IDS_FILE = "ids.parquet"
"""The table of the ids of a source's rows."""

Ints = npt.NDArray[np.int64]


class Replay:
    """The split input of a replaying source, as staged below the run's folder.

    ``folder``: where :func:`stage_replay` put it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        described = json.loads((folder / "rows.json").read_text())
        self.counts: list[int] = described["counts"]

    def file(self, subtask: int) -> Path:
        """Return the rows of a subtask."""
        return self.folder / f"subtask-{subtask}.parquet"

    def schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return pq.read_schema(self.file(0)).remove_metadata()

    def stamps(self, subtask: int) -> Ints | None:
        """Return the stamp of each row of a subtask; None: windows and event time see none.

        Ids are those of :meth:`ids`. Those of the job begin at ``RowKeys.offsets``.
        """
        file = self.folder / f"stamps-{subtask}.npy"
        return np.asarray(np.load(file), np.int64) if file.exists() else None

    def ids(self) -> pa.Table | None:
        """Return what each id stands for (``StampedRows.ids``); None as for the stamps."""
        file = self.folder / IDS_FILE
        return pq.read_table(file) if file.exists() else None

    def table(self, link: JobEdge, subtask: int) -> Ints | None:
        """Return the subpartition of each row over a link; None if no key routes it."""
        if link.edge.key is None:
            return None
        routes = np.load(self.folder / f"routes-{link.folder}-{subtask}.npy")
        return np.asarray(routes, dtype=np.int64)


def staged_rows(job: Job, folder: Callable[[str], Path]) -> Replayed:
    """Return what the rules must know of all replayed rows of a job, as it was staged.

    ``folder``: given a source, returns where :func:`stage_replay` put its rows.

    Raises ScenarioError if the sources have too many different rows together.
    """
    found = Replayed()
    replays = {one.name: Replay(folder(one.name)) for one in job.stages if one.stage.input}
    ids = {stage: table for stage, one in replays.items() if (table := one.ids()) is not None}
    keys = row_keys(job, ids)
    for stage, one in replays.items():
        plan = job.stage(stage)
        for index, count in enumerate(one.counts):
            found.limits[stage, index] = count
            if (stamps := one.stamps(index)) is not None:
                found.stamps[stage, index] = stamps + keys.offsets[stage]
            for link in plan.outputs:
                if (routes := one.table(link, index)) is not None:
                    found.tables[link.name, index] = routes
    return replace(found, keys=keys)


def stage_replay(spark: SparkSession, job: Job, plan: JobVertex, folder: Path) -> Replay:
    """Read a source's input on an executor and split it by subtask, unless that is done.

    Raises RunError if the input cannot be read.
    """
    source = plan.stage.input
    if source is not None and not (folder / "rows.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        task = _Split(plan, source, folder, row_needs(job, plan))
        announce_step(
            f"splitting the rows of {plan.name} by subtask", "2 s, and 1 s for a million rows"
        )
        try:
            counts = spark.sparkContext.parallelize([0], 1).map(task).collect()[0]
        except Exception as error:
            raise RunError(
                f"stage {plan.name}: its input {source.path} cannot be read: {cause_of(str(error))}"
            ) from error
        if sum(counts) == 0:
            raise RunError(f"the input of stage {plan.name} holds no rows: {source.path}")
        (folder / "rows.json").write_text(json.dumps({"counts": counts}))
    return Replay(folder)


class _Split:
    """The task that reads the input and writes a file a subtask; it runs on an executor."""

    def __init__(
        self, plan: JobVertex, source: Input, folder: Path, needs: RowNeeds | None
    ) -> None:
        self.plan, self.source, self.folder, self.needs = plan, source, folder, needs

    def __call__(self, _: int) -> list[int]:
        """Split the input; return the rows of each subtask."""
        width = self.plan.stage.parallelism
        writers: list[pq.ParquetWriter | None] = [None] * width
        routes: dict[tuple[str, int], list[np.ndarray[Any, Any]]] = {}
        counts, position = [0] * width, 0
        stamper = None if self.needs is None else RowStamper(self.needs)
        for batch in read_rows(self.source):
            if stamper is not None:
                stamper.add(batch)
            table = pa.Table.from_batches([_spark_types(batch)])
            for subtask in range(width):
                part = table.take(np.arange((subtask - position) % width, len(table), width))
                writer = writers[subtask] or pq.ParquetWriter(
                    self.folder / f"subtask-{subtask}.parquet", part.schema, compression="lz4"
                )
                writers[subtask] = writer
                writer.write_table(part, row_group_size=ROW_GROUP_ROWS)
                counts[subtask] += len(part)
                self._route(part, subtask, routes)
            position += len(table)
        for open_writer in writers:
            if open_writer is not None:
                open_writer.close()
        for (link, subtask), parts in routes.items():
            np.save(self.folder / f"routes-{link}-{subtask}.npy", np.concatenate(parts))
        if stamper is not None and position > 0:
            self._stamp(stamper.finish())
        return counts

    def _stamp(self, stamped: StampedRows) -> None:
        """Write the stamps of each subtask's rows, and the table of ids."""
        for subtask, own in enumerate(dealt(stamped.stamps, self.plan.stage.parallelism)):
            np.save(self.folder / f"stamps-{subtask}.npy", own)
        pq.write_table(stamped.ids, self.folder / IDS_FILE)

    def _route(
        self, part: pa.Table, subtask: int, routes: dict[tuple[str, int], list[Any]]
    ) -> None:
        for link in self.plan.outputs:
            if link.edge.key is None:
                continue
            found = routes_of_keys(part.column(link.edge.key), len(link.outgoing(subtask)))
            routes.setdefault((link.folder, subtask), []).append(found.astype(np.int16))


def _spark_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Cast to the types that Spark gives the columns, or the reader fails inside the JVM."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from flowcontrol.spark.versions import arrow_schema

    target = arrow_schema(from_arrow_schema(batch.schema.remove_metadata()))
    target = pa.schema([pa.field(field.name, field.type) for field in target])
    return batch.cast(target)
