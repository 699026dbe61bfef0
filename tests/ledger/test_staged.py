"""Transactions of staged files: the store that a two-phase sink of rows works on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.ledger.exchange import PARTIAL, PackedFile, StagedFiles, oldest_batch, sweep_staged
from flowcontrol.protocol.commits.transactions import TransactionStore
from flowcontrol.spec.two_phase import TwoPhaseCommitSink


def file(number: int) -> PackedFile:
    return PackedFile(f"f{number}.parquet", 3, 100 + number, 10 + number, ())


def paths(files: list[PackedFile]) -> list[str]:
    return [one.path for one in files]


def test_a_transaction_is_shown_once_and_deleted_once() -> None:
    store: TransactionStore = (own := StagedFiles(3))
    one, other = store.begin(), store.begin()
    assert (one, other) == ("3-1", "3-2")
    for number, name in enumerate([one, one, other]):
        store.write(name, file(number))
        store.flush(name)
    assert (own.to_show, own.to_delete) == ([], [])
    for _ in range(2):  # again, after a failure
        store.commit(one)
        store.abort(other)
    assert (paths(own.to_show), paths(own.to_delete)) == (
        ["f0.parquet", "f1.parquet"],
        [file(2).path],
    )
    assert own.files == []
    store.abort(one)
    store.commit(other)
    assert (len(own.to_show), len(own.to_delete)) == (2, 1)


@pytest.mark.parametrize(("longest", "is_lost"), [(2, True), (3, False), (4, False), (None, False)])
def test_a_transaction_that_is_too_old_is_lost(longest: int | None, is_lost: bool) -> None:
    store = StagedFiles(0, longest)
    store.begin_batch(4)
    name = store.begin()
    store.begin_batch(7)
    store.write(name, file(0))
    store.commit(name)
    assert paths(store.to_delete if is_lost else store.to_show) == ["f0.parquet"]
    assert len(store.to_delete) + len(store.to_show) == 1


def test_what_is_in_no_restored_state_is_aborted() -> None:
    store = StagedFiles(0)
    names = [store.begin() for _ in range(3)]
    for number, name in enumerate(names):
        store.write(name, file(number))
    store.keep([names[1], "0-9"])
    assert (paths(store.files), paths(store.to_delete)) == (
        [file(1).path],
        [file(0).path, file(2).path],
    )
    assert store.begin() == "0-4"  # no name comes twice


STEPS = st.lists(
    st.sampled_from(["write", "write", "snapshot", "complete", "batch"]), min_size=1, max_size=40
)


@given(STEPS, st.integers(0, 39))
def test_a_kill_between_two_batches_changes_nothing(steps: list[str], at: int) -> None:
    """The state of a batch names its own files only; those before are in the states before."""

    def run(kill_at: int | None) -> tuple[list[str], list[str], dict[str, object]]:
        store, states, number, shown = StagedFiles(3), list[str](), 0, list[str]()
        sink = TwoPhaseCommitSink(store)
        store.begin_batch(0)
        sink.open(0)
        for place, step in enumerate([*steps, "batch"]):
            if step == "write":
                sink.write(file(place))
            elif step == "snapshot":
                sink.snapshot(number, place + 1)
            elif step == "complete":
                sink.notify_complete(number, place)
            else:
                shown += paths(store.to_show)
                store.to_show.clear()
                states.append(json.dumps(store.state()))
                if kill_at is not None and place >= kill_at:
                    kill_at, kept = None, sink.state()
                    store = StagedFiles(3)
                    last = json.loads(states[-1])
                    first = oldest_batch(last, number)
                    store.restore([json.loads(text) for text in states[first:]])
                    sink = TwoPhaseCommitSink(store)
                    sink.restore(json.loads(json.dumps(kept)))
                number += 1
                store.begin_batch(number)
        return shown, paths(store.files), json.loads(states[-1])

    assert run(at) == run(None)


@pytest.mark.parametrize("since", [{}, {"3-4": 7}, {"3-4": 7, "3-5": 9}])
def test_the_oldest_batch_is_that_of_the_first_transaction(since: dict[str, int]) -> None:
    assert oldest_batch({"since": since}, 11) == (7 if since else 11)


def test_a_sweep_takes_what_was_not_written_to_its_end_and_nothing_else(tmp_path: Path) -> None:
    mine = [f"run-sink-0-4-0.parquet.{n}{PARTIAL}" for n in range(2)]
    others = ["run-sink-0-4-0.parquet", f"run-sinks-0-4-0.parquet.9{PARTIAL}", "other.parquet"]
    for name in [*mine, *others]:
        (tmp_path / name).write_text("")
    assert sweep_staged(tmp_path, "run-sink-") == 2
    assert {path.name for path in tmp_path.iterdir()} == set(others)
    assert sweep_staged(tmp_path, "run-sink-") == 0
