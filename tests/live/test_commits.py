"""Commits to Delta tables: once each, whoever asks; followed by a reader; no JVM in sight."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from flowcontrol.errors import FencedError, LedgerError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.commit import ATTEMPTS, Writer, create_table
from flowcontrol.ledger.exchange import OutputTable
from flowcontrol.ledger.ledger import COMPACT_EVERY, Ledger, LedgerView, read_history
from flowcontrol.ledger.log import DeltaLog, NewFile
from flowcontrol.records import LEDGER

NUMBERS = pa.schema([("number", pa.int64())])
CHANNELS = [(0, 0), (0, 1), (1, 0), (1, 1)]


def numbers_file(table: Path, *numbers: int) -> NewFile:
    """Write a data file of numbers and describe it."""
    path = table / f"{os.urandom(8).hex()}.parquet"
    pq.write_table(pa.table({"number": list(numbers)}, schema=NUMBERS), path)
    return NewFile(path.name, path.stat().st_size, len(numbers))


def numbers_of(table: Path) -> list[int]:
    found: list[int] = DeltaTable(str(table)).to_pyarrow_table().column("number").to_pylist()
    return sorted(found)


def ledger_rows(side: str, batch: int) -> list[dict[str, Any]]:
    """Rows of a side for one batch, a different figure in each."""
    cursor = "sent" if side == "sender" else "consumed"
    return [
        {"sender": s, "receiver": c, cursor: figure, "channel_state": str(figure)}
        for figure, (s, c) in enumerate(CHANNELS, 10 * batch)
    ]


def commit_rounds(ledger: Ledger, batches: range) -> None:
    for batch in batches:
        assert ledger.commit(batch, ledger_rows(ledger.side, batch))


RECENT = 40
"""Commits that stay young: more than a side in step is behind, checkpoints included."""


def make_older(log: Path) -> None:
    """Make all but the recent commits of a log old enough to be cleaned up."""
    newest = max((int(path.stem) for path in log.glob("*.json")), default=0)
    for path in [path for path in log.glob("0*") if int(path.name[:20]) < newest - RECENT]:
        with suppress(FileNotFoundError):  # the other side has cleaned it up
            os.utime(path, (0, 0))


def commit_from_both_sides(path: Path, batches: range, *, in_step: bool) -> None:
    """Let both sides commit, each in a thread of its own; in step, or as fast as they can."""
    problems: list[BaseException] = []
    ledgers = [Ledger(path, side, "run") for side in ("sender", "receiver")]
    gate = threading.Barrier(len(ledgers))

    def work(ledger: Ledger) -> None:
        try:
            for batch in batches:
                if in_step or batch == 0:
                    gate.wait()
                    ledger.refresh()
                    make_older(path / "_delta_log")
                commit_rounds(ledger, range(batch, batch + 1))
        except threading.BrokenBarrierError:
            pass  # the other side has failed
        except BaseException as error:
            problems.append(error)
            gate.abort()

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def keys_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    names = ("side", "batch_id", "sender", "receiver", "sent", "consumed")
    return Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))


def expected_keys(side: str, batches: range) -> Counter[tuple[Any, ...]]:
    rows = [(batch, row) for batch in batches for row in ledger_rows(side, batch)]
    return Counter(
        (side, batch, row["sender"], row["receiver"], row.get("sent"), row.get("consumed"))
        for batch, row in rows
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    create_table(tmp_path / "numbers", NUMBERS, "Numbers.")
    return tmp_path / "numbers"


@pytest.fixture
def quick_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints every 10 commits, and no commit stays in the log behind one."""
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", 10)
    monkeypatch.setitem(
        commits.CONFIGURATION, "delta.logRetentionDuration", "interval 0 milliseconds"
    )


# ---------------------------------------------------------------------- a writer


def test_a_batch_is_committed_once_by_one_handle(table: Path) -> None:
    writer = Writer(table, "run/side")
    assert writer.last_batch() == -1
    assert writer.commit(0, [numbers_file(table, 1)])
    assert not writer.commit(0, [numbers_file(table, 2)])
    assert writer.commit(1, [numbers_file(table, 3)])
    assert writer.last_batch() == 1
    assert numbers_of(table) == [1, 3]


