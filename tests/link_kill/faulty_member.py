"""One process of the fault harness: a sender or a receiver with its checkpoint, without Spark.

As in Spark: an offset is noted after it was asked for and before its rows are read, a batch counts
as done after its sink, the initial offset is asked for again until the first batch is noted. A
query whose checkpoint another process has gone on with ends by itself.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faulty_rows as rows
import pyarrow as pa
import pyarrow.parquet as pq
from faulty_disk import obey
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable

from flowcontrol.errors import FlowControlError
from flowcontrol.link.folder import EXCHANGE, make_tables
from flowcontrol.link.link import Link
from flowcontrol.link.packing import CHANNEL, PackRows, packed_rows
from flowcontrol.link.sender import LinkSender
from flowcontrol.link.settings import schema_of
from flowcontrol.link.source import LinkReader

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the script may be started by hand
from at_start import kill_at

NAMED, CONFLICT, RAW = 3, 4, 5
"""Exit statuses: an error of ours, a checkpoint that another process has gone on with, the rest."""

IDLE_S = 0.02


class Start(NamedTuple):
    """What a process is told."""

    kind: str
    folder: Path
    """Of the pipeline."""
    name: str
    place: str
    """Name of its folder; receivers of some channels share the name, not the folder."""
    options: dict[str, Any]
    kill_at: str


class Conflict(Exception):
    """Another process has gone on with this checkpoint."""


class Checkpoint:
    """Two logs in a folder, a file a batch: what was planned, and what is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for log in ("offsets", "commits"):
            (folder / log).mkdir(parents=True, exist_ok=True)
        self.done = self._last("commits")
        self.planned = self._last("offsets")

    def _last(self, log: str) -> int:
        numbers = [int(path.name) for path in (self.folder / log).iterdir() if path.name.isdigit()]
        return max(numbers, default=-1)

    def offset(self, batch: int) -> Any:
        return json.loads((self.folder / "offsets" / str(batch)).read_text())

    def plan(self, batch: int, offset: Any) -> None:
        self._add("offsets", batch, json.dumps(offset))
        self.planned = batch

    def commit(self, batch: int) -> None:
        self._add("commits", batch, "{}")
        self.done = batch

    def _add(self, log: str, batch: int, text: str) -> None:
        """Write a file that must not be there, in one step."""
        path = self.folder / log / str(batch)
        hidden = path.with_name(f".{batch}.{os.getpid()}")
        hidden.write_text(text)
        try:
            os.link(hidden, path)
        except FileExistsError:
            raise Conflict(f"{path} was written by another process") from None
        finally:
            hidden.unlink()


