"""A log whose listing has a hole, as a folder shows it while others write and clean."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from flowcontrol.errors import DamagedError, LedgerError
from flowcontrol.ledger import commit as listing
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import DeltaLog, NewFile
from flowcontrol.ledger.storage import Storage

GAP = "Kernel error: Expected contiguous commit files, but found gap: 6389 -> 6391"


class Hole:
    """A commit that listings leave out until somebody has waited some times."""

    def __init__(self, table: Path, version: int, looks: int) -> None:
        self.file = table / f"_delta_log/{version:020d}.json"
        self.away, self.left, self.waited = self.file.with_suffix(".away"), looks, 0
        self.file.rename(self.away)

    def sleep(self, _: float) -> None:
        self.waited += 1
        if self.waited == self.left:
            self.away.rename(self.file)


@pytest.fixture
def table(tmp_path):
    """A table with the commits 0 to 5."""
    path = tmp_path / "table"
    create_table(path, pa.schema([("id", pa.int64())]), "A table.")
    writer = Writer(path, "other")
    for batch in range(5):
        assert writer.commit(batch, [])
    return path


@pytest.fixture
def hole(table, monkeypatch):
    """Return a function that makes a hole, which closes after so many looks."""

    def make(version: int = 3, looks: int = 3) -> Hole:
        made = Hole(table, version, looks)
        monkeypatch.setattr(listing.time, "sleep", made.sleep)
        return made

    return make


ACTS = {
    "open": lambda writer: Writer(writer.path, "third"),
    "commit": lambda writer: writer.commit(0, []),
    "last_batch": lambda writer: writer.last_batch(),
    "claim": lambda writer: writer.claim(),
    "checkpoint": lambda writer: writer.checkpoint(),
}


def behind(table: Path) -> Writer:
    """A writer whose handle has seen nothing of the other's commits."""
    for version in range(1, 6):
        (table / f"_delta_log/{version:020d}.json").rename(table / f"{version}")
    writer = Writer(table, "me")
    for version in range(1, 6):
        (table / f"{version}").rename(table / f"_delta_log/{version:020d}.json")
    return writer


@pytest.mark.parametrize("act", ACTS)
def test_a_hole_that_closes_is_no_error(table, hole, act):
    writer, made = behind(table), hole()
    ACTS[act](writer)
    assert made.waited == 3


@pytest.mark.parametrize("act", ACTS)
def test_a_hole_that_stays_is_named(table, hole, act):
    writer, made = behind(table), hole(looks=-1)
    with pytest.raises(DamagedError) as caught:
        ACTS[act](writer)
    assert f"{table}/_delta_log cannot be read: {3:020d}.json is missing between others" in str(
        caught.value
    )
    assert "Put it back as it was" in str(caught.value)
    assert made.waited == len(listing.WAITS_S)


class Doubtful:
    """A table that commits and then fails to list its log, once."""

    def __init__(self, table) -> None:
        self._table, self.fails = table, 1

    def __getattr__(self, name):
        return getattr(self._table, name)

    def create_write_transaction(self, *arguments, **named) -> None:
        self._table.create_write_transaction(*arguments, **named)
        if self.fails:
            self.fails -= 1
            raise DeltaError(GAP)


@pytest.mark.parametrize("is_fenced", [True, False])
def test_a_commit_whose_listing_failed_after_it_happens_once(table, is_fenced):
    """Only one that nobody else can have made counts as one's own."""
    writer = Writer(table, "me")
    if is_fenced:
        writer.claim()
    writer._table = Doubtful(writer._table)
    assert writer.commit(7, [NewFile("a.parquet", 1, 1)]) is is_fenced
    assert [add.path for c in DeltaLog(table).poll() for add in c.adds] == ["a.parquet"]
    assert writer.last_batch() == 7
    assert writer.commit(8, [])
    assert not writer.commit(8, [])


def test_a_log_that_never_lists_whole_is_a_refusal_of_ours(table):
    writer = Writer(table, "me")
    writer._table = Doubtful(writer._table)
    writer._table.fails = 1000
    with pytest.raises(LedgerError, match=r"a claim failed in 20 attempts"):
        writer.claim()


# ---------------------------------------------------------------------- followers


class Busy(Storage):
    """A folder in which something happens when a file is asked for."""

    def __init__(self, root, name: str, happens) -> None:
        super().__init__(root)
        self._name, self._happens = name, happens

    def _pass(self, name: str) -> None:
        if self._name in name and self._happens is not None:
            happens, self._happens = self._happens, None
            happens()

    def read(self, name: str) -> bytes:
        try:
            return super().read(name)
        finally:
            self._pass(name)

    def exists(self, name: str) -> bool:
        try:
            return super().exists(name)
        finally:
            self._pass(name)

    def open_input(self, name: str):
        self._pass(name)
        return super().open_input(name)


@pytest.mark.parametrize("moment", [f"{7:020d}.json", "_last_checkpoint"])
def test_a_commit_with_a_checkpoint_while_it_is_asked_cuts_nobody_off(table, moment):
    """Commits are kept for a minute: a reader that has just read the last one is not late."""

    def commit() -> None:
        checkpoint(table)

    checkpoint(table)
    log = DeltaLog(Busy(table, moment, None))
    assert [commit.version for commit in log.poll()] == [6]
    log._storage._happens = commit
    log.check_reachable()
    assert [commit.version for _ in range(2) for commit in log.poll()] == [7]


def test_a_reader_that_was_cut_off_still_finds_out(table):
    log = DeltaLog(table)
    log.version = 2
    writer = Writer(table, "other")
    writer._table.create_checkpoint()
    (table / f"_delta_log/{3:020d}.json").unlink()
    with pytest.raises(LedgerError, match="commit 3 was cleaned"):
        log.check_reachable()


def checkpoint(table: Path) -> None:
    writer = Writer(table, "third")
    writer.commit(writer.last_batch() + 1, [])
    writer._table.update_incremental()
    writer._table.create_checkpoint()


def test_a_checkpoint_that_is_cleaned_away_while_it_is_opened_gives_way_to_the_next(table):
    checkpoint(table)

    def replace() -> None:
        checkpoint(table)
        (table / f"_delta_log/{6:020d}.checkpoint.parquet").unlink()

    log = DeltaLog(Busy(table, "checkpoint.parquet", replace))
    assert [commit.version for commit in log.poll()] == [7]


def test_a_checkpoint_that_is_missing_is_named(table):
    checkpoint(table)
    (table / f"_delta_log/{6:020d}.checkpoint.parquet").unlink()
    with pytest.raises(DamagedError, match=rf"{6:020d}\.checkpoint\.parquet is missing although"):
        list(DeltaLog(table).poll())
