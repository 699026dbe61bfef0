"""The receiver's channels: floating buffers, credit, fairness, blocking, release."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec import InputGate, InsufficientBuffersError, NetworkBufferPool


def make_gate(total, floating, credits, minimum=None):
    """A gate whose floating pool is fixed in size, as in Flink's tests."""
    network = NetworkBufferPool(total, 32)
    pool = network.create_local_pool(minimum or floating, floating)
    return network, pool, InputGate(network, pool, credits)


def floating_free(gate):
    return sum(channel.state.floating for channel in gate.channels)


def figures(channel, pool):
    return channel.available, channel.required, pool.free, channel.is_waiting


def state(network, pool, gate):
    return (
        asdict(network.state),
        asdict(pool.state),
        list(pool.waiting),
        [asdict(c.state) for c in gate.channels],
    )


# -- scenarios of RemoteInputChannelTest -------------------------------------------------------


@pytest.mark.holds("credit", "rules", "Flink's own tests of a gate, step by step")
def test_fewer_available_than_required():
    _, pool, gate = make_gate(16, 14, [2])
    channel = gate.channels[0]
    exclusive = channel.take()
    floating = [pool.request(), pool.request()]
    assert channel.on_backlog(14) == 12
    assert figures(channel, pool) == (13, 16, 0, True)
    assert channel.on_backlog(16) == 0  # waiting: only what it requires changes
    assert figures(channel, pool) == (13, 18, 0, True)
    exclusive.recycle()
    assert figures(channel, pool) == (14, 18, 0, True)
    floating.pop().recycle()  # to the channel that waits, which waits on
    assert figures(channel, pool) == (15, 18, 0, True)
    channel.on_backlog(13)  # nothing is given back
    assert figures(channel, pool) == (15, 15, 0, True)
    floating.pop().recycle()  # refused
    assert figures(channel, pool) == (15, 15, 1, False)
    assert channel.on_backlog(15) == 1
    assert figures(channel, pool) == (16, 17, 0, True)
    assert channel.announce() == 12 + 1 + 1 + 1
    assert channel.unannounced_credit == 0


def test_as_many_available_as_required():
    _, pool, gate = make_gate(16, 14, [2])
    channel = gate.channels[0]
    exclusive, floating = channel.take(), pool.request()
    channel.on_backlog(12)
    assert figures(channel, pool) == (14, 14, 0, False)
    floating.recycle()
    assert figures(channel, pool) == (14, 14, 1, False)
    exclusive.recycle()  # pushes a floating one out: no credit
    assert figures(channel, pool) == (14, 14, 2, False)
    assert (channel.state.exclusive, channel.state.floating) == (2, 12)
    assert channel.unannounced_credit == 13


def test_more_available_than_required():
    _, pool, gate = make_gate(16, 14, [2])
    channel = gate.channels[0]
    exclusive, floating = channel.take(), pool.request()
    channel.on_backlog(12)
    channel.on_backlog(10)
    assert figures(channel, pool) == (14, 12, 0, False)
    exclusive.recycle()
    assert figures(channel, pool) == (14, 12, 1, False)
    floating.recycle()
    assert figures(channel, pool) == (14, 12, 2, False)


def test_floating_buffers_are_distributed_fairly():
    _, pool, gate = make_gate(12, 3, [2, 2, 2])
    floating = [pool.request() for _ in range(3)]
    for channel in gate.channels:
        assert channel.on_backlog(8) == 0
        assert (channel.available, channel.is_waiting) == (2, True)
    for buffer in floating:
        buffer.recycle()
    assert [(c.available, c.unannounced_credit) for c in gate.channels] == [(3, 1)] * 3
    assert [c.is_waiting for c in gate.channels] == [True] * 3
    assert floating_free(gate) == 3 == pool.in_use


def test_a_released_channel_passes_its_floating_buffer_on():
    network, pool, gate = make_gate(4, 1, [0, 1])
    first, second = gate.channels
    buffer = pool.request()
    first.on_backlog(1)
    second.on_backlog(2)
    buffer.recycle()
    assert (first.available, second.available, pool.free) == (1, 1, 0)
    first.release()
    assert (first.available, second.available, pool.free) == (0, 2, 0)
    assert second.unannounced_credit == 1
    second.release()
    pool.destroy()
    assert network.free == 4


def test_required_falls_with_every_buffer_taken():
    _, _, gate = make_gate(16, 4, [2, 0])
    with_exclusive, without = gate.channels
    with_exclusive.on_backlog(2)
    without.on_backlog(2)
    assert (with_exclusive.required, without.required) == (4, 2)
    for channel, expected in ((with_exclusive, 4), (without, 2)):
        for i in range(expected, 0, -1):
            assert channel.required == i
            assert channel.take() is not None
        assert channel.take() is None
        assert (channel.available, channel.required) == (0, -1)


