"""A link's queries without Spark: one process, step by step, killed anywhere.

What outlives a kill is what a checkpoint and a sink's table keep: per query the offsets that are
noted and the batches that are done, and what the sink has written per batch id. Everything else
is thrown away and made anew. As in Spark: an offset is noted after it was asked for and before
its rows are read, a batch counts as done after its sink, the initial offset is asked for again
until the first batch is done, and offsets, partitions and the reader go through text and pickle.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadAllAvailable

from flowcontrol.errors import DetachedError
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.commit import Writer
from flowcontrol.link import sender as sender_module
from flowcontrol.link import source as source_module
from flowcontrol.link.folder import EXCHANGE, make_tables
from flowcontrol.link.link import Link
from flowcontrol.link.packing import CHANNEL, PackRows, packed_rows
from flowcontrol.link.sender import BackgroundRelease, LinkSender
from flowcontrol.link.settings import LinkSettings, schema_of
from flowcontrol.link.source import LinkReader
from flowcontrol.spark import crash_points

SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("number", pa.int64()),
        ("channel", pa.int64()),
        ("text", pa.string()),
    ]
)

QUIET_ROUNDS = 4


class Crash(BaseException):
    """The process dies here."""


def source_rows(
    source: str, first: int, channels: Sequence[int], sizes: Sequence[int] | int = 100
) -> pa.Table:
    """Return rows with a channel each; number and size say which they are.

    Parameters
    ----------
    source : str
        The sender's name.
    first : int
        Number of the first row.
    channels, sizes : sequence of int, shape (rows,)
        Channel and length of text of each row.
    """
    lengths = [sizes] * len(channels) if isinstance(sizes, int) else list(sizes)
    return pa.table(
        {
            "source": [source] * len(channels),
            "number": list(range(first, first + len(channels))),
            "channel": list(channels),
            "text": ["x" * length for length in lengths],
        },
        schema=SCHEMA,
    )


def batches_of(
    count: int,
    rows: int = 20,
    *,
    first: int = 0,
    size: int = 100,
    name: str = "a",
    channels: int = 2,
) -> list[pa.Table]:
    """Return source batches ``first`` to ``count``, whose rows go to the channels in turn."""
    into = [row % channels for row in range(rows)]
    return [source_rows(name, number * rows, into, size) for number in range(first, count)]


class Pipeline:
    """A link, and the queries at both of its ends.

    Parameters
    ----------
    folder : Path
        The link's.
    settings : object
        Of the link.

    Attributes
    ----------
    may_detach : bool
        Whether a receiver that is cut off just ends; else its error is raised.
    kills : int
        Queries killed at a point so far.
    """

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA, **settings: Any) -> None:
        small = {"channels": 2, "buffer_bytes": 1024, "floating_buffers": 3}
        self.link = Link(folder, schema=schema, **{**small, **settings})
        self.storage = self.link.storage
        self.senders: dict[str, SenderQuery] = {}
        self.receivers: list[ReceiverQuery] = []
        self.passed: list[tuple[str, str]] = []
        self.may_detach, self.kills = False, 0
        self._armed: tuple[str, str] | None = None
        self._patches = pytest.MonkeyPatch()
        self._patches.setattr(crash_points, "hook", self._reach)
        self._patches.setattr(Writer, "commit", self._watched(Writer.commit))
        # A test that cleans logs does so at once, not after a minute.
        self._patches.setattr(log_module, "CHECK_EVERY_S", 0.0)
        # Nobody waits: who is blocked lets the other side go on.
        self._patches.setattr(source_module, "LOOK_S", 0.0)
        self._patches.setattr(sender_module, "ASK_EVERY_S", -1.0)
        # What spilled is released step by step, not by a thread at times of its own.
        self._patches.setattr(BackgroundRelease, "start", lambda _: None)

    @property
    def settings(self) -> LinkSettings:
        return self.link.settings

    def sender(self, name: str = "a", batches: Sequence[pa.Table] = (), **more: Any) -> SenderQuery:
        """Add an upstream query."""
        self.senders[name] = SenderQuery(self, name, list(batches), **more)
        return self.senders[name]

    def receiver(self, name: str = "main", channels: str = "", **options: Any) -> ReceiverQuery:
        """Add a downstream query."""
        self.receivers.append(ReceiverQuery(self, name, channels, **options))
        return self.receivers[-1]

    @property
    def queries(self) -> list[SenderQuery | ReceiverQuery]:
        return [*self.senders.values(), *self.receivers]

    def drain(self, most: int = 10_000) -> None:
        """Let all queries go on until none of them has anything to do.

        A receiver that says only that it has consumed, or a sender that looks, has not moved: so
        a few quiet rounds are waited for. Senders are open, as if one more source batch, without
        rows, had come: what a killed one had not released is released then.
        """
        for query in self.senders.values():
            query.open()
        quiet = 0
        for _ in range(most):
            moved = sum(query.advance() for query in self.queries) > 0
            quiet = 0 if moved else quiet + 1
            if quiet == QUIET_ROUNDS:
                return
        raise AssertionError(f"still at work after {most} rounds")

    def lose(self, receiver: ReceiverQuery) -> None:
        """Let a receiver read something and then go away without a word."""
        while receiver.done < 0:
            for query in self.queries:
                query.advance()
        self.receivers.remove(receiver)
        receiver.kill()

    def arm(self, who: str, point: str) -> None:
        """Have a query killed when it passes a point next."""
        self._armed = (who, point)

    @property
    def is_armed(self) -> bool:
        return self._armed is not None

    def disarm(self) -> None:
        self._armed = None

    def pass_by(self, who: str, point: str) -> None:
        """A point at which a query may be killed."""
        self.passed.append((who, point))
        if self._armed == (who, point):
            self._armed = None
            self.kills += 1
            raise Crash(f"{who} at {point}")

    def _reach(self, stage: str, number: int, point: str) -> None:
        self.pass_by(stage, point)

    def _watched(self, commit: Any) -> Any:
        """Also before and after every commit, those of released messages too."""

        def watched(writer: Writer, *arguments: Any, **named: Any) -> bool:
            who, table = writer.app_id.split("/")[1:2], Path(str(writer.path)).name
            self.pass_by(who[0] if who else writer.app_id, f"before {table}")
            done: bool = commit(writer, *arguments, **named)
            self.pass_by(who[0] if who else writer.app_id, f"after {table}")
            return done

        return watched

    def close(self) -> None:
        for query in self.queries:
            query.kill()
        self._patches.undo()


class SenderQuery:
    """The upstream query: a source of batches, a checkpoint, and what its foreachBatch does.

    Attributes
    ----------
    batches : list of pyarrow.Table
        What the source holds.
    planned, done : int
        Batches in the checkpoint's two logs.
    tasks : int
        Files of a batch, of about as many rows each.
    cuts : list of int
        Rows of each file of the next batch instead, and then none: the rest is cut into tasks.
    is_connect : bool
        Whether the source's offsets are not known, as with Spark Connect.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        name: str,
        batches: list[pa.Table],
        *,
        tasks: int = 1,
        cuts: Sequence[int] = (),
    ) -> None:
        self.pipeline, self.name, self.batches, self.tasks = pipeline, name, batches, tasks
        self.cuts, self.is_connect = list(cuts), False
        self.checkpoint, self.reset = f"checkpoint of {name}", False
        self.planned = self.done = -1
        self.sender: LinkSender | None = None
        self._steps: Iterator[bool] | None = None

    def open(self) -> LinkSender:
        """Open the sender as the first batch of a start does."""
        if self.sender is None:
            storage, settings = self.pipeline.storage, self.pipeline.settings
            make_tables(storage, settings)
            table = self.batches[-1] if self.batches else None
            self.sender = LinkSender(
                storage,
                settings,
                self.name,
                self.checkpoint,
                reset=self.reset,
                columns=None if table is None else table.column_names,
            )
        return self.sender

    def advance(self) -> bool:
        """Do one thing; whether anything moved."""
        if self._steps is None:
            self._steps = self._run()
        try:
            return next(self._steps)
        except Crash:
            self.kill()
            return True
        except BaseException:
            self.kill()
            raise

    def _run(self) -> Iterator[bool]:
        while True:
            if self.planned == self.done:
                if self.done + 1 == len(self.batches):
                    yield self.sender is not None and self.sender.step()
                    continue
                self.planned += 1
                self.pipeline.pass_by(self.name, "planned")
            yield from self._batch(self.planned)
            self.pipeline.pass_by(self.name, "ran")
            self.done = self.planned
            yield True

    def _batch(self, batch_id: int) -> Iterator[bool]:
        """What foreachBatch does; where it would wait, the others go on."""
        sender = self.open()
        yield True
        yield from self._settle(sender)
        table = self.batches[batch_id]
        source = None if self.is_connect else str(hash(str(table.to_pydict())))
        if not sender.is_written(batch_id, source, lambda: len(table)):
            while not sender.widen(lambda: True):
                yield False
            sender.write(batch_id, packed_rows(self._pack(table, sender)), source)
            yield True
        yield from self._settle(sender)

    def _settle(self, sender: LinkSender) -> Iterator[bool]:
        before = list(sender.output.released)
        while not sender.settle(lambda: True):
            yield sender.output.released != before
            before = list(sender.output.released)

    def _pack(self, table: pa.Table, sender: LinkSender) -> list[str]:
        """Have tasks write files of the rows, split as a source's partitions are."""
        size = max(1, -(-len(table) // self.tasks))
        cuts = self.cuts or [size] * -(-len(table) // size)
        self.cuts, row, reports = [], 0, []
        for task, rows in enumerate(cuts):
            work = PackRows(
                self.pipeline.storage.child(EXCHANGE), sender.index, sender.settings.buffer_bytes
            )
            work.event_time_column = sender.settings.event_time_column
            part = table.slice(row, rows)
            row += rows
            part = part.append_column(CHANNEL, part.column("channel").cast(pa.int32()))
            found = cloudpickle.loads(cloudpickle.dumps(work)).write(part)
            reports.append(json.dumps({"task": task, "number": 0, **found}))
        return reports

    def stop(self, *, is_noted: bool = False) -> None:
        """End the query in mid-batch; Spark may still note a batch whose function returned."""
        sender, is_planned = self.sender, self.planned > self.done
        if is_noted and is_planned and sender is not None and sender.is_written(self.planned):
            self.done = self.planned
        self.kill()

    def kill(self) -> None:
        """Throw away what the process held."""
        sender, self.sender, self._steps = self.sender, None, None
        if sender is not None:
            sender.ledger.close()


class ReceiverQuery:
    """The downstream query: a checkpoint, and a sink whose table keeps a batch once.

    Attributes
    ----------
    offsets : list of str
        The log of offsets, by batch id.
    done : int
        The last batch that is done.
    sink : dict of int to pyarrow.Table
        What each batch has written; one that is run again replaces it.
    is_late : bool
        Whether it came when other receivers had read.
    sunk : int
        Rows that the sink has taken, those of repeated batches too.
    is_detached : bool
        Whether it has been cut off.
    is_forgetful : bool
        Whether the sink keeps its last batch only: for long runs.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        name: str = "main",
        channels: str = "",
        *,
        is_forgetful: bool = False,
        **options: Any,
    ) -> None:
        self.pipeline, self.name, self.channels = pipeline, name, channels
        self.options = {"path": str(pipeline.storage), "name": name}
        if channels:
            self.options["channels"] = channels
        self.options |= {key: str(value) for key, value in options.items()}
        self.offsets: list[str] = []
        self.done = -1
        self.sink: dict[int, pa.Table] = {}
        self.is_late, self.is_forgetful, self.sunk = False, is_forgetful, 0
        self.is_detached = False
        self.reader: LinkReader | None = None

    def open(self) -> LinkReader:
        """Make the reader as a start of the query does."""
        if self.reader is None:
            schema = schema_of(self.pipeline.settings.schema)
            self.reader = LinkReader(dict(self.options), schema)
        return self.reader

    def advance(self) -> bool:
        """Run one micro-batch, if there is anything to read; whether it did."""
        if self.is_detached:
            return False
        try:
            return self._advance()
        except Crash:
            self.kill()
            return True
        except DetachedError:  # all queries of this name are out
            self.kill()
            self.is_detached = True
            if not self.pipeline.may_detach:
                raise
            return False
        except BaseException:
            self.kill()
            raise

    def _advance(self) -> bool:
        reader, batch_id = self.open(), self.done + 1
        start = self.offsets[self.done] if batch_id else json.dumps(reader.initialOffset())
        if len(self.offsets) == batch_id:
            end = json.dumps(reader.latestOffset(json.loads(start), ReadAllAvailable()))
            if end == start:
                return False
            self.pipeline.pass_by(self.name, "planned")
            self.offsets.append(end)
            self.pipeline.pass_by(self.name, "noted")
        end = self.offsets[batch_id]
        if self.is_forgetful:
            self.sink.clear()
        self.sink[batch_id] = self._rows(reader, json.loads(start), json.loads(end))
        self.sunk += len(self.sink[batch_id])
        self.pipeline.pass_by(self.name, "sunk")
        self.done = batch_id
        reader.commit(json.loads(end))
        return True

    def _rows(self, reader: LinkReader, start: Any, end: Any) -> pa.Table:
        """Read what the tasks of a batch read."""
        partitions = reader.partitions(start, end)
        executor = pickle.loads(cloudpickle.dumps((reader, partitions)))
        self.pipeline.pass_by(self.name, "read")
        found = [batch for part in executor[1] for batch in executor[0].read(part)]
        return pa.Table.from_batches(found, schema=executor[0]._schema)

    @property
    def rows(self) -> pa.Table:
        """Everything that the sink's table holds, in the order of batches."""
        tables = [self.sink[batch] for batch in sorted(self.sink)]
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def forget_checkpoint(self) -> None:
        """Start with a new checkpoint and an empty sink."""
        self.kill()
        self.offsets, self.done, self.sink = [], -1, {}

    def kill(self) -> None:
        """Throw away what the process held."""
        reader, self.reader = self.reader, None
        if reader is not None and reader._receiver is not None:
            reader._receiver.ledger.close()
