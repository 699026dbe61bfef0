"""The ledger of a link: members append, everybody follows, small files are packed and kept."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.errors import DamagedError, FencedError, LedgerError, LinkError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger import link_ledger
from flowcontrol.ledger import log as log_module
from flowcontrol.ledger.link_ledger import LinkLedger, LinkLedgerView, create_ledger, member_rows
from flowcontrol.ledger.storage import Storage

MEMBERS = ("sender/a", "receiver/main/0-1")


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return made(tmp_path)


def made(folder: Path) -> Storage:
    storage = Storage(folder / "ledger")
    create_ledger(storage)
    return storage


def rows_of(number: int, channels: int = 2):
    """Rows that tell which commit they belong to."""
    return [{"sender": 0, "receiver": c, "rows": 10 * number + c} for c in range(channels)]


def commit(ledger: LinkLedger, count: int = 1) -> None:
    """Append commits, each with what it is called; packing is waited for, so that it is tested."""
    for _ in range(count):
        number = 0 if ledger.latest is None else ledger.latest.batch_id + 1
        assert ledger.commit(rows_of(number), {"number": number}) == number
        if ledger._packing is not None:
            ledger._packing.exception()


def history(storage: Storage, member: str) -> list[int]:
    """What a member's rows say, in order."""
    side = member.split("/")[0]
    table = member_rows(storage)
    return [row["rows"] for row in table.to_pylist() if row["side"] == side]


def expected(count: int) -> list[int]:
    return [10 * number + channel for number in range(count) for channel in range(2)]


@pytest.fixture
def small(monkeypatch):
    """Pack four files into one, two levels."""
    monkeypatch.setattr(link_ledger, "PACK", 4)
    monkeypatch.setattr(link_ledger, "TOP_LEVEL", 2)


# ---------------------------------------------------------------------- appending


def test_a_commit_is_numbered_and_fills_in_who_and_when(storage):
    ledger = LinkLedger(storage, "sender/a")
    assert ledger.latest is None
    began = datetime.now(UTC)
    assert [ledger.commit(rows_of(n), {"n": n}) for n in range(3)] == [0, 1, 2]
    rows = ledger.last_rows("sender/a")
    assert [(row["side"], row["batch_id"], row["rows"]) for row in rows] == [
        ("sender", 2, 20), ("sender", 2, 21),
    ]  # fmt: skip
    assert all(began <= row["committed_at"] <= datetime.now(UTC) for row in rows)
    assert ledger.latest.state == {"n": 2}


def test_a_commit_without_rows_counts_too(storage):
    """A receiver that comes before any sender has only itself to tell of."""
    ledger = LinkLedger(storage, "receiver/main/0")
    ledger.commit([], {"n": 0})
    assert ledger.last_rows(ledger.member) == []
    again = LinkLedger(storage, "receiver/main/0")
    assert again.latest.batch_id == 0
    commit(again)
    assert [row["rows"] for row in again.last_rows(again.member)] == [10, 11]


def test_members_see_each_other(storage):
    first, second = (LinkLedger(storage, member) for member in MEMBERS)
    assert not first.refresh()
    commit(second, 2)
    assert first.refresh()
    assert not first.refresh()
    assert first.members[MEMBERS[1]].state == {"number": 1}
    assert list(first.members) == [MEMBERS[1]]
    assert [row["rows"] for row in first.last_rows(MEMBERS[1])] == [10, 11]


def test_who_has_committed_nothing_has_no_rows(storage):
    with pytest.raises(LedgerError, match="sender/b has committed nothing"):
        LinkLedgerView(storage).last_rows("sender/b")


def test_a_ledger_that_is_not_there_says_so(tmp_path):
    with pytest.raises(LedgerError, match="no Delta table stands here"):
        LinkLedgerView(Storage(tmp_path / "none")).refresh()


def test_who_was_taken_over_commits_no_more(storage):
    zombie = LinkLedger(storage, "sender/a")
    assert zombie.claim() == 1
    commit(zombie)
    heir = LinkLedger(storage, "sender/a")
    assert heir.claim() == 2
    with pytest.raises(FencedError):
        zombie.commit(rows_of(1), {})
    commit(heir)
    assert history(storage, "sender/a") == expected(2)


def test_two_without_a_claim_do_not_both_count(storage):
    first, second = LinkLedger(storage, "sender/a"), LinkLedger(storage, "sender/a")
    commit(first)
    with pytest.raises(LinkError, match="commit 0 of sender/a is there already although"):
        second.commit(rows_of(0), {})


# ---------------------------------------------------------------------- packing


