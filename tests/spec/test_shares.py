"""What a subtask is given: Flink's tables of gates and partitions, and ranges of key groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network.partitioners import channel_of_group, channel_of_key
from flowcontrol.spec import gate_spec, java_hash, key_group, key_group_range, partition_spec


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


def test_key_groups_of_a_hundred_subtasks_are_uneven():
    sizes = [b - a + 1 for a, b in (key_group_range(i, 100, 128) for i in range(100))]
    assert (sizes.count(2), sizes.count(1)) == (28, 72)


@given(st.integers(1, 60), st.integers(0, 200))
def test_ranges_cover_every_group_once_and_agree_with_the_channel(parallelism, more):
    groups = parallelism + more
    owned = []
    for subtask in range(parallelism):
        first, last = key_group_range(subtask, parallelism, groups)
        owned += range(first, last + 1)
        assert {channel_of_group(g, parallelism, groups) for g in range(first, last + 1)} == {
            subtask
        }
    assert owned == list(range(groups))


@given(st.text(max_size=8), st.integers(1, 40))
def test_a_key_goes_to_the_owner_of_its_group(key, parallelism):
    group = key_group(java_hash(key), 128)
    first, last = key_group_range(channel_of_key(key, parallelism, 128), parallelism, 128)
    assert first <= group <= last


@pytest.mark.parametrize(
    ("subtask", "parallelism", "groups"), [(0, 0, 128), (0, 129, 128), (2, 2, 128), (-1, 2, 128)]
)
def test_a_range_is_refused(subtask, parallelism, groups):
    with pytest.raises(ValueError, match=r"subtask|parallelism"):
        key_group_range(subtask, parallelism, groups)
