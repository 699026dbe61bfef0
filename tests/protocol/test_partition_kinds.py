from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.layout.work import byte_cost
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.protocol.network.partition_kinds import partition_sizes
from flowcontrol.state.rows import UNLIMITED

TYPES = [
    # type, kind, overdraft, quota, waits for its producers
    ("pipelined_bounded", k.BOUNDED, 1, 1, 0),
    ("pipelined_approximate", k.BOUNDED, 1, 1, 0),
    ("pipelined", k.PIPELINED, 1, 1, 0),
    ("blocking", k.HASH, 0, 1, 1),
    ("sort_merge", k.SORTED, 0, 0, 1),
    ("hybrid_full", k.FULL, 0, 0, 0),
    ("hybrid_selective", k.SELECTIVE, 0, 0, 0),
]
MIB = 1024 * 1024


def test_what_each_type_means() -> None:
    found = []
    for name, *_ in TYPES:
        kind = k.kind_of(name, 4, 1)
        row = (k.has_overdraft(kind), k.has_quota(kind))
        found.append((name, kind, *row, k.waits_for_producers(kind)))
    assert found == TYPES


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'hybrid'; known: .*hybrid_full"):
        k.kind_of("hybrid", 1, 1)


@pytest.mark.parametrize(
    ("subpartitions", "least", "kind"),
    [(1, 1, k.SORTED), (3, 4, k.HASH), (4, 4, k.SORTED), (5, 4, k.SORTED)],
)
def test_few_subpartitions_are_not_sorted(subpartitions: int, least: int, kind: int) -> None:
    assert k.kind_of("sort_merge", subpartitions, least) == kind
    assert k.kind_of("blocking", subpartitions, least) == k.HASH


def test_sizes_of_the_reference() -> None:
    """Section 6.2 of the reference: 4 subpartitions, and 200 of a sort-merge partition."""
    found = {name: partition_sizes(4, k.kind_of(name, 4, 1), 2, 8, 512) for name, *_ in TYPES}
    assert found == {
        "pipelined_bounded": (5, 16),
        "pipelined_approximate": (5, 16),
        "pipelined": (5, UNLIMITED),
        "blocking": (5, UNLIMITED),
        "sort_merge": (512, 512),
        "hybrid_full": (5, UNLIMITED),
        "hybrid_selective": (5, UNLIMITED),
    }
    assert partition_sizes(200, k.SORTED, 2, 8, 512) == (512, 800)


@pytest.mark.parametrize(
    ("in_use", "size", "short"),
    [(0, 10, 0), (6, 10, 0), (7, 10, 1), (8, 10, 1), (10, 10, 1), (69, 99, 0), (70, 99, 1)],
)
def test_memory_is_short_from_seven_tenths_on(in_use: int, size: int, short: int) -> None:
    assert k.memory_is_short(in_use, size) == short


@pytest.mark.parametrize(("size", "count"), [(0, 0), (2, 0), (3, 1), (9, 3), (10, 4), (2048, 819)])
def test_four_tenths_are_given_back(size: int, count: int) -> None:
    assert k.buffers_to_evict(size) == count


@pytest.mark.parametrize(
    ("kept", "size", "due"), [(0, 0, 0), (0, 10, 0), (4, 10, 0), (5, 10, 1), (6, 11, 1), (5, 11, 0)]
)
def test_a_full_strategy_spills_from_half_the_pool_on(kept: int, size: int, due: int) -> None:
    assert k.full_spill_is_due(kept, size) == due


@pytest.mark.parametrize(
    ("spill", "is_gone", "is_held", "freed"),
    [
        (k.KEPT, 0, 1, 0),
        (k.KEPT, 1, 1, 1),
        (k.WRITING, 0, 1, 0),
        (k.WRITING, 1, 1, 0),
        (k.ON_DISK, 0, 1, 0),
        (k.ON_DISK, 1, 1, 1),
        (k.ON_DISK, 1, 0, 0),
    ],
)
def test_when_a_segment_returns(spill: int, is_gone: int, is_held: int, freed: int) -> None:
    assert k.frees_segment(spill, is_gone, is_held) == freed


@pytest.mark.parametrize(
    ("is_gone", "is_loaded", "readable"), [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 1)]
)
def test_what_can_be_sent(is_gone: int, is_loaded: int, readable: int) -> None:
    assert k.is_readable(is_gone, is_loaded) == readable


@pytest.mark.parametrize(
    ("index", "consumed", "most", "may"),
    [(0, 0, 0, 0), (0, 0, 1, 1), (4, 0, 5, 1), (5, 0, 5, 0), (5, 1, 5, 1), (6, 1, 5, 0)],
)
def test_how_far_a_reader_is_ahead(index: int, consumed: int, most: int, may: int) -> None:
    assert k.may_load(index, consumed, most) == may


@pytest.mark.parametrize(
    ("kind", "backlog"), [(k.HASH, 9), (k.SORTED, 2), (k.FULL, 2), (k.SELECTIVE, 2)]
)
def test_which_backlog_is_told(kind: int, backlog: int) -> None:
    assert k.backlog_of(kind, 9, 2) == backlog


@pytest.mark.parametrize(
    ("kind", "subpartitions", "partitions", "pool", "ahead"),
    [
        (k.HASH, 8, 0, 64 * MIB, 2),
        (k.FULL, 8, 0, 64 * MIB, 5),
        (k.SELECTIVE, 8, 0, 0, 5),
        (k.SORTED, 1, 1, 64 * MIB, 256),  # of 2,048 at most two requests of 128
        (k.SORTED, 2, 1, 64 * MIB, 128),
        (k.SORTED, 1000, 1, 64 * MIB, 1),
        (k.SORTED, 2, 16, 64 * MIB, 64),  # 2,048 shared by 16 partitions
        (k.SORTED, 2, 1, 0, 1),
    ],
)
def test_read_buffers(
    kind: int, subpartitions: int, partitions: int, pool: int, ahead: int
) -> None:
    assert k.read_ahead(kind, subpartitions, partitions, pool, 32 * 1024) == ahead


@pytest.mark.parametrize(
    ("nbytes", "rate", "ns"),
    [
        (0, 1, 0),
        (1, 10**9, 1),
        (1, 3 * 10**9, 1),
        (4096, 204_800, 2 * 10**7),
        (43, 0.01, 43 * 10**11),
    ],
)
def test_time_of_the_disk(nbytes: int, rate: float, ns: int) -> None:
    assert k.disk_ns(nbytes, *byte_cost(rate)) == ns


@given(nbytes=st.integers(0, 2**31), rate=st.floats(1e-9, 1e15))
def test_the_disk_is_never_faster_than_its_rate(nbytes: int, rate: float) -> None:
    cost_ns, per_bytes = byte_cost(rate)
    ns = k.disk_ns(nbytes, cost_ns, per_bytes)
    assert ns == min(-(-nbytes * cost_ns // per_bytes), 1 << 61)
    assert ns == pytest.approx(nbytes * 1e9 / rate, rel=1e-9, abs=1) or ns == 1 << 61


@given(in_use=st.integers(0, 10**6), size=st.integers(1, 10**6))
def test_what_is_given_back_is_no_more_than_there_is(in_use: int, size: int) -> None:
    if k.memory_is_short(in_use, size) == 1:
        assert k.buffers_to_evict(size) <= in_use