def test_small_files_are_packed_level_by_level_and_nothing_is_lost(storage, small):
    ledger = LinkLedger(storage, "sender/a")
    for count in range(1, 60):
        commit(ledger)
        levels = ledger._files["sender/a"]
        assert len(levels[0]) <= 4 + 2, "packed when it is full, in with the next commit"
        assert len(levels.get(1, [])) <= 4 + 2
        assert ledger.latest.batch_id == count - 1
        assert ledger.latest.state == {"number": count - 1}
        if count % 7 == 0:
            assert history(storage, "sender/a") == expected(count)
    assert sorted(levels) == [0, 1, 2]
    files = {path.name for path in Path(str(storage)).glob("*.parquet")}
    view = LinkLedgerView(storage)
    view.refresh()
    named = {path for level in view._files["sender/a"].values() for *_, path in level}
    assert files - named == set()  # what was packed is gone
    assert named - files == set()


def test_sql_sees_every_row_once(storage, small):
    """The table is what Delta says it is, packed or not."""
    ledgers = [LinkLedger(storage, member) for member in MEMBERS]
    for _ in range(12):
        for ledger in ledgers:
            commit(ledger)
    table = DeltaTable(str(storage)).to_pyarrow_table()
    assert table.num_rows == 2 * 12 * 2
    for side in ("sender", "receiver"):
        rows = [row["rows"] for row in table.to_pylist() if row["side"] == side]
        assert sorted(rows) == expected(12)


def test_the_newest_rows_are_never_packed(storage, small):
    """They are the state from which a member starts again."""
    ledger = LinkLedger(storage, "sender/a")
    commit(ledger, 30)
    path = Path(str(storage)) / ledger.latest.path
    assert pq.read_table(path).num_rows == 2
    assert ".L0." in path.name


def test_a_kill_while_it_packs_loses_nothing(storage, small):
    """The packed file is an orphan: the next start packs again."""
    ledger = LinkLedger(storage, "sender/a")
    commit(ledger, 5)
    assert ledger._packing is not None
    ledger.close()
    again = LinkLedger(storage, "sender/a")
    again.claim()
    commit(again, 10)
    assert history(storage, "sender/a") == expected(15)


def test_a_failure_while_it_packs_is_said_and_mends_itself(storage, small, monkeypatch):
    ledger = LinkLedger(storage, "sender/a")

    def broken(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LinkLedger, "_pack", broken)
        commit(ledger, 5)
        with pytest.raises(LinkError, match=r"commit 5 of sender/a cannot be written: .*No space"):
            commit(ledger)
    commit(ledger, 10)
    assert history(storage, "sender/a") == expected(15)


def test_files_are_packed_while_a_cleaned_log_is_read_anew(storage, small, monkeypatch):
    """What the background thread needed was empty for a moment: "cannot be written", a commit."""
    ledger, todo, packed = LinkLedger(storage, "sender/a"), [], Future()
    monkeypatch.setattr(ledger._pool, "submit", lambda *call: todo.append(call) or packed)
    for number in range(5):
        ledger.commit(rows_of(number), {})
    [(pack, *arguments)] = todo
    log, poll = ledger._log, ledger._log.poll

    def polling():
        if log.version < 0:  # all is forgotten, and not read anew yet
            packed.set_result(pack(*arguments))
        yield from poll()

    def restart(at_once):
        log.version = -1
        return True

    with monkeypatch.context() as cleaned:
        cleaned.setattr(log, "_restart_if_cut_off", restart)
        cleaned.setattr(log, "poll", polling)
        ledger.refresh()
    assert packed.done()
    ledger.commit(rows_of(5), {})
    assert history(storage, "sender/a") == expected(6)
    assert len(DeltaTable(str(storage)).file_uris()) == 3  # four in one, and two more


def test_old_rows_are_dropped_a_whole_file_at_a_time(storage, small, monkeypatch):
    """With the commit that packs another file of the top level, never the newest of them."""
    ledger = LinkLedger(storage, "sender/a")
    commit(ledger, 40)
    assert len(ledger._files["sender/a"][2]) >= 2
    monkeypatch.setattr(link_ledger, "HISTORY_S", -1.0)
    commit(ledger, 40)
    top = ledger._files["sender/a"][2]
    assert len(top) <= 2
    rows = history(storage, "sender/a")
    assert rows == expected(80)[-len(rows) :]
    assert len(rows) < 160


def test_a_reader_that_is_overtaken_by_packing_reads_again(storage, small, monkeypatch):
    """Between its look at the log and at the files these were packed, and are gone."""
    ledger = LinkLedger(storage, "sender/a")
    commit(ledger, 4)
    refresh, more = LinkLedgerView.refresh, [6]

    def overtaken(view):
        found = refresh(view)
        if view is not ledger and more:
            commit(ledger, more.pop())
        return found

    monkeypatch.setattr(LinkLedgerView, "refresh", overtaken)
    assert history(storage, "sender/a") == expected(10)


def test_the_newest_rows_of_another_are_found_when_it_has_gone_on(storage, small):
    ledger, view = LinkLedger(storage, "sender/a"), LinkLedgerView(storage)
    commit(ledger, 1)
    view.refresh()
    commit(ledger, 9)
    assert [row["rows"] for row in view.last_rows("sender/a")] == [90, 91]


