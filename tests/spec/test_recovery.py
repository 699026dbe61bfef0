"""A recovery in closed form: the order of its steps, and catching up, by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec.functions import (
    Recovery,
    age_bounds_us,
    backlog_at_restart,
    cancelled_us,
    catch_up_us,
    records_reprocessed,
    recover,
    restart_us,
    silent_death_seen_us,
    task_failure_seen_us,
)

S = 1_000_000
HEARTBEAT = 10 * S, 50 * S


def test_a_task_reports_its_own_failure_at_once() -> None:
    assert task_failure_seen_us(7 * S) == 7 * S
    assert task_failure_seen_us(7 * S, 500) == 7 * S + 500


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


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: recover(5, 4, delay_us=0), "detected at 4 us"),
        (lambda: catch_up_us(-1, 2, 1), "none may be negative"),
        (lambda: catch_up_us(1, 2, -1), "none may be negative"),
    ],
)
def test_bad_numbers_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


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
