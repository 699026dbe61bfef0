"""The data source ``flowcontrol``: a link's rows as a streaming source of Spark.

Executors import this module as well, so it imports little; deciding is in :mod:`.receiver`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from flowcontrol.link.options import read_options
from flowcontrol.link.sealed_files import LinkPartition, read_rows, share_out
from flowcontrol.spark.reader import CreditReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from flowcontrol.link.receiver import LinkReceiver

LOOK_S = 0.1
"""How long Spark waits for an answer when there is no news; then it may see that it is to stop."""


PATIENCE_S = 10.0
"""How long an availableNow query waits for rows that were there when it began and that their sender
has not released; one that is alive releases more as soon as some are consumed."""


class LinkSource(DataSource):
    """The data source ``flowcontrol``.

    Options: ``path`` of the link; ``name`` of the receiver (``main``); ``channels``, a list such
    as ``0,1``; ``target_batch_s``; ``partitions``, most tasks of a batch; ``reset`` (``true``);
    ``from_start`` (``true``); ``new_columns`` (``ignore``); ``wait_s``, how long to wait for a
    link without columns; ``storage_options``, JSON.
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
            from flowcontrol.link.opening import make_tables
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
