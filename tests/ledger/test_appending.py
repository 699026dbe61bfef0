"""Commits that are files of the log: what delta-rs reads of them, and who wins."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flowcontrol.errors import DamagedError
from flowcontrol.ledger import appending
from flowcontrol.ledger.commit import CHECKPOINT_EVERY, Writer, create_table
from flowcontrol.ledger.log import DeltaLog, NewFile, files_of

ROWS = pa.schema([("number", pa.int64()), ("sender", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    create_table(tmp_path / "table", ROWS, "Rows of a test.", ["sender"])
    return tmp_path / "table"


@pytest.fixture
def delta_rs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Return the application ids of the commits that delta-rs makes."""
    made, real = list[str](), Writer._transact

    def transact(writer: Writer, *arguments: Any) -> None:
        made.append(writer.app_id)
        real(writer, *arguments)

    monkeypatch.setattr(Writer, "_transact", transact)
    return made


def file(table: Path, number: int, sender: int = 0) -> NewFile:
    path = table / f"{os.urandom(8).hex()}.parquet"
    pq.write_table(pa.table({"number": [number]}), path)
    stats = {"channels": [[0, number, 0, 1]]}
    return NewFile(path.name, path.stat().st_size, 1, stats, {"sender": str(sender)})


def rows(table: Path) -> list[tuple[int, int]]:
    found = DeltaTable(str(table)).to_pyarrow_table()
    return sorted(zip(*(found[name].to_pylist() for name in ROWS.names), strict=True))


def test_delta_rs_reads_what_is_appended(table: Path, delta_rs: list[str]) -> None:
    writer = Writer(table, "run/sender", appends=True)
    first = file(table, 0)
    assert writer.commit(0, [first])
    assert writer.commit(3, [file(table, 1, 5), file(table, 2)], [first])
    assert delta_rs == []
    assert rows(table) == [(1, 5), (2, 0)]
    handle = DeltaTable(str(table))
    assert (handle.version(), handle.transaction_version("run/sender")) == (2, 3)
    assert [one["operation"] for one in handle.history()] == ["WRITE", "WRITE", "CREATE TABLE"]
    assert [add.stats["channels"] for add in files_of(table).values()] == [
        [[0, 1, 0, 1]],
        [[0, 2, 0, 1]],
    ]
    assert {path.suffix for path in (table / "_delta_log").iterdir()} == {".json"}


def test_a_batch_is_committed_once(table: Path) -> None:
    writer, again = (Writer(table, "run/sender", appends=True) for _ in range(2))
    assert writer.commit(4, [file(table, 1)])
    assert not writer.commit(4, [file(table, 2)])
    assert not writer.commit(3, [file(table, 3)])
    assert not again.commit(4, [file(table, 4)])  # as after a kill: it finds it in the log
    assert again.commit(5, [file(table, 5)])
    assert not writer.commit(5, [file(table, 6)])  # which it has followed until then
    assert writer.last_batch() == again.last_batch() == 5
    assert rows(table) == [(1, 0), (5, 0)]


