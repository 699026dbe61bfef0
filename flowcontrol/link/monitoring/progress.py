"""The table of what queries report: its columns, and rows on their way into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowcontrol.ledger.storage import Storage
from flowcontrol.records import Column, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMPACT_EVERY = 100
"""Appends between two compactions: about a quarter of an hour of an append every 10 s."""

KEEP_HOURS = 24
"""How long files stay that were compacted: what reads the table meanwhile still finds them."""

QUERY_PROGRESS = Table(
    "query_progress",
    "What one streaming query reported of one micro-batch, or that it started or ended.",
    (
        Column("at", "timestamp", "us, UTC", "When the trigger started, or the event arrived."),
        Column("event", "string", "", '"started", "terminated" or, with figures, "progress".'),
        Column("query", "string", "", "Name of the query; its id if it has none."),
        Column("query_id", "string", "", "Id of the query's checkpoint: the same after a restart."),
        Column("run_id", "string", "", "Id of this start of the query."),
        Column("batch_id", "int64", "", "Micro-batch of the query, from 0."),
        Column("rows", "int64", "records", "Records that the micro-batch read from all sources."),
        Column("rows_written", "int64", "records", "Counted by the sink; null for foreachBatch."),
        Column(
            "rows_in_per_s",
            "float64",
            "records/s",
            "rows / time since the trigger before (inputRowsPerSecond).",
        ),
        Column(
            "rows_out_per_s", "float64", "records/s", "rows / batch time (processedRowsPerSecond)."
        ),
        Column("batch_ms", "float64", "ms", "Time of the whole trigger (triggerExecution)."),
        Column(
            "add_batch_ms",
            "float64",
            "ms",
            "Of that, user code and sink, a sender's wait for buffers too (addBatch).",
        ),
        Column(
            "latest_offset_ms",
            "float64",
            "ms",
            "Of that, asking the sources, a receiver's wait for rows too (latestOffset).",
        ),
        Column("planning_ms", "float64", "ms", "Of that, planning (queryPlanning)."),
        Column(
            "commit_ms",
            "float64",
            "ms",
            "Of that, writing the checkpoint (walCommit, commitOffsets).",
        ),
        Column("links", "string", "", "Links that the query reads, by comma; null while unknown."),
        Column("backlog_rows", "int64", "records", "In these links, not consumed by this query."),
        Column("backlog_bytes", "int64", "bytes", "Size of those records."),
        Column("backlog_age_s", "float64", "s", "Age of the oldest of them."),
        Column(
            "error", "string", "", "Why the query failed; null if it was stopped or still runs."
        ),
    ),
)


class ProgressTable:
    """Rows on their way into the Delta table.

    Parameters
    ----------
    storage : Storage
        The table; it is created with the first rows.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._appends = 0

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows in one commit, and compact the table now and then."""
        import pyarrow as pa
        from deltalake import write_deltalake

        table = self._table()
        write_deltalake(
            table,
            pa.Table.from_pylist([dict(row) for row in rows], QUERY_PROGRESS.arrow_schema()),
            mode="append",
        )
        self._appends += 1
        if self._appends % COMPACT_EVERY == 0:
            self._compact()

    def _table(self) -> DeltaTable:
        from deltalake import DeltaTable

        options = self.storage.options or None
        if not DeltaTable.is_deltatable(str(self.storage), storage_options=options):
            DeltaTable.create(
                str(self.storage),
                schema=QUERY_PROGRESS.arrow_schema(),
                mode="ignore",
                description=QUERY_PROGRESS.meaning,
                storage_options=options,
            )
        return DeltaTable(str(self.storage), storage_options=options)

    def _compact(self) -> None:
        """Put small files together; another driver that does so at the same time may win."""
        from deltalake.exceptions import CommitFailedError

        table = self._table()
        try:
            table.optimize.compact()
        except CommitFailedError:
            return
        table.vacuum(retention_hours=KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
