"""Debloating: tables worked out by hand, limit by limit; the same numbers compiled."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network import debloating as d
from flowcontrol.protocol.service import capped

KIB = 1024
SECOND = 1_000_000
SIZES = 256, 32 * KIB

THROUGHPUT = [
    # bytes, active us, previous, bytes/s
    (0, 0, 0, 0),
    (500, 0, 77, 77),  # no active time: the last one stands, whatever came
    (0, 0, 77, 77),
    (0, SECOND, 77, 0),  # active without data is slow, not unknown
    (1000, SECOND, 77, 1000),
    (10 * 32 * KIB, 200_000, 0, 1_638_400),
    (1, 3_000, 0, 333),
    (2, 3_000, 0, 666),  # cut off, not rounded
    (999, SECOND * 1000, 5, 0),
    (1000, 1, 0, 1_000_000_000),
    (3, 1_500, 0, 2_000),  # finer than Flink's milliseconds
    (323, 5_000, 0, 64_599),  # Java divides first: 64599.99999999999, cut off
]
IN_USE = [
    # queued, required, initial credit, buffers
    (0, 0, 2, 0),
    (3, 2, 2, 3),
    (3, 1, 2, 3),  # required falls below the initial credit when a message arrives
    (0, 9, 2, 7),
    (4, 9, 2, 11),
    (0, 5, 0, 5),
]
NEW_SIZE = [
    # last, bytes/s, in use, target us, samples, smallest, largest, new size
    (32768.0, 20_000, 10, SECOND, 1, *SIZES, 2000.0),
    (32768.0, 20_000, 0, SECOND, 1, *SIZES, 20000.0),  # none in use counts as one
    (32768.0, 20_000, 1, SECOND, 1, *SIZES, 20000.0),
    (32768.0, 20_000, 10, 2 * SECOND, 1, *SIZES, 4000.0),
    (32768.0, 3333, 16, 1_200_000, 1, 50, 32768, 249.9375),  # 3999.6 bytes are 3999
    (1000.0, 999, 1, 1_000, 1, 1, 32768, 1.0),  # 0.999 bytes are 0: the smallest
    (200.0, 0, 1, SECOND, 3, 10, 200, 100.0),  # 3 samples: half of the way
    (100.0, 10**9, 1, SECOND, 3, 10, 200, 150.0),  # half of the way to twice the last
    (1024.0, 10**9, 1, SECOND, 1, *SIZES, 2048.0),
    (1024.0, 2048, 1, SECOND, 1, *SIZES, 2048.0),
    (1024.0, 2047, 1, SECOND, 1, *SIZES, 2047.0),
    (100.5, 10**9, 1, SECOND, 1, 10, 1000, 201.0),  # twice the fraction too
    (20000.0, 10**9, 1, SECOND, 1, *SIZES, 32768.0),
    (16384.0, 10**9, 1, SECOND, 1, *SIZES, 32768.0),
    (16383.5, 10**9, 1, SECOND, 1, *SIZES, 32767.0),
    (512.0, 0, 1, SECOND, 1, *SIZES, 256.0),
    (512.0, 0, 1, SECOND, 3, *SIZES, 256.0),
    (514.0, 0, 1, SECOND, 3, *SIZES, 257.0),
    (32768.0, 0, 1, SECOND, 20, *SIZES, 32768.0 - 2.0 / 21 * 32768.0),
]
ROUNDED = [
    (0.0, 0), (0.49999999999999994, 0), (0.5, 1), (1.4, 1), (1.5, 2), (2.5, 3), (249.9375, 250),
    (32767.499999, 32767), (32767.5, 32768), (32768.0, 32768), (1073741823.5, 1073741824),
]  # fmt: skip
ANNOUNCED = [
    # new, announced, threshold %, smallest, largest, is announced
    (1000, 1000, 25, *SIZES, 0),
    (1249, 1000, 25, *SIZES, 0),
    (1250, 1000, 25, *SIZES, 1),
    (751, 1000, 25, *SIZES, 0),
    (750, 1000, 25, *SIZES, 1),
    (1250, 1001, 25, *SIZES, 0),  # 250.25 bytes are 250
    (1251, 1001, 25, *SIZES, 1),
    (751, 1001, 25, *SIZES, 1),
    (752, 1001, 25, *SIZES, 0),
    (1027, 1100, 7, 1, 32768, 0),  # 7 % of 1100 are 77.00000000000001 as a double
    (1023, 1100, 7, 1, 32768, 1),
    (127, 100, 29, 1, 32768, 0),  # 29 % of 100 are 28.999999999999996: 28
    (128, 100, 29, 1, 32768, 1),
    (1001, 1000, 0, *SIZES, 1),
    (1000, 1000, 0, *SIZES, 0),
    (1999, 1000, 100, *SIZES, 0),
    (2000, 1000, 100, *SIZES, 1),
    (256, 260, 25, *SIZES, 1),  # the limits are told however near
    (257, 260, 25, *SIZES, 0),
    (32768, 32767, 25, *SIZES, 1),
    (32767, 32768, 25, *SIZES, 0),
    (255, 256, 25, *SIZES, 1),
    (32769, 32768, 25, *SIZES, 1),
    (256, 256, 25, *SIZES, 0),  # once
    (32768, 32768, 25, *SIZES, 0),
    (257, 256, 0, *SIZES, 1),
]
USABLE = [
    # desired, first bytes, segment, bytes
    (0, 100, 32768, 32768),  # nothing announced yet
    (1000, 100, 32768, 1000),
    (1000, 1000, 32768, 1000),
    (1000, 1001, 32768, 1001),
    (256, 10**6, 32768, 32768),
    (40000, 10, 32768, 32768),
]
TABLES: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (d.throughput, THROUGHPUT),
    (d.buffers_in_use, IN_USE),
    (d.debloat, NEW_SIZE),
    (d.rounded, ROUNDED),
    (d.is_announced, ANNOUNCED),
    (d.usable_bytes, USABLE),
]
CASES = [
    pytest.param(function, row[:-1], row[-1], id=f"{function.__name__}{row[:-1]}")
    for function, table in TABLES
    for row in table
]


@pytest.mark.parametrize(("function", "arguments", "expected"), CASES)
def test_by_hand(function: Any, arguments: tuple[Any, ...], expected: float) -> None:
    assert function(*arguments) == expected


@pytest.mark.parametrize(
    ("function", "table"), TABLES, ids=[function.__name__ for function, _ in TABLES]
)
def test_compiled_they_give_the_same(function: Any, table: list[tuple[Any, ...]]) -> None:
    numba = pytest.importorskip("numba")
    numba.extending.register_jitable(capped)
    compiled = numba.njit(function)
    for *arguments, expected in table:
        assert compiled(*arguments) == expected


def test_twenty_samples_shrink_to_19_of_21_a_period() -> None:
    """The fraction is kept: with it cut off every time the third would be 24268."""
    size, cut = 32768.0, []
    for _ in range(5):
        size = d.debloat(size, 0, 1, SECOND, 20, *SIZES)
        cut.append(int(size))
    assert cut == [29647, 26823, 24269, 21957, 19866]
    assert cut == [int(32768 * Fraction(19, 21) ** n) for n in range(1, 6)]


@given(st.integers(1, 100), st.integers(1, 32 * KIB), st.integers(0, 10**12))
def test_a_size_at_most_doubles(samples: int, start: int, bytes_per_s: int) -> None:
    size = d.debloat(float(start), bytes_per_s, 1, SECOND, samples, 1, 32 * KIB)
    assert 1 <= size <= min(2.0 * start, 32 * KIB)


@given(
    st.floats(256, 32 * KIB), st.integers(0, 10**12), st.integers(0, 10**6),
    st.integers(1, 10**5), st.integers(1, 10**4),
)  # fmt: skip
def test_a_size_is_within_limits_and_on_the_way(
    last: float, bytes_per_s: int, in_use: int, target_ms: int, samples: int
) -> None:
    size = d.debloat(last, bytes_per_s, in_use, target_ms * 1000, samples, *SIZES)
    aim = min(bytes_per_s * target_ms // 1000 / max(1, in_use), 2 * last)
    assert SIZES[0] <= size <= SIZES[1]
    assert min(last, max(aim, 256)) * (1 - 1e-12) <= size <= max(last, aim) * (1 + 1e-12)
