"""Sizes of pools: redistribution by hand, its boundaries, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network.partition_kinds import redistribute
from flowcontrol.state.rows import UNLIMITED


@pytest.mark.parametrize(
    ("total", "unpooled", "required", "maximum", "before", "after"),
    [
        (10, 0, [1], [10], [1], [10]),
        (10, 2, [1], [10], [1], [8]),
        (10, 2, [1, 1], [10, 10], [8, 1], [4, 4]),
        (10, 4, [1, 1], [10, 10], [4, 4], [3, 3]),
        (3, 0, [1, 1], [10, 10], [3, 1], [1, 2]),  # the remainder goes to the later one
        (3, 0, [1, 1, 1], [10, 10, 10], [2, 1, 1], [1, 1, 1]),
        (1024, 0, [24, 1], [24, UNLIMITED], [24, 1], [24, 1000]),
        (1024, 0, [1, 1, 1], [10, 10, UNLIMITED], [10, 10, 1], [9, 10, 1005]),
        (10, 0, [2, 3], [2, 3], [2, 3], [2, 3]),  # nobody can grow: nothing changes
        (5, 0, [2, 3], [2, 9], [2, 7], [2, 3]),  # nothing left: back to the minimum
        (6, 0, [2, 3], [2, 9], [2, 7], [2, 4]),
        (7, 0, [1, 1, 1], [2, 3, 9], [1, 1, 1], [1, 2, 4]),
    ],
)
def test_redistribution_by_hand(total, unpooled, required, maximum, before, after):
    assert redistribute(total, unpooled, required, maximum, before) == sum(after) - sum(required)
    assert before == after


POOLS = st.lists(
    st.tuples(st.integers(1, 9), st.one_of(st.just(UNLIMITED), st.integers(0, 20))),
    min_size=1,
    max_size=6,
)


@given(POOLS, st.integers(0, 40), st.integers(0, 10))
def test_redistribution_loses_no_remainder_and_respects_every_limit(pools, excess, unpooled):
    required = [least for least, _ in pools]
    maximum = [most if most == UNLIMITED else least + most for least, most in pools]
    total = sum(required) + unpooled + excess
    size = list(required)
    shared = redistribute(total, unpooled, required, maximum, size)
    room = [
        excess if most == UNLIMITED else most - least
        for least, most in zip(required, maximum, strict=True)
    ]
    assert shared == sum(size) - sum(required) == min(excess, sum(min(excess, x) for x in room))
    for least, most, now in zip(required, maximum, size, strict=True):
        assert least <= now
        assert most == UNLIMITED or now <= most


@given(st.integers(1, 8), st.integers(0, 60))
def test_equal_pools_differ_by_at_most_one(pools, excess):
    size = [1] * pools
    redistribute(pools + excess, 0, [1] * pools, [UNLIMITED] * pools, size)
    assert max(size) - min(size) <= 1