@pytest.mark.parametrize("again", [4, 3, 0])
def test_a_repeated_or_older_batch_is_refused_from_a_fresh_handle(table: Path, again: int) -> None:
    assert Writer(table, "run/side").commit(4, [numbers_file(table, 4)])
    fresh = Writer(table, "run/side")
    assert not fresh.commit(again, [numbers_file(table, 99)])
    assert not Writer(table, "run/side").commit(again, [numbers_file(table, 99)])
    assert numbers_of(table) == [4]
    assert fresh.commit(5, [numbers_file(table, 5)])
    assert numbers_of(table) == [4, 5]


def test_a_handle_that_was_overtaken_refuses_the_batch(table: Path) -> None:
    old, new = Writer(table, "run/side"), Writer(table, "run/side")
    assert old.commit(0, [numbers_file(table, 0)])
    assert new.commit(1, [numbers_file(table, 1)])
    assert not old.commit(1, [numbers_file(table, 99)])
    assert old.last_batch() == 1
    assert numbers_of(table) == [0, 1]


def test_a_refused_batch_removes_nothing(table: Path) -> None:
    writer, first = Writer(table, "run/side"), numbers_file(table, 1)
    writer.commit(0, [first])
    assert not writer.commit(0, [], [first])
    assert numbers_of(table) == [1]


def test_two_sides_count_their_batches_apart(table: Path) -> None:
    one, two = Writer(table, "run/sender"), Writer(table, "run/receiver")
    assert one.commit(7, [numbers_file(table, 7)])
    assert two.last_batch() == -1
    assert two.commit(0, [numbers_file(table, 70)])
    assert one.commit(8, [numbers_file(table, 8)])
    assert (Writer(table, "run/sender").last_batch(), two.last_batch()) == (8, 0)


def test_the_transaction_outlives_checkpoint_and_log(table: Path, quick_cleanup: None) -> None:
    writer = Writer(table, "run/side")
    for batch in range(25):
        writer.commit(batch, [numbers_file(table, batch)])
    fresh = Writer(table, "run/side")
    assert fresh.last_batch() == 24
    assert not fresh.commit(24, [numbers_file(table, 99)])
    assert numbers_of(table) == list(range(25))


