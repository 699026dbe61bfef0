"""Local and global pools: scenarios of Flink's unit tests, limits, refusals."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import InsufficientBuffersError
from flowcontrol.spec.pools import NetworkBufferPool
from flowcontrol.state.rows import UNLIMITED

TOTAL = 1024


@pytest.fixture
def network():
    """A global pool; afterwards every segment must be back."""
    pool = NetworkBufferPool(TOTAL, 128)
    yield pool
    assert pool.free == TOTAL
    assert pool.unpromised == TOTAL


def take(pool, count, subpartition=None):
    buffers = [pool.request(subpartition) for _ in range(count)]
    assert None not in buffers
    return buffers


def above_quota(pool):
    return max(0, pool.in_use + pool.free - pool.size)


def give_back(*buffers):
    for buffer in buffers:
        buffer.recycle()


def state(network, *pools):
    return asdict(network.state), [
        (asdict(p.state), list(p.counts), list(p.waiting)) for p in pools
    ]


# -- one pool (LocalBufferPoolTest) ------------------------------------------------------------


def test_a_fresh_pool_has_fetched_one_segment(network):
    pool = network.create_local_pool(1)
    assert (pool.size, pool.free, pool.in_use, network.free) == (TOTAL, 1, 0, TOTAL - 1)
    assert pool.is_available
    pool.destroy()


def test_after_k_requests_the_global_pool_has_lost_one_more(network):
    pool = network.create_local_pool(1)
    buffers = []
    for k in range(1, TOTAL + 1):
        buffers += take(pool, 1)
        assert TOTAL - network.free == min(k + 1, TOTAL)
    assert pool.request() is None
    assert not pool.is_available
    give_back(*buffers)
    assert pool.free == TOTAL  # recycled ones stay in the pool
    pool.destroy()


def test_a_bounded_pool(network):
    pool = network.create_local_pool(1, 2)
    for size, expected in ((1, 1), (2, 2), (3, 2), (1, 1)):  # 3 is cut to the maximum
        pool.resize(size)
        assert pool.size == expected
        buffers = take(pool, expected)
        assert pool.request() is None
        assert pool.free == 0
        give_back(*buffers)
        assert pool.free == expected
    pool.destroy()


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_a_size_below_the_required_is_refused(network, size):
    pool = network.create_local_pool(2, 9)
    before = state(network, pool)
    with pytest.raises(ValueError, match=f"size {size} is below the 2 required"):
        pool.resize(size)
    assert state(network, pool) == before
    pool.resize(2)
    assert pool.size == 2
    pool.destroy()


@pytest.mark.parametrize(
    ("large", "small", "overdraft", "requested", "over", "free"),
    [
        (7, 5, 2, 5, 0, 0),
        (6, 4, 2, 2, 0, 1),
        (7, 5, 2, 7, 2, 0),  # as much as the overdraft allows
        (9, 5, 3, 9, 4, 0),  # more than it allows
        (7, 5, 4, 7, 2, 0),  # less
        (7, 5, 6, 9, 4, 0),  # overdraft in use before the shrink
    ],
)
def test_shrinking_turns_excess_in_use_into_overdraft(
    network, large, small, overdraft, requested, over, free
):
    pool = network.create_local_pool(4, 10, overdraft)
    pool.resize(large)
    buffers = take(pool, requested)
    pool.resize(small)
    assert (pool.size, above_quota(pool), pool.free) == (small, over, free)
    assert pool.is_available == (free > 0)
    give_back(*buffers)
    assert pool.free == min(small, requested + free)
    pool.destroy()


@pytest.mark.parametrize(
    ("required", "maximum", "large", "over", "free"),
    [(5, 100, 6, 1, 0), (5, 100, 7, 0, 0), (5, 100, 8, 0, 1), (8, 10, 10, 0, 0)],
)
def test_growing_absorbs_overdraft(network, required, maximum, large, over, free):
    pool = network.create_local_pool(required, maximum, max_overdraft=2)
    pool.resize(required)
    buffers = take(pool, required)
    assert not pool.is_available
    buffers += take(pool, 2)
    assert pool.request() is None
    assert above_quota(pool) == 2
    pool.resize(large)
    assert (above_quota(pool), pool.free, pool.is_available) == (over, free, free > 0)
    give_back(*buffers)
    pool.destroy()


@pytest.mark.parametrize("overdraft", [0, 1, 2])
@pytest.mark.parametrize(("size", "quota"), [(4, 3), (8, 5), (12, 10)])
@pytest.mark.parametrize(("channels", "used"), [(2, 1), (2, 2), (3, 2)])
def test_overdraft_quota_and_availability(network, overdraft, size, quota, channels, used):
    pool = network.create_local_pool(1, None, overdraft, channels, quota)
    pool.resize(size)
    buffers = []
    for i in range(size):
        buffers += take(pool, 1, i % used)
        assert pool.is_available == (i + 1 < size and i < used * (quota - 1))
        assert (above_quota(pool), pool.in_use) == (0, i + 1)
    for i in range(overdraft):
        buffers += take(pool, 1, i % used)
        assert (above_quota(pool), pool.in_use) == (i + 1, size + i + 1)
        assert not pool.is_available
    assert [pool.request(i) for i in range(channels)] == [None] * channels
    give_back(*buffers[size:])
    assert (above_quota(pool), pool.in_use, pool.is_available) == (0, size, False)
    give_back(*buffers[:size])
    assert pool.is_available
    pool.destroy()


def test_the_quota_makes_unavailable_but_refuses_nothing(network):
    pool = network.create_local_pool(1, None, 0, 3, 2)
    pool.resize(10)
    a1, b1 = take(pool, 1, 0) + take(pool, 1, 1)
    assert pool.is_available
    (a2,) = take(pool, 1, 0)
    assert not pool.is_available
    (a3,) = take(pool, 1, 0)  # at its quota, and served
    c1, c2 = take(pool, 2, 2)
    seen = []
    for buffer in (b1, c1, a2, a1, a3, c2):
        buffer.recycle()
        seen.append(pool.is_available)
    assert seen == [False, False, False, True, True, True]
    pool.destroy()


def test_a_buffer_without_subpartition_counts_for_no_quota(network):
    pool = network.create_local_pool(1, None, 0, 1, 1)
    buffers = take(pool, 5)
    assert pool.is_available
    assert pool.counts == [0]
    give_back(*buffers)
    pool.destroy()


def test_availability_moves_with_the_size(network):
    pool = network.create_local_pool(1)
    pool.resize(1)
    (first,) = take(pool, 1)
    assert not pool.is_available
    pool.resize(5)
    assert pool.is_available
    buffers = []
    for _ in range(4):
        assert pool.is_available
        buffers += take(pool, 1)
    assert not pool.is_available
    give_back(*buffers)
    pool.resize(2)
    assert pool.is_available
    (second,) = take(pool, 1)
    assert not pool.is_available
    second.recycle()
    assert pool.is_available
    pool.resize(1)
    assert not pool.is_available
    first.recycle()
    assert pool.is_available
    pool.destroy()


def test_recycled_excess_goes_to_the_global_pool_one_by_one(network):
    pool = network.create_local_pool(1)
    buffers = take(pool, TOTAL)
    pool.resize(TOTAL // 2)
    assert network.free == 0
    for i in range(1, TOTAL // 2 + 1):
        buffers.pop().recycle()
        assert (network.free, pool.free) == (i, 0)
    buffers.pop().recycle()
    assert (network.free, pool.free) == (TOTAL // 2, 1)
    give_back(*buffers)
    pool.destroy()


def test_free_excess_goes_to_the_global_pool_at_once(network):
    pool = network.create_local_pool(1)
    give_back(*take(pool, TOTAL))
    assert pool.free == TOTAL
    pool.resize(TOTAL // 2)
    assert (pool.free, network.free) == (TOTAL // 2, TOTAL // 2)
    pool.destroy()


def test_a_destroyed_pool_serves_nobody_and_recycles_to_the_global_pool(network):
    pool = network.create_local_pool(1)
    buffers = take(pool, 10)
    pool.destroy()
    pool.destroy()
    assert network.free == TOTAL - 10
    assert (pool.request(), pool.is_available, pool.free) == (None, False, 0)
    pool.resize(3)
    assert (pool.size, pool.free) == (3, 0)  # no eager fetch
    give_back(*buffers)


def test_a_buffer_is_recycled_once(network):
    pool = network.create_local_pool(1)
    (buffer,) = take(pool, 1)
    buffer.recycle()
    before = state(network, pool)
    with pytest.raises(ValueError, match="recycled before"):
        buffer.recycle()
    assert state(network, pool) == before
    pool.destroy()


@pytest.mark.parametrize("subpartition", [-1, 2])
def test_an_unknown_subpartition_is_refused(network, subpartition):
    pool = network.create_local_pool(1, None, 0, 2, 5)
    before = state(network, pool)
    with pytest.raises(ValueError, match=f"subpartition {subpartition} of 2"):
        pool.request(subpartition)
    assert state(network, pool) == before
    pool.destroy()


def test_reserving_segments():
    network = NetworkBufferPool(2, 128)
    first = network.create_local_pool(1, 2)
    with pytest.raises(ValueError, match="2 reserved of 1 required"):
        first.reserve(2)
    buffers = take(first, 2)
    second = network.create_local_pool(1, 10)
    assert not second.reserve(1)
    assert not second.is_available
    give_back(*buffers)
    first.destroy()
    second.destroy()
    third = network.create_local_pool(2, 10)
    assert third.free == 1
    assert third.reserve(2)
    assert (third.free, network.free) == (2, 0)
    third.destroy()
    with pytest.raises(ValueError, match="destroyed"):
        third.reserve(1)
    assert network.free == 2


# -- several pools (BufferPoolFactoryTest, NetworkBufferPoolTest) ------------------------------


def test_one_pool_gets_all_but_the_fixed_ones(network):
    fixed = network.create_local_pool(24, 24)
    flexible = network.create_local_pool(1)
    assert (fixed.size, flexible.size) == (24, TOTAL - 24)
    fixed.destroy()
    assert flexible.size == TOTAL
    flexible.destroy()


def test_the_excess_is_shared_out_again_at_every_change():
    network = NetworkBufferPool(10, 128)
    first = network.create_local_pool(1, 10)
    assert first.size == 10
    segments = [network.take_exclusive(2)]
    assert (len(segments[0]), first.size) == (2, 8)
    second = network.create_local_pool(1, 10)
    assert (first.size, second.size) == (4, 4)
    for expected in (3, 2):
        segments.append(network.take_exclusive(2))
        assert (first.size, second.size) == (expected, expected)
    assert network.free == 2  # both pools hold one
    for expected, free in ((3, 4), (4, 6), (5, 8)):
        network.return_exclusive(segments.pop(0))
        assert (first.size, second.size, network.free) == (expected, expected, free)
    first.destroy()
    assert (second.size, network.free) == (10, 9)
    second.destroy()


def test_the_remainder_follows_the_order_of_creation():
    network = NetworkBufferPool(3, 128)
    first = network.create_local_pool(1, 10)
    assert first.size == 3
    second = network.create_local_pool(1, 10)
    assert (first.size, second.size) == (1, 2)
    third = network.create_local_pool(1, 10)
    assert (first.size, second.size, third.size, network.free) == (1, 1, 1, 0)


def test_a_manual_size_lasts_until_the_next_redistribution(network):
    pool = network.create_local_pool(1, 100)
    pool.resize(7)
    assert pool.size == 7
    other = network.create_local_pool(1, 1)
    assert pool.size == 100
    pool.destroy()
    other.destroy()


def test_an_overprovisioned_pool_gives_back_as_it_recycles(network):
    most, least = TOTAL // 2 + 1, TOTAL - TOTAL // 2 - 1
    first = network.create_local_pool(least, TOTAL)
    buffers = take(first, most)
    assert (first.size, first.in_use) == (TOTAL, most)
    second = network.create_local_pool(most, TOTAL)
    assert (first.size, second.size) == (least, most)
    assert first.request() is None
    buffers += take(second, least)
    assert second.request() is None  # the one more that it may have is still with the first
    buffers.pop(0).recycle()
    assert network.free == 0  # fetched eagerly by the second
    assert first.in_use + first.free == most - 1
    assert second.in_use + second.free == least + 1
    give_back(*buffers)
    first.destroy()
    second.destroy()


def test_who_waits_for_the_global_pool_is_served_in_order_of_creation():
    network = NetworkBufferPool(6, 128)
    greedy = network.create_local_pool(1, 6)
    buffers = take(greedy, 6)
    pools = [network.create_local_pool(1, 1), network.create_local_pool(1, 1)]
    assert [pool.is_available for pool in pools] == [False, False]
    seen = []
    for _ in range(3):
        buffers.pop().recycle()
        seen.append((pools[0].free, pools[1].free, network.free))
    assert seen == [(1, 0, 0), (1, 1, 0), (1, 1, 0)]
    assert (greedy.free, greedy.size) == (1, 4)


@pytest.mark.parametrize(
    ("required", "maximum", "fits"),
    [(9, 9, True), (10, 10, True), (11, 11, False), (11, 99, False)],
)
def test_more_than_is_left_is_refused_with_its_figures(required, maximum, fits):
    network = NetworkBufferPool(16, 4096)
    first = network.create_local_pool(4, 16)
    network.take_exclusive(2)
    before = state(network, first)
    if fits:
        assert network.create_local_pool(required, maximum).size >= required
        return
    with pytest.raises(InsufficientBuffersError) as caught:
        network.create_local_pool(required, maximum)
    error = caught.value
    assert (error.required, error.available, error.total, error.buffer_bytes) == (11, 10, 16, 4096)
    assert str(error).startswith(
        "Insufficient number of network buffers: required 11, but only 10 available. "
        "The total number of network buffers is currently set to 16 of 4096 bytes each."
    )
    assert state(network, first) == before


@pytest.mark.parametrize(("asked", "outcome"), [(7, "taken"), (8, "taken"), (9, "refused")])
def test_exclusive_segments_on_paper(asked, outcome):
    network = NetworkBufferPool(10, 128)
    pool = network.create_local_pool(2, 10)
    before = state(network, pool)
    if outcome == "refused":
        with pytest.raises(InsufficientBuffersError, match="required 9, but only 8 available"):
            network.take_exclusive(asked)
        assert state(network, pool) == before
        return
    segments = network.take_exclusive(asked)
    assert (len(segments), pool.size, network.free) == (asked, 10 - asked, 9 - asked)


def test_exclusive_segments_that_are_all_out():
    network = NetworkBufferPool(10, 128)
    pool = network.create_local_pool(1, 10)
    buffers = take(pool, 10)
    before = state(network, pool)
    assert network.take_exclusive(2) is None
    assert state(network, pool) == before
    give_back(*buffers[:2])
    assert (pool.free, pool.size) == (2, 10)
    segments = network.take_exclusive(2)  # the pool shrinks, its free excess returns
    assert (len(segments), pool.size, pool.free, network.free) == (2, 8, 0, 0)


@pytest.mark.parametrize("buffers", [0, -1])
def test_no_or_negative_exclusive_segments_are_refused(network, buffers):
    with pytest.raises(ValueError, match=f"{buffers} exclusive buffers"):
        network.take_exclusive(buffers)


def test_segments_return_once_to_the_pool_they_came_from(network):
    other = NetworkBufferPool(4, 128)
    segments, foreign = network.take_exclusive(2), other.take_exclusive(1)
    before = state(network)
    for wrong in (foreign, segments + foreign, segments + segments):
        with pytest.raises(ValueError, match="segment"):
            network.return_exclusive(wrong)
        assert state(network) == before
    network.return_exclusive(segments)
    with pytest.raises(ValueError, match="returned before"):
        network.return_exclusive(segments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"required": 0},
        {"required": -1},
        {"required": 5, "maximum": 4},
        {"max_overdraft": -1},
        {"subpartitions": -1},
        {"subpartitions": 1, "max_buffers_per_channel": 0},
    ],
)
def test_impossible_pools_are_refused(network, arguments):
    with pytest.raises(ValueError, match=r"required|overdraft|below 1"):
        network.create_local_pool(**arguments)
    assert network.unpromised == TOTAL


@pytest.mark.parametrize(("buffers", "nbytes"), [(0, 128), (-1, 128), (8, 0)])
def test_impossible_networks_are_refused(buffers, nbytes):
    with pytest.raises(ValueError, match="at least 1"):
        NetworkBufferPool(buffers, nbytes)


def test_a_pool_tells_its_limits(network):
    bounded, unbounded = network.create_local_pool(2, 5), network.create_local_pool(3)
    assert (bounded.required, bounded.state.maximum) == (2, 5)
    assert (unbounded.required, unbounded.state.maximum) == (3, UNLIMITED)
    assert (network.total_buffers, network.buffer_bytes, network.unpromised) == (TOTAL, 128, 1019)
    bounded.destroy()
    unbounded.destroy()


@given(st.lists(st.tuples(st.sampled_from("rgs"), st.integers(1, 12)), max_size=40))
def test_a_pool_never_passes_its_size_and_overdraft_unless_it_was_shrunk(steps):
    network = NetworkBufferPool(14, 128)
    pool = network.create_local_pool(2, 12, 3)
    buffers, requested = [], 1
    for action, number in steps:
        if action == "r":
            buffers += [b for b in (pool.request() for _ in range(number)) if b is not None]
        elif action == "g":
            give_back(*buffers[:number])
            del buffers[:number]
        else:
            pool.resize(max(2, number))
        assert pool.in_use == len(buffers)
        assert network.free == 14 - pool.in_use - pool.free
        assert pool.in_use + pool.free <= max(pool.size + 3, requested)
        requested = pool.in_use + pool.free
        assert pool.is_available == (pool.free > 0)