def test_two_sides_get_in_between_each_other(table: Path, delta_rs: list[str]) -> None:
    """More commits than one checkpoint covers, by two at once: each is there, in its order."""
    each = 2 * CHECKPOINT_EVERY

    def run(sender: int) -> None:
        writer = Writer(table, f"run/{sender}", appends=True)
        for batch in range(each):
            assert writer.commit(batch, [file(table, batch, sender)])

    threads = [threading.Thread(target=run, args=(sender,)) for sender in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert delta_rs == []
    assert rows(table) == sorted((batch, sender) for batch in range(each) for sender in (0, 1))
    assert DeltaTable(str(table)).version() == 2 * each
    for sender in (0, 1):
        added = [
            add.path for add in files_of(table).values() if add.partition["sender"] == str(sender)
        ]
        assert len(added) == each


def test_a_log_that_was_not_followed_is_looked_at(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have cleaned away what came meanwhile."""
    looks, real = list[int](), Writer._update

    def update(writer: Writer) -> None:
        looks.append(1)
        real(writer)

    monkeypatch.setattr(Writer, "_update", update)
    writer, other = (Writer(table, f"run/{name}", appends=True) for name in ("one", "two"))
    assert writer.commit(0, [file(table, 0)])
    before = len(looks)
    assert writer.commit(1, [file(table, 1)])
    assert len(looks) == before
    assert other.commit(0, [file(table, 2)])
    monkeypatch.setattr(appending, "FOLLOWED_S", 0.0)
    before = len(looks)
    assert writer.commit(2, [file(table, 3)])
    assert len(looks) == before + 1
    assert len(rows(table)) == 4


def test_a_table_that_becomes_another_is_left_to_delta_rs(table: Path, delta_rs: list[str]) -> None:
    writer = Writer(table, "run/sender", appends=True)
    assert writer.commit(0, [file(table, 0)])
    DeltaTable(str(table)).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 1 days"}
    )
    assert writer.commit(1, [file(table, 1)])
    assert writer.commit(2, [file(table, 2)])
    assert delta_rs == ["run/sender"] * 2
    assert len(rows(table)) == 3
    assert not writer.commit(2, [file(table, 3)])


def test_where_names_cannot_be_linked_delta_rs_commits(
    table: Path, delta_rs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowcontrol.ledger.commit.has_hard_links", lambda _: False)
    writer = Writer(table, "run/sender", appends=True)
    assert writer.commit(0, [file(table, 0)])
    assert delta_rs == ["run/sender"]


def test_a_follower_reads_each_commit(table: Path) -> None:
    log, writer = DeltaLog(table), Writer(table, "run/sender", appends=True)
    assert len(list(log.poll())) == 1
    for batch in range(3):
        added = file(table, batch)
        assert writer.commit(batch, [added])
        [commit] = log.poll()
        assert [add.path for add in commit.adds] == [added.path]
        assert commit.removes == []


def cleaned_by(other: Writer, table: Path) -> None:
    """Have another commit, and clean away what is as old as after a sleep of the machine."""
    log, old = table / "_delta_log", time.time() - 3600
    for batch in range(5):
        assert other.commit(batch, [file(table, batch, 1)])
    other.checkpoint()
    for path in log.iterdir():
        os.utime(path, (old, old))
    assert other.commit(5, [file(table, 5, 1)])
    other.checkpoint()
    assert not (log / f"{2:020d}.json").exists()


def test_a_commit_behind_a_log_that_was_cleaned_is_not_lost(table: Path) -> None:
    """A machine that slept is back: its clock of commits stood still, the one of the log did not.

    The name of the next commit is free again, and nobody reads below the checkpoint.
    """
    writer, other = (Writer(table, f"run/{name}", appends=True) for name in ("one", "two"))
    assert writer.commit(0, [file(table, 0)])
    cleaned_by(other, table)
    assert writer.commit(1, [file(table, 1)])
    assert writer.commit(2, [file(table, 2)])
    assert not writer.commit(2, [file(table, 3)])
    assert [number for number, sender in rows(table) if sender == 0] == [0, 1, 2]
    assert len(rows(table)) == 9
    assert DeltaTable(str(table)).transaction_version("run/one") == 2
    assert len(files_of(table)) == 9


def test_a_checkpoint_right_behind_a_commit_is_no_loss(
    table: Path, delta_rs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody covers the commit before its writer has looked: it counts, and once."""
    writer, other = (Writer(table, f"run/{name}", appends=True) for name in ("one", "two"))
    assert writer.commit(0, [file(table, 0)])
    link = os.link

    def covered(part: Path, name: Path) -> None:
        link(part, name)
        other.checkpoint()

    with monkeypatch.context() as once:
        once.setattr(os, "link", covered)
        assert writer.commit(1, [file(table, 1)])
    assert writer.commit(2, [file(table, 2)])
    assert rows(table) == [(0, 0), (1, 0), (2, 0)]
    assert DeltaTable(str(table)).version() == 3
    assert delta_rs == []


def test_a_full_disk_leaves_nothing(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a commit takes no room, and the batch can be committed when there is some."""
    writer = Writer(table, "run/sender", appends=True)
    assert writer.commit(0, [file(table, 0)])

    def half(path: Path, text: str, *_: Any) -> int:
        path.write_bytes(text.encode()[: len(text) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", half)
        with pytest.raises(OSError, match="No space left"):
            writer.commit(1, [file(table, 1)])
    assert {path.suffix for path in (table / "_delta_log").iterdir()} == {".json"}
    assert writer.commit(1, [file(table, 1)])
    assert rows(table) == [(0, 0), (1, 0)]


def test_a_commit_counts_although_others_have_swept_its_first_name(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, link = Writer(table, "run/sender", appends=True), os.link

    def swept(part: Path, name: Path) -> None:
        link(part, name)
        part.unlink()

    monkeypatch.setattr(os, "link", swept)
    assert writer.commit(0, [file(table, 0)])
    assert writer.commit(1, [file(table, 1)])
    assert rows(table) == [(0, 0), (1, 0)]


@pytest.mark.parametrize("text", ["{", '{"add":'])
def test_a_damaged_commit_of_another_is_named(table: Path, text: str) -> None:
    writer = Writer(table, "run/sender", appends=True)
    assert writer.commit(0, [file(table, 0)])
    (table / "_delta_log" / f"{2:020d}.json").write_text(text)
    with pytest.raises(DamagedError, match=r"Put it back as it was .* --overwrite"):
        writer.commit(1, [file(table, 1)])
