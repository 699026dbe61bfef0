"""What a sink's readers see under each guarantee: by hand, with failures in each place."""

from __future__ import annotations

import json

import pytest

from flowcontrol.protocol.commits import delivery as restored
from flowcontrol.protocol.commits import transactions
from flowcontrol.spec.two_phase import Delivery

GUARANTEES = ["at-most-once", "at-least-once", "exactly-once"]


def counts(account):
    """Written, committed, visible twice, lost, staged."""
    return account.sample()[:5]


def latencies(account):
    """Rows that became visible, and the median and largest latency."""
    return account.sample()[5:]


@pytest.mark.parametrize(
    ("guarantee", "before", "after"),
    [
        ("at-most-once", (5, 5, 0, 0, 0), (5, 5, 0, 0, 0)),
        ("at-least-once", (5, 5, 0, 0, 0), (5, 5, 0, 0, 0)),
        ("exactly-once", (5, 0, 0, 0, 5), (5, 5, 0, 0, 0)),
    ],
)
def test_rows_are_visible_when_written_or_when_committed(guarantee, before, after):
    account = Delivery(guarantee)
    account.write(10, 5)
    account.barrier(20, 1)
    assert counts(account) == before
    account.complete(30, 1)
    assert counts(account) == after


@pytest.mark.parametrize(
    ("guarantee", "at_restore", "at_the_end"),
    [
        # 4 of checkpoint 1; 3 behind it, and 2 on their way. All 5 come again, or do not.
        ("at-most-once", (7, 7, 0, 2, 0), (8, 8, 0, 2, 0)),
        ("at-least-once", (7, 7, 0, 0, 0), (13, 13, 3, 0, 0)),
        ("exactly-once", (7, 4, 0, 0, 0), (13, 4, 0, 0, 6)),
    ],
)
def test_a_restore_loses_doubles_or_neither(guarantee, at_restore, at_the_end):
    account = Delivery(guarantee)
    account.write(10, 4)
    account.barrier(20, 1)
    account.complete(25, 1)
    account.write(30, 3)
    account.restore(50, 1, in_flight=2)
    assert counts(account) == at_restore
    account.write(60, 5)  # once more
    account.write(70, 1)  # a new one
    assert counts(account) == at_the_end


@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        ("at-most-once", (7, 7, 0, 2, 0)),
        ("at-least-once", (7, 7, 0, 2, 0)),
        ("exactly-once", (7, 4, 0, 5, 0)),  # the three that were staged too
    ],
)
def test_a_source_that_cannot_rewind_loses_under_every_guarantee(guarantee, expected):
    account = Delivery(guarantee)
    account.write(10, 4)
    account.barrier(20, 1)
    account.complete(25, 1)
    account.write(30, 3)
    account.restore(50, 1, in_flight=2, rewinds=False)
    assert counts(account) == expected
    account.write(60, 1)
    account.barrier(70, 2)
    account.complete(80, 2)
    written, committed, twice, lost, _ = counts(account)
    assert (written, twice, lost) == (8, 0, expected[3])
    assert committed == expected[1] + 1


@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        ("at-most-once", (3, 3, 0, 1, 0)),
        ("at-least-once", (7, 7, 3, 0, 0)),
        ("exactly-once", (7, 0, 0, 0, 4)),
    ],
)
def test_a_restart_without_a_checkpoint_begins_at_the_start(guarantee, expected):
    account = Delivery(guarantee)
    account.write(10, 3)
    account.restore(50, None, in_flight=1)
    account.write(60, 4)
    assert counts(account) == expected


@pytest.mark.parametrize("checkpoint", [None, 1])
@pytest.mark.parametrize(
    ("guarantee", "expected"),
    [
        ("exactly-once", (16, 5, 0, 5)),
        ("at-least-once", (16, 16, 8, 2)),
        ("at-most-once", (6, 6, 0, 4)),
    ],
)
def test_what_some_sources_do_not_bring_again_is_lost_once(guarantee, expected, checkpoint):
    """Of ten records, six of them written, five come again, twice: no second loss is counted."""
    account = Delivery(guarantee)
    if checkpoint is not None:
        account.barrier(0, checkpoint)
    account.write(10, 6)
    account.restore(20, checkpoint, in_flight=4, again=5)
    account.write(30, 5)
    account.restore(40, checkpoint, again=5)
    account.write(50, 5)
    account.barrier(60, 2)
    account.complete(70, 2)
    assert (account.written, account.committed, account.visible_twice, account.lost) == expected


