"""The ledger of a link: a row per channel and micro-batch of each side.

History is the metrics, the rows of a side's last batch are its state. Each commit adds one
small file; every :data:`COMPACT_EVERY` commits a side rewrites its own small files as one, in
the same transaction, so that neither reading nor committing grows with the ledger's age.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.log import DeltaLog, files_of
from flowcontrol.records import LEDGER

COMPACT_EVERY = 64
"""Small files that a side leaves before it rewrites them as one."""

NEIGHBOUR_MAY_READ = 16
"""Newest batches whose files stay as they are: the other side, a round behind, may read them, and
so may a throttled source, as many rounds behind as there are stages in between."""

_NAME = re.compile(r"(sender|receiver)-(\d+)(?:-(\d+))?-[0-9a-f]+\.parquet")

Row = Mapping[str, Any]


class LedgerView:
    """What has been committed to a ledger, by side and batch.

    Parameters
    ----------
    path : Path
        The ledger's table.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = DeltaLog(path)
        self._forget()

    def _forget(self) -> None:
        self._files: dict[str, dict[int, str]] = {"sender": {}, "receiver": {}}
        self._ranges: dict[str, list[tuple[int, int, str]]] = {"sender": [], "receiver": []}

    def refresh(self, *, at_once: bool = False) -> None:
        """Read the commits since the last time.

        Parameters
        ----------
        at_once : bool, default False
            Check for missing commits now; else the check may be delayed by a second.
        """
        for commit in self._log.follow(self._forget, at_once=at_once):
            for add in commit.adds:
                self._note(add.path)
            for path in commit.removes:
                side, low, _ = _parse_name(path)
                if self._files[side].get(low) == path:
                    del self._files[side][low]

    def check_reachable(self) -> None:
        """Make sure that the next commit can still be read, after a long wait."""
        self._log.check_reachable()

    def _note(self, path: str) -> None:
        side, low, high = _parse_name(path)
        if low == high:
            self._files[side][low] = path
        else:
            self._ranges[side].append((low, high, path))

    def last_batch(self, side: str) -> int:
        """Return the last batch of a side as of the last refresh; -1 before the first."""
        ends = [high for _, high, _ in self._ranges[side]]
        return max([-1, *self._files[side], *ends])

    def rows(self, side: str, batch_id: int) -> list[dict[str, Any]]:
        """Return a side's rows of one batch, ordered by sender and receiver.

        Raises
        ------
        LedgerError
            If the batch has not been committed.
        """
        path = self._files[side].get(batch_id)
        table = None
        if path is not None:
            table = _read_file(self.path / path)
        for low, high, packed in self._ranges[side]:
            if table is None and low <= batch_id <= high:
                keep = [("batch_id", "=", batch_id)]
                table = pq.read_table(self.path / packed, filters=keep, partitioning=None)
        if table is None:
            raise LedgerError(f"{self.path}: no rows of the {side} for batch {batch_id}")
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows

    def small_files(self, side: str, up_to: int) -> list[tuple[int, str]]:
        """Return the files of a side that hold one batch each, up to a batch, in order."""
        return sorted((b, p) for b, p in self._files[side].items() if b <= up_to)


def create_ledger(path: Path) -> Path:
    """Create a link's ledger unless it exists; return its path."""
    create_table(path, LEDGER.arrow_schema(), LEDGER.meaning)
    return path


class Ledger(LedgerView):
    """One side's hand on the ledger of a link: reads both sides' rows, writes its own.

    Parameters
    ----------
    path : Path
        The table; created if it is not there.
    side : {"sender", "receiver"}
        Which side.
    run_id : str
        Makes the application id unique to this run.
    """

    def __init__(self, path: Path, side: str, run_id: str) -> None:
        super().__init__(create_ledger(path))
        self.side = side
        self._schema = LEDGER.arrow_schema()
        self._writer = Writer(path, f"{run_id}/{side}")

    def is_committed(self, batch_id: int) -> bool:
        """Whether this side's rows of a batch are in the ledger."""
        return self._writer.last_batch() >= batch_id

    def commit(self, batch_id: int, rows: Sequence[Row]) -> bool:
        """Append this side's rows of a batch; False if they were there.

        Parameters
        ----------
        batch_id : int
            The batch.
        rows : sequence of mapping
            A row per channel: the columns that this side owns; ``side``, ``batch_id`` and
            ``committed_at`` are filled in.
        """
        if self.is_committed(batch_id):
            return False
        now = datetime.now(UTC)
        fixed = {"side": self.side, "batch_id": batch_id, "committed_at": now}
        table = pa.Table.from_pylist([{**row, **fixed} for row in rows], schema=self._schema)
        added = [self._write(table, f"{batch_id:08d}")]
        removed: list[NewFile] = []
        if batch_id % COMPACT_EVERY == COMPACT_EVERY - 1:
            self.refresh(at_once=True)
            small = self.small_files(self.side, batch_id - NEIGHBOUR_MAY_READ)
            if small:
                added.append(self._pack(small))
                removed = [NewFile(p, (self.path / p).stat().st_size, 0) for _, p in small]
        done = self._writer.commit(batch_id, added, removed)
        for gone in removed if done else []:
            (self.path / gone.path).unlink(missing_ok=True)
        return done

    def _write(self, table: pa.Table, batches: str) -> NewFile:
        name = f"{self.side}-{batches}-{uuid.uuid4().hex[:12]}.parquet"
        pq.write_table(table, self.path / name, compression="none" if len(table) < 64 else "zstd")
        return NewFile(name, (self.path / name).stat().st_size, len(table))

    def _pack(self, small: list[tuple[int, str]]) -> NewFile:
        tables = [_read_file(self.path / path) for _, path in small]
        return self._write(pa.concat_tables(tables), f"{small[0][0]:08d}-{small[-1][0]:08d}")


def read_history(path: Path) -> pa.Table:
    """Return every row of a ledger, ordered by batch, side, sender and receiver.

    Parameters
    ----------
    path : Path
        The ledger's table.

    Returns
    -------
    pyarrow.Table
        The columns of :data:`flowcontrol.records.LEDGER`.

    Raises
    ------
    LedgerError
        If there is no ledger.
    """
    tables = [_read_file(path / file) for file in files_of(path)]
    schema = LEDGER.arrow_schema()
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    order = [(name, "ascending") for name in ("batch_id", "side", "sender", "receiver")]
    return table.sort_by(order)


def _read_file(path: Path) -> pa.Table:
    """Read one small file; several times as fast as ``read_table``, which expects a data set."""
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False)


def _parse_name(path: str) -> tuple[str, int, int]:
    match = _NAME.fullmatch(path)
    if match is None:
        raise LedgerError(f"{path} is not a file that a ledger writes")
    side, low, high = match.groups()
    return side, int(low), int(high or low)
