"""The ledger of a plug-in link: every sender and every receiver appends its own rows.

Each commit adds one small file with a row per channel. The file's statistics hold the cursors that
the other side waits for, so following the ledger costs one small text per commit. A background
thread packs small files level by level: 64 of a level become one of the next, which is added by
the member's next commit.
"""

import json
import re
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flowcontrol.errors import DamagedError, LedgerError, LinkError
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import (
    Add,
    Commit,
    NewFile,
    TableView,
    check_file,
    check_seal,
    digest,
    sealed,
    sweep,
)
from flowcontrol.ledger.storage import RESTORE, Storage, writing
from flowcontrol.records import LEDGER

PACK = 64
"""Files of a level that are packed into one of the next."""

TOP_LEVEL = 3
"""Files of this level stay; they hold 64 ** 3 commits each."""

HISTORY_S = 7 * 86_400.0
"""How long rows are kept, seconds; only whole files of the top level are dropped."""

LOOKS = 20
"""Attempts to read all rows while members pack files at the same time."""

_NAME = re.compile(r"(.+)\.L(\d)\.(\d+)-(\d+)\.[0-9a-f]+\.parquet")


@dataclass
class Latest:
    """The newest commit of a member."""

    batch_id: int  # Number of the commit, from 0; it counts the member's own commits
    state: dict[str, Any]  # What the other side waits for
    path: str  # The file with the rows


Levels = dict[int, list[tuple[int, int, str]]]
"""A member's files by level, oldest first: first and last commit, path."""


def create_ledger(storage: Storage) -> None:
    """Create an empty ledger unless it is there."""
    create_table(storage, LEDGER.arrow_schema(), LEDGER.meaning)