class Sender:
    """The query at the upper end."""

    def __init__(self, start: Start, stopping: Callable[[], bool]) -> None:
        self.start, self.stopping = start, stopping
        self.folder, self.name = start.folder, start.name
        self.checkpoint = Checkpoint(self.folder / start.place / "checkpoint")
        self.sender: LinkSender | None = None
        self.columns: list[str] = []

    def run(self) -> None:
        while not self.stopping():
            batch = self.checkpoint.done + 1
            if self.checkpoint.planned < batch and not self._plan(batch):
                self._open([]).step()
                time.sleep(IDLE_S)
                continue
            self._send(batch, self.checkpoint.offset(batch))

    def _plan(self, batch: int) -> bool:
        """Note what the next batch reads; False if there is nothing."""
        before = self.checkpoint.offset(batch - 1) if batch else {"end": 0, "columns": []}
        source = json.loads((self.folder / "sources" / self.name).read_text())
        start, most = before["end"], source["rows"] - before["end"]
        if most <= 0:
            return False
        size = random.randint(1, min(most, (4, 30, most)[batch // 8 % 3]))
        tasks = random.randint(1, 5)
        offset = {"start": start, "end": start + size, "tasks": tasks, "columns": source["columns"]}
        self.checkpoint.plan(batch, offset)
        return True

    def _open(self, columns: list[str]) -> LinkSender:
        if self.sender is None or columns != self.columns:
            link = open_link(self.folder)
            settings = link.note_schema(schema_of_rows(columns))
            make_tables(link.storage, settings)
            self.close()
            query = f"checkpoint of {self.name}"
            self.sender = LinkSender(link.storage, settings, self.name, query, reset=False)
            self.columns = columns
        return self.sender

    def _send(self, batch: int, offset: dict[str, Any]) -> None:
        sender = self._open(offset["columns"])
        if not self._settle(sender):
            return
        source = json.dumps([offset["start"], offset["end"]])
        if not sender.is_written(batch, source):
            sender.write(batch, packed_rows(self._pack(sender, offset)), source)
        if self._settle(sender):
            self.checkpoint.commit(batch)

    def _settle(self, sender: LinkSender) -> bool:
        return sender.settle(self.stopping) and not self.stopping()

    def _pack(self, sender: LinkSender, offset: dict[str, Any]) -> list[str]:
        """Have tasks write a file each, split as a source's partitions are."""
        first, end = offset["start"], offset["end"]
        table = rows.rows_of(self.name, first, end, offset["columns"])
        channels = [rows.channel_of(self.name, n) for n in range(first, end)]
        table = table.append_column(CHANNEL, pa.array(channels, pa.int32()))
        size = max(1, -(-len(table) // offset["tasks"]))
        exchange = open_link(self.folder).storage.child(EXCHANGE)
        reports = []
        for task in range(-(-len(table) // size)):
            work = PackRows(exchange, sender.index, sender.settings.buffer_bytes)
            found = work.write(table.slice(task * size, size))
            reports.append(json.dumps({"task": task, "number": 0, **found}))
        return reports

    def close(self) -> None:
        if self.sender is not None:
            self.sender.ledger.close()


class Receiver:
    """The query at the lower end, with a sink that keeps a batch once."""

    def __init__(self, start: Start, stopping: Callable[[], bool]) -> None:
        self.start, self.stopping = start, stopping
        self.own = start.folder / start.place
        self.checkpoint = Checkpoint(self.own / "checkpoint")
        self.sink = self.own / "sink"
        self.sink.mkdir(exist_ok=True)
        link = open_link(start.folder)
        options = {"path": str(link.storage), "name": start.name}
        given = {key: str(value) for key, value in start.options.items() if key != "delay_s"}
        self.delay_s = start.options.get("delay_s", 0.0)
        self.reader = LinkReader({**options, **given}, schema_of(link.settings.schema))

    def run(self) -> None:
        while not self.stopping():
            checkpoint, batch = self.checkpoint, self.checkpoint.done + 1
            begin = checkpoint.offset(batch - 1) if batch else self._begin()
            if checkpoint.planned < batch:
                end = self.reader.latestOffset(begin, ReadAllAvailable())
                if json.dumps(end) == json.dumps(begin):
                    continue
                checkpoint.plan(batch, end)
            end = checkpoint.offset(batch)
            self._sink(batch, begin, end)
            checkpoint.commit(batch)
            self.reader.commit(end)
            time.sleep(self.delay_s)

    def _begin(self) -> Any:
        """Ask where a new checkpoint begins, and note it for whoever checks."""
        found = json.loads(json.dumps(self.reader.initialOffset()))
        (self.own / "began.json").write_text(json.dumps(found))
        return found

    def _sink(self, batch: int, begin: Any, end: Any) -> None:
        """Write what the tasks of a batch read; what was written must be the same."""
        reader, parts = pickle.loads(
            cloudpickle.dumps((self.reader, self.reader.partitions(begin, end)))
        )
        found = [piece for part in parts for piece in reader.read(part)]
        table = pa.Table.from_batches(found, schema=reader._schema)
        path = self.sink / f"{batch:06d}.parquet"
        if path.exists():
            before = pq.read_table(path)
            # A batch that runs again when columns have come has them too; its rows are the same.
            common = [name for name in table.column_names if name in before.column_names]
            if not before.select(common).equals(table.select(common)):
                raise AssertionError(f"{path}: {len(table)} rows are not the {len(before)} before")
            return
        hidden = path.with_name(f".{path.name}.{os.getpid()}")
        pq.write_table(table, hidden)
        hidden.replace(path)

    def close(self) -> None:
        made = self.reader._receiver
        if made is not None:
            made.ledger.close()


def open_link(folder: Path) -> Link:
    """Open the link as everybody does who has not made it."""
    return Link(folder / "disk" / "link", evolve_schema=True)


def schema_of_rows(columns: list[str]) -> Any:
    """Return Spark's schema of the rows of a sender."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(rows.schema_with(columns))


def main(start: Start) -> None:
    """Run a query until it fails, is asked to end, or is killed."""
    os.setsid()
    log = os.open(start.folder / start.place / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    kill_at.install(start.kill_at)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    random.seed()
    obey(start.folder)
    os._exit(_run(start, lambda: bool(asked)))


def _run(start: Start, stopping: Callable[[], bool]) -> int:
    """Run it; return the exit status."""
    query: Sender | Receiver | None = None
    try:
        query = (Sender if start.kind == "sender" else Receiver)(start, stopping)
        query.run()
        return 0
    except FlowControlError as error:
        note = {"type": type(error).__name__, "text": str(error)}
        (start.folder / start.place / f"error-{os.getpid()}").write_text(json.dumps(note))
        return NAMED
    except Conflict:
        return CONFLICT
    except BaseException:
        traceback.print_exc()
        return RAW
    finally:
        if query is not None:
            query.close()
        sys.stderr.flush()
