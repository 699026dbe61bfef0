"""Moments of a recovery: detection and the shared restore, by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec.functions import refused_death_seen_us, restored_us, silent_death_seen_us

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
    ],
)
def test_bad_numbers_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


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