def test_a_failure_during_the_replay():
    """At most once: what was on its way the first time is not counted again."""
    account = Delivery("at-most-once")
    account.write(10, 4)
    account.restore(20, None, in_flight=6)  # ten come again, and are dropped
    account.write(30, 5)
    assert counts(account) == (4, 4, 0, 6, 0)
    account.restore(40, None, in_flight=5)  # all of them known
    assert counts(account) == (4, 4, 0, 6, 0)
    account.write(50, 5)
    account.restore(60, None, in_flight=7)  # two beyond
    assert counts(account) == (4, 4, 0, 8, 0)
    account.write(70, 13)
    assert counts(account) == (5, 5, 0, 8, 0)


def test_rows_of_the_age_are_there_once_more_after_each_failure():
    account = Delivery("at-least-once")
    for time in (10, 20, 30):
        account.write(time, 2)
        account.restore(time + 5, None)
    account.write(40, 3)
    assert counts(account) == (9, 9, 6, 0, 0)  # two records four times, one once


# -- exactly once: the commit -------------------------------------------------------------------


def test_latency_lasts_from_the_write_to_the_notification():
    account = Delivery("exactly-once")
    account.write(10, 1)
    account.write(20, 2)
    account.write(30, 1)
    account.barrier(40, 1)
    account.write(45, 9)
    account.complete(100, 1)
    assert latencies(account) == (4, 80, 90)  # 70, 80, 80, 90
    assert latencies(account) == (0, None, None)
    account.barrier(110, 2)
    account.complete(145, 2)
    assert latencies(account) == (9, 100, 100)


@pytest.mark.parametrize("guarantee", GUARANTEES[:2])
def test_without_transactions_rows_are_visible_at_once(guarantee):
    account = Delivery(guarantee)
    account.write(10, 3)
    assert latencies(account) == (3, 0, 0)
    account.barrier(20, 1)
    account.complete(30, 1)
    assert latencies(account) == (0, None, None)


def test_a_row_that_is_written_again_counts_from_its_last_writing():
    account = Delivery("exactly-once")
    account.write(10, 1)
    account.restore(50, None)
    account.write(60, 1)
    account.barrier(70, 1)
    account.complete(80, 1)
    assert latencies(account) == (1, 20, 20)


def test_a_lost_notification_is_caught_up_by_the_next():
    account = Delivery("exactly-once")
    account.write(10, 1)
    account.barrier(20, 1)
    account.write(30, 2)
    account.barrier(40, 2)
    account.complete(50, 2)
    assert counts(account) == (3, 3, 0, 0, 0)


def test_a_restore_commits_what_the_checkpoint_had_pre_committed():
    account = Delivery("exactly-once")
    account.write(10, 1)
    account.barrier(20, 1)  # completes; the notification is lost with the task
    account.write(30, 2)
    account.restore(50, 1)
    assert counts(account) == (3, 1, 0, 0, 0)
    account.restore(60, 1)  # again: it is committed once
    account.write(70, 2)
    account.barrier(80, 2)
    account.complete(90, 2)
    assert account.sample() == (5, 3, 0, 0, 0, 2, 20, 20)


def test_a_restore_aborts_what_came_after_the_checkpoint():
    account = Delivery("exactly-once")
    account.write(10, 1)
    account.barrier(20, 1)
    account.complete(25, 1)
    for number in (2, 3):  # neither completes
        account.write(10 * number + 10, 2)
        account.barrier(10 * number + 15, number)
    account.write(50, 2)
    assert account.staged == 6
    account.restore(60, 1)
    assert counts(account) == (7, 1, 0, 0, 0)
    account.write(70, 6)
    account.barrier(80, 4)
    account.complete(90, 4)
    assert counts(account) == (13, 7, 0, 0, 0)


def test_at_least_once_barriers_double_under_a_transactional_sink():
    """Three of ten came behind the barrier; they are in its transaction, and come again."""
    account = Delivery("exactly-once")
    account.write(10, 10)
    account.barrier(20, 1, early=3)
    account.complete(25, 1)
    account.restore(30, 1)
    account.write(40, 5)
    account.barrier(50, 2)
    account.complete(60, 2)
    assert counts(account) == (15, 15, 3, 0, 0)


