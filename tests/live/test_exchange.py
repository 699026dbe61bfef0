"""The exchange log: records found by number, trimmed when consumed, swept when nobody's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import LedgerError
from flowcontrol.ledger import commit as commits
from flowcontrol.ledger.exchange import TRIM_EVERY, Exchange, ExchangeView, PackedFile, Span
from flowcontrol.ledger.log import SWEEP_AGE_S, Add, Commit, sweep

ROWS = pa.schema([("number", pa.int64()), ("_round", pa.int64())])

Channel = tuple[int, int]


class Sender:
    """Packs rounds of numbered rows: channel (sender, receiver) carries 0, 1, 2 ..."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.exchange = Exchange(path, ROWS, "run")
        self.written: dict[Channel, int] = {}

    def send(
        self, batch: int, counts: dict[Channel, int], taken: dict[Channel, int] | None = None
    ) -> list[str]:
        """Pack and commit a round; return its files."""
        files = []
        for sender in sorted({channel[0] for channel in counts}):
            own = {c[1]: rows for c, rows in sorted(counts.items()) if c[0] == sender and rows}
            files.append(self._pack(batch, sender, own))
        assert self.exchange.commit(batch, files, lambda: taken or {})
        return [file.path for file in files]

    def _pack(self, batch: int, sender: int, own: dict[int, int]) -> PackedFile:
        name = f"batch_id={batch}/sender={sender}/{os.urandom(8).hex()}.parquet"
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers: list[int] = []
        index = []
        for receiver, rows in own.items():
            first = self.written.get((sender, receiver), 0)
            index.append((receiver, first, len(numbers), rows))
            numbers += range(first, first + rows)
            self.written[sender, receiver] = first + rows
        table = pa.table({"number": numbers, "_round": [batch] * len(numbers)}, schema=ROWS)
        pq.write_table(table, path)
        return PackedFile(name, sender, path.stat().st_size, len(numbers), tuple(index))


def numbers_at(spans: list[Span]) -> list[int]:
    found: list[int] = []
    for span in spans:
        column = pq.read_table(span.path, partitioning=None).column("number")
        found += column.slice(span.first_row, span.rows).to_pylist()
    return found


def looked(path: Path) -> ExchangeView:
    view = ExchangeView(path)
    view.refresh()
    return view


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "exchange")


# ---------------------------------------------------------------------- locate


def test_records_are_found_across_files_and_part_reads(sender: Sender) -> None:
    for batch in range(3):
        sender.send(batch, {(0, 0): 5, (0, 1): 2, (1, 0): 1})
    view = looked(sender.path)
    assert numbers_at(view.locate(0, 0, 0, 15)) == list(range(15))
    assert numbers_at(view.locate(0, 0, 3, 4)) == [3, 4, 5, 6]
    assert [span.rows for span in view.locate(0, 0, 3, 9)] == [2, 5, 2]
    assert numbers_at(view.locate(0, 1, 1, 4)) == [1, 2, 3, 4]
    assert numbers_at(view.locate(1, 0, 2, 1)) == [2]
    assert view.locate(1, 0, 3, 0) == []


class Commits:
    """A log of commits that were made up: one file of channel 0->0 each."""

    def __init__(self, rounds: list[int]) -> None:
        self.commits, self.names, total = list[Commit](), list[tuple[str, int]](), 0
        for number, rows in enumerate(rounds):
            stats = {"channels": [[0, total, 10, rows]]}
            add = Add(f"file-{number}", {"batch_id": str(number), "sender": "0"}, stats)
            self.commits.append(Commit(number, [add] if rows else []))
            self.names += [(f"file-{number}", 10 + i) for i in range(rows)]
            total += rows

    version = 0

    def follow(self, forget: object, at_once: bool) -> list[Commit]:
        found, self.commits = self.commits, []
        return found


@given(
    rounds=st.lists(st.integers(0, 4), min_size=1, max_size=12),
    takes=st.lists(st.integers(0, 7), min_size=1, max_size=20),
)
def test_reads_of_any_size_give_every_record_once_in_order(
    rounds: list[int], takes: list[int]
) -> None:
    log, view, seen = Commits(rounds), ExchangeView(Path("table")), list[tuple[str, int]]()
    view._log = log  # type: ignore[assignment]
    view.refresh()
    for take in takes:
        count = min(take, len(log.names) - len(seen))
        for span in view.locate(0, 0, len(seen), count):
            seen += [(Path(span.path).name, span.first_row + i) for i in range(span.rows)]
    assert seen == log.names[: sum(takes)]