def test_blocking_without_exclusive_buffers_gives_the_floating_ones_back():
    _, pool, gate = make_gate(32, 16, [2, 0])
    first, second = gate.channels
    first.on_backlog(2)
    second.on_backlog(2)
    assert (first.available, second.available) == (4, 2)
    for channel in gate.channels:
        channel.on_blocked()
        channel.on_backlog(0)  # that of the barrier's message
    assert (first.available, second.available, second.required) == (4, 0, 0)
    for channel in gate.channels:
        channel.on_resumed()
    assert (first.unannounced_credit, second.unannounced_credit) == (2, 0)
    first.on_backlog(4)
    second.on_backlog(4)
    assert (first.available, second.available) == (6, 4)
    assert (first.unannounced_credit, second.unannounced_credit) == (4, 4)
    assert pool.in_use == 8


# -- set-up ------------------------------------------------------------------------------------


def test_exclusive_buffers_are_taken_from_the_global_pool_and_not_announced():
    network, pool, gate = make_gate(20, 8, [2, 2, 0], minimum=1)
    assert [c.available for c in gate.channels] == [2, 2, 0]
    assert [c.initial_credit for c in gate.channels] == [2, 2, 0]
    assert [(c.required, c.unannounced_credit, c.announce()) for c in gate.channels] == [
        (0, 0, 0)
    ] * 3
    assert (pool.free, network.free) == (1, 20 - 1 - 4)
    assert network.unpromised == 20 - 1 - 4


def test_taking_exclusive_buffers_shrinks_other_pools():
    network = NetworkBufferPool(10, 32)
    other, pool = network.create_local_pool(1, 10), network.create_local_pool(1, 10)
    assert (other.size, pool.size) == (5, 5)
    InputGate(network, pool, [2, 2])
    assert (other.size, pool.size) == (3, 3)


@pytest.mark.parametrize(
    ("credits", "required", "available"), [([3], 3, 2), ([2, 1], 1, 0), ([1, 1, 1], 1, 0)]
)
def test_too_few_exclusive_buffers_change_nothing(credits, required, available):
    network = NetworkBufferPool(3, 32)
    pool = network.create_local_pool(1, 3)
    before = asdict(network.state), asdict(pool.state), list(pool.waiting)
    with pytest.raises(InsufficientBuffersError) as caught:
        InputGate(network, pool, credits)
    assert (caught.value.required, caught.value.available) == (required, available)
    assert (asdict(network.state), asdict(pool.state), pool.waiting) == before


@pytest.mark.parametrize(
    ("channels", "each", "left"), [(3, 2, None), (4, 2, 1), (5, 2, 1), (2, 5, 2), (1, 8, 7)]
)
def test_channels_ask_one_after_the_other_or_get_nothing(channels, each, left):
    """7 of 8 segments are not promised; what the error names is left when one asks in vain."""
    network = NetworkBufferPool(8, 32)
    pool = network.create_local_pool(1, 8)
    if left is None:
        assert network.take_unpooled(each, channels)
        assert (network.unpromised, pool.size) == (7 - each * channels, 8 - each * channels)
        return
    before = asdict(network.state), asdict(pool.state)
    with pytest.raises(InsufficientBuffersError) as caught:
        network.take_unpooled(each, channels)
    assert (caught.value.required, caught.value.available) == (each, left)
    assert (asdict(network.state), asdict(pool.state)) == before


@pytest.mark.parametrize("credits", [[], [2], [1, 1]])
def test_just_enough_exclusive_buffers(credits):
    network = NetworkBufferPool(3, 32)
    gate = InputGate(network, network.create_local_pool(1, 3), credits)
    assert len(gate.channels) == len(credits)
    assert network.unpromised == 2 - sum(credits)


def test_exclusive_buffers_that_are_all_out_are_refused():
    network = NetworkBufferPool(4, 32)
    greedy = network.create_local_pool(1, 4)
    pool = network.create_local_pool(1, 4)
    buffers = [b for b in (greedy.request() for _ in range(4)) if b is not None]
    assert len(buffers) == 2
    greedy.resize(3)
    buffers.append(greedy.request())
    assert network.free == 0
    before = asdict(network.state)
    with pytest.raises(InsufficientBuffersError, match="required 2, but only 0 available"):
        InputGate(network, pool, [2])
    assert asdict(network.state) == before


