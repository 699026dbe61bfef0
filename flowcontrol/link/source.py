"""The data source ``flowcontrol``: a link's rows as a streaming source of Spark, and its sink.

Executors import this module as well, so it imports little; deciding is in :mod:`.receiver`, and
writing in :mod:`.writer`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
)

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import check_name
from flowcontrol.link.options import number, stored_options, truth
from flowcontrol.link.sealed_files import LinkPartition, read_rows, share_out
from flowcontrol.link.settings import TARGET_LIMITS_S, LinkSettings, is_target, read_settings
from flowcontrol.spark.reader import CreditReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flowcontrol.link.receiver import LinkReceiver


# --- The options of a receiver, read and checked before its query starts.


SCHEMA_WAIT_S = 60.0
"""How long a receiver of a link that holds nothing yet waits for its columns."""

LOOK_EVERY_S = 0.05
"""Time between two checks for them, seconds."""


@dataclass(frozen=True)
class ReceiverOptions:
    """Options of a receiver."""

    storage: Storage  # The link's folder
    name: str  # The receiver's
    channels: tuple[int, ...] | None  # Those that it reads; None: all
    target_s: float | None  # How long a micro-batch should take; None: what the link says
    partitions: int | None  # Most tasks of a batch; None: a task a channel
    reset: bool  # Whether a new checkpoint may go on where the ledger says that the receiver is
    from_start: bool  # Whether a new receiver must begin at the first row
    wait_s: float  # How long to wait for a link without columns
    ignores_new_columns: bool  # Whether rows with columns that came later are read without them

    def settings(self) -> LinkSettings:
        """Return the link's settings, waiting for a link that no sender has begun.

        Raises LinkError if there is none within the stated time, or it has not the channels asked
        for.
        """
        until = time.monotonic() + self.wait_s
        while True:
            found = read_settings(self.storage)
            if found is not None and found.schema:
                self._check_channels(found)
                return found
            if time.monotonic() > until:
                missing = "there is no link" if found is None else "the link has no columns yet"
                raise LinkError(
                    f"{self.storage}: {missing}, after waiting for {self.wait_s:g} s. Start its "
                    "sender first, give Link(..., schema=...) here, or wait longer with "
                    ".option('wait_s', ...)"
                )
            time.sleep(LOOK_EVERY_S)

    def _check_channels(self, settings: LinkSettings) -> None:
        other = [channel for channel in self.channels or () if channel >= settings.channels]
        if other:
            raise LinkError(
                f"{self.storage}: channels is {_shown(self.channels or ())}: the link has the "
                f"channels 0 to {settings.channels - 1}"
            )


def read_options(options: Mapping[str, str]) -> ReceiverOptions:
    """Read the options of a receiver, names in any case.

    Raises LinkError: naming everything that is wrong.
    """
    given = {key.lower(): value for key, value in options.items()}
    if not given.get("path"):
        raise LinkError("a link's path is missing: .option('path', ...) or .load(path)")
    wrong: list[str] = []
    channels = _channels(given.get("channels"), wrong)
    target = number("target_batch_s", given.get("target_batch_s"), wrong)
    if target is not None and not is_target(target):
        low_s, high_s = TARGET_LIMITS_S
        wrong.append(f"target_batch_s is {target:g}: needs seconds, from {low_s:g} to {high_s:g}")
    wait = number("wait_s", given.get("wait_s", str(SCHEMA_WAIT_S)), wrong)
    if wait is not None and not 0 <= wait < float("inf"):
        wrong.append(f"wait_s is {wait:g}: needs seconds, at least 0")
    partitions = number("partitions", given.get("partitions"), wrong)
    if partitions is not None and not (partitions >= 1 and partitions == int(partitions)):
        wrong.append(f"partitions is {partitions:g}: needs a whole number, at least 1")
    reset, from_start = (truth(name, given, wrong) for name in ("reset", "from_start"))
    new_columns = given.get("new_columns", "refuse").lower()
    if new_columns not in ("refuse", "ignore"):
        wrong.append(f"new_columns is {given['new_columns']!r}: needs refuse or ignore")
    stored = stored_options(given.get("storage_options", "{}"), wrong)
    name = given.get("name", "main")
    try:
        check_name("receiver", name)
    except LinkError as error:
        wrong.append(str(error))
    if wrong:
        raise LinkError(f"the receiver of {given['path']} is refused: {'; '.join(wrong)}")
    return ReceiverOptions(
        storage=Storage(given["path"], stored),
        name=name,
        channels=channels,
        target_s=target,
        partitions=None if partitions is None else int(partitions),
        reset=reset,
        from_start=from_start,
        wait_s=SCHEMA_WAIT_S if wait is None else wait,
        ignores_new_columns=new_columns == "ignore",
    )


def _channels(text: str | None, wrong: list[str]) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        wrong.append(
            f"channels is {text!r}: needs numbers with commas, such as 0,1, or none for all"
        )
        return None
    return tuple(sorted({int(part) for part in parts}))


def _shown(channels: tuple[int, ...]) -> str:
    return ",".join(str(channel) for channel in channels)


LOOK_S = 0.1
"""How long Spark waits for an answer when there is no news; then it may see that it is to stop."""


PATIENCE_S = 10.0
"""How long an availableNow query waits for rows that were there when it began and that their sender
has not released; one that is alive releases more as soon as some are consumed."""


class LinkSource(DataSource):
    """The data source ``flowcontrol``.

    Options of a reader: ``path`` of the link; ``name`` of the receiver (``main``); ``channels``, a
    list such as ``0,1``; ``target_batch_s``; ``partitions``, most tasks of a batch; ``reset``
    (``true``); ``from_start`` (``true``); ``new_columns`` (``ignore``); ``wait_s``, how long to
    wait for a link without columns; ``storage_options``, JSON. Those of a writer:
    :func:`flowcontrol.link.writer.read_sink_options`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name by which a reader asks for it."""
        return "flowcontrol"

    def schema(self) -> StructType:
        """Return the columns of the rows, as the link has them.

        Raises LinkError if an option is wrong, or no sender has brought the columns in time.
        """
        from flowcontrol.link.settings import schema_of

        return schema_of(read_options(self.options).settings().schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader."""
        return LinkReader(dict(self.options), schema).for_spark()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a micro-batch."""
        from flowcontrol.link.writer import writer_of

        return writer_of(self.options, schema, is_complete=overwrite)


class LinkReader(CreditReader):
    """Decides on the driver what a micro-batch reads, and reads it on executors."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        from flowcontrol.spark.versions import arrow_schema

        self.options = read_options(options)
        self._schema: pa.Schema = arrow_schema(schema)
        self._storage = self.options.storage
        self._receiver: LinkReceiver | None = None
        self._last: dict[str, list[int]] | None = None
        self._parent = os.getppid()

    def __getstate__(self) -> dict[str, Any]:
        """Executors read; they decide nothing."""
        return {**self.__dict__, "_receiver": None}

    def _made(self) -> LinkReceiver:
        if self._receiver is None:
            from flowcontrol.link.folder import make_tables
            from flowcontrol.link.receiver import LinkReceiver
            from flowcontrol.link.settings import read_made

            options, settings = self.options, self.options.settings()
            made = read_made(self._storage) or settings
            make_tables(self._storage, settings)
            self._receiver = LinkReceiver(
                self._storage,
                settings,
                options.name,
                list(range(made.channels) if options.channels is None else options.channels),
                settings.target_batch_s if options.target_s is None else options.target_s,
                None if options.ignores_new_columns else self._schema.names,
                has_own_target=options.target_s is not None,
                reads_all=options.channels is None,
            )
        return self._receiver

    def prepareForTriggerAvailableNow(self) -> None:
        """Note what is there now: an availableNow query ends with it."""
        receiver = self._made()
        receiver.refresh()
        self._last = receiver.written()

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new checkpoint begins."""
        return {
            "cursors": self._made().start(
                reset=self.options.reset, from_start=self.options.from_start
            )
        }

    def next_offset(self, start: dict[str, Any]) -> dict[str, Any]:
        """Return where the next batch ends; ``start`` if there is nothing for a while."""
        receiver, cursors = self._made(), start["cursors"]
        shortest, longest = self._storage.waits_s
        receiver.refresh()
        if not self._is_over(receiver.input.filled(cursors)) and receiver.make_room(cursors):
            self._await_release()
        wait, until = shortest, self._until()
        while True:
            is_over = self._is_over(receiver.input.filled(cursors))
            end = receiver.next(cursors, is_over=is_over, last=self._last)
            if receiver.input.filled(end) != receiver.input.filled(cursors):
                return {"cursors": end}
            if is_over or time.monotonic() > until or os.getppid() != self._parent:
                return start
            if self._last is not None and receiver.waits_for_others:
                until = max(until, self._until())  # they are read on, or idle some day
            while time.monotonic() < until:
                if receiver.refresh():
                    until = max(until, self._until()) if self._last is not None else until
                    break
                time.sleep(wait)
                wait = min(2 * wait, longest)
                if self._last is not None and receiver.waits_for_others:
                    break

    def _await_release(self) -> None:
        """Wait until a sender releases something, though not long: it may be gone."""
        receiver, until = self._made(), time.monotonic() + LOOK_S
        before = receiver.released()
        while receiver.released() == before and time.monotonic() < until:
            if not receiver.refresh():
                time.sleep(self._storage.waits_s[0])

    def _until(self) -> float:
        """When to give up waiting for news."""
        return time.monotonic() + (LOOK_S if self._last is None else PATIENCE_S)

    def _is_over(self, read_to: Mapping[str, list[int]]) -> bool:
        """Whether an availableNow query has read what was there when it began."""
        if self._last is None:
            return False
        return all(
            read >= last
            for sender, lasts in self._last.items()
            for read, last in zip(read_to.get(sender, [0] * len(lasts)), lasts, strict=False)
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what the tasks of the batch between two offsets read."""
        receiver = self._made()
        receiver.refresh()
        channels = receiver.extents(start["cursors"], end["cursors"])
        return share_out(channels, self.options.partitions or len(channels))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        if not isinstance(partition, LinkPartition):
            raise TypeError(f"{type(partition).__name__} is not a partition of this source")
        yield from read_rows(self._storage.child("exchange"), partition, self._schema)
