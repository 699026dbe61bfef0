"""The two-phase commit sink, step by step: every phase, and a failure in each.

By hand from section 5 of the reference (``TwoPhaseCommitSinkFunction``).
"""

from __future__ import annotations

import json

import pytest

from flowcontrol.protocol.commits.transactions import SinkState
from flowcontrol.spec.two_phase import Phase, TwoPhaseCommitSink
from modules import load

stores = load("tests/protocol/commits/stores.py")
Store, StoreError = stores.Store, stores.StoreError


def running(store=None, **settings):
    """A sink that is open, and its store without the call that opened it."""
    store = store or Store()
    sink = TwoPhaseCommitSink(store, **settings)
    sink.open(0)
    store.calls.clear()
    return sink, store


def write(sink, *rows):
    for row in rows:
        sink.write(row)


def restored(store, state, now=100, **settings):
    """A new sink after a failure, and what its recovery called."""
    store.calls.clear()
    sink = TwoPhaseCommitSink(store, **settings)
    actions = sink.open(now, state)
    return sink, actions


# -- without failures ---------------------------------------------------------------------------


def test_rows_are_visible_at_the_notification_and_not_before():
    sink, store = running()
    write(sink, "a", "b")
    assert sink.snapshot(10, 1)[:2] == ("t2", {1: "t1"})
    assert store.calls == ["write t1", "write t1", "flush t1", "begin"]
    assert store.visible == []
    write(sink, "c")
    assert sink.notify_complete(20, 1) == [("commit", "t1")]
    assert store.visible == ["a", "b"]
    assert [tuple(t) for t in sink.transactions] == [("t2", 10, "open", None)]


def test_an_open_sink_begins_one_transaction():
    store = Store()
    sink = TwoPhaseCommitSink(store)
    assert sink.lifecycle == "created"
    assert sink.open(5) == [(Phase.BEGIN, "t1")]
    assert (sink.lifecycle, store.calls) == ("running", ["begin"])


def test_a_notification_commits_all_earlier_ones_in_order():
    sink, store = running()
    for number in (1, 2, 3):
        write(sink, number)
        sink.snapshot(number, number)
    store.calls.clear()
    assert sink.notify_complete(9, 2) == [("commit", "t1"), ("commit", "t2")]
    assert store.calls == ["commit t1", "commit t2"]
    assert [t.checkpoint for t in sink.transactions] == [3, None]


def test_a_notification_for_nothing_commits_nothing():
    sink, store = running()
    sink.snapshot(1, 4)
    store.calls.clear()
    assert sink.notify_complete(2, 3) == []
    assert store.calls == []
    assert sink.notify_complete(3, 4) == [("commit", "t1")]
    assert sink.notify_complete(4, 4) == []  # the same once more
    assert store.calls == ["commit t1"]


def test_an_aborted_checkpoint_stays_remembered_and_a_later_one_commits_it():
    sink, store = running()
    write(sink, "a")
    sink.snapshot(1, 1)
    assert sink.notify_aborted(1) == []
    write(sink, "b")
    state = sink.snapshot(2, 2)
    assert state.pending == {1: "t1", 2: "t2"}
    assert sink.notify_complete(3, 2) == [("commit", "t1"), ("commit", "t2")]
    assert store.visible == ["a", "b"]


def test_a_lost_notification_is_caught_up_by_the_next():
    sink, store = running()
    write(sink, "a")
    sink.snapshot(1, 1)  # completes, and its notification is lost
    write(sink, "b")
    sink.snapshot(2, 2)
    sink.notify_complete(3, 2)
    assert store.visible == ["a", "b"]


def test_the_last_transaction_is_committed_by_the_checkpoint_after_the_end():
    sink, store = running()
    write(sink, "a")
    sink.finish()
    with pytest.raises(ValueError, match=r"finished .* no open transaction|none after finish"):
        sink.write("b")
    store.calls.clear()
    state = sink.snapshot(10, 1)
    assert state[:2] == (None, {1: "t1"})
    assert store.calls == ["flush t1"]  # and none begins
    sink.notify_complete(11, 1)
    assert store.visible == ["a"]
    assert sink.close() == []


def test_a_checkpoint_after_the_last_transaction_holds_only_what_waits():
    sink, store = running()
    sink.finish()
    sink.snapshot(1, 1)
    store.calls.clear()
    assert sink.snapshot(2, 2)[:2] == (None, {1: "t1"})
    assert store.calls == []


