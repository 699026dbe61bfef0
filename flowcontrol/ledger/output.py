"""The table that a sink writes: one transaction a micro-batch, none of them twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.exchange import PackedFile


class OutputTable:
    """A sink's table.

    Parameters
    ----------
    path : Path
        The table; created if it is not there.
    schema : pyarrow.Schema
        Columns of the rows.
    app_id : str
        Application id; the batch id is the version, so that a repeated batch adds nothing
        (Delta: idempotent writes in foreachBatch).
    """

    def __init__(self, path: Path, schema: pa.Schema, app_id: str) -> None:
        create_table(path, schema, "Rows that a sink has written.", for_users=True)
        self.path = path
        self._writer = Writer(path, app_id, for_users=True)

    def commit(self, batch_id: int, files: Sequence[PackedFile]) -> bool:
        """Commit the files of a batch; False if the batch was there."""
        adds = [NewFile(file.path, file.nbytes, file.rows) for file in files]
        return self._writer.commit(batch_id, adds)
