"""The debloater of a gate, period by period."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec import BufferDebloater
from flowcontrol.spec.gate import time_to_consume_ms

KIB = 1024
SIZES = 256, 32 * KIB

TO_CONSUME = [
    # size, in use, bytes/s, ms
    (2000, 10, 20_000, 1000),
    (2000, 0, 20_000, 100),
    (100, 1, 3, 33_333),
    (256, 2, 0, 512_000),
    (32768, 100_000, 1, 3_276_800_000_000),  # more than Java's int holds
]


@pytest.mark.parametrize(("size", "in_use", "bytes_per_s", "ms"), TO_CONSUME)
def test_the_time_to_consume(size: int, in_use: int, bytes_per_s: int, ms: int) -> None:
    assert time_to_consume_ms(size, in_use, bytes_per_s) == ms


def test_from_1_to_32_kib_takes_five_periods() -> None:
    debloater = BufferDebloater(samples=1, starting=KIB)
    announced = [debloater.update(10**9, 200_000, 1) for _ in range(6)]
    assert announced == [2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, None]


def test_small_steps_add_up_until_they_are_announced() -> None:
    """A quarter of 32768 is 8192; 9.5 % at a time that is passed at the third."""
    debloater = BufferDebloater()
    told = [debloater.update(0, 200_000, 1) for _ in range(6)]
    # 29647 and 26824 are too near; 24269 is 8499 away; 6067 less are 18202 or below.
    assert told == [None, None, 24269, None, None, 17974]
    assert debloater.announced == 17974


def test_the_estimate_is_renewed_though_nothing_is_announced() -> None:
    debloater = BufferDebloater()
    assert debloater.time_to_consume_ms == 0
    assert debloater.update(600_000, 200_000, 100) is None  # 3 MB/s: 30000 a buffer
    assert debloater.time_to_consume_ms == 32_504 * 100 // 3_000  # 32768 - 2768 * 2/21
    assert (debloater.throughput, debloater.announced) == (3_000_000, 32_768)


def test_a_gate_that_was_empty_keeps_its_throughput() -> None:
    debloater = BufferDebloater(samples=1)
    assert debloater.update(20_000, 200_000, 10) == 10_000
    assert debloater.update(0, 0, 20) == 5_000
    assert debloater.throughput == 100_000
    assert debloater.update(0, 200_000, 20) == 256
    assert debloater.throughput == 0


def test_the_limits_are_announced_once() -> None:
    debloater = BufferDebloater(samples=1, smallest=50, largest=1100)
    told = [debloater.recalculate(rate, 1) for rate in (500, 1000, 2000, 2000, 60, 40, 40)]
    assert told == [500, 1000, 1100, None, 60, 50, None]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 1000))))
def test_what_is_announced_differs_from_what_was(periods: list[tuple[int, int, int]]) -> None:
    debloater = BufferDebloater()
    told = [32_768, *(debloater.update(*period) for period in periods)]
    heard = [size for size in told if size is not None]
    assert debloater.announced == heard[-1]
    for before, after in pairwise(heard):
        assert 256 <= after <= 32_768
        assert after != before
        assert after in SIZES or abs(after - before) >= before // 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"target_us": 0},
        {"target_us": 999},
        {"target_us": 1_500},
        {"samples": 0},
        {"threshold_percent": -1},
        {"threshold_percent": 101},
        {"smallest": 0},
        {"smallest": 32_769},
        {"starting": 255},
        {"starting": 32_769},
    ],
)
def test_bad_numbers_are_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="needs"):
        BufferDebloater(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"target_us": 1_000},
        {"samples": 1},
        {"threshold_percent": 0},
        {"threshold_percent": 100},
        {"smallest": 1},
        {"smallest": 32_768},
        {"starting": 256},
    ],
)
def test_numbers_at_their_limits(arguments: dict[str, int]) -> None:
    debloater = BufferDebloater(**arguments)
    assert debloater.announced == arguments.get("starting", 32_768)


def test_a_negative_number_changes_nothing() -> None:
    debloater, other = BufferDebloater(), BufferDebloater()
    for numbers in [(-1, 1, 1), (1, -1, 1), (1, 1, -1)]:
        with pytest.raises(ValueError, match="none may be negative"):
            debloater.update(*numbers)
    for rates in [(-1, 1), (1, -1)]:
        with pytest.raises(ValueError, match="none may be negative"):
            debloater.recalculate(*rates)
    assert vars(debloater) == vars(other)