class LinkLedgerView(TableView):
    """What has been committed to a link's ledger, by member.

    - ``members``: by application id: ``sender/<name>``, ``receiver/<name>/<channels>``.
    - ``starts``: epoch of each member's newest start that was seen, and when that was, Unix time,
      s.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.storage = storage
        self.starts: dict[str, tuple[int, float]] = {}

    def _forget(self) -> None:
        self.members: dict[str, Latest] = {}
        self._files: dict[str, Levels] = {}
        self._digests: dict[str, tuple[int, int]] = {}
        """Size and digest of each file, by its path."""

    @property
    def version(self) -> int:
        """Last commit that was seen."""
        return self._log.version

    def is_there(self) -> bool:
        """Whether the ledger has been made, and not only its folder."""
        return self._log.is_there()

    def _take(self, commit: Commit) -> None:
        for path in commit.removes:
            self._drop(path)
        for add in commit.adds:
            self._note(commit.version, add)
        for member, epoch in commit.epochs.items():
            if epoch > self.starts.get(member, (0, 0.0))[0]:
                self.starts[member] = epoch, commit.at_ms / 1000

    def _note(self, version: int, add: Add) -> None:
        stats = check_seal(self.storage, version, add)
        path, member = add.path, stats["member"]
        self._digests[path] = (stats["digest"][0], stats["digest"][1])
        level, low, high = _parse_name(path)
        files = self._files.setdefault(member, {}).setdefault(level, [])
        files.append((low, high, path))
        files.sort()
        latest = self.members.get(member)
        if latest is None or high >= latest.batch_id:
            self.members[member] = Latest(high, stats["state"], path)

    def _drop(self, path: str) -> None:
        self._digests.pop(path, None)
        level = _parse_name(path)[0]
        for levels in self._files.values():
            levels[level] = [file for file in levels.get(level, []) if file[2] != path]

    def last_rows(self, member: str) -> list[dict[str, Any]]:
        """Return the rows of a member's newest commit, ordered by sender and channel.

        Raises LedgerError if the member has committed nothing. Raises DamagedError if its file is
        missing, or is not what was written.
        """
        latest = self.members.get(member)
        if latest is None:
            raise LedgerError(f"{self.storage}: {member} has committed nothing")
        try:
            table = self.read_file(latest.path)
        except FileNotFoundError as error:
            if not self.refresh(at_once=True):
                raise DamagedError(
                    f"{self.storage}/{latest.path} is missing although a commit names it. {RESTORE}"
                ) from error
            return self.last_rows(member)  # its member has gone on and packed it
        newest = table.filter(pc.equal(table["batch_id"], latest.batch_id))
        rows: list[dict[str, Any]] = newest.to_pylist()
        return rows

    def read_file(self, path: str) -> pa.Table:
        """Return the rows of a file that a commit names.

        Raises FileNotFoundError if it is not there. Raises DamagedError if it is not what was
        written.
        """
        written = self._digests.get(path)
        if written is None:  # dropped since somebody noted it
            raise FileNotFoundError(path)
        return _read_file(self.storage, path, written)


class LinkLedger(LinkLedgerView):
    """The ledger as one member writes it.

    ``storage``: the table; it exists.
    """

    def __init__(self, storage: Storage, member: str) -> None:
        super().__init__(storage)
        self.member = member
        self._schema = LEDGER.arrow_schema()
        self.refresh()  # first: it names a file that is damaged
        self._writer = Writer(storage, member)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flowcontrol-pack")
        self._packing: Future[tuple[NewFile, list[NewFile]]] | None = None

    def claim(self) -> int:
        """Take the member's place; return the new epoch, which fences earlier processes."""
        with writing(self.storage, f"the claim of {self.member}"):
            epoch = self._writer.claim()
        as_of_s = time.time()
        self.refresh_beyond(self._writer.seen)
        # Files of this member that no commit names: it was killed when it wrote them.
        sweep(self.storage, self._digests, f"{_safe(self.member)}.L", as_of_s=as_of_s)
        return epoch

    def check_claim(self) -> None:
        """Make sure that the member's place is still this process's.

        Raises FencedError if another has taken it.
        """
        self._writer.check_claim()

    def join(self, epoch: int) -> bool:
        """Act in a place that another process has claimed; False if it was taken over since."""
        return self._writer.join(epoch)

    @property
    def latest(self) -> Latest | None:
        """Newest commit of this member."""
        return self.members.get(self.member)

    @property
    def next_number(self) -> int:
        """Number of this member's next commit."""
        return 0 if self.latest is None else self.latest.batch_id + 1

    def commit(self, rows: Sequence[Mapping[str, Any]], state: Mapping[str, Any]) -> int:
        """Append rows, a channel each; return the number of the commit.

        - ``rows``: the columns that the member owns; ``side``, ``batch_id`` and ``committed_at``
          are filled in.
        - ``state``: what the other side waits for; it is part of the log itself.

        Raises FencedError if another process has taken the member's place. Raises LinkError if the
        disk is full, or cannot be written for another reason.
        """
        number = self.next_number
        side = self.member.partition("/")[0]
        fixed = {"side": side, "batch_id": number, "committed_at": datetime.now(UTC)}
        table = pa.Table.from_pylist([{**row, **fixed} for row in rows], schema=self._schema)
        with writing(self.storage, f"commit {number} of {self.member}"):
            adds, removes = [self._write(table, 0, number, number, state)], list[NewFile]()
            packed = self._packed()
            if packed is not None:
                adds.append(packed[0])
                removes += packed[1]
            is_new = self._writer.commit(number, adds, removes)
        if not is_new:
            raise LinkError(
                f"{self.storage}: commit {number} of {self.member} is there already although its "
                "writer has not seen it; stop whatever else writes under this name"
            )
        self.refresh_beyond(self._writer.seen)
        if self.next_number <= number:
            self.refresh(at_once=True)
        if self.next_number <= number:
            raise LinkError(
                f"{self.storage}: commit {number} of {self.member} cannot be read again: "
                f"{self._log.next_file} is missing. {RESTORE}"
            )
        self._start_packing(state)
        return number

    def _write(
        self, table: pa.Table, level: int, low: int, high: int, state: Mapping[str, Any]
    ) -> NewFile:
        name = f"{_safe(self.member)}.L{level}.{low:010d}-{high:010d}.{uuid.uuid4().hex[:8]}"
        path = f"{name}.parquet"
        written = pa.BufferOutputStream()
        pq.write_table(table, written, compression="zstd" if level else "none")
        content = written.getvalue()
        with self.storage.open_output(path) as file:
            file.write(content)
        stats = {"numRecords": len(table), "member": self.member, "state": dict(state)}
        stats["digest"] = [content.size, digest(content)]
        return NewFile(path, content.size, len(table), sealed(path, {}, stats))

    # ------------------------------------------------------------------ packing

    def _start_packing(self, state: Mapping[str, Any]) -> None:
        """Let the background thread pack the lowest level that is full."""
        if self._packing is not None:
            return
        levels = self._files[self.member]
        for level in range(TOP_LEVEL):
            files = levels.get(level, [])
            if len(files) > PACK:  # the newest stays: it is the state
                # The thread gets copies: the caller goes on changing its state's lists, and a log
                # that others have cleaned is read from the start, which empties _digests.
                chosen = files[:PACK]
                old = levels.get(TOP_LEVEL, [])[:-1] if level + 1 == TOP_LEVEL else []
                written = {path: self._digests[path] for _, _, path in (*chosen, *old)}
                kept = json.loads(json.dumps(state))
                self._packing = self._pool.submit(
                    self._pack, level + 1, chosen, [path for _, _, path in old], written, kept
                )
                return

    def _pack(
        self,
        level: int,
        files: Sequence[tuple[int, int, str]],
        old: Sequence[str],
        written: Mapping[str, tuple[int, int]],
        state: Mapping[str, Any],
    ) -> tuple[NewFile, list[NewFile]]:
        """Write the rows of files into one of the next level; runs in the background thread.

        - ``files``: first and last commit of each, and its path.
        - ``written``: size and digest of each of all these.
        """
        tables = [_read_file(self.storage, path, written[path]) for _, _, path in files]
        gone = [path for _, _, path in files]
        gone += [path for path in old if self._is_expired(path, written[path])]
        removes = [NewFile(path, self.storage.size(path), 0) for path in gone]
        whole = pa.concat_tables(tables)
        return self._write(whole, level, files[0][0], files[-1][1], state), removes

    def _packed(self) -> tuple[NewFile, list[NewFile]] | None:
        """Return what the background thread has packed, if it is done."""
        if self._packing is None or not self._packing.done():
            return None
        packing, self._packing = self._packing, None
        return packing.result()

    def _is_expired(self, path: str, written: tuple[int, int]) -> bool:
        """Whether the newest row of a file is too old to be kept."""
        newest = _read_file(self.storage, path, written)["committed_at"][-1].as_py()
        return bool(time.time() - newest.timestamp() > HISTORY_S)

    def close(self) -> None:
        """Wait for the background thread."""
        self._pool.shutdown(wait=True)