def test_closing_aborts_the_open_transaction_and_leaves_pre_committed_ones():
    sink, store = running()
    write(sink, "a")
    sink.snapshot(1, 1)
    write(sink, "b")
    store.calls.clear()
    assert sink.close() == [("abort", "t2")]
    assert store.calls == ["abort t2"]
    assert sink.close() == []
    assert store.staged == {"t1": ["a"]}


# -- a failure in each phase --------------------------------------------------------------------


@pytest.mark.parametrize("written", [0, 2])
def test_failure_before_the_first_checkpoint_starts_anew(written):
    """No state names the transaction: it stays staged, for the store's timeout."""
    sink, store = running()
    write(sink, *range(written))
    again, actions = restored(store, None)
    assert actions == [("begin", "t2")]
    write(again, *range(written))
    again.snapshot(101, 1)
    again.notify_complete(102, 1)
    assert store.visible == list(range(written))


def after_checkpoint_1():
    """A sink after a completed and committed checkpoint 1, with a row behind it."""
    sink, store = running()
    write(sink, "a")
    state = sink.snapshot(10, 1)
    sink.notify_complete(11, 1)
    write(sink, "b")
    return sink, store, state


@pytest.mark.parametrize(
    ("call", "when"),
    [("write", "before"), ("write", "after"), ("flush", "before"), ("flush", "after")],
)
def test_failure_before_or_in_pre_commit_aborts_and_replays(call, when):
    sink, store, state = after_checkpoint_1()
    store.fail(call, when)
    with pytest.raises(StoreError):
        sink.write("c") if call == "write" else sink.snapshot(20, 2)
    again, actions = restored(store, state)
    # What was open at checkpoint 1 is what would have been checkpoint 2's.
    assert actions[1:] == [("recover_and_abort", "t2"), ("begin", "t3")]
    assert actions[0] == ("recover_and_commit", "t1")  # once more
    write(again, "b")
    again.snapshot(101, 3)
    again.notify_complete(102, 3)
    assert store.visible == ["a", "b"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_failure_in_begin_leaves_what_is_pre_committed(when):
    sink, store, state = after_checkpoint_1()
    store.fail("begin", when)
    with pytest.raises(StoreError):
        sink.snapshot(20, 2)
    with pytest.raises(ValueError, match="no open transaction"):
        sink.write("c")  # never into t2, which is flushed
    assert sink.close() == []
    again, _ = restored(store, state)
    assert store.gone["t2"] == "aborted"
    write(again, "b")
    again.snapshot(101, 3)
    again.notify_complete(102, 3)
    assert store.visible == ["a", "b"]


def test_failure_after_pre_commit_and_before_completion_aborts_and_replays():
    sink, store, state = after_checkpoint_1()
    sink.snapshot(20, 2)  # begins t3, which no completed state names
    again, _ = restored(store, state)
    assert store.calls == ["commit t1", "abort t2", "begin"]
    assert set(store.staged) == {"t3", "t4"}
    write(again, "b")
    again.snapshot(101, 3)
    again.notify_complete(102, 3)
    assert store.visible == ["a", "b"]


def test_failure_after_completion_and_before_the_notification_commits_at_recovery():
    sink, store, _ = after_checkpoint_1()
    state = sink.snapshot(20, 2)
    write(sink, "lost and replayed")
    _, actions = restored(store, state)
    assert actions == [("recover_and_commit", "t2"), ("recover_and_abort", "t3"), ("begin", "t4")]
    assert store.visible == ["a", "b"]


@pytest.mark.parametrize(("when", "visible"), [("before", ["a"]), ("after", ["a", "b"])])
def test_failure_in_the_commit_commits_again_at_recovery(when, visible):
    sink, store, _ = after_checkpoint_1()
    state = sink.snapshot(20, 2)
    store.fail("commit", when)
    with pytest.raises(StoreError):
        sink.notify_complete(21, 2)
    assert store.visible == visible
    restored(store, state)
    assert store.visible == ["a", "b"]


def test_failure_after_the_commit_commits_again_without_effect():
    sink, store, _ = after_checkpoint_1()
    state = sink.snapshot(20, 2)
    sink.notify_complete(21, 2)
    _, actions = restored(store, state)
    assert actions[0] == ("recover_and_commit", "t2")
    assert store.visible == ["a", "b"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["commit", "abort", "begin"])
def test_failure_during_recovery_recovers_again(call, when):
    sink, store, _ = after_checkpoint_1()
    state = sink.snapshot(20, 2)
    store.fail(call, when)
    broken = TwoPhaseCommitSink(store)
    with pytest.raises(StoreError):
        broken.open(50, state)
    assert broken.lifecycle == "created"
    again, actions = restored(store, state)
    assert [phase for phase, _ in actions] == ["recover_and_commit", "recover_and_abort", "begin"]
    write(again, "c")
    again.snapshot(101, 3)
    again.notify_complete(102, 3)
    assert store.visible == ["a", "b", "c"]


def test_recovery_commits_every_pre_committed_transaction_in_order():
    sink, store = running()
    for number in (1, 2, 3):
        write(sink, number)
        state = sink.snapshot(number, number)
    restored(store, state)
    assert store.calls == ["commit t1", "commit t2", "commit t3", "abort t4", "begin"]


def test_recovery_after_the_end_aborts_nothing():
    sink, store = running()
    write(sink, "a")
    sink.finish()
    state = sink.snapshot(1, 1)
    _, actions = restored(store, state)
    assert actions == [("recover_and_commit", "t1"), ("begin", "t2")]


@pytest.mark.parametrize("when", ["before", "after"])
def test_failure_of_the_abort_at_the_close_passes_and_the_close_may_be_repeated(when):
    sink, store = running()
    store.fail("abort", when)
    with pytest.raises(StoreError):
        sink.close()
    assert sink.close() == [("abort", "t1")]


def test_the_first_error_is_thrown_after_all_were_tried_and_all_are_forgotten():
    sink, store = running()
    for number in (1, 2, 3):
        write(sink, number)
        sink.snapshot(number, number)
    store.fail("commit", "before", times=2)
    with pytest.raises(StoreError, match="commit t1 failed") as caught:
        sink.notify_complete(9, 3)
    assert store.visible == [3]
    assert len(caught.value.__notes__) == 1
    assert "t2" in caught.value.__notes__[0]
    assert [t.name for t in sink.transactions] == ["t4"]
    assert sink.notify_complete(10, 3) == []


# -- the timeout --------------------------------------------------------------------------------


def state_of_5():
    """The state of a checkpoint whose transaction began at 5 ms."""
    store = Store()
    sink = TwoPhaseCommitSink(store)
    sink.open(5)
    write(sink, "a")
    return store, sink.snapshot(8, 1)


@pytest.mark.parametrize(
    ("now", "timeout", "ignores", "is_lost"),
    [
        (104, 100, True, False),
        (105, 100, True, False),  # as old as the timeout: not older
        (106, 100, True, True),
        (106, 100, False, False),
        (106, None, True, False),
        (5, 0, True, False),
        (6, 0, True, True),
    ],
)
def test_a_failing_recovery_is_ignored_only_strictly_after_the_timeout(
    now, timeout, ignores, is_lost
):
    store, state = state_of_5()
    store.fail("commit", "before")
    sink = TwoPhaseCommitSink(store, timeout, ignores)
    if not is_lost:
        with pytest.raises(StoreError):
            sink.open(now, state)
        return
    assert sink.open(now, state)[0] == (Phase.LOST, "t1")
    assert (store.visible, sink.lifecycle) == ([], "running")


def test_an_expired_transaction_that_commits_is_not_lost():
    store, state = state_of_5()
    sink = TwoPhaseCommitSink(store, 100, ignore_after_timeout=True)
    assert sink.open(1000, state)[0] == (Phase.RECOVER_AND_COMMIT, "t1")
    assert store.visible == ["a"]


def test_a_failing_commit_at_a_notification_is_never_ignored():
    sink, store = running(timeout_ms=100, ignore_after_timeout=True)
    sink.snapshot(1, 1)
    store.fail("commit")
    with pytest.raises(StoreError):
        sink.notify_complete(1000, 1)


@pytest.mark.parametrize(("now", "is_near"), [(50, False), (51, True)])
def test_a_commit_near_the_timeout_is_reported(now, is_near):
    sink, _ = running(timeout_ms=100, warning_ratio=0.5)
    state = sink.snapshot(1, 1)
    near = [(Phase.NEAR_TIMEOUT, "t1")] if is_near else []
    assert sink.notify_complete(now, 1) == [*near, (Phase.COMMIT, "t1")]
    store = Store()
    store.flushed.add("t1")
    again = TwoPhaseCommitSink(store, timeout_ms=100, warning_ratio=0.5)
    assert again.open(now, state)[: len(near)] == near


# -- refusals and kept state --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"timeout_ms": -1}, "timeout_ms is -1: needs at least 0"),
        ({"warning_ratio": 1.1}, r"warning_ratio is 1\.1: needs 0 to 1"),
        ({"warning_ratio": -0.1}, r"warning_ratio is -0\.1: needs 0 to 1"),
    ],
)
def test_settings_out_of_range_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        TwoPhaseCommitSink(Store(), **settings)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda sink: sink.write("a"), r"is created .* open\(\) it"),
        (lambda sink: sink.snapshot(0, 1), r"is created: open\(\) it"),
        (lambda sink: sink.finish(), "is created: only an open one"),
    ],
)
def test_a_sink_that_is_not_open_refuses(call, text):
    store = Store()
    with pytest.raises(ValueError, match=text):
        call(TwoPhaseCommitSink(store))
    assert store.calls == []


