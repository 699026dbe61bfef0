"""A process that was held up: meanwhile others made its table, or cleaned the log in front of it.

Found by the simulation of a link (tests/link_simulation).
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from flowcontrol.errors import LinkError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.link_ledger import LinkLedger, create_ledger
from flowcontrol.ledger.link_log import LinkFiles, PackedRows, create_log
from flowcontrol.ledger.log import DeltaLog
from flowcontrol.ledger.storage import Storage

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A table with the commits 0 to 5."""
    storage = Storage(tmp_path / "table")
    create_table(storage, SCHEMA, "A table.")
    writer = Writer(storage, "other")
    for batch in range(5):
        assert writer.commit(batch, [])
    return storage


def commit_of(storage: Storage, version: int) -> Path:
    return Path(storage.root, f"_delta_log/{version:020d}.json")


# ---------------------------------------------------------------------- a table made twice


def test_of_two_who_make_a_table_at_once_the_second_finds_it(tmp_path, monkeypatch):
    """delta-rs tells it that the protocol has changed since its last commit."""
    create = DeltaTable.create

    def late(*arguments, **named):
        create(*arguments, **named)
        raise CommitFailedError("Failed to commit transaction: Protocol changed since last commit")

    monkeypatch.setattr(DeltaTable, "create", late)
    create_table(Storage(tmp_path / "table"), SCHEMA, "A table.")