def test_a_round_may_be_read_again_from_where_it_began(sender: Sender) -> None:
    """As after a kill: the cursor stands where the round before had ended."""
    for batch in range(3):
        sender.send(batch, {(0, 0): 4})
    view = looked(sender.path)
    assert numbers_at(view.locate(0, 0, 2, 6)) == numbers_at(view.locate(0, 0, 2, 6))


@pytest.mark.parametrize(
    ("channel", "first", "count"), [((0, 0), 4, 2), ((0, 0), 0, 6), ((0, 1), 0, 1), ((1, 0), 0, 1)]
)
def test_records_that_were_never_written_are_named(
    sender: Sender, channel: Channel, first: int, count: int
) -> None:
    sender.send(0, {(0, 0): 5})
    with pytest.raises(LedgerError, match=rf"channel {channel[0]}->{channel[1]} holds no records"):
        looked(sender.path).locate(*channel, first, count)


# ---------------------------------------------------------------------- trim


def consumed_so_far(sender: Sender, lag: int) -> dict[Channel, int]:
    """Records that a receiver has taken up that is ``lag`` records behind the sender."""
    return {channel: max(0, rows - lag) for channel, rows in sender.written.items()}


def test_a_trim_takes_out_what_is_consumed_and_nothing_else(sender: Sender) -> None:
    for batch in range(TRIM_EVERY):
        sender.send(batch, {(0, 0): 4, (0, 1): 1}, consumed_so_far(sender, 9))
    # Files hold records of both channels: of channel 0->1 the last 9 are kept, a file each.
    named = DeltaTable(str(sender.path)).to_pyarrow_table()
    assert sorted(set(named.column("batch_id").to_pylist())) == list(
        range(TRIM_EVERY - 10, TRIM_EVERY)
    )
    assert len(list(sender.path.rglob("sender=*/*.parquet"))) == 10
    view = looked(sender.path)
    last = sender.written[0, 0]
    assert numbers_at(view.locate(0, 0, last - 36, 36)) == list(range(last - 36, last))
    with pytest.raises(LedgerError, match="they were trimmed or never written"):
        view.locate(0, 0, 0, 1)


@pytest.mark.parametrize(
    ("every", "first"),
    [
        # The quick form has each distance from one of the rounds.
        pytest.param(every, first, marks=[pytest.mark.long] * ((row + first) % 2))
        for row, every in enumerate((2, 3, 7, 50))
        for first in (0, 1)
    ],
)
def test_rows_that_travel_in_few_rounds_are_trimmed_too(
    sender: Sender, first: int, every: int
) -> None:
    """A round without rows has no commit; a writer may start again between any two."""
    for number, batch in enumerate(range(first, 8 * TRIM_EVERY, every)):
        sender.send(batch, {(0, 0): 4}, consumed_so_far(sender, 4))
        if number % 5 == 4:
            again = Sender(sender.path)
            again.written, sender = dict(sender.written), again
    left = DeltaTable(str(sender.path)).to_pyarrow_table().column("batch_id").to_pylist()
    assert max(left) - min(left) <= TRIM_EVERY + 2 * every


def test_a_view_that_has_read_on_does_not_notice_a_trim(sender: Sender) -> None:
    view = ExchangeView(sender.path)
    read = 0
    for batch in range(3 * TRIM_EVERY):
        sender.send(batch, {(0, 0): 3}, {(0, 0): read})
        view.refresh()
        if batch >= 2:
            assert numbers_at(view.locate(0, 0, read, 3)) == list(range(read, read + 3))
            read += 3
    assert len(list(sender.path.rglob("sender=*/*.parquet"))) <= 4


def test_a_sender_that_starts_again_goes_on_trimming(sender: Sender) -> None:
    for batch in range(TRIM_EVERY - 1):
        sender.send(batch, {(0, 0): 3})
    again = Sender(sender.path)
    again.written = dict(sender.written)
    assert again.exchange.is_committed(TRIM_EVERY - 2)
    assert not again.exchange.is_committed(TRIM_EVERY - 1)
    again.send(TRIM_EVERY - 1, {(0, 0): 3}, {(0, 0): 3 * (TRIM_EVERY - 2)})
    left = DeltaTable(str(sender.path)).to_pyarrow_table().column("batch_id").to_pylist()
    assert sorted(set(left)) == [TRIM_EVERY - 2, TRIM_EVERY - 1]
    late = Sender(sender.path)
    late.written = dict(again.written)
    late.send(TRIM_EVERY, {(0, 0): 1})
    first = 3 * (TRIM_EVERY - 2)
    assert numbers_at(looked(sender.path).locate(0, 0, first, 7)) == list(range(first, first + 7))