def test_an_open_sink_is_not_opened_again():
    sink, store = running()
    with pytest.raises(ValueError, match="open already"):
        sink.open(1)
    assert store.calls == []
    sink.close()
    assert sink.open(2) == [(Phase.BEGIN, "t2")]


@pytest.mark.parametrize(("number", "refused"), [(4, True), (5, True), (6, False)])
def test_checkpoints_of_a_task_ascend(number, refused):
    sink, store = running()
    sink.snapshot(1, 5)
    store.calls.clear()
    if refused:
        with pytest.raises(ValueError, match=f"checkpoint {number} comes after 5"):
            sink.snapshot(2, number)
        assert store.calls == []
    else:
        sink.snapshot(2, number)


def test_the_state_of_a_checkpoint_goes_through_json():
    sink, store = running()
    write(sink, "a")
    sink.snapshot(10, 1)
    write(sink, "b")
    state = sink.snapshot(20, 2)
    kept = SinkState.from_json(json.loads(json.dumps(state.to_json())))
    assert kept == state
    restored(store, kept)
    assert store.visible == ["a", "b"]
    assert store.gone["t3"] == "aborted"


def test_a_snapshot_is_not_changed_by_what_comes_after():
    sink, _ = running()
    state = sink.snapshot(10, 1)
    before = state.to_json()
    sink.notify_complete(11, 1)
    sink.snapshot(20, 2)
    assert state.to_json() == before


