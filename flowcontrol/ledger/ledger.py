"""The ledger of a link: a row per channel and micro-batch of each side.

History is the metrics, the rows of a side's last batch are its state. Each commit adds one
small file; every :data:`COMPACT_EVERY` commits a side rewrites its own small files as one, in
the same transaction, so that neither reading nor committing grows with the ledger's age.
"""

import re
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import Commit, NewFile, TableView, files_of
from flowcontrol.ledger.storage import RESTORE_RUN, damage_named
from flowcontrol.records import LEDGER, STATE

COMPACT_EVERY = 64
"""Small files that a side leaves before it rewrites them as one."""

NEIGHBOUR_MAY_READ = 16
"""Newest batches whose files stay as they are: the other side, a round behind, may read them, and
so may a throttled source, as many rounds behind as there are stages in between. It is so many times
as much where a neighbour may be some rounds behind."""

FILES_IN_HAND = 4
"""Files of which the rows are remembered: a round reads the newest of each side, or the ones before
where messages are under way for several rounds."""

TOGETHER = "to"
"""Between the first and the last batch of a commit in the name of its file; in a packed one "-"."""

NEEDED = "batch_id", "sender", "receiver", "channel_state", "task_state"
"""Columns by which a stage goes on; the others are for whoever looks at a run."""

_NAME = re.compile(rf"(sender|receiver)-(\d+)(?:(-|{TOGETHER})(\d+))?-[0-9a-f]+\.parquet")

Row = Mapping[str, Any]


class LedgerView(TableView):
    """What has been committed to a ledger, by side and batch."""

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        super().__init__(path, run_id)
        self.path = path
        self._read: OrderedDict[str, dict[int, list[dict[str, Any]]]] = OrderedDict()

    def _forget(self) -> None:
        self._files: dict[str, dict[int, str]] = {"sender": {}, "receiver": {}}
        self._ranges: dict[str, list[tuple[int, int, str]]] = {"sender": [], "receiver": []}
        self._last = {"sender": -1, "receiver": -1}

    def _take(self, commit: Commit) -> None:
        for add in commit.adds:
            self._note(add.path)
        for path in commit.removes:
            name = _parse_name(path)
            for number in range(name.low, name.high + 1):
                if self._files[name.side].get(number) == path:
                    del self._files[name.side][number]

    def check_reachable(self) -> None:
        """Make sure that the next commit can still be read, after a long wait."""
        self._log.check_reachable()

    def _note(self, path: str) -> None:
        name = _parse_name(path)
        if name.is_packed:
            self._ranges[name.side].append((name.low, name.high, path))
        else:
            self._files[name.side] |= dict.fromkeys(range(name.low, name.high + 1), path)
        self._last[name.side] = max(self._last[name.side], name.high)

    def last_batch(self, side: str) -> int:
        """Return the last batch of a side as of the last refresh; -1 before the first."""
        return self._last[side]

    def rows(self, side: str, number: int) -> list[dict[str, Any]]:
        """Return a side's rows of one round, ordered by sender and receiver; not to be changed.

        They have the columns that a stage needs to go on, :data:`NEEDED`.

        Raises LedgerError if the round has not been committed.
        """
        path = self._files[side].get(number)
        if path is not None:
            return self._rows_of(path)[number]
        for low, high, packed in self._ranges[side]:
            if low <= number <= high:
                keep = [("batch_id", "=", number)]
                with damage_named(self.path, packed):
                    table = pq.read_table(
                        self.path / packed, columns=list(NEEDED), filters=keep, partitioning=None
                    )
                rows: list[dict[str, Any]] = table.to_pylist()
                return rows
        raise LedgerError(
            f"{self.path}: no rows of the {side} for batch {number}, the last one is "
            f"{self._last[side]}: the checkpoint of a query is of another run or moment than this "
            f"ledger. {RESTORE_RUN}"
        )

    def _rows_of(self, path: str) -> dict[int, list[dict[str, Any]]]:
        """Return the rows of a file by round; those of the files read last are remembered."""
        if path in self._read:
            self._read.move_to_end(path)
            return self._read[path]
        found: dict[int, list[dict[str, Any]]] = {}
        for row in _read_file(self.path, path, NEEDED).to_pylist():
            found.setdefault(row["batch_id"], []).append(row)
        self._read[path] = found
        if len(self._read) > FILES_IN_HAND:
            self._read.popitem(last=False)
        return found

    def small_files(self, side: str, up_to: int) -> list[tuple[int, str]]:
        """Return the files of a side that one commit each has added, up to a batch, in order.

        With the first batch of each.
        """
        found = {path: _parse_name(path) for path in self._files[side].values()}
        return sorted((name.low, path) for path, name in found.items() if name.high <= up_to)