def sizes(path: Path, action: str) -> dict[str, int]:
    """Return the size of every file that the log adds or removes, by path."""
    lines = [
        line for log in path.glob("_delta_log/*.json") for line in log.read_text().splitlines()
    ]
    told = [json.loads(line).get(action) for line in lines]
    return {one["path"]: one["size"] for one in told if one}


def test_a_trim_after_a_restart_states_the_size_of_what_it_removes(sender: Sender) -> None:
    for batch in range(TRIM_EVERY - 1):
        sender.send(batch, {(0, 0): 3})
    again = Sender(sender.path)
    again.written = dict(sender.written)
    again.send(TRIM_EVERY - 1, {(0, 0): 3}, {(0, 0): 3 * (TRIM_EVERY - 2)})
    added, removed = sizes(sender.path, "add"), sizes(sender.path, "remove")
    assert len(removed) == TRIM_EVERY - 2
    assert removed == {path: added[path] for path in removed}
    assert min(removed.values()) > 0


def test_a_log_that_starts_at_a_checkpoint_finds_the_same(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", 7)
    for batch in range(20):
        sender.send(batch, {(0, 0): 3, (1, 0): 2})
    assert (sender.path / "_delta_log" / "_last_checkpoint").exists()
    view = looked(sender.path)
    assert numbers_at(view.locate(0, 0, 0, 60)) == list(range(60))
    assert numbers_at(view.locate(1, 0, 0, 40)) == list(range(40))


def test_a_round_that_is_there_is_refused(sender: Sender) -> None:
    sender.send(0, {(0, 0): 3})
    file = sender._pack(0, 0, {0: 3})
    assert not sender.exchange.commit(0, [file], dict)
    assert not Exchange(sender.path, ROWS, "run").commit(0, [file], dict)
    table = DeltaTable(str(sender.path)).to_pyarrow_table()
    assert table.column("number").to_pylist() == [0, 1, 2]
    assert set(table.column_names) == {"number", "_round", "batch_id", "sender"}


# ---------------------------------------------------------------------- sweep


def test_a_sweep_deletes_old_files_that_no_commit_names(sender: Sender) -> None:
    [named] = sender.send(0, {(0, 0): 3})
    folder = sender.path / "batch_id=1" / "sender=0"
    folder.mkdir(parents=True)
    old, young = folder / "old.parquet", folder / "young.parquet"
    other = folder / "notes.txt"
    an_hour_ago = time.time() - 3601
    for file in (old, young, other):
        file.write_bytes(b"left by a task that failed")
    for file in (old, other, sender.path / named):
        os.utime(file, (an_hour_ago, an_hour_ago))
    sender.exchange._writer.checkpoint()
    checkpoint = next((sender.path / "_delta_log").glob("*.checkpoint.parquet"))
    os.utime(checkpoint, (an_hour_ago, an_hour_ago))
    assert sweep(sender.path) == 1
    assert not old.exists()
    assert all(file.exists() for file in (young, other, checkpoint, sender.path / named))
    assert sweep(sender.path, as_of_s=time.time() + 2 * SWEEP_AGE_S) == 1
    assert not young.exists()
    assert numbers_at(looked(sender.path).locate(0, 0, 0, 3)) == [0, 1, 2]


def test_a_sweep_deletes_what_was_named_once(sender: Sender) -> None:
    """A trim that was killed between its commit and its deletions."""
    [first] = sender.send(0, {(0, 0): 3})
    sender.send(1, {(0, 0): 3})
    kept = (sender.path / first).read_bytes()
    for batch in range(2, TRIM_EVERY):
        sender.send(batch, {(0, 0): 3}, {(0, 0): 3})
    assert not (sender.path / first).exists()
    (sender.path / first).write_bytes(kept)
    assert sweep(sender.path, as_of_s=time.time() + 2 * SWEEP_AGE_S) == 1
    assert not (sender.path / first).exists()
