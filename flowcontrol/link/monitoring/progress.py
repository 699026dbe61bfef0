"""Rows on their way into the table of what queries report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowcontrol.ledger.storage import Storage
from flowcontrol.records import QUERY_PROGRESS

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMPACT_EVERY = 100
"""Appends between two compactions: about a quarter of an hour of an append every 10 s."""

KEEP_HOURS = 24
"""How long files stay that were compacted: what reads the table meanwhile still finds them."""


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