def create_ledger(path: Path) -> Path:
    """Create a link's ledger unless it exists; return its path."""
    create_table(path, LEDGER.arrow_schema(), LEDGER.meaning)
    return path


class Ledger(LedgerView):
    """One side's hand on the ledger of a link: reads both sides' rows, writes its own.

    ``path``: the table; created if it is not there.
    """

    def __init__(self, path: Path, side: str, run_id: str, behind: int = 1) -> None:
        super().__init__(create_ledger(path), run_id)
        self._behind = behind
        self.side = side
        self._schema = LEDGER.arrow_schema()
        self._writer = Writer(path, f"{run_id}/{side}", appends=True)

    def is_committed(self, number: int) -> bool:
        """Whether this side's rows of a round are in the ledger."""
        return self._writer.last_batch() >= number

    def commit(
        self, number: int, rows: Sequence[Row], *, earlier: Sequence[Sequence[Row]] = ()
    ) -> bool:
        """Append this side's rows of a round; False if they were there.

        - ``rows``: a row per channel: the columns that this side owns; ``side``, ``batch_id`` and
          ``committed_at`` are filled in.
        - ``earlier``: rows of the rounds right before it, in order, of the same commit.
        """
        if self.is_committed(number):
            return False
        fixed = {"side": self.side, "committed_at": datetime.now(UTC)}
        first = number - len(earlier)
        every = [
            {**row, **fixed, "batch_id": each}
            for each, own in enumerate((*earlier, rows), first)
            for row in own
        ]
        table = pa.Table.from_pylist(every, schema=self._schema)
        together = f"{TOGETHER}{number:08d}" if earlier else ""
        added = [self._write(table, f"{first:08d}{together}")]
        removed: list[NewFile] = []
        if (number + 1) // COMPACT_EVERY > first // COMPACT_EVERY:
            self.refresh(at_once=True)
            small = self.small_files(self.side, number - NEIGHBOUR_MAY_READ * self._behind)
            if small:
                added.append(self._pack(small))
                removed = [NewFile(p, (self.path / p).stat().st_size, 0) for _, p in small]
        return self._writer.commit(number, added, removed)

    def _write(self, table: pa.Table, batches: str) -> NewFile:
        return _write_file(self.path, f"{self.side}-{batches}", table)

    def _pack(self, small: list[tuple[int, str]]) -> NewFile:
        tables = [_read_file(self.path, path) for _, path in small]
        numbers = [tables[place]["batch_id"][place].as_py() for place in (0, -1)]
        return self._write(pa.concat_tables(tables), "{:08d}-{:08d}".format(*numbers))


def read_history(path: Path) -> pa.Table:
    """Return every row of a ledger, ordered by batch, side, sender and receiver.

    Returns the columns of :data:`flowcontrol.records.LEDGER`. Raises LedgerError if there is no
    ledger.
    """
    tables = [_read_file(path, file) for file in files_of(path)]
    schema = LEDGER.arrow_schema()
    table = pa.concat_tables(tables) if tables else schema.empty_table()
    order = [(name, "ascending") for name in ("batch_id", "side", "sender", "receiver")]
    return table.sort_by(order)