def test_a_file_that_is_gone_for_good_says_so(storage):
    ledger = LinkLedger(storage, "sender/a")
    commit(ledger)
    (Path(str(storage)) / ledger.latest.path).unlink()
    with pytest.raises(LedgerError, match="a file is missing although a commit names it: "):
        member_rows(storage)
    with pytest.raises(DamagedError, match=r"is missing although a commit names it.*from a copy"):
        ledger.last_rows("sender/a")


def test_members_whose_names_look_alike_keep_apart(storage, small):
    members = ("sender/a.b", "sender/a_b", "sender/a-b")
    ledgers = [LinkLedger(storage, member) for member in members]
    for _ in range(12):
        for ledger in ledgers:
            commit(ledger)
    view = LinkLedgerView(storage)
    view.refresh()
    assert {member: latest.batch_id for member, latest in view.members.items()} == dict.fromkeys(
        members, 11
    )
    assert member_rows(storage).num_rows == 3 * 12 * 2


def test_a_file_that_no_ledger_writes_is_refused(storage):
    with pytest.raises(LedgerError, match=r"x.parquet is not a file that a link's ledger writes"):
        link_ledger._parse_name("x.parquet")


# ---------------------------------------------------------------------- many at once


def test_many_members_commit_pack_and_clean_at_once(storage, small, monkeypatch):
    """Each in its own thread, as fast as it can; a reader looks all the while."""
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", 10)
    problems: list[BaseException] = []
    seen: list[int] = []
    totals: list[int] = []
    over = threading.Event()

    def work(member: str) -> None:
        try:
            ledger = LinkLedger(storage, member)
            ledger.claim()
            for number in range(40):
                ledger.commit(rows_of(number), {"number": number})
            ledger.close()
        except BaseException as error:
            problems.append(error)

    def look() -> None:
        try:
            view = LinkLedgerView(storage)
            while not over.is_set():
                view.refresh()
                seen.append(sum(latest.batch_id for latest in view.members.values()))
                totals.append(member_rows(storage).num_rows)
        except BaseException as error:
            problems.append(error)

    members = ["sender/a", "sender/b", "receiver/main/0-1"]
    threads = [threading.Thread(target=work, args=(member,)) for member in members]
    reader = threading.Thread(target=look)
    for thread in [*threads, reader]:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    reader.join()
    assert problems == []
    assert seen == sorted(seen)
    assert totals == sorted(totals)
    view = LinkLedgerView(storage)
    view.refresh()
    assert {member: latest.batch_id for member, latest in view.members.items()} == dict.fromkeys(
        members, 39
    )
    assert member_rows(storage).num_rows == 3 * 40 * 2


@settings(max_examples=max(1, settings.default.max_examples // 5))
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 6), st.sampled_from(["", "again", "look"])),
        max_size=14,
    ),
    is_cleaned=st.booleans(),
)
def test_whoever_looks_whenever_sees_the_newest_of_each(tmp_path_factory, steps, is_cleaned):
    """Commits of three members, starts anew, a follower that looks now and then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_ledger, "PACK", 3)
        patch.setattr(link_ledger, "TOP_LEVEL", 2)
        patch.setattr(log_module, "CHECK_EVERY_S", 0.0)
        if is_cleaned:
            patch.setattr(commits, "CHECKPOINT_EVERY", 4)
            patch.setitem(commits.CONFIGURATION, "delta.logRetentionDuration",
                          "interval 0 milliseconds")  # fmt: skip
        storage = made(tmp_path_factory.mktemp("link"))
        members = ("sender/a", "receiver/main/0-1", "receiver/other/0-1")
        ledgers = {member: LinkLedger(storage, member) for member in members}
        follower, counts = LinkLedgerView(storage), dict.fromkeys(members, 0)
        for which, count, then in steps:
            member = members[which]
            if then == "again":
                ledgers[member].close()
                ledgers[member] = LinkLedger(storage, member)
                ledgers[member].claim()
            commit(ledgers[member], count)
            counts[member] += count
            if then == "look":
                follower.refresh()
                check_newest(follower, counts)
        follower.refresh()
        check_newest(follower, counts)
        assert member_rows(storage).num_rows == 2 * sum(counts.values())


def check_newest(view: LinkLedgerView, counts: dict[str, int]) -> None:
    for member, count in counts.items():
        if count:
            assert view.members[member].batch_id == count - 1
            assert view.members[member].state == {"number": count - 1}
            assert [row["rows"] for row in view.last_rows(member)] == expected(count)[-2:]
        else:
            assert member not in view.members


def test_rows_are_kept_for_a_week():
    """A day of small batches is history that somebody may want to look at."""
    assert timedelta(seconds=link_ledger.HISTORY_S) >= timedelta(days=7)
