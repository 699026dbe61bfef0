"""A query that writes into a link by name, without Spark: what Spark asks of a sink, in order."""

from __future__ import annotations

import json
import os
import pickle
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_schema

from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.link import writer as writer_module
from flowcontrol.link.source import LinkSource
from flowcontrol.link.writer import LinkWriter


@pytest.fixture
def pipeline(make: Any, processes: Any) -> Any:
    return make(channels=2, floating_buffers=60)


@pytest.fixture
def query(pipeline: Any, tmp_path: Path) -> Query:
    return Query(pipeline, tmp_path / "checkpoint")


@pytest.fixture
def rows_of(dry: Any) -> Callable[..., pa.Table]:
    def rows(first: int, count: int = 20) -> pa.Table:
        return dry.source_rows("a", first, [n % 2 for n in range(count)])

    return rows


class Query:
    """A query that writes into a link by name, as Spark runs it.

    Attributes
    ----------
    driver : str
        Folders of the Spark application that runs it.
    parts : int
        Tasks of a batch.
    """

    def __init__(self, pipeline: Any, folder: Path, *, name: str = "a", **options: Any) -> None:
        self.pipeline, self.folder, self.driver, self.parts = pipeline, folder, "driver 1", 2
        self.options = {"path": str(pipeline.storage), "name": name, "wait_s": "0"}
        self.options |= {"checkpointLocation": str(folder)}
        self.options |= {key: str(value) for key, value in options.items()}
        self.done = -1
        self.begin()

    def begin(self) -> None:
        """Begin a checkpoint: Spark writes who the query is."""
        self.folder.mkdir(parents=True)
        self.id = str(uuid.uuid4())
        (self.folder / "metadata").write_text(json.dumps({"id": self.id}))
        (self.folder / "offsets").mkdir()

    def plan(self, batch: int, rows: pa.Table) -> None:
        """Note where a batch ends in its source."""
        offset = {"rows": str(hash(str(rows.to_pydict())))}
        text = "\n".join(["v1", json.dumps({"batchTimestampMs": 1}), json.dumps(offset)])
        (self.folder / "offsets" / str(batch)).write_text(text)

    def source(self) -> LinkSource:
        """Make the source anew, in a process of this application."""
        os.environ["SPARK_LOCAL_DIRS"] = self.driver
        return LinkSource(dict(self.options))

    def writer(self, rows: pa.Table, *, commits: bool = False) -> LinkWriter:
        """Make a writer, for tasks or to commit."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writer_module, "is_committing", lambda: commits)
            return self.source().streamWriter(from_arrow_schema(rows.schema), False)

    def write(self, rows: pa.Table, *, parts: int | None = None) -> list[Any]:
        """Run the tasks of a batch; return their messages."""
        writer = self.writer(rows)
        parts = self.parts if parts is None else parts
        size = -(-len(rows) // max(1, parts))
        return [
            pickle.loads(pickle.dumps(cloudpickle.loads(cloudpickle.dumps(writer)).write(
                iter(rows.slice(size * part, size).to_batches())
            )))
            for part in range(parts)
        ]  # fmt: skip

    def commit(self, messages: Sequence[Any], rows: pa.Table, batch: int) -> None:
        """Commit a batch, in the other process."""
        self.writer(rows, commits=True).commit(messages, batch)

    def run(self, *batches: pa.Table) -> None:
        """Run batches from beginning to end."""
        for rows in batches:
            self.plan(self.done + 1, rows)
            self.commit(self.write(rows), rows, self.done + 1)
            self.done += 1


def arrived(pipeline: Any) -> list[int]:
    """Read all that is there; return the numbers of the rows."""
    receiver = pipeline.receivers[0] if pipeline.receivers else pipeline.receiver()
    while receiver.advance():
        pass
    return sorted(receiver.rows.column("number").to_pylist())


def state_of(pipeline: Any, name: str = "a") -> dict[str, Any]:
    ledger = LinkLedger(pipeline.storage.child("ledger"), f"sender/{name}")
    ledger.close()
    assert ledger.latest is not None
    return ledger.latest.state