def _read_file(path: Path, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one small file; several times as fast as ``read_table``, which expects a data set."""
    with damage_named(path, name):
        file = pq.ParquetFile(pa.BufferReader((path / name).read_bytes()))
        return file.read(columns, use_threads=False)


def _write_file(
    path: Path, begin: str, table: pa.Table, stats: Mapping[str, object] | None = None
) -> NewFile:
    """Write rows into a new file, ``begin`` of whose name says what they are."""
    name = f"{begin}-{uuid.uuid4().hex[:12]}.parquet"
    is_large = len(table) >= 64
    how = {"compression": "zstd" if is_large else "none", "use_dictionary": is_large}
    pq.write_table(table, path / name, **how)
    return NewFile(name, (path / name).stat().st_size, len(table), stats or {})


class _Name(NamedTuple):
    """What a name says: whose rows, of which batches, and whether several files are packed."""

    side: str
    low: int
    high: int
    is_packed: bool


def _parse_name(path: str) -> _Name:
    match = _NAME.fullmatch(path)
    if match is None:
        raise LedgerError(f"{path} is not a file that a ledger writes")
    side, low, between, high = match.groups()
    return _Name(side, int(low), int(high or low), between == "-")


# --- The state of a run's checkpoints: a row per checkpoint, stage and subtask, in one Delta table.
#
# A stage appends what its subtasks held when they took a checkpoint, a file a round, and drops its
# own files of checkpoints from which nothing can begin any more. Both are one transaction with the
# round as its version, so a round that runs again adds nothing.


class KeptCut(NamedTuple):
    """What one subtask held when it took a checkpoint: the columns of the table."""

    checkpoint_id: int  # Number of the checkpoint
    stage: str  # Its stage
    subtask: int  # Which of it
    batch_id: int  # Round in which it was taken
    state_bytes: int  # Size of its state, as the scenario states it
    cut: str  # JSON (what :mod:`flowcontrol.live.moves` notes)


class StateView(TableView):
    """What has been committed of the state of a run's checkpoints."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def _forget(self) -> None:
        self._files: dict[str, list[int]] = {}

    def _take(self, commit: Commit) -> None:
        for add in commit.adds:
            self._files[add.path] = [int(one) for one in add.stats["checkpoints"]]
        for path in commit.removes:
            self._files.pop(path, None)

    def cuts(self, checkpoint: int) -> list[KeptCut]:
        """Return what is kept of a checkpoint, as of the last refresh, in no order."""
        found = [
            KeptCut(**row)
            for path, checkpoints in self._files.items()
            if checkpoint in checkpoints
            for row in self._rows(path)
        ]
        return [one for one in found if one.checkpoint_id == checkpoint]

    def all_cuts(self, is_needed: Callable[[int], bool]) -> list[KeptCut]:
        """Return what is kept of the checkpoints with certain ids, as of the last refresh."""
        checkpoints = {one for found in self._files.values() for one in found}
        return [cut for one in sorted(checkpoints) if is_needed(one) for cut in self.cuts(one)]

    def _rows(self, path: str) -> list[dict[str, Any]]:
        with pq.ParquetFile(self.path / path) as file:
            rows: list[dict[str, Any]] = file.read(use_threads=False).to_pylist()
        return rows


class StateTable(StateView):
    """The table as one stage writes it.

    ``path``: the table; created if it is not there.
    """

    def __init__(self, path: Path, run_id: str, stage: str) -> None:
        create_table(path, STATE.arrow_schema(), STATE.meaning)
        super().__init__(path)
        self._schema, self._stage = STATE.arrow_schema(), stage
        self._writer = Writer(path, f"{run_id}/{stage}/state")

    def commit(
        self, number: int, cuts: Sequence[KeptCut], is_needed: Callable[[int], bool]
    ) -> bool:
        """Append what the stage's subtasks held in a round; False if that is there, or is nothing.

        ``is_needed``: given the number of a checkpoint, whether some attempt may yet begin from it,
        in this round too. Files of which none is needed go.
        """
        if not cuts or self._writer.last_batch() >= number:
            return False
        self.refresh(at_once=True)
        gone = [
            NewFile(path, (self.path / path).stat().st_size, 0)
            for path, checkpoints in self._files.items()
            if path.rsplit("-", 2)[0] == self._stage and not any(map(is_needed, checkpoints))
        ]
        table = pa.Table.from_pylist([cut._asdict() for cut in cuts], schema=self._schema)
        stats = {"checkpoints": sorted({cut.checkpoint_id for cut in cuts})}
        added = _write_file(self.path, f"{self._stage}-{number:08d}", table, stats)
        return self._writer.commit(number, [added], gone)