def test_a_gate_needs_its_first_floating_buffer():
    """FLINK-24035: without it nothing would ever move with 0 exclusive buffers."""
    network = NetworkBufferPool(3, 32)
    greedy = network.create_local_pool(1, 3)
    buffers = [greedy.request() for _ in range(3)]
    pool = network.create_local_pool(1, 3)
    with pytest.raises(InsufficientBuffersError, match="required 1, but only 0 available"):
        InputGate(network, pool, [0])
    buffers.pop().recycle()
    assert pool.free == 1
    assert InputGate(network, pool, [0]).channels[0].on_backlog(1) == 1


def test_a_pool_of_another_network_is_refused():
    network, other = NetworkBufferPool(4), NetworkBufferPool(4)
    pool = other.create_local_pool(1)
    destroyed = network.create_local_pool(1)
    destroyed.destroy()
    for wrong in (pool, destroyed):
        with pytest.raises(ValueError, match="floating pool"):
            InputGate(network, wrong, [1])
    with pytest.raises(ValueError, match="negative"):
        InputGate(other, pool, [1, -1])
    assert (network.unpromised, other.unpromised) == (4, 3)


def test_two_gates_may_share_a_floating_pool():
    network = NetworkBufferPool(10, 32)
    pool = network.create_local_pool(1, 1)
    first, second = (InputGate(network, pool, [0]).channels[0] for _ in range(2))
    buffer = pool.request()
    second.on_backlog(1)
    first.on_backlog(1)
    buffer.recycle()
    assert (first.available, second.available) == (0, 1)
    second.take().recycle()
    assert (first.available, second.available) == (1, 0)


def test_who_waits_keeps_its_place_when_a_gate_is_added():
    network = NetworkBufferPool(10, 32)
    pool = network.create_local_pool(1, 1)
    first = InputGate(network, pool, [0, 0, 0]).channels
    buffer = pool.request()
    for i in (2, 1):
        first[i].on_backlog(1)
    late = InputGate(network, pool, [0]).channels[0]
    late.on_backlog(1)
    order = []
    for _ in range(3):
        buffer.recycle()
        taker = next(channel for channel in (*first, late) if channel.available)
        order.append((*first, late).index(taker))
        buffer = taker.take()
    assert order == [2, 1, 3]


# -- the small print ---------------------------------------------------------------------------


def test_a_hungry_channel_goes_to_the_tail():
    _, pool, gate = make_gate(12, 4, [0, 0])
    first, second = gate.channels
    buffers = [pool.request() for _ in range(4)]
    first.on_backlog(5)
    second.on_backlog(5)
    held = []
    for buffer in buffers:
        buffer.recycle()
        held.append((first.available, second.available))
    assert held == [(1, 0), (1, 1), (2, 1), (2, 2)]


def test_the_waiting_list_is_first_come_first_served_whatever_the_index():
    _, pool, gate = make_gate(12, 1, [0, 0, 0])
    buffer = pool.request()
    for i in (2, 0, 1):
        gate.channels[i].on_backlog(1)
    order = []
    for _ in range(3):
        buffer.recycle()
        taker = next(c for c in gate.channels if c.available)
        order.append(gate.channels.index(taker))
        buffer = taker.take()
    assert order == [2, 0, 1]


def test_a_fetched_segment_is_not_offered_but_the_next_who_is_served_takes_it():
    """As Flink: only recycling serves the waiting list, growth of the pool does not."""
    network = NetworkBufferPool(8, 32)
    pool = network.create_local_pool(1, 4)
    channel = InputGate(network, pool, [1]).channels[0]
    pool.resize(1)
    buffer = pool.request()
    channel.on_backlog(5)
    assert figures(channel, pool) == (1, 6, 0, True)
    pool.resize(3)
    assert figures(channel, pool) == (1, 6, 1, True)
    buffer.recycle()
    assert figures(channel, pool) == (4, 6, 0, True)
    assert channel.unannounced_credit == 3


def test_a_floating_buffer_recycled_after_a_shrink_leaves_the_pool():
    network, pool, gate = make_gate(10, 4, [0, 0], minimum=1)
    first, second = gate.channels
    assert first.on_backlog(4) == 4
    second.on_backlog(1)
    pool.resize(3)
    first.take().recycle()
    assert (second.available, second.is_waiting, pool.in_use) == (0, True, 3)
    first.take().recycle()
    assert (second.available, second.is_waiting, pool.in_use) == (1, False, 3)
    assert network.free == 7


