"""Logs of which a commit is missing, torn or changed: an error names it, nothing is guessed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from flowcontrol.errors import DamagedError, LinkError
from flowcontrol.ledger import commit as listing_module
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.commit import Writer
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger
from flowcontrol.ledger.storage import Storage

ROW = {"sender": 0, "receiver": 0}


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A ledger of six commits, and two of its making; nobody waits between two looks."""
    monkeypatch.setattr(log_module, "CHECK_EVERY_S", 0.0)
    monkeypatch.setattr(listing_module, "WAITS_S", (0.0, 0.0))
    found = Storage(tmp_path)
    create_ledger(found)
    ledger = LinkLedger(found, "sender/a")
    ledger.claim()
    for number in range(6):
        ledger.commit([ROW], {"released": [1234 + number]})
    ledger.close()
    return found


def commit_file(storage: Storage, version: int) -> Path:
    return Path(str(storage)) / "_delta_log" / f"{version:020d}.json"


def look(storage: Storage) -> LinkLedgerView:
    view = LinkLedgerView(storage)
    view.refresh()
    view.refresh()
    return view


def change(find: bytes, put: bytes) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        assert content.count(find) == 1
        return content.replace(find, put)

    return changed


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda content: content[:-20], id="torn"),
        pytest.param(lambda content: b"\xb8" + content[1:], id="no text"),
        pytest.param(change(b"[1236]", b"[1238]"), id="another number"),
        pytest.param(change(b'\\"member', b'\\"mfmber'), id="another name"),
    ],
)
def test_a_commit_that_is_not_what_was_written_is_named(storage, damage) -> None:
    """Four bytes of a number would have let receivers read what was not released."""
    path = commit_file(storage, 4)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedError, match=r"_delta_log.*4.*Stop the link's queries"):
        look(storage)


@pytest.mark.parametrize("missing", [(4,), (4, 5), (4, 5, 6)])
def test_a_commit_that_is_missing_is_named(storage, missing) -> None:
    """It was waited for, for ever."""
    for version in missing:
        commit_file(storage, version).unlink()
    with pytest.raises(DamagedError, match=f"{commit_file(storage, 4).name} is missing"):
        look(storage)
    with pytest.raises(DamagedError, match=r"_delta_log cannot be read.*missing or damaged"):
        Writer(storage, "sender/a")


def test_a_commit_that_a_checkpoint_stands_for_may_go(storage) -> None:
    view = look(storage)
    Writer(storage, "other").checkpoint()
    for version in range(6):
        commit_file(storage, version).unlink()
    assert look(storage).members == view.members


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_checkpoint_that_cannot_be_read_is_named(storage, damage) -> None:
    Writer(storage, "other").checkpoint()
    path = next((Path(str(storage)) / "_delta_log").glob("*.checkpoint.parquet"))
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedError, match=path.name):
        look(storage)


@pytest.mark.parametrize("damage", ["missing", "cut", "null"])
def test_the_file_that_names_the_newest_checkpoint_is_a_hint(storage, damage) -> None:
    """Without it "no Delta table stands here" was said of one whose first commits are gone."""
    view = look(storage)
    Writer(storage, "other").checkpoint()
    for version in range(6):
        commit_file(storage, version).unlink()
    hint = Path(str(storage)) / "_delta_log" / "_last_checkpoint"
    if damage == "missing":
        hint.unlink()
    else:
        hint.write_text("null" if damage == "null" else hint.read_text()[:-5])
    assert look(storage).members == view.members


def test_rows_of_the_ledger_that_were_changed_are_refused(storage) -> None:
    """What a member takes up at a start stands there: every flipped bit of it is met."""
    view = look(storage)
    path = Path(str(storage)) / view.members["sender/a"].path
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(DamagedError, match=f"{path.name} is damaged"):
            view.last_rows("sender/a")
    path.write_bytes(content)
    assert view.last_rows("sender/a")[0]["batch_id"] == 5


def test_a_listing_that_lacks_a_commit_is_taken_again(storage, tmp_path, monkeypatch) -> None:
    """A busy folder is not listed in one step: delta-rs then finds a gap where there is none."""
    writer = Writer(storage, "sender/b")
    open_again, hidden = writer._opened, tmp_path / "hidden"
    tried = []

    class Table:
        """The handle; what it goes on from is gone."""

        def update_incremental(self) -> None:
            tried.append("update")
            raise DeltaError("Kernel error: found gap 7 -> 9")

    def opened() -> DeltaTable:
        """Open the table; two looks find a commit missing."""
        tried.append("open")
        if len(tried) > 4:
            return open_again()
        shutil.move(commit_file(storage, 8), hidden)
        try:
            return open_again()
        finally:
            shutil.move(hidden, commit_file(storage, 8))

    other = Writer(storage, "sender/c")
    for number in range(3):
        other.commit(number, [])
    monkeypatch.setattr(writer, "_table", Table())
    monkeypatch.setattr(writer, "_opened", opened)
    assert writer.commit(0, [])
    assert tried == ["update", "open", "update", "open", "update", "open"]


@pytest.mark.parametrize("gone", [1, 2])
def test_a_member_whose_first_commit_cannot_be_read_says_so(storage, monkeypatch, gone) -> None:
    """Commits of others went missing before it had read them; its own comes behind them."""
    monkeypatch.setattr(log_module, "CHECK_EVERY_S", 1e9)
    other, own = (LinkLedger(storage, name) for name in ("sender/a", "receiver/late/0"))
    other.claim()
    own.claim()
    own.refresh()
    first = own.version + 1
    for number in range(2):
        other.commit([ROW], {"released": [2000 + number]})
    write = own._writer.commit

    def write_and_lose(*arguments):
        done = write(*arguments)
        for version in range(first, first + gone):
            commit_file(storage, version).unlink()
        return done

    monkeypatch.setattr(own._writer, "commit", write_and_lose)
    with pytest.raises(LinkError, match=rf"{first:020d}.json is missing.*Stop the link's queries"):
        own.commit([ROW], {"released": [1]})
