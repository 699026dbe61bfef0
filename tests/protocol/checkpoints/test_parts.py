"""The coordinator's parts: reasons, failures, ticks, statistics; what it refuses and forgets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.checkpoints.checkpoint import FailureCounter, Ticks
from flowcontrol.protocol.checkpoints.requests import (
    COUNTED,
    CheckpointRequest,
    FailureReason,
    RequestQueue,
)
from flowcontrol.spec.coordinator import CheckpointCoordinator

TASKS = ("s", "t")


def make(**arguments):
    return CheckpointCoordinator(TASKS, ["s"], **arguments)


def test_forced_requests_run_before_others_of_their_kind():
    queue = RequestQueue(most=9)
    for number, forced in enumerate([False, True, False, True]):
        queue.add(CheckpointRequest(number, 0, "checkpoint", periodic=number > 1, forced=forced))
    assert [request.number for request in queue] == [1, 3, 0, 2]
    assert queue.poll(5, is_at_limit=True, pause_ends=9) is not None
    early = queue.poll(5, is_at_limit=False, pause_ends=9)
    assert early is not None
    assert (early.number, early.state) == (3, "queued")  # the pause is not for forced ones


def test_reasons_that_count():
    assert sorted(COUNTED) == [
        "CHECKPOINT_ASYNC_EXCEPTION",
        "CHECKPOINT_DECLINED",
        "CHECKPOINT_EXPIRED",
        "FINALIZE_CHECKPOINT_FAILURE",
        "IO_EXCEPTION",
    ]


@pytest.mark.parametrize("reason", FailureReason)
def test_a_decline_fails_the_job_if_its_reason_counts(reason):
    coordinator = make()
    request = coordinator.request(0)
    coordinator.decline(1, 1, "t", str(reason))
    assert (("fail_job",) in coordinator.take_actions()) == (reason in COUNTED)
    assert (request.state, request.reason, coordinator.statistics(1).reason) == (
        "failed",
        reason,
        reason,
    )


def test_an_id_counts_once():
    failures = FailureCounter(tolerable=1)
    assert not failures.fail(3, FailureReason.IO_EXCEPTION)
    assert not failures.fail(3, FailureReason.CHECKPOINT_EXPIRED)
    assert failures.count == 1
    assert failures.fail(4, FailureReason.CHECKPOINT_EXPIRED)
    assert failures.count == 0


def test_a_success_below_the_last_one_forgets_nothing():
    failures = FailureCounter(tolerable=1)
    failures.succeed(5)
    failures.fail(6, FailureReason.IO_EXCEPTION)
    failures.succeed(4)
    assert failures.count == 1
    assert not failures.fail(5, FailureReason.IO_EXCEPTION)
    assert failures.fail(7, FailureReason.IO_EXCEPTION)


def test_first_ticks_are_drawn_from_pause_to_period_both_ends_included():
    found = {make(interval=7, min_pause=3, seed=seed).next_time for seed in range(300)}
    assert found == set(range(3, 8))


def test_a_pause_longer_than_the_interval_leaves_no_choice():
    assert {make(interval=7, min_pause=9, seed=seed).next_time for seed in range(50)} == {9}


def test_a_seed_gives_the_same_first_tick_and_each_start_another():
    def starts(seed):
        coordinator = make(interval=10**6, seed=seed)
        found = [coordinator.next_time]
        for _ in range(3):
            coordinator.fail_task(0, "s")
            coordinator.recover(0)
            found.append(coordinator.next_time)
        return found

    assert starts(4) == starts(4) != starts(5)
    assert len(set(starts(4))) == 4


def test_a_recovery_may_name_its_first_delay():
    coordinator = make(interval=100, first_delay=100)
    coordinator.fail_task(30, "s")
    coordinator.recover(50, first_delay=7)
    assert coordinator.next_time == 57


@given(st.integers(1, 50), st.integers(0, 50), st.integers(0, 500), st.integers(0, 500))
def test_a_tick_moves_beyond_now_by_whole_periods(interval, pause, first, now):
    ticks = Ticks(interval, pause)
    ticks.start(0, first)
    ticks.advance(now)
    period = max(interval, pause)
    assert ticks.next is not None
    assert (ticks.next - first) % period == 0
    assert ticks.next == first if now < first else now < ticks.next <= now + period


FIGURES = ("start_delay", "alignment", "sync", "async_")
FIGURES += ("checkpointed_size", "full_size", "processed", "persisted")


def test_durations_are_maxima_and_sizes_sums():
    coordinator = make()
    coordinator.request(100)
    assert coordinator.statistics(1).end_to_end == -1
    coordinator.acknowledge(
        107, 1, "s", **dict(zip(FIGURES, [1, 0, 9, 4, 10, 20, 0, 0], strict=True))
    )
    coordinator.acknowledge(109, 1, "s", sync=1000, persisted=5)  # a duplicate: nothing of it
    assert not coordinator.statistics(1).unaligned
    coordinator.acknowledge(
        130, 1, "t", **dict(zip(FIGURES, [5, 8, 2, 3, 1, 2, 300, 7], strict=True))
    )
    found = coordinator.statistics(1)
    assert [getattr(found, name) for name in FIGURES] == [5, 8, 9, 4, 11, 22, 300, 7]
    assert (found.triggered, found.ended, found.end_to_end) == (100, 130, 30)
    assert (found.kind, found.unaligned) == ("checkpoint", True)
    tasks = coordinator.task_statistics(1)
    assert list(tasks) == ["s", "t"]
    assert tasks["s"] == (107, 1, 0, 9, 4, 10, 20, 0, 0)
    assert tasks["t"].acknowledged == 130


def test_figures_that_are_not_known_are_left_out():
    coordinator = make()
    coordinator.request(0)
    coordinator.acknowledge(1, 1, "s", start_delay=-1, full_size=-1, persisted=-1)
    found = coordinator.statistics(1)
    assert (found.start_delay, found.full_size, found.persisted) == (0, 0, 0)
    coordinator.acknowledge(1, 1, "t", start_delay=3, full_size=4)
    found = coordinator.statistics(1)
    assert (found.start_delay, found.full_size) == (3, 4)


def test_late_figures_count_and_their_task_does_not():
    coordinator = make()
    coordinator.request(0)
    coordinator.decline(1, 1, "t")
    coordinator.acknowledge(50, 1, "s", full_size=9, sync=2)
    found = coordinator.statistics(1)
    assert (found.full_size, found.sync, found.end_to_end, found.acknowledged) == (9, 2, 1, 0)


def test_forgotten_checkpoints_leave_the_state():
    coordinator = make(tolerable_failures=9)
    coordinator.request(0, "savepoint")
    coordinator.request(0, "savepoint")
    coordinator.decline(1, 2, "t")
    coordinator.forget(before=9)
    assert coordinator.ids == coordinator.pending == (1,)  # it is pending
    assert coordinator.acknowledge(2, 2, "s") == "discarded"
    assert list(coordinator.ids) == [1]
    with pytest.raises(ValueError, match=r"no checkpoint 2 is remembered: needs one of \[1\]"):
        coordinator.statistics(2)
    with pytest.raises(ValueError, match="no checkpoint 2"):
        coordinator.task_statistics(2)


def test_actions_that_were_not_taken_survive():
    tasks = [("map", 0), ("map", 1)]  # JSON has no tuples
    coordinator = CheckpointCoordinator(tasks, tasks)
    coordinator.request(0)
    coordinator.decline(1, 1, tasks[1])
    kept = json.loads(json.dumps(coordinator.state()))
    other = CheckpointCoordinator(tasks, tasks)
    other.restore(kept)
    assert other.take_actions() == coordinator.take_actions() == [
        ("trigger", ("map", 0), 1),
        ("trigger", ("map", 1), 1),
        ("abort", ("map", 0), 1, -1),
        ("abort", ("map", 1), 1, -1),
        ("fail_job",),
    ]  # fmt: skip
    assert other.state() == coordinator.state()


def test_failures_survive():
    coordinator = make(tolerable_failures=1)
    coordinator.request(0)
    coordinator.decline(1, 1, "t")
    assert coordinator.state()["failures"] == {
        "count": 1,
        "last_success": -1,
        "counted": {"*set": [1]},
    }
    other = make(tolerable_failures=1)
    other.restore(coordinator.state())
    other.request(2)
    other.take_actions()
    other.decline(3, 2, "t")
    assert other.take_actions()[-1] == ("fail_job",)


def test_a_state_of_another_job_is_refused():
    coordinator = make(interval=10, first_delay=10)
    before = coordinator.state()
    state = CheckpointCoordinator("abc", "a").state()
    with pytest.raises(ValueError, match="the state has 3 tasks, the job 2"):
        coordinator.restore(state)
    assert coordinator.state() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"interval": 0}, "interval is 0: needs at least 1"),
        ({"min_pause": -1}, "min_pause is -1: needs at least 0"),
        ({"timeout": 0}, "timeout is 0: needs at least 1"),
        ({"max_concurrent": 0}, "max_concurrent is 0: needs at least 1"),
        ({"tolerable_failures": -1}, "tolerable_failures is -1: needs at least 0"),
        ({"retained": 0}, "retained is 0: needs at least 1"),
        ({"max_queued": 0}, "max_queued is 0: needs at least 1"),
        ({"first_delay": -1}, "first_delay is -1: needs at least 0"),
        ({"unaligned": True, "max_concurrent": 2}, "max_concurrent is 2 with unaligned .* needs 1"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


def test_tasks_that_are_refused():
    with pytest.raises(ValueError, match=r"tasks are \[\]: needs at least one"):
        CheckpointCoordinator([], [])
    with pytest.raises(ValueError, match=r"tasks are \['s', 's'\]: .*each once"):
        CheckpointCoordinator("ss", "s")
    with pytest.raises(ValueError, match=r"no task 'x': needs one of \['s', 't'\]"):
        CheckpointCoordinator("st", "x")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.request(0, "snapshot"), "kind is 'snapshot': needs one of checkpoint, save"),
        (lambda c: c.decline(0, 1, "s", "TIRED"), "reason is 'TIRED': needs one of Flink's, "),
        (lambda c: c.fail_task(0, "x"), "no task 'x'"),
        (lambda c: c.finish_task(0, "x"), "no task 'x'"),
        (lambda c: c.recover(0, ["x"]), "no task 'x'"),
        (lambda c: c.recover(0, first_delay=-1), "first_delay is -1"),
        (lambda c: c.statistics(1), "no checkpoint 1 is remembered"),
    ],
)
def test_calls_that_are_refused_change_nothing(call, message):
    coordinator = make(interval=100, first_delay=100)
    before = coordinator.state()
    with pytest.raises(ValueError, match=message):
        call(coordinator)
    assert coordinator.state() == before