@pytest.mark.parametrize("act", ["commit", "claim", "last_batch"])
def test_the_log_is_cleaned_between_a_look_and_its_use(
    quick_cleanup: None, table: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Another side checkpoints and cleans what this one's handle has listed and not yet read."""
    writer, other = Writer(table, "run/side"), Writer(table, "run/other")
    for batch in range(5):
        other.commit(batch, [])
    update, cleaned = writer._update, []

    def updated() -> None:
        update()
        if not cleaned:
            cleaned.append(len(list((table / "_delta_log").glob("*.json"))))
            other.checkpoint()
            cleaned.append(len(list((table / "_delta_log").glob("*.json"))))

    monkeypatch.setattr(writer, "_update", updated)
    if act == "commit":
        assert writer.commit(0, [numbers_file(table, 1)])
        assert numbers_of(table) == [1]
    elif act == "claim":
        assert writer.claim() == 1
    else:
        assert writer.last_batch() == -1
    assert cleaned[1] < cleaned[0]  # else nothing was cleaned, and this shows nothing


def test_a_log_that_is_cleaned_while_it_is_read_is_read_from_the_newest_checkpoint(
    quick_cleanup: None, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that has just come is about to read a commit when it is cleaned away."""
    writer = Writer(table, "run/side")
    for batch in range(5):
        writer.commit(batch, [numbers_file(table, batch)])
    log = DeltaLog(table)
    storage, last = log._storage, f"_delta_log/{4:020d}.json"
    read, cleaned = storage.read, []

    def reading(name: str) -> bytes:
        if name == last and not cleaned:
            writer.checkpoint()
            cleaned.append(not (table / last).exists())
        return read(name)

    monkeypatch.setattr(storage, "read", reading)
    found = list(log.poll())
    assert cleaned == [True]
    assert log.version == 5
    assert [(commit.version, len(commit.adds)) for commit in found] == [(5, 5)]
    assert list(log.poll()) == []


def test_a_log_that_is_always_cleaned_while_it_is_read_says_so(
    quick_cleanup: None, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to say that no table stands there."""
    writer = Writer(table, "run/side")
    for batch in range(5):
        writer.commit(batch, [numbers_file(table, batch)])
    log, looks = DeltaLog(table), []
    monkeypatch.setattr(log, "_is_cut_off", lambda: looks.append(log.version) or True)
    with pytest.raises(LedgerError, match="others cleaned the log 20 times while it was read"):
        list(log.poll())
    assert looks == [5] * 20


def test_a_conflict_that_never_ends_is_named(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []

    def conflict(self: Writer, batch_id: int, *_: object) -> None:
        tries.append(batch_id)
        raise CommitFailedError("a concurrent transaction deleted data this operation read")

    monkeypatch.setattr(Writer, "_try_commit", conflict)
    with pytest.raises(LedgerError, match=rf"batch 3 failed in {ATTEMPTS} attempts: .*deleted"):
        Writer(table, "run/side").commit(3, [numbers_file(table, 3)])
    assert tries == [3] * ATTEMPTS


def test_a_conflict_is_tried_again(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = Writer._try_commit, []

    def twice(self: Writer, *arguments: Any) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise CommitFailedError("a concurrent transaction deleted data this operation read")
        real(self, *arguments)

    monkeypatch.setattr(Writer, "_try_commit", twice)
    assert Writer(table, "run/side").commit(0, [numbers_file(table, 5)])
    assert (len(tries), numbers_of(table)) == (3, [5])


def test_a_writer_that_was_taken_over_commits_no_more(table: Path) -> None:
    zombie, heir = Writer(table, "link/sender"), Writer(table, "link/sender")
    assert zombie.claim() == 1
    assert zombie.commit(0, [numbers_file(table, 1)])
    assert heir.claim() == 2
    with pytest.raises(FencedError, match=r"taken over \(epoch 2, this one is 1\)"):
        zombie.commit(1, [numbers_file(table, 2)])
    assert heir.commit(1, [numbers_file(table, 3)])
    assert numbers_of(table) == [1, 3]


def test_a_takeover_between_look_and_commit_is_seen(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The zombie has looked at the epoch, then sleeps, then commits."""
    zombie, heir = Writer(table, "link/sender"), Writer(table, "link/sender")
    zombie.claim()
    real = Writer._try_commit

    def sleep_first(self: Writer, *arguments: Any) -> None:
        if self is zombie and heir.epoch is None:
            heir.claim()
            heir.commit(0, [numbers_file(table, 9)])
        real(self, *arguments)

    monkeypatch.setattr(Writer, "_try_commit", sleep_first)
    with pytest.raises(FencedError, match="epoch 2"):
        zombie.commit(0, [numbers_file(table, 1)])
    assert numbers_of(table) == [9]


def test_sides_are_claimed_apart(table: Path) -> None:
    sender, receiver = Writer(table, "link/sender"), Writer(table, "link/receiver")
    assert (sender.claim(), receiver.claim(), receiver.claim()) == (1, 1, 2)
    assert sender.commit(0, [numbers_file(table, 1)])
    assert receiver.commit(0, [])


def test_creating_a_table_again_keeps_what_is_in_it(table: Path) -> None:
    Writer(table, "run/side").commit(0, [numbers_file(table, 1)])
    create_table(table, NUMBERS, "Again.")
    assert numbers_of(table) == [1]


def test_a_sinks_table_takes_a_batch_once(tmp_path: Path) -> None:
    output = OutputTable(tmp_path / "out", NUMBERS, "run/sink")
    assert OutputTable(tmp_path / "out", NUMBERS, "run/sink").commit(0, [])
    assert not output.commit(0, [])
    assert DeltaTable(str(tmp_path / "out")).metadata().description


# ---------------------------------------------------------------------- the ledger


def test_both_sides_commit_and_compact_at_once_and_lose_nothing(tmp_path: Path) -> None:
    """A side that compacts removes files of a table to which the other side commits."""
    batches = range(COMPACT_EVERY + 16)
    commit_from_both_sides(tmp_path / "ledger", batches, in_step=False)
    found = keys_of(read_history(tmp_path / "ledger"))
    assert found == expected_keys("sender", batches) + expected_keys("receiver", batches)
    assert keys_of(DeltaTable(str(tmp_path / "ledger")).to_pyarrow_table()) == found


def test_both_sides_clean_the_log_at_once(
    tmp_path: Path, quick_cleanup: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In step both sides clean up in the same round: one finds the other's files gone."""
    property_name = "delta.logRetentionDuration"
    monkeypatch.setitem(commits.CONFIGURATION, property_name, "interval 1 hours")
    batches = range(150)
    commit_from_both_sides(tmp_path / "ledger", batches, in_step=True)
    assert len(list((tmp_path / "ledger" / "_delta_log").glob("*.json"))) < 200
    found = keys_of(read_history(tmp_path / "ledger"))
    assert found == expected_keys("sender", batches) + expected_keys("receiver", batches)
    assert keys_of(DeltaTable(str(tmp_path / "ledger")).to_pyarrow_table()) == found


def test_a_side_that_was_left_behind_compacts_what_is_there(
    tmp_path: Path, quick_cleanup: None
) -> None:
    """Its own commits that it has not read again are cleaned from the log: by itself, even."""
    path, batches = tmp_path / "ledger", range(2 * COMPACT_EVERY)
    commit_rounds(Ledger(path, "sender", "run"), batches)  # reads the log only to compact
    named = {add.split("/")[-1] for add in DeltaTable(str(path)).file_uris()}
    assert len(named) < COMPACT_EVERY
    assert keys_of(read_history(path)) == expected_keys("sender", batches)


def test_compaction_keeps_every_row_once_and_few_files(tmp_path: Path) -> None:
    path, batches = tmp_path / "ledger", range(2 * COMPACT_EVERY + 5)
    commit_rounds(Ledger(path, "sender", "run"), batches)
    assert keys_of(read_history(path)) == expected_keys("sender", batches)
    named = {add.split("/")[-1] for add in DeltaTable(str(path)).file_uris()}
    assert len(named) < COMPACT_EVERY
    assert {file.name for file in path.glob("*.parquet")} == named


def test_the_history_comes_in_order_with_the_columns_of_the_contract(tmp_path: Path) -> None:
    sender, receiver = (Ledger(tmp_path / "led", side, "run") for side in ("sender", "receiver"))
    for batch in range(3):
        commit_rounds(sender, range(batch, batch + 1))
        commit_rounds(receiver, range(batch, batch + 1))
    table = read_history(tmp_path / "led")
    assert table.schema == LEDGER.arrow_schema()
    order = [(row["batch_id"], row["side"], row["sender"], row["receiver"])
             for row in table.to_pylist()]  # fmt: skip
    assert order == sorted(order)
    assert table.column("committed_at").null_count == 0


def test_a_committed_batch_is_refused_by_both_handles(tmp_path: Path) -> None:
    one = Ledger(tmp_path / "ledger", "sender", "run")
    assert one.commit(0, ledger_rows("sender", 0))
    two = Ledger(tmp_path / "ledger", "sender", "run")
    assert two.is_committed(0)
    assert not two.is_committed(1)
    assert not one.commit(0, ledger_rows("sender", 0))
    assert not two.commit(0, ledger_rows("sender", 0))
    assert len(read_history(tmp_path / "ledger")) == len(CHANNELS)


def test_a_view_follows_compaction_and_checkpoints(tmp_path: Path, quick_cleanup: None) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path, "sender", "run")
    view = LedgerView(path)
    assert view.last_batch("sender") == -1
    for batch in range(2 * COMPACT_EVERY + 10):
        ledger.commit(batch, ledger_rows("sender", batch))
        for look in (ledger, view):  # a stage looks every round
            look.refresh()
        assert (view.last_batch("sender"), view.last_batch("receiver")) == (batch, -1)
        states = [row["channel_state"] for row in view.rows("sender", batch)]
        assert states == [str(10 * batch + i) for i in range(len(CHANNELS))]
    log = sorted((path / "_delta_log").glob("*.json"))
    assert len(log) < 50  # else nothing was cleaned, and this shows nothing
    late = LedgerView(path)
    late.refresh()
    for seen in (view, late):
        assert seen.last_batch("sender") == 2 * COMPACT_EVERY + 9
        states = [row["channel_state"] for row in seen.rows("sender", 3)]
        assert states == ["30", "31", "32", "33"]
    assert keys_of(read_history(path)) == expected_keys("sender", range(2 * COMPACT_EVERY + 10))


def test_a_view_that_was_left_behind_says_so(tmp_path: Path, quick_cleanup: None) -> None:
    ledger = Ledger(tmp_path / "ledger", "sender", "run")
    commit_rounds(ledger, range(2))
    view = LedgerView(tmp_path / "ledger")
    view.refresh()
    commit_rounds(ledger, range(2, 40))
    with pytest.raises(LedgerError, match=r"commit \d+ was cleaned from the log"):
        view.check_reachable()


def test_rows_that_are_not_there_are_named(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", "sender", "run")
    commit_rounds(ledger, range(1))
    ledger.refresh()
    with pytest.raises(LedgerError, match="no rows of the receiver for batch 0"):
        ledger.rows("receiver", 0)
    with pytest.raises(LedgerError, match="no rows of the sender for batch 1"):
        ledger.rows("sender", 1)


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    def history() -> None:
        read_history(tmp_path / "nothing")

    def view() -> None:
        LedgerView(tmp_path / "nothing").refresh()

    looks: list[Callable[[], None]] = [history, view]
    for look in looks:
        with pytest.raises(LedgerError, match="no Delta table stands here"):
            look()


def test_a_file_that_no_ledger_writes_is_named(table: Path) -> None:
    writer = Writer(table, "run/side")
    writer.commit(0, [numbers_file(table, 1)])
    with pytest.raises(LedgerError, match=r"[0-9a-f]{16}\.parquet is not a file that a ledger"):
        LedgerView(table).refresh()


# ---------------------------------------------------------------------- the log


def test_a_log_is_read_once_and_goes_on(table: Path) -> None:
    log = DeltaLog(table)
    assert [commit.version for commit in log.poll()] == [0]
    assert list(log.poll()) == []
    writer, first = Writer(table, "run/side"), numbers_file(table, 1)
    writer.commit(0, [first])
    writer.commit(1, [numbers_file(table, 2)], [first])
    one, two = log.poll()
    assert ([add.path for add in one.adds], one.removes) == ([first.path], [])
    assert (len(two.adds), two.removes) == (1, [first.path])
    assert one.adds[0].stats["numRecords"] == 1
    assert log.version == two.version == 2


def test_a_log_starts_at_the_last_checkpoint(table: Path) -> None:
    writer, first = Writer(table, "run/side"), numbers_file(table, 1)
    writer.commit(0, [first])
    writer.commit(1, [numbers_file(table, 2)], [first])
    writer.checkpoint()
    writer.commit(2, [numbers_file(table, 3)])
    checkpoint, after = DeltaLog(table).poll()
    assert (checkpoint.version, after.version) == (2, 3)
    assert len(checkpoint.adds) == 1
    assert checkpoint.adds[0].path != first.path


def test_a_look_costs_little(table: Path) -> None:
    """The planner looks every millisecond: a table handle would take several per look."""
    log, took = DeltaLog(table), []
    list(log.poll())
    for _ in range(100):
        began = time.thread_time()
        assert list(log.poll()) == []
        took.append(time.thread_time() - began)
    assert min(took) < 0.001