# -- the timeout --------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "lost"), [(99, 0), (100, 0), (101, 3)])
@pytest.mark.parametrize("how", ["complete", "restore"])
def test_a_transaction_strictly_older_than_the_timeout_is_lost(now, lost, how):
    account = Delivery("exactly-once", transaction_timeout=100)
    account.write(10, 3)
    account.barrier(20, 1)
    getattr(account, how)(now, 1)
    assert counts(account) == (3, 3 - lost, 0, lost, 0)


@pytest.mark.parametrize(("now", "lost"), [(120, 0), (121, 2)])
def test_the_age_counts_from_the_barrier_before(now, lost):
    account = Delivery("exactly-once", transaction_timeout=100)
    account.barrier(20, 1)  # the second transaction begins
    account.write(30, 2)
    account.barrier(40, 2)
    account.complete(now, 2)
    assert counts(account)[3] == lost


@pytest.mark.parametrize(("now", "lost"), [(150, 0), (151, 2)])
def test_the_age_counts_from_the_restore(now, lost):
    account = Delivery("exactly-once", transaction_timeout=100)
    account.restore(50, None)
    account.write(60, 2)
    account.barrier(70, 1)
    account.complete(now, 1)
    assert counts(account)[3] == lost


def test_only_the_old_transactions_of_a_commit_are_lost():
    account = Delivery("exactly-once", transaction_timeout=100)
    account.write(10, 1)
    account.barrier(50, 1)
    account.write(60, 2)
    account.barrier(70, 2)
    account.complete(140, 2)
    assert counts(account) == (3, 2, 0, 1, 0)


@pytest.mark.parametrize(("early", "lost"), [(0, 6), (2, 4), (4, 2), (6, 0)])
def test_lost_rows_that_come_again_are_not_lost(early, lost):
    """Two transactions expire, of four and two; what came behind the barrier is replayed."""
    account = Delivery("exactly-once", transaction_timeout=10)
    account.write(1, 4)
    account.barrier(2, 1)
    account.write(3, 2)
    account.barrier(4, 2, early)
    account.restore(100, 2)
    assert counts(account) == (6, 0, 0, lost, 0)
    account.write(101, early + 1)
    account.barrier(102, 3)
    account.complete(103, 3)
    assert counts(account) == (7 + early, early + 1, 0, lost, 0)


def test_a_second_row_that_expires_loses_no_record():
    """Two of five come again and their transaction expires with a third: that one is lost."""
    account = Delivery("exactly-once", transaction_timeout=100)
    account.write(1, 5)
    account.barrier(2, 1, early=2)
    account.complete(3, 1)
    account.restore(10, 1)
    account.write(11, 3)
    account.barrier(12, 2)
    account.complete(111, 2)
    assert counts(account) == (8, 5, 0, 1, 0)


def test_an_empty_transaction_that_expires_loses_nothing():
    account = Delivery("exactly-once", transaction_timeout=10)
    account.barrier(100, 1)
    account.complete(200, 1)
    assert counts(account) == (0, 0, 0, 0, 0)


# -- cost ---------------------------------------------------------------------------------------


def test_the_cost_does_not_grow_with_records():
    account = Delivery("exactly-once")
    for _ in range(1000):
        account.write(10, 10**15)
    account.write(11, 1)
    (runs,) = account._store._staged.values()
    assert (runs.times, runs.counts) == ([10, 11], [10**18, 1])


def test_a_resolution_bounds_the_runs_and_the_error():
    fine, coarse = Delivery("exactly-once"), Delivery("exactly-once", resolution=10)
    for account in (fine, coarse):
        for time in range(100):
            account.write(time, 1)
        (runs,) = account._store._staged.values()
        assert len(runs.times) == (100 if account is fine else 10)
        account.barrier(100, 1)
        account.complete(200, 1)
    exact, rough = fine.sample(), coarse.sample()
    assert exact[:6] == rough[:6]
    assert 0 <= rough.visibility_p50 - exact.visibility_p50 < 10
    assert rough.visibility_max == exact.visibility_max


def test_barriers_are_forgotten_when_a_later_one_completes():
    account = Delivery("at-least-once")
    for number in range(1, 100):
        account.barrier(number, number)
        account.complete(number, number)
    assert list(account._barriers) == [99]