def test_release_returns_everything_and_ends_the_channel():
    network, pool, gate = make_gate(10, 4, [2, 0], minimum=1)
    channel = gate.channels[0]
    channel.on_backlog(2)
    taken = [channel.take() for _ in range(3)]
    assert [buffer.is_exclusive for buffer in taken] == [False, False, True]
    assert channel.on_backlog(1) == 2
    channel.release()
    channel.release()
    assert channel.is_released
    assert (channel.take(), channel.announce(), channel.on_backlog(9)) == (None, 0, 0)
    assert (channel.available, channel.unannounced_credit) == (0, 0)
    assert network.unpromised == 10 - 1 - 1  # one exclusive buffer is still in use
    taken[2].recycle()
    assert network.unpromised == 10 - 1
    taken[0].recycle()
    assert pool.in_use == 1  # the other floating one that was taken
    channel.on_blocked()
    with pytest.raises(ValueError, match="released"):
        channel.on_resumed()


def test_releasing_exclusive_buffers_redistributes_once():
    network = NetworkBufferPool(10, 32)
    pool = network.create_local_pool(1, 10)
    channels = InputGate(network, pool, [2, 0]).channels
    assert pool.size == 8
    pool.resize(5)
    channels[1].release()
    assert pool.size == 5  # it had none: no redistribution
    channels[0].release()
    assert pool.size == 10


def test_a_released_channel_refuses_when_its_turn_comes():
    _, pool, gate = make_gate(8, 1, [0, 0])
    first, second = gate.channels
    buffer = pool.request()
    first.on_backlog(1)
    second.on_backlog(1)
    first.release()
    buffer.recycle()
    assert (first.available, second.available) == (0, 1)


def test_after_its_pool_is_destroyed_a_channel_gets_nothing_and_does_not_wait():
    network, pool, gate = make_gate(8, 2, [1])
    channel = gate.channels[0]
    channel.on_backlog(1)
    pool.destroy()
    assert channel.on_backlog(5) == 0
    assert figures(channel, pool) == (2, 6, 0, False)
    channel.take().recycle()
    assert (channel.available, network.free) == (1, 8 - 1)


def test_a_buffer_of_a_channel_is_recycled_once():
    network, pool, gate = make_gate(8, 2, [1])
    buffer = gate.channels[0].take()
    buffer.recycle()
    before = state(network, pool, gate)
    with pytest.raises(ValueError, match="recycled before"):
        buffer.recycle()
    assert state(network, pool, gate) == before


def test_a_negative_backlog_is_refused():
    network, pool, gate = make_gate(8, 2, [1])
    before = state(network, pool, gate)
    with pytest.raises(ValueError, match="backlog is -1"):
        gate.channels[0].on_backlog(-1)
    assert state(network, pool, gate) == before
    assert gate.channels[0].on_backlog(0) == 0
    assert gate.channels[0].required == 1


@pytest.mark.parametrize(
    ("backlog", "gained", "waits"), [(0, 0, False), (2, 2, False), (3, 3, False), (4, 3, True)]
)
def test_a_backlog_at_the_limit_of_the_pool(backlog, gained, waits):
    _, pool, gate = make_gate(8, 3, [2])
    channel = gate.channels[0]
    assert channel.on_backlog(backlog) == gained == channel.unannounced_credit
    assert channel.is_waiting == waits
    assert pool.in_use == gained


@given(st.lists(st.tuples(st.sampled_from("btra"), st.integers(0, 9)), max_size=60))
def test_every_credit_stands_for_a_buffer(steps):
    """available = initial credit + all credit gained - buffers taken."""
    network, pool, gate = make_gate(20, 5, [2, 0], minimum=1)
    taken = [[], []]
    granted, used = [2, 0], [0, 0]
    for action, number in steps:
        i = number % 2
        channel = gate.channels[i]
        if action == "b":
            channel.on_backlog(number)
        elif action == "t":
            buffer = channel.take()
            if buffer is not None:
                taken[i].append(buffer)
                used[i] += 1
        elif action == "r" and taken[i]:
            taken[i].pop(number % len(taken[i])).recycle()
        else:
            granted[i] += channel.announce()
        for j, other in enumerate(gate.channels):
            assert other.available == granted[j] + other.unannounced_credit - used[j]
            assert other.state.exclusive <= other.initial_credit
        assert floating_free(gate) <= pool.in_use <= pool.size
        assert not (pool.free and any(c.is_waiting for c in gate.channels))
    for buffers in taken:
        for buffer in buffers:
            buffer.recycle()
    for channel in gate.channels:
        channel.release()
    pool.destroy()
    assert network.free == network.unpromised == 20