def member_rows(storage: Storage) -> pa.Table:
    """Return every row of a link's ledger, in the order in which each member wrote them.

    Raises LedgerError if a file is missing, and not because it was packed meanwhile.
    """
    tables = list(rows_since(storage, {})[1].values())
    return pa.concat_tables(tables) if tables else LEDGER.arrow_schema().empty_table()


def rows_since(storage: Storage, last: Mapping[str, int]) -> tuple[int, dict[str, pa.Table]]:
    """Return what each member has committed since a commit of its own.

    ``last``: by member the last commit that is known; all commits of others are returned.

    Returns the ledger's version, and the rows of members that have new ones, in order. Raises
    LedgerError if a file is missing, and not because it was packed meanwhile.
    """
    for _ in range(LOOKS):
        view = LinkLedgerView(storage)
        view.refresh()
        try:
            return view.version, _rows_since(view, last)
        except FileNotFoundError as error:  # packed after the log was read
            missing = error
    raise LedgerError(f"{storage}: a file is missing although a commit names it: {missing}")


def _rows_since(view: LinkLedgerView, last: Mapping[str, int]) -> dict[str, pa.Table]:
    found = {}
    for member, levels in view._files.items():
        known, tables = last.get(member, -1), []
        for _, high, path in sorted(file for level in levels.values() for file in level):
            if high > known:
                tables.append(view.read_file(path))
        if tables:
            rows = pa.concat_tables(tables)
            found[member] = rows.filter(pc.greater(rows["batch_id"], known))
    return found


def _read_file(storage: Storage, path: str, written: tuple[int, int]) -> pa.Table:
    """Return the rows of a file of which size and digest are known."""
    content = storage.read(path)
    check_file(storage, path, content, written)
    return pq.ParquetFile(pa.BufferReader(content)).read()


def _safe(member: str) -> str:
    return re.sub(r"[^A-Za-z0-9_=-]", "_", member)


def _parse_name(path: str) -> tuple[int, int, int]:
    match = _NAME.fullmatch(path)
    if match is None:
        raise LedgerError(f"{path} is not a file that a link's ledger writes")
    _, level, low, high = match.groups()
    return int(level), int(low), int(high)