def test_a_killed_process_goes_on_between_any_two_calls():
    """Each call on a sink that was restored from JSON: the same calls of the store, and end."""
    steps = [
        lambda s: s.open(0),
        lambda s: s.write("a"),
        lambda s: s.snapshot(1, 1),
        lambda s: s.write("b"),
        lambda s: s.snapshot(2, 2),
        lambda s: s.notify_aborted(1),
        lambda s: s.notify_complete(3, 2),
        lambda s: s.write("c"),
        lambda s: s.finish(),
        lambda s: s.snapshot(4, 3),
        lambda s: s.notify_complete(5, 3),
        lambda s: s.close(),
    ]
    whole, killed = Store(), Store()
    sink = TwoPhaseCommitSink(whole)
    kept = json.dumps(TwoPhaseCommitSink(killed).state())
    for step in steps:
        again = TwoPhaseCommitSink(killed)
        again.restore(json.loads(kept))
        result = step(sink)
        assert step(again) == result
        kept = json.dumps(again.state())
        assert json.loads(kept) == json.loads(json.dumps(sink.state()))
    assert killed.calls == whole.calls
    assert killed.visible == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({}, "lifecycle of the state is missing"),
        ({"lifecycle": "asleep"}, "is asleep, which is none of created, running"),
        ({"lifecycle": "running", "open": "t1"}, r"this one has open: pass what to_json\(\)"),
    ],
)
def test_another_state_is_refused_and_changes_nothing(state, text):
    sink, _ = running()
    before = sink.state()
    with pytest.raises(ValueError, match=text):
        sink.restore(state)
    assert sink.state() == before
