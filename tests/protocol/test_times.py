"""What a source's emissions cost it, at the limits of 64 bits too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.times import emitting_us

LIMIT = 2**63


@pytest.mark.parametrize(
    ("free_us", "records", "cost_ns", "expected"),
    [
        (1_000, 6, 4_068, 24),  # of 24,408 ns, rounded down
        (1_000, 245, 4_068, 996),
        (1_000, 246, 4_068, 1_000),  # of 1,000,728 ns
        (1_000, 10**12, 4_068, 1_000),
        (0, 5, 4_068, 0),
        (1_000, 0, 4_068, 0),
        (1_000, 10**12, 0, 0),
        (1_000, 1, 999_999, 999),
        (1_000, 1, 1_000_000, 1_000),
    ],
)
def test_by_hand(free_us: int, records: int, cost_ns: int, expected: int) -> None:
    assert emitting_us(free_us, records, cost_ns) == expected


class Narrow(int):
    """An integer whose products must fit into 64 bits, as the kernel's do."""

    def __mul__(self, other: int) -> Narrow:
        product = int(self) * int(other)
        assert product < LIMIT
        return Narrow(product)


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**18))
def test_it_is_the_cost_of_all_records_or_all_the_time(
    free_us: int, records: int, cost_ns: int
) -> None:
    found = emitting_us(Narrow(free_us), Narrow(records), cost_ns)
    assert found == min(free_us, records * cost_ns // 1000)