def test_a_table_that_nobody_made_is_an_error(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise CommitFailedError("Failed to commit transaction")

    monkeypatch.setattr(DeltaTable, "create", fails)
    with pytest.raises(CommitFailedError):
        create_table(Storage(tmp_path / "table"), SCHEMA, "A table.")


# ---------------------------------------------------------------------- a log that was cleaned


def test_a_log_that_is_cleaned_before_a_commit_is_read_again(storage):
    """delta-rs compares with the commits since its handle's version, and they are gone."""
    writer = Writer(storage, "me")
    update = writer._update

    def cleaned() -> None:
        writer._update = update  # type: ignore[method-assign]
        update()
        other = Writer(storage, "other")
        other.commit(5, [])
        other._table.update_incremental()
        other._table.create_checkpoint()
        for version in range(6):
            commit_of(storage, version).unlink()
        with pytest.raises(DeltaError, match="Invalid table version"):
            writer._transact([], {"me": 0})

    writer._update = cleaned  # type: ignore[method-assign]
    assert writer.commit(0, [])
    assert Writer(storage, "me").last_batch() == 0


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_hint_that_names_an_older_checkpoint_is_passed_over(storage, is_gone):
    """Two wrote a checkpoint each; the slower named its own last, when the log had been cleaned."""
    follower = DeltaLog(storage)
    follower.version = 5
    writer = Writer(storage, "other")
    writer._table.create_checkpoint()
    hint = Path(storage.root, "_delta_log/_last_checkpoint")
    slow = hint.read_text()
    assert json.loads(slow)["version"] == 5
    for batch in range(5, 8):
        writer.commit(batch, [])
    writer._table.update_incremental()
    writer._table.create_checkpoint()
    writer.commit(8, [])
    for version in range(8):
        commit_of(storage, version).unlink()
    if is_gone:
        Path(storage.root, f"_delta_log/{5:020d}.checkpoint.parquet").unlink()
    hint.write_text(slow)
    assert [one.version for one in DeltaLog(storage).poll()] == [8, 9]
    found = follower.follow(lambda: None, at_once=True)
    assert [one.version for one in found] == [8, 9]


@pytest.mark.parametrize("at", [1, 2])
def test_a_listing_that_misses_a_checkpoint_is_no_damage(storage, monkeypatch, at):
    """It replaced another while a disk listed the folder; the hint was a slow one's.

    Found by the simulation's seed 2041493.
    """
    writer = Writer(storage, "other")
    writer.checkpoint()
    assert writer.commit(5, [])
    writer.checkpoint()
    for version in range(6):
        commit_of(storage, version).unlink(missing_ok=True)
    Path(storage.root, f"_delta_log/{5:020d}.checkpoint.parquet").unlink()
    follower, looks = DeltaLog(storage), []
    follower.version = 3
    listed = log_module.listed_checkpoint

    def holed(own: Storage) -> int:
        looks.append(1)
        return -1 if len(looks) == at else listed(own)

    monkeypatch.setattr(log_module, "listed_checkpoint", holed)
    monkeypatch.setattr(log_module, "noted_checkpoint", lambda _: 2)
    assert [one.version for one in follower.follow(lambda: None, at_once=True)] == [6]


class Slept:
    """A clock that is as far ahead as the process has slept."""

    def __init__(self, monkeypatch) -> None:
        self.seconds, clock = 0.0, commits.time
        monkeypatch.setattr(commits, "time", self)
        self.sleep = clock.sleep
        self.time = lambda: clock.time() + self.seconds
        self.monotonic = lambda: clock.monotonic() + self.seconds


@pytest.mark.parametrize("others", [0, 1])
def test_a_commit_before_which_its_process_slept_is_looked_for(storage, monkeypatch, others):
    """It may lie behind a checkpoint: of two senders that register both had the number."""
    clock, writer = Slept(monkeypatch), Writer(storage, "senders")
    write = writer._write

    def slept(*_) -> None:
        monkeypatch.setattr(writer, "_write", write)
        clock.seconds = 100.0
        for number in range(others):
            assert Writer(storage, "senders").commit(number, [])

    monkeypatch.setattr(writer, "_write", slept)
    assert writer.commit(0, []) is (not others)
    assert Writer(storage, "senders").last_batch() == 0


def test_a_commit_whose_number_was_free_again_is_made_anew(storage, monkeypatch):
    """Another, with a clock that is ahead, has cleaned the log in no time: who reads on is past it.

    Found by the simulation's seed 20004900: a receiver alone counted what it had read.
    """
    writer = Writer(storage, "own")
    write = writer._write

    def late(*_) -> None:
        monkeypatch.setattr(writer, "_write", write)
        other = Writer(storage, "other")
        assert other.commit(5, [])
        other.checkpoint()
        for version in range(7):
            commit_of(storage, version).unlink(missing_ok=True)
        own = {"txn": {"appId": "own", "version": 0}}
        commit_of(storage, 6).write_text(json.dumps(own) + "\n")

    monkeypatch.setattr(writer, "_write", late)
    assert writer.commit(0, [])
    assert Writer(storage, "own").last_batch() == 0
    assert [one.version for one in DeltaLog(storage).poll()][-1] == 7


@pytest.mark.parametrize(
    "take", [Writer.claim, lambda one: 0 if one.commit(0, []) else one.last_batch() + 1]
)
def test_two_do_not_take_one_number_behind_a_checkpoint(storage, monkeypatch, take):
    """The checkpoint has the epoch, or number, of the other, which shows nothing of one's own.

    Found by the simulation's seed 4526706: two senders had one number.
    """
    one, other = Writer(storage, "senders"), Writer(storage, "senders")
    write, took = one._write, []

    def late(*given) -> None:
        monkeypatch.setattr(one, "_write", write)
        free = commit_of(storage, one._table.version() + 1)
        took.append(take(other))
        own = free.read_text()
        assert other.commit(5, [])
        other.checkpoint()
        for version in range(other._table.version()):
            commit_of(storage, version).unlink(missing_ok=True)
        free.write_text(own)

    monkeypatch.setattr(one, "_write", late)
    assert take(one) > took[0]


# ---------------------------------------------------------------------- a member of a ledger


ROW = {"sender": 0, "receiver": 0}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch) -> LinkLedger:
    """The ledger of one that has just looked whether its log was cleaned."""
    monkeypatch.setattr(log_module, "CHECK_EVERY_S", 1e9)
    storage = Storage(tmp_path / "ledger")
    create_ledger(storage)
    ledger = LinkLedger(storage, "sender/a")
    ledger.refresh(at_once=True)
    return ledger