def test_a_savepoint_that_completes_leaves_the_checkpoint_before_it():
    account = Delivery("exactly-once")
    account.write(1, 4)
    account.barrier(2, 1)
    account.complete(3, 1)
    account.write(4, 3)
    account.barrier(5, 2)
    account.complete(6, 2, is_savepoint=True)
    account.restore(7, 1)
    account.write(8, 5)  # three of them are visible
    account.barrier(9, 3)
    account.complete(10, 3)
    assert (account.committed, account.visible_twice, account.lost) == (12, 3, 0)


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_restore_forgets_later_barriers(guarantee):
    account = Delivery(guarantee)
    account.barrier(1, 1)
    account.barrier(2, 2)
    account.restore(3, 1)
    with pytest.raises(ValueError, match=r"checkpoint 2 cannot be restored: barriers .* of 1"):
        account.restore(4, 2)
    account.restore(5, None)
    with pytest.raises(ValueError, match=r"checkpoint 1 cannot be restored: barriers .* of none"):
        account.restore(6, 1)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ({}, 50, None),
        ({7: 1}, 50, 7),
        ({7: 1, 3: 1}, 50, 3),
        ({7: 2, 3: 1}, 50, 7),
        ({7: 1, 3: 1}, 51, 7),
        ({1: 99, 500: 1}, 99, 1),
        ({1: 99, 500: 1}, 100, 500),
    ],
)
def test_percentiles_are_nearest_rank(values, percent, expected):
    assert transactions.percentile(values, percent) == expected


# -- refusals and kept state --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("twice",),
            "guarantee is 'twice': needs one of at-most-once, at-least-once, exactly-once",
        ),
        (("exactly-once", -1), "transaction_timeout is -1: needs at least 0"),
        (("exactly-once", None, 0, 0), "resolution is 0: needs at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(arguments, text):
    with pytest.raises(ValueError, match=text):
        Delivery(*arguments)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.write(9, 1), "time runs back from 10 to 9"),
        (lambda a: a.barrier(9, 3), "time runs back from 10 to 9"),
        (lambda a: a.complete(9, 2), "time runs back from 10 to 9"),
        (lambda a: a.restore(9, 2), "time runs back from 10 to 9"),
        (lambda a: a.write(10, -1), "-1 records written at 10"),
        (lambda a: a.barrier(10, 2), "barrier of checkpoint 2 comes after that of 2"),
        (lambda a: a.barrier(10, 3, 5), "early is 5: needs 0 to 4"),
        (lambda a: a.barrier(10, 3, -1), "early is -1: needs 0 to 4"),
        (lambda a: a.restore(10, 1), "checkpoint 1 cannot be restored: barriers are known of 2"),
        (lambda a: a.restore(10, 2, -1), "in_flight is -1"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(guarantee, call, text):
    account = Delivery(guarantee)
    account.write(5, 4)
    account.barrier(8, 2)
    account.complete(10, 2)
    before = json.dumps(account.state())
    with pytest.raises(ValueError, match=text):
        call(account)
    assert json.dumps(account.state()) == before


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_killed_process_goes_on_between_any_two_calls(guarantee):
    steps = [
        lambda a: a.write(10, 4),
        lambda a: a.barrier(20, 1, 1),
        lambda a: a.write(30, 2),
        lambda a: a.complete(40, 1),
        lambda a: a.barrier(50, 2),
        lambda a: a.restore(60, 1, 3),
        lambda a: a.write(70, 8),
        lambda a: a.barrier(80, 3),
        lambda a: a.complete(170, 3),
        lambda a: a.write(180, 1),
        lambda a: a.restore(190, 3, 1, False),
        lambda a: a.sample(),
    ]
    whole = Delivery(guarantee, 100)
    kept = json.dumps(whole.state())
    for step in steps:
        again = Delivery(guarantee, 100)
        again.restore_state(json.loads(kept))
        assert step(again) == step(whole)
        kept = json.dumps(again.state())
        assert kept == json.dumps(whole.state())


@pytest.mark.parametrize("other", ["at-most-once", None])
def test_a_state_of_another_kind_is_refused(other):
    account = Delivery("exactly-once")
    before = account.state()
    state = {"now": 1} if other is None else Delivery(other).state()
    with pytest.raises(ValueError, match="not the state of an account with the guarantee exactly"):
        account.restore_state(state)
    assert account.state() == before


def test_the_store_of_counts_forgets_what_it_commits_or_aborts():
    shown, lost = [], []
    store = restored.RunStore(None, 1, shown.append, lost.append)
    first, second = store.begin(), store.begin()
    store.write(first, (0, 2))
    store.commit(first)
    store.commit(first)  # idempotent
    store.abort(first)
    store.abort(second)
    store.abort(second)
    assert ([runs.records for runs in shown], lost, store.records) == ([2], [], 0)
