"""Commit files to a Delta table through delta-rs, once per transaction.

delta-rs *records* an application transaction and does not *enforce* it, and a handle does not
move with its own commit. So every commit goes: bring the handle up to date, look whether the
transaction is there, commit on that same handle. One writer a side makes this safe: whoever
else commits (the other side of a link) never uses this side's application id.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.errors import LedgerError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NewFile", "Writer", "create_table"]

CHECKPOINT_EVERY = 100
"""Commits between checkpoints: without them reading the log grows with its age (measured: from
9 to 90 ms within 600 commits)."""

ATTEMPTS = 20
"""Times that a commit is tried: one that removes files conflicts with the other side's."""

LOG_KEPT = "interval 60 seconds"
"""How long commits stay in the log once a checkpoint covers them. Neighbours lag by one round."""

CONFIGURATION = {
    "delta.logRetentionDuration": LOG_KEPT,
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
    "delta.checkpointInterval": str(1 << 30),
}


class NewFile:
    """A file to be added.

    Parameters
    ----------
    path : str
        Relative to the table.
    nbytes : int
        Size of the file.
    rows : int
        Rows in it.
    stats : dict, optional
        What to keep beside the statistics in the log.
    partition : dict of str to str, optional
        Partition values.
    """

    def __init__(
        self,
        path: str,
        nbytes: int,
        rows: int,
        stats: Mapping[str, object] | None = None,
        partition: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.nbytes, self.rows = path, nbytes, rows
        self.stats = {"numRecords": rows, **(stats or {})}
        self.partition: dict[str, str | None] = dict(partition or {})


def create_table(
    path: Path, schema: pa.Schema, description: str, partition_by: Sequence[str] = ()
) -> None:
    """Create an empty Delta table unless it is there.

    Parameters
    ----------
    path : Path
        Where.
    schema : pyarrow.Schema
        Columns.
    description : str
        One sentence, kept with the table.
    partition_by : sequence of str, default ()
        Partition columns.
    """
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(path)):
        DeltaTable.create(
            str(path),
            schema=schema,
            mode="ignore",
            description=description,
            partition_by=list(partition_by),
            configuration=dict(CONFIGURATION),
        )


class Writer:
    """One side's commits to one table.

    Parameters
    ----------
    path : Path
        The table; it exists.
    app_id : str
        Application id of this side; its versions are batch ids.
    """

    def __init__(self, path: Path, app_id: str) -> None:
        from deltalake import DeltaTable

        self.path, self.app_id = path, app_id
        self._table = DeltaTable(str(path))
        self._fields = self._table.schema()
        self._partition_by = self._table.metadata().partition_columns
        self._last: int | None = None
        self._since_checkpoint = 0

    def last_batch(self) -> int:
        """Return the last batch that this side has committed; -1 before the first."""
        if self._last is None:
            self._table.update_incremental()
            version = self._table.transaction_version(self.app_id)
            self._last = -1 if version is None else version
        return self._last

    def commit(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile] = ()
    ) -> bool:
        """Commit files as one transaction, unless this batch has been committed already.

        Parameters
        ----------
        batch_id : int
            Version of the application transaction.
        adds, removes : sequence of NewFile
            Files to add and to remove.

        Returns
        -------
        bool
            False if the batch, or a later one, was there: nothing was committed.

        Raises
        ------
        LedgerError
            If other commits got in between again and again.
        """
        from deltalake.exceptions import CommitFailedError

        for attempt in range(1, ATTEMPTS + 1):
            self._table.update_incremental()
            seen = self._table.transaction_version(self.app_id)
            self._last = -1 if seen is None else seen
            if self._last >= batch_id:
                return False
            try:
                self._try_commit(batch_id, adds, removes)
                break
            except CommitFailedError as error:
                if attempt == ATTEMPTS:
                    raise LedgerError(
                        f"{self.path}: batch {batch_id} could not be committed in {ATTEMPTS} "
                        f"attempts: {error}"
                    ) from error
        self._last = batch_id
        self._since_checkpoint += 1
        if self._since_checkpoint >= CHECKPOINT_EVERY:
            self.checkpoint()
        return True

    def _try_commit(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]
    ) -> None:
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(f.path, f.nbytes, f.partition, now, True, _json(f.stats)) for f in adds
        ]
        actions += [RemoveAction(f.path, True, now, f.nbytes, f.partition) for f in removes]
        self._table.create_write_transaction(
            actions,
            mode="append",
            schema=self._fields,
            partition_by=self._partition_by or None,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(self.app_id, batch_id)]
            ),
            post_commithook_properties=PostCommitHookProperties(
                create_checkpoint=False, cleanup_expired_logs=False
            ),
        )

    def checkpoint(self) -> None:
        """Write a checkpoint and clean the log behind it."""
        self._table.update_incremental()
        self._table.create_checkpoint()
        # The other side may be cleaning up too: what one deletes, the other does not find.
        with suppress(FileNotFoundError):
            self._table.cleanup_metadata()
        self._since_checkpoint = 0


def _json(value: Mapping[str, object]) -> str:
    import json

    return json.dumps(value, separators=(",", ":"))
