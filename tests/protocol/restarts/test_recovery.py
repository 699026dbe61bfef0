"""The course of a recovery: detection, order of steps, shared restore and catch-up by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.restarts import (
    Recovery,
    age_bounds_us,
    backlog_at_restart,
    cancelled_us,
    catch_up_us,
    records_reprocessed,
    recover,
    refused_death_seen_us,
    restart_us,
    restored_us,
    silent_death_seen_us,
    task_failure_seen_us,
)

S = 1_000_000
HEARTBEAT = 10 * S, 50 * S

SILENT = [
    # died at, first heartbeat, seen at
    (0, 0, 50),
    (1, 0, 50),
    (9, 0, 50),
    (10, 0, 60),  # it answered that one
    (34, 0, 80),
    (34, 4, 84),
    (33, 4, 74),
]


@pytest.mark.parametrize(("failed", "first", "seen"), SILENT)
def test_a_silent_death_is_seen_a_timeout_after_the_last_heartbeat(
    failed: int, first: int, seen: int
) -> None:
    assert silent_death_seen_us(failed * S, *HEARTBEAT, first * S) == seen * S


REFUSED = [
    # died at, threshold, seen at
    (0, 2, 20),
    (1, 2, 20),
    (9, 2, 20),
    (10, 2, 30),
    (34, 1, 40),
    (34, 3, 60),
]


@pytest.mark.parametrize(("failed", "threshold", "seen"), REFUSED)
def test_a_refused_connection_is_seen_after_some_heartbeats(
    failed: int, threshold: int, seen: int
) -> None:
    assert refused_death_seen_us(failed * S, 10 * S, threshold) == seen * S


@given(failed=st.integers(0, 10**9), interval=st.integers(1, 10**7), more=st.integers(0, 10**8))
def test_detection_is_within_flinks_bounds(failed: int, interval: int, more: int) -> None:
    timeout = interval + more
    silent = silent_death_seen_us(failed, interval, timeout) - failed
    assert timeout - interval < silent <= timeout
    assert interval < refused_death_seen_us(failed, interval) - failed <= 2 * interval


def test_a_task_reports_its_own_failure_at_once() -> None:
    assert task_failure_seen_us(7 * S) == 7 * S
    assert task_failure_seen_us(7 * S, 500) == 7 * S + 500


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: silent_death_seen_us(5, 0, 50), "interval is 0 us"),
        (lambda: silent_death_seen_us(5, 10, 9), "needs at least the interval, 10"),
        (lambda: silent_death_seen_us(5, 10, 50, 6), "needs the first heartbeat, 6, before"),
        (lambda: refused_death_seen_us(5, 10, 0), "threshold is 0"),
        (lambda: refused_death_seen_us(5, 10, -1), "threshold is -1"),
        (lambda: restored_us(0, {"a": (0, 1)}, 0), "bandwidth is 0"),
        (lambda: restored_us(0, {"a": (-1, 1)}, 5), "task 'a' restores"),
        (lambda: recover(5, 4, delay_us=0), "detected at 4 us"),
        (lambda: catch_up_us(-1, 2, 1), "none may be negative"),
        (lambda: catch_up_us(1, 2, -1), "none may be negative"),
    ],
)
def test_bad_numbers_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


# ---------------------------------------------------------------- the steps


@pytest.mark.parametrize(
    ("tasks", "latency", "when"),
    [([], 0, 100), ([], 9, 100), ([0], 9, 118), ([3, 8, 5], 0, 108), ([3, 8, 5], 1, 110)],
)
def test_cancelling_takes_as_long_as_the_slowest_task(
    tasks: list[int], latency: int, when: int
) -> None:
    assert cancelled_us(100, tasks, latency) == when


@pytest.mark.parametrize(
    ("delay", "cancelled", "when"), [(0, 100, 100), (50, 100, 150), (50, 170, 170), (50, 150, 150)]
)
def test_a_restart_waits_for_the_delay_and_for_the_last_task(
    delay: int, cancelled: int, when: int
) -> None:
    assert restart_us(100, delay, cancelled) == when


RESTORES = [
    # (in flight, state) of each task, bytes/s, (in flight read, all read), s
    ({}, 1, {}),
    ({"a": (0, 0)}, 1, {"a": (0, 0)}),
    ({"a": (0, 100)}, 50, {"a": (0, 2)}),
    ({"a": (50, 100)}, 50, {"a": (1, 3)}),
    ({"a": (0, 100), "b": (0, 100)}, 50, {"a": (0, 4), "b": (0, 4)}),
    # Together until 100 each, at 4 s; then the other one alone for 200 bytes.
    ({"a": (0, 100), "b": (0, 300)}, 50, {"a": (0, 4), "b": (0, 8)}),
    # b's in-flight data delays a's state: 50 each by 2 s.
    ({"a": (0, 100), "b": (50, 0)}, 50, {"a": (0, 3), "b": (2, 2)}),
    ({"a": (100, 0), "b": (50, 250), "c": (0, 0)}, 50,
     {"a": (4, 4), "b": (2, 8), "c": (0, 0)}),
]  # fmt: skip


@pytest.mark.parametrize(("nbytes", "speed", "ends"), RESTORES)
def test_tasks_share_the_restore_bandwidth(nbytes: Any, speed: int, ends: Any) -> None:
    expected = {task: (9 + first * S, 9 + last * S) for task, (first, last) in ends.items()}
    assert restored_us(9, nbytes, speed) == expected


def test_a_restore_is_rounded_up() -> None:
    assert restored_us(0, {"a": (1, 1)}, 3) == {"a": (333_334, 666_667)}
    assert restored_us(0, {"a": (0, 1)}, Fraction(3, 2)) == {"a": (0, 666_667)}


@given(
    sizes=st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1),
    speed=st.integers(1, 500),
)
def test_the_last_task_has_all_when_all_is_read(sizes: list[tuple[int, int]], speed: int) -> None:
    found = restored_us(0, dict(enumerate(sizes)), speed)
    total = sum(map(sum, sizes))
    assert max(last for _, last in found.values()) == -(-total * S // speed)
    for number, (first, last) in found.items():
        assert 0 <= first <= last
        for other, (_, end) in found.items():
            assert sum(sizes[number]) > sum(sizes[other]) or last <= end
    alone = [-(-sum(own) * S // speed) for own in sizes]
    assert all(found[number][1] >= least for number, least in enumerate(alone))


def test_a_recovery_by_hand() -> None:
    """A dead task manager: seen at 80 s, delay 1 s, slots 0.05 s, deployed 0.2 s, 3 s to restore.

    The survivors take 0.3 s to stop, which the delay hides.
    """
    seen = silent_death_seen_us(34 * S, *HEARTBEAT)
    found = recover(
        34 * S,
        seen,
        delay_us=S,
        cancel_us=[100_000, 300_000],
        slots_us=50_000,
        deployment_us=200_000,
        restores=[{"a": (0, 100), "b": (50, 0)}, {"c": (0, 20)}],
        restore_bytes_per_s=50,
    )
    assert found == Recovery(34 * S, 80 * S, 80_300_000, 81 * S, 81_250_000, 84_250_000)
    assert found.downtime_us == 50_250_000


def test_slow_tasks_put_a_restart_off() -> None:
    found = recover(0, 0, delay_us=S, cancel_us=[5 * S], latency_us=1000)
    assert (found.cancelled_us, found.restarted_us) == (5_002_000, 5_002_000)
    assert found.running_us == found.deployed_us == 5_002_000


# ---------------------------------------------------------------- catching up


def test_the_age_of_a_checkpoint() -> None:
    assert age_bounds_us(2 * S, 10 * S) == (2 * S, 7 * S, 12 * S)


@pytest.mark.parametrize(
    ("age", "arrival", "capacity", "records"),
    [(4 * S, 1000, 1500, 4000), (4 * S, 1000, 500, 2000), (0, 1000, 500, 0), (500_000, 3, 9, 1.5)],
)
def test_what_is_processed_again(age: int, arrival: int, capacity: int, records: float) -> None:
    assert records_reprocessed(age, arrival, capacity) == records


CATCH_UP = [
    # backlog, capacity, arrival, lag, us
    (5000, 1500, 1000, 0, 10 * S),
    (5000, 1500, 1000, 1000, 8 * S),
    (5000, 1500, 0, 0, 3_333_334),
    (0, 1000, 1000, 0, 0),
    (0, 500, 1000, 0, 0),
    (5, 1000, 1000, 0, None),
    (5, 500, 1000, 0, None),
    (5, 500, 1000, 5, 0),
    (Fraction(1, 2), 3, Fraction(5, 2), 0, S),
]


@pytest.mark.parametrize(("backlog", "capacity", "arrival", "lag", "us"), CATCH_UP)
def test_catching_up(backlog: Any, capacity: Any, arrival: Any, lag: Any, us: int | None) -> None:
    assert catch_up_us(backlog, capacity, arrival, lag) == us


def test_a_failure_to_the_end_by_hand() -> None:
    """1000 records/s come, 1500 can be done; 200 waited; the checkpoint is 4 s old, down 6 s."""
    again = records_reprocessed(4 * S, 1000, 1500)
    backlog = backlog_at_restart(200, again, 1000, 6 * S)
    assert (again, backlog) == (4000, 10_200)
    assert catch_up_us(backlog, 1500, 1000) == 20_400_000


@given(
    lag=st.integers(0, 500),
    age=st.integers(0, 20),
    down=st.integers(0, 20),
    arrival=st.integers(0, 50),
    spare=st.integers(1, 50),
)
def test_catching_up_is_the_fluid_limit(
    lag: int, age: int, down: int, arrival: int, spare: int
) -> None:
    """A queue second by second: empty in the second in which the formula's time lies."""
    capacity = arrival + spare
    again = records_reprocessed(age * S, arrival, capacity)
    backlog = backlog_at_restart(lag, again, arrival, down * S)
    left, seconds = backlog, 0
    while left > 0:
        left += arrival - capacity
        seconds += 1
    found = catch_up_us(backlog, capacity, arrival)
    assert found is not None
    assert -(-found // S) == seconds
