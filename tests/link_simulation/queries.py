"""Spark's side of a link: queries with checkpoints, the contract of foreachBatch, sinks.

As Spark does: the rows of a source batch are noted before it is run, and that it is done after its
function has returned; the offset of a receiver's batch is noted before its rows are read. Both logs
take a number once: of two queries on one checkpoint the second one fails. A batch that was noted
runs again, cut into other tasks perhaps. A sink takes a batch id once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from pyspark.sql.types import StructType

from flowcontrol.errors import DetachedError, RemovedError
from flowcontrol.ledger.link_log import folder_of
from flowcontrol.link import folder, settings
from flowcontrol.link.batches import SenderBatch
from flowcontrol.link.settings import LinkSettings
from flowcontrol.link.source import LinkReader

from .machine import World
from .tables import dumped

TRIGGER_S = 0.2
"""Time between two looks of an idle query."""

LONGEST_S = 0.6
"""Time after which it looks although nothing was committed."""


class Row(NamedTuple):
    """A row: it stands for itself."""

    source: str
    number: int
    key: int
    size: int
    channel: int = -1  # Into which it was written


class ConcurrentError(Exception):
    """Another query runs on the checkpoint."""


class Log:
    """A log of a query's checkpoint: a text for each number."""

    def __init__(self, name: str) -> None:
        self.name, self.texts = name, list[str]()

    def add(self, number: int, text: str) -> None:
        """Note a text. Raises ConcurrentError if the number is taken."""

        def act() -> None:
            if number < len(self.texts):
                raise ConcurrentError(f"{self.name}/{number} is there: another query runs")
            assert number == len(self.texts)
            self.texts.append(text)

        World.files.call("note", f"{self.name}/{number}", act)


class Frame:
    """The rows of a source batch, as a function of foreachBatch gets them."""

    def __init__(self, query: SenderQuery, batch: int, rows: Sequence[Row], run: str) -> None:
        self.rows, self._query, self._process = rows, query, World.scheduler.process
        properties = {"sql.streaming.queryId": query.id, "spark.jobGroup.id": run}
        context = SimpleNamespace(getLocalProperty=properties.get)
        self.sparkSession = SimpleNamespace(sparkContext=context)
        self.schema: StructType = query.history.schema
        self.checkpoint = None if query.is_connect else self

    def digest(self, batch_id: int) -> str:
        """Return what identifies the rows of a batch, as a checkpoint does."""
        return self._query.offsets.texts[batch_id]

    def count(self) -> int:
        return len(self.rows)

    def is_stopped(self) -> bool:
        return self._process.is_stopping


class Batch(SenderBatch):
    """The product's function, of which the executors' part is simulated."""

    query: SenderQuery

    def _pack(self, rows: Any, sender: Any) -> list[str]:
        own: LinkSettings = sender.settings
        return self.query.pack(rows.rows, sender.index, sender.channels, own)


class Query:
    """A query: what outlives its processes, and who runs it.

    - ``process``: the newest; others may live.
    - ``starts``: how often it was started.
    """

    def __init__(self, history: Any, name: str) -> None:
        self.history, self.name, self.id = history, name, f"query of {name}"
        self.offsets, self.commits = Log(f"{name}/offsets"), Log(f"{name}/commits")
        self.process: Any = None
        self.starts, self.is_out = 0, False

    def run(self) -> None:
        raise NotImplementedError


