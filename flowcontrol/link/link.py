"""The link between two streaming queries: the class that users call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.folder import agree, find
from flowcontrol.link.members import check_name
from flowcontrol.link.settings import DEFAULTS, LinkSettings, no_link, read_settings, schema_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from flowcontrol.link.batches import SenderBatch
    from flowcontrol.link.draining import Bypass


class Link:
    """Credit-based flow control between two Structured Streaming queries.

    The upstream query writes into the link instead of its sink, the downstream one reads from it.
    What is in flight between them is bounded by the link's buffers: when the sink slows down, the
    receiver grants less credit, the sender's micro-batch waits, and Spark asks the source for
    nothing more.

    Parameters
    ----------
    path : str or Path
        Folder of the link, reachable by both queries: local, or a URI that pyarrow and delta-rs
        know (``s3://...``).
    key : str or sequence of str, optional
        Columns that route a row to its channel; rows of one key keep their order. None
        distributes rows evenly.
    channels : int, default 8
        Channels of each sender. A slow one leaves the others their exclusive buffers.
    exclusive_buffers : int, default 2
        Buffers of each channel.
    floating_buffers : int, default 8
        Buffers that channels with a backlog share. By default that is where the pool begins, and
        it sizes itself: it grows as long as that raises throughput, up to ``max_pool_bytes``, and
        shrinks again when the sink slows down. A number that is stated stays.
    buffer_bytes : int or str, default "4 MiB"
        Size of a buffer, counted in Arrow's memory. At most
        ``(channels * exclusive_buffers + floating_buffers) * buffer_bytes`` are released to a
        receiver and not consumed, or ``max_pool_bytes`` where the pool sizes itself.
    schema : StructType, pyarrow.Schema or str, optional
        Columns of the rows; by default those of the first sender.
    target_batch_s : float, optional
        How long a receiver's micro-batch should take: it reads what fits into that time, however
        fast or slow the sink is.
    detach_after_bytes : int or str, optional
        With several receivers: detach one that lags further behind the fastest. By default the
        slowest blocks the sender.
    spill_bytes : int or str, default 0
        What may wait on disk outside the buffers when a source batch ends. With 0 the next source
        batch begins when all of this one is released.
    max_pool_bytes : int or str, default "256 MiB"
        What a pool that sizes itself may hold. With ``floating_buffers`` stated as well, those are
        the least that it has.
    event_time_column : str, optional
        Column with the event time of a row: a timestamp, a date, or a long of ms since 1970. With
        it the link has watermarks, which ``flowcontrol watch`` shows.
    watermark_delay_s : float, default 0
        How far the watermark of a channel is behind the latest event time in it: by how much a row
        may be late.
    idle_after_s : float, default 60
        Time without rows after which a channel holds neither the watermark nor a sender back.
    align_s : float, optional
        How far a sender may be ahead of the slowest in event time: receivers give one that is
        further ahead no credit until the others have caught up.
    evolve_schema : bool, default False
        Let a sender add columns that the link does not have yet.
    storage_options : mapping of str to str, optional
        Passed to delta-rs.

    Raises
    ------
    LinkError
        If a setting is out of range, the link exists with other settings or columns, or the folder
        holds anything else.

    Notes
    -----
    Settings that are not given are those of the existing link. If there is none, a setting or the
    columns create it, and so does a sender's first batch; a path alone writes nothing, so that a
    receiver may start first. The object holds settings only and can be pickled: all state is in
    the folder's Delta tables, ``exchange`` and ``ledger``.

    Examples
    --------
    >>> link = Link("/lake/links/orders", key="customer_id")  # doctest: +SKIP
    >>> upstream = events.writeStream.foreachBatch(link.sender("events"))  # doctest: +SKIP
    >>> downstream = link.receive(spark).writeStream.foreachBatch(write_sink)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | Path,
        key: str | Sequence[str] | None = None,
        channels: int | None = None,
        exclusive_buffers: int | None = None,
        floating_buffers: int | None = None,
        buffer_bytes: int | str | None = None,
        schema: StructType | pa.Schema | str | None = None,
        *,
        target_batch_s: float | None = None,
        detach_after_bytes: int | str | None = None,
        spill_bytes: int | str | None = None,
        max_pool_bytes: int | str | None = None,
        event_time_column: str | None = None,
        watermark_delay_s: float | None = None,
        idle_after_s: float | None = None,
        align_s: float | None = None,
        evolve_schema: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        arguments = locals()
        self.storage = Storage(path, storage_options)
        self._given = {name: arguments[name] for name in DEFAULTS}
        self.evolve_schema = evolve_schema
        self._settings = find(self.storage, self._given, schema_json(schema), evolve=evolve_schema)

    @property
    def settings(self) -> LinkSettings:
        """Settings as they were when this was opened.

        Raises
        ------
        LinkError
            If the link has not been made yet.
        """
        if self._settings is None:
            self._settings = read_settings(self.storage)
        if self._settings is None:
            raise LinkError(
                f"{self.storage}: there is no link yet: its sender makes it with its first rows, "
                "or state what it is, with Link(..., key=..., channels=...)"
            )
        return self._settings

    def __repr__(self) -> str:
        return f"Link({str(self.storage)!r})"

    def sender(self, name: str, *, reset: bool = False) -> SenderBatch:
        """Return the function for the upstream query's ``foreachBatch``.

        Parameters
        ----------
        name : str
            Name of the sender. It belongs to one query and its checkpoint.
        reset : bool, default False
            Take the name over although another checkpoint has used it: rows of an unfinished batch
            may be delivered twice.

        Raises
        ------
        LinkError
            If the name is not valid.
        """
        from flowcontrol.link.batches import SenderBatch

        name = check_name("sender", name)
        return SenderBatch(self.storage, self.note_schema, name, reset=reset)

    def receive(
        self,
        spark: SparkSession,
        channels: Sequence[int] | None = None,
        *,
        name: str = "main",
        target_batch_s: float | None = None,
        reset: bool = False,
        from_start: bool = False,
        new_columns: str = "refuse",
        wait_s: float | None = None,
    ) -> DataFrame:
        """Return the link's rows as a streaming frame.

        Parameters
        ----------
        spark : SparkSession
            Where the query runs.
        channels : sequence of int, optional
            Read only these; other queries with the same receiver name read the others, so that a
            slow channel does not even share a micro-batch with them.
        name : str, default "main"
            Name of the receiver. Each receiver reads all rows.
        target_batch_s : float, optional
            How long a micro-batch should take; by default the link's. A batch lasts until Spark
            asks for the next one, so a ``trigger(processingTime=...)`` counts too.
        reset : bool, default False
            Continue at the receiver's position in the ledger although the checkpoint is new: the
            rows of its last batch may be delivered twice. A removed receiver is restored.
        from_start : bool, default False
            Begin at the first row, or refuse to start. By default a new receiver begins at the
            oldest rows that not all others have consumed.
        new_columns : str, default "refuse"
            What to do with rows that have columns which senders added since the query started:
            stop (``refuse``) until it is started again, or read them without (``ignore``).
        wait_s : float, default 60
            How long to wait for a link that does not exist yet, or has no columns.

        Raises
        ------
        LinkError
            If the name is not valid, or no sender has set the columns in time.
        """
        from flowcontrol.spark.versions import require_spark

        require_spark()
        from flowcontrol.link.source import LinkSource
        from flowcontrol.spark.session import register_source

        check_name("receiver", name)
        register_source(spark, LinkSource)
        stored = self.storage.options
        options = {
            "path": str(self.storage),
            "name": name,
            "channels": None if channels is None else ",".join(map(str, channels)),
            "target_batch_s": target_batch_s,
            "wait_s": wait_s,
            "new_columns": new_columns,
            "storage_options": json.dumps(stored) if stored else None,
            "reset": reset,
            "from_start": from_start,
            "partitions": _parallelism(spark),
        }
        given = {key: value for key, value in options.items() if value is not None}
        return spark.readStream.format("flowcontrol").options(**given).load()

    def create_view(self, spark: SparkSession, name: str, *, window_s: float = 10.0) -> None:
        """Create a temporary view of the link's figures: a row per sender, receiver and channel.

        Parameters
        ----------
        spark : SparkSession
            Where it is created.
        name : str
            Of the view; one of that name is replaced.
        window_s : float, default 10
            What rates and shares cover, seconds.

        Raises
        ------
        LinkError
            If the name is not valid, or the link has not been made yet.

        Notes
        -----
        The figures are those of ``flowcontrol watch``; docs/monitoring.md describes them.
        """
        from flowcontrol.link.monitoring.view import create_view

        _ = self.settings  # refuse a link that is not there now, not when the view is read
        create_view(spark, name, self.storage, window_s=window_s)

    def publish(self, spark: SparkSession, table: str) -> int:
        """Append the new rows of the link's ledger to a catalog table, through delta-spark.

        Parameters
        ----------
        spark : SparkSession
            With Delta's extension and catalog.
        table : str
            Name of the table, ``catalog.schema.table`` or shorter; created if it does not exist.
            Links may share one.

        Returns
        -------
        int
            Rows appended: all that any member committed since the last call.

        Raises
        ------
        LinkError
            If the table exists and is not such a ledger.

        Notes
        -----
        Only one process at a time may publish a link. Rows older than a week stay in the table.
        """
        from flowcontrol.link.monitoring.view import publish_ledger

        return publish_ledger(spark, self.storage.child("ledger"), self.settings.link_id, table)

    def note_schema(self, schema: StructType) -> LinkSettings:
        """Create the link with these columns, or verify that it carries them.

        Raises
        ------
        LinkError
            If it carries other columns; both are listed.
        """
        given = self._given if self._settings is None else {}
        found = agree(self.storage, given, schema_json(schema), evolve=self.evolve_schema)
        self._settings = found
        return found

    def remove_receiver(self, name: str, *, force: bool = False) -> None:
        """Remove a retired receiver; senders no longer wait for it.

        Parameters
        ----------
        name : str
            Name of the receiver. All of its queries are removed; stop them first.
        force : bool, default False
            Also if it has rows to read: it never reads them; the other receivers do.

        Raises
        ------
        LinkError
            If there is no receiver of that name; the message lists those that exist. If it has
            rows to read; the message counts them.

        Notes
        -----
        A query of it that still runs fails. A new checkpoint with ``reset=True`` restores the
        receiver, at its position if the rows are still there.
        """
        from flowcontrol.link.altering import remove_receiver

        remove_receiver(self.storage, name, force=force)

    def remove_sender(self, name: str, *, finish: bool = False) -> int:
        """Remove a retired sender and free its space.

        Parameters
        ----------
        name : str
            Name of the sender. Stop its query first.
        finish : bool, default False
            If it was stopped with rows that are not released: release them in its place, and
            wait until all receivers have read them.

        Returns
        -------
        int
            Bytes of the files that were deleted; those of its last batch stay.

        Raises
        ------
        LinkError
            If there is no sender of that name, or a receiver has rows of it to read.
        """
        from flowcontrol.link.altering import remove_sender

        return remove_sender(self.storage, name, finish=finish)

    def drain(self, *, wait_s: float | None = None, undo: bool = False) -> None:
        """Take the link out of its pipeline: keep senders out until receivers have read all.

        Parameters
        ----------
        wait_s : float, optional
            How long to wait for the receivers; by default for ever.
        undo : bool, default False
            Let senders in again instead.

        Raises
        ------
        LinkError
            If nobody reads, or not all is read in time; senders stay out then.
        """
        from flowcontrol.link.draining import drain, undo_drain

        if undo:
            undo_drain(self.storage)
        else:
            list(drain(self.storage, wait_s=wait_s))

    def bypass(self, name: str, function: Callable[[DataFrame, int], None]) -> Bypass:
        """Return the function for a sender's ``foreachBatch`` behind :meth:`drain`.

        Parameters
        ----------
        name : str
            Name of the sender, whose checkpoint the query has.
        function : callable
            Takes the rows of a source batch and its number; not a batch that receivers have had.

        Raises
        ------
        LinkError
            In the query: if the link is not drained, or the checkpoint is not the sender's.
        """
        from flowcontrol.link.draining import Bypass

        return Bypass(self.storage, check_name("sender", name), function)

    def move(self, path: str | Path, *, force: bool = False) -> Link:
        """Move the link to another folder or store; its queries go on there, where they were.

        Parameters
        ----------
        path : str or Path
            The new folder; it must be empty or not exist.
        force : bool, default False
            Cut off members that run; by default they are a reason to refuse.

        Returns
        -------
        Link
            The link in its new place. The same call finishes a move that was killed.

        Raises
        ------
        LinkError
            If members run, or the new folder holds something else.
        """
        from flowcontrol.link.folder import move

        target = Storage(path, self.storage.options)
        move(self.storage, target, force=force)
        return Link(path, storage_options=self.storage.options)

    def delete(self, *, force: bool = False) -> None:
        """Delete the link with all that it holds; nothing stays of its folder.

        Parameters
        ----------
        force : bool, default False
            Also if rows are unread, which are lost then, or members run.

        Raises
        ------
        LinkError
            If rows are unread or members run; the message has the figures.
        """
        from flowcontrol.link.folder import delete

        delete(self.storage, force=force)

    def describe(self) -> dict[str, Any]:
        """Return settings, members, backlog and space on disk, as ``flowcontrol link show`` does.

        Raises LinkError if there is no link.
        """
        from flowcontrol.link.describing import describe

        return describe(self.storage)

    def alter(self, **settings: Any) -> LinkSettings:
        """Change settings of a link that is in use.

        Parameters
        ----------
        **settings
            New values of ``target_batch_s``, ``exclusive_buffers``, ``floating_buffers``,
            ``max_pool_bytes``, ``channels`` (more of them), ``detach_after_bytes`` or
            ``spill_bytes``; None puts back the default.

        Returns
        -------
        LinkSettings
            The settings after the change.

        Raises
        ------
        LinkError
            If there is no link, a value is out of range, or a setting is fixed.

        Notes
        -----
        Running senders follow at once, running receivers with their next micro-batch. Of fewer
        buffers none is taken back: those in use go as their messages are consumed. A receiver
        with a ``target_batch_s`` of its own keeps that.

        Into more channels a sender with a key writes when all that it wrote before is read. Where
        receivers name channels, start a query for the new ones.
        """
        from flowcontrol.link.altering import alter

        self._settings = alter(self.storage, self.settings, settings)
        return self._settings


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks the session runs at once; 8 with Spark Connect, which hides it."""
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:
        return 8


def open_link(path: str | Path) -> Link:
    """Open the link in a folder.

    Raises LinkError if there is none.
    """
    if read_settings(Storage(path)) is None:
        raise no_link(path)
    return Link(path)