def cleaned_by_another(ledger: LinkLedger) -> None:
    """Have another member commit twice and clean the log before that."""
    other = LinkLedger(ledger.storage, "sender/b")
    for number in (6, 7):
        other.commit([ROW], {"n": number})
    other._writer.checkpoint()
    for version in range(other.version):
        commit_of(ledger.storage, version).unlink(missing_ok=True)


def test_a_claim_sees_what_came_before_it(ledger):
    """Else one that was held up takes no notice of itself, and is a sender of another number.

    Found by the simulation's seed 1011082.
    """
    cleaned_by_another(ledger)
    ledger.claim()
    assert ledger.members["sender/b"].state == {"n": 7}


def test_a_commit_that_was_made_anew_is_followed_by_all_before_it(ledger, monkeypatch):
    """Found by the simulation's seed 1013094: a receiver began at what had been trimmed."""
    write = ledger._writer._write

    def late(*given, **more) -> None:
        monkeypatch.setattr(ledger._writer, "_write", write)
        write(*given, **more)
        made = commit_of(ledger.storage, 1).read_text()
        commit_of(ledger.storage, 1).unlink()  # as if it was free, and is made below
        for _ in range(2):
            cleaned_by_another(ledger)
        commit_of(ledger.storage, 1).write_text(made)

    monkeypatch.setattr(ledger._writer, "_write", late)
    ledger.commit([ROW], {"n": 1})
    assert ledger.members["sender/a"].state == {"n": 1}
    assert ledger.members["sender/b"].state == {"n": 7}


# ---------------------------------------------------------------------- a sender's batch


def a_file(storage: Storage, name: str) -> PackedRows:
    path = Path(storage.root, name)
    path.write_bytes(b"x" * 10)
    return PackedRows(name, 10, 1, [(0, [(1, 10)])])


@pytest.fixture
def exchange(tmp_path: Path) -> Storage:
    storage = Storage(tmp_path / "exchange")
    create_log(storage, SCHEMA)
    return storage


def test_a_batch_behind_which_the_log_was_cleaned_is_counted(exchange, monkeypatch):
    """Else its rows would be in the log, and nobody would ever be told of them."""
    monkeypatch.setattr(log_module, "CHECK_EVERY_S", 1e9)
    own, other = (LinkFiles(exchange, f"sender/{n}", n, 1000) for n in range(2))
    own.claim()
    other.commit(0, [a_file(exchange, "other")], {})
    commit = own._writer.commit

    def cleaned(*arguments, **named):
        done = commit(*arguments, **named)
        own._writer._table.update_incremental()
        own._writer._table.create_checkpoint()
        for version in range(3):
            commit_of(exchange, version).unlink()
        return done

    monkeypatch.setattr(own._writer, "commit", cleaned)
    assert own.commit(0, [a_file(exchange, "own")], {})
    assert own.log.channel(0, 0).end == 1


def test_a_batch_that_lies_behind_a_checkpoint_is_refused(exchange, monkeypatch):
    """Its name was free again, as its process slept while others cleaned the log."""
    own = LinkFiles(exchange, "sender/0", 0, 1000)
    own.claim()

    def slept(*_, **__):
        other = Writer(exchange, "other")
        other.commit(0, [])
        other._table.update_incremental()
        other._table.create_checkpoint()
        for version in range(2):
            commit_of(exchange, version).unlink()
        return True  # delta-rs has written commit 1, which nobody reads

    monkeypatch.setattr(own._writer, "commit", slept)
    with pytest.raises(LinkError, match=r"batch 0 of sender 0 cannot be read again: its commit"):
        own.commit(0, [a_file(exchange, "own")], {})