class SenderQuery(Query):
    """A query that sends.

    - ``batches``: rows of each batch of its source.
    - ``ran``: by the first row of a batch, into how many files it was packed.
    """

    def __init__(
        self, history: Any, name: str, batches: list[list[Row]], *, is_connect: bool
    ) -> None:
        super().__init__(history, name)
        self.batches, self.is_connect = batches, is_connect
        self.ran: dict[int, set[int]] = {}
        self.is_settled = False

    @property
    def is_done(self) -> bool:
        return len(self.commits.texts) == len(self.batches)

    @property
    def committed(self) -> list[Row]:
        """The rows of the batches that Spark has noted as done."""
        return [row for batch in self.batches[: len(self.commits.texts)] for row in batch]

    def run(self) -> None:
        """Run the query, from what its checkpoint has."""
        self.starts += 1
        run, is_told = f"run {self.starts}", False
        history = self.history
        batch = Batch(history.storage(), self._agree, self.name, reset=False)
        batch.query = self
        number, noted = len(self.commits.texts), len(self.offsets.texts)  # it looks no more
        while True:
            if number < len(self.batches):
                if noted == number:
                    self.offsets.add(number, f"rows of batch {number} of {self.name}")
                batch(Frame(self, number, self.batches[number], run), number)
                if World.scheduler.process.is_stopping:
                    return
                self.commits.add(number, "done")
                noted = number = number + 1
            elif history.is_calm and not (is_told and self._is_settled(batch)):
                # What one that was killed had left, or whose thread had failed, is released at the
                # next batch, here one without rows.
                if noted == number:
                    self.offsets.add(number, "no rows")
                noted = number + 1
                batch(Frame(self, number, [], run), number)
                is_told = True
                World.scheduler.sleep(TRIGGER_S)
            else:
                World.scheduler.sleep(TRIGGER_S)
                if World.scheduler.process.is_stopping:
                    return

    def _is_settled(self, batch: Batch) -> bool:
        """Whether all that was written is released."""
        sender = batch._sender
        assert sender is not None
        self.is_settled = not sender.waiting_bytes() and sender._background._failure is None
        return self.is_settled

    def _agree(self, schema: StructType) -> LinkSettings:
        history = self.history
        if history.agrees:
            return folder.agree(history.storage(), history.given, history.schema_text)
        found = settings.read_settings(history.storage())
        assert found is not None
        return found

    def pack(self, rows: Sequence[Row], sender: int, channels: int, own: LinkSettings) -> list[str]:
        """Write the rows as tasks do: each a part of them, in order; some leave files in vain."""
        files, chance = World.files, World.scheduler.rng
        if not rows:
            return []
        cuts = sorted(chance.randrange(len(rows) + 1) for _ in range(chance.choice((0, 0, 1, 2))))
        parts = [rows[low:high] for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
        reports = []
        exchange = self.history.storage().child(folder.EXCHANGE)
        for task, part in enumerate(parts):
            if not part:
                continue
            by_channel: dict[int, list[Row]] = {}
            for row in part:
                into = chance.randrange(channels) if own.key is None else row.key % channels
                by_channel.setdefault(into, []).append(row._replace(channel=into))
            content = dumped([tuple(row) for _, some in sorted(by_channel.items()) for row in some])
            for _ in range(2 if chance.random() < 0.03 else 1):  # a task that is tried twice
                World.count += 1
                path = f"{folder_of(sender)}/part-{World.count:08x}.parquet"
                with exchange.open_output(path) as file:
                    file.write(content)
            pieces = [
                [c, _pieces(some, own.buffer_bytes)] for c, some in sorted(by_channel.items())
            ]
            report = {"path": path, "bytes": len(content), "rows": len(part), "channels": pieces}
            count = sum(len(found) for _, found in pieces)
            latest = [] if own.event_time_column is None else [part[-1].number * 1000] * count
            report |= {"footer": [len(content), _crc(content)], "latest": latest}
            reports.append(json.dumps({"task": task, "number": 0, **report}))
        ran = self.ran.setdefault(rows[0].number, set())
        ran.add(len(reports))
        if len(ran) > 1:
            files.met["a batch was packed again into other files"] += 1
        return reports


def _crc(content: bytes) -> int:
    from flowcontrol.ledger.log import digest

    return digest(content)


def _pieces(rows: Sequence[Row], most: int) -> list[list[int]]:
    """Return rows and bytes of each piece, at most a message's size but for one larger row."""
    found: list[list[int]] = []
    for row in rows:
        if found and found[-1][1] + row.size <= most:
            found[-1][0] += 1
            found[-1][1] += row.size
        else:
            found.append([1, row.size])
    return found


class ReceiverQuery(Query):
    """A query that receives.

    - ``sink``: by batch id, what its sink has taken.
    - ``is_late``: whether it came when others had read: then it begins at the oldest rows.
    - ``seen``: how far everything had gone when it looked in vain.
    """

    def __init__(self, history: Any, name: str, channels: str, **options: str) -> None:
        super().__init__(history, f"{name}/{channels}" if channels else name)
        self.group, self.is_late = name, False
        self.options = {"path": history.place, "name": name, **options}
        if channels:
            self.options["channels"] = channels
        self.sink: dict[int, list[Row]] = {}
        self.seen = -1
        self.is_detached = False

    def run(self) -> None:
        """Run the query, from what its checkpoint has."""
        self.starts += 1
        self.seen = -1  # the start before has looked
        history = self.history
        try:
            reader = LinkReader(dict(self.options), history.schema)
            offsets, number = list(self.offsets.texts), len(self.commits.texts)
            start = offsets[number - 1] if number else json.dumps(reader.initialOffset())
            while not World.scheduler.process.is_stopping:
                if len(offsets) == number:
                    moved = history.moved
                    end = json.dumps(reader.latestOffset(json.loads(start), None))  # type: ignore[arg-type]
                    if end == start:
                        self._wait(moved)
                        continue
                    self.offsets.add(number, end)
                    offsets.append(end)
                end = offsets[number]
                self._take(number, self._read(reader, start, end))
                self.commits.add(number, "done")
                start, number = end, number + 1
                reader.commit(json.loads(end))
        except (RemovedError, DetachedError) as error:
            if isinstance(error, DetachedError):
                self.is_detached = True
            elif self.name not in history.removed:
                raise
            self.is_out = True

    def _wait(self, seen: int) -> None:
        """Wait for news: a look without any finds what the last one found, but for the time."""
        history, waited = self.history, 0.0
        self.seen = seen
        while self.seen == history.moved and waited < LONGEST_S:
            if World.scheduler.process.is_stopping:
                return
            World.scheduler.sleep(TRIGGER_S)
            waited += TRIGGER_S

    def _read(self, reader: LinkReader, start: str, end: str) -> list[Row]:
        found: list[Row] = []
        for partition in reader.partitions(json.loads(start), json.loads(end)):
            for table in reader.read(partition):
                found += [Row(*row) for row in table.rows]  # type: ignore[attr-defined]
        return found

    def _take(self, number: int, rows: list[Row]) -> None:
        """Write a batch into the sink, which takes its number once."""

        def act() -> None:
            there = self.sink.setdefault(number, rows)
            assert sorted(there) == sorted(rows), (
                f"{self.name}: batch {number} had other rows when it ran again"
            )

        World.files.call("sink", f"{self.name}/{number}", act)
