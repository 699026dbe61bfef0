"""Sizes of gates, partitions and pools: Flink's tables, boundaries, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol import gate_spec, partition_spec
from flowcontrol.protocol.rows import UNLIMITED
from flowcontrol.protocol.sizing import redistribute


@pytest.mark.parametrize(
    ("channels", "exclusive", "floating", "threshold", "expected"),
    [
        (1, 2, 8, None, (1, 8, 2)),
        (4, 2, 8, None, (1, 8, 2)),
        (1000, 2, 8, None, (1, 8, 2)),
        (4, 0, 8, None, (1, 8, 0)),
        (4, 2, 1, None, (1, 1, 2)),
        (499, 2, 8, 1000, (1, 8, 2)),  # 999 wanted: below the threshold
        (500, 2, 8, 1000, (500, 508, 1)),  # 1001 wanted: one exclusive buffer each is left
        (999, 2, 8, 1000, (1, 1007, 1)),
        (1000, 2, 8, 1000, (1000, 2008, 0)),
        (3, 2, 8, 6, (3, 11, 1)),
        (3, 2, 8, 7, (1, 8, 2)),
        (3, 2, 8, 8, (1, 8, 2)),
        (3, 2, 8, 1, (1, 14, 0)),
    ],
)
def test_gates(channels, exclusive, floating, threshold, expected):
    assert gate_spec(channels, exclusive, floating, threshold) == expected


@pytest.mark.parametrize(
    ("subpartitions", "kind", "expected"),
    [
        (1, "pipelined_bounded", (2, 10)),
        (4, "pipelined_bounded", (5, 16)),
        (100, "pipelined_bounded", (101, 208)),
        (4, "pipelined_approximate", (5, 16)),
        (4, "pipelined", (5, None)),
        (4, "blocking_hash", (5, None)),
        (4, "hybrid", (5, None)),
        (4, "hybrid_full", (5, None)),
        (4, "hybrid_selective", (5, None)),
        (1, "blocking_sort", (512, 512)),
        (128, "blocking_sort", (512, 512)),
        (129, "blocking_sort", (512, 516)),
    ],
)
def test_partitions(subpartitions, kind, expected):
    assert partition_spec(subpartitions, kind) == expected


@pytest.mark.parametrize(
    ("exclusive", "floating", "expected"),
    [(0, 8, (10, 10)), (0, 10, (10, 10)), (0, 11, (10, 11)), (1, 0, (10, 10)), (2, 0, (10, 18))],
)
def test_the_maximum_of_a_partition_is_never_below_its_minimum(exclusive, floating, expected):
    assert partition_spec(9, "pipelined_bounded", exclusive, floating) == expected


def test_the_defaults_are_those_of_flink():
    assert gate_spec(3) == gate_spec(3, 2, 8, None) == (1, 8, 2)
    assert partition_spec(3) == partition_spec(3, "pipelined_bounded", 2, 8) == (4, 14)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gate_spec(0),
        lambda: gate_spec(1, -1),
        lambda: gate_spec(1, 2, -1),
        lambda: gate_spec(1, 2, 0),  # not even the one floating buffer that is always needed
        lambda: gate_spec(1, 2, 8, 0),
        lambda: partition_spec(0),
        lambda: partition_spec(1, "pipelined_bounded", -1),
        lambda: partition_spec(1, "pipelined_bounded", 2, -1),
        lambda: partition_spec(1, "piped"),
    ],
)
def test_refusals(call):
    with pytest.raises(ValueError):
        call()


def test_an_unknown_kind_is_told_the_known_ones():
    with pytest.raises(ValueError, match=r"'piped'.*pipelined_bounded"):
        partition_spec(1, "piped")


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
