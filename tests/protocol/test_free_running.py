"""Gate and output pool of a free-running link: limits, state at rest, and that all gets through."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.network.free_running import BUFFERS, LinkGate, OutputPool
from flowcontrol.state.rows import TAKEN_EXCLUSIVE, TAKEN_FLOATING

# ---------------------------------------------------------------------- the output pool by hand


@pytest.mark.parametrize(
    ("channels", "exclusive", "floating", "size", "of_one"),
    [(1, 1, 0, 1, 1), (1, 2, 8, 10, 10), (3, 2, 0, 6, 2), (3, 2, 1, 7, 3), (8, 2, 8, 24, 10)],
)
def test_a_channel_gets_its_own_buffers_and_the_floating_ones(
    channels, exclusive, floating, size, of_one
):
    pool = OutputPool(exclusive, floating, [0] * channels)
    assert (pool.size, pool.in_use) == (size, 0)
    assert [pool.request(0) for _ in range(of_one + 1)] == [True] * of_one + [False]
    for channel in range(1, channels):
        assert [pool.request(channel) for _ in range(exclusive + 1)] == [True] * exclusive + [False]
    assert (pool.size, pool.in_use) == (size, size)


def test_a_recycled_floating_buffer_goes_to_whoever_asks_next():
    pool = OutputPool(1, 1, [0, 0])
    assert pool.request(0)
    assert pool.request(0)
    assert pool.request(1)
    assert not pool.request(1)
    pool.recycle(0, 1)  # its floating one
    assert pool.used == [1, 1]
    assert pool.request(1)
    assert not pool.request(0)


def test_a_pool_takes_up_what_was_in_use():
    pool = OutputPool(2, 3, [4, 0, 3])
    assert (pool.used, pool.in_use) == ([4, 0, 3], 7)
    assert [pool.request(1) for _ in range(3)] == [True, True, False]
    pool.recycle(0, 1)
    assert pool.request(1)


def test_more_consumed_than_released_breaks_the_protocol_and_changes_nothing():
    pool = OutputPool(2, 1, [3, 0])
    with pytest.raises(ProtocolError, match="channel 0: 4 messages consumed, only 3 released"):
        pool.recycle(0, 4)
    assert pool.used == [3, 0]
    assert not pool.request(0)
    pool.recycle(0, 3)
    assert pool.used == [0, 0]


# ---------------------------------------------------------------------- the gate by hand


def a_gate(channels: int, exclusive: int = 2, floating: int = 3) -> LinkGate:
    gate = LinkGate(exclusive, floating)
    assert [gate.add_channel() for _ in range(channels)] == list(range(channels))
    return gate


def figures(gate: LinkGate, channel: int) -> tuple[int, int, int, int]:
    return (
        gate.announced(channel),
        gate.sent(channel),
        gate.consumed(channel),
        gate.floating_held(channel),
    )


def test_a_new_channel_has_announced_its_exclusive_buffers():
    gate = a_gate(2)
    assert [figures(gate, channel) for channel in range(2)] == [(2, 0, 0, 0)] * 2
    assert gate.credit(0) == 2
    assert gate.pool_used == 0


def test_without_credit_nothing_is_taken():
    gate = a_gate(1, floating=0)
    assert [gate.take(0, 0) for _ in range(3)] == [True, True, False]
    assert figures(gate, 0) == (2, 2, 0, 0)
    gate.consume(0, 1)
    assert not gate.take(0, 0)  # recycled, not announced
    gate.announce()
    assert figures(gate, 0) == (3, 2, 1, 0)
    assert gate.take(0, 0)


def test_an_exclusive_buffer_in_use_is_made_good_by_a_floating_one():
    """Required are free buffers: the initial credit beside the backlog, as in Flink."""
    gate = a_gate(1)
    assert gate.take(0, 0)
    gate.announce()
    assert figures(gate, 0) == (3, 1, 0, 1)
    gate.consume(0, 1)  # the exclusive one is back: the floating one may go
    gate.announce()
    assert figures(gate, 0) == (3, 1, 1, 0)


def test_a_backlog_brings_floating_buffers_first_come_first_served():
    gate = a_gate(3)
    gate.on_backlog(0, 2)
    gate.on_backlog(1, 5)  # gets the last one and waits
    gate.on_backlog(2, 1)  # waits behind it
    gate.announce()
    assert [gate.credit(channel) for channel in range(3)] == [4, 3, 2]
    assert gate.pool_used == 3
    assert gate.take(0, 0)
    gate.consume(0, 1)  # a floating one: the first that waits has it
    gate.announce()
    assert [gate.credit(channel) for channel in range(3)] == [3, 4, 2]
    assert [gate.floating_held(channel) for channel in range(3)] == [1, 2, 0]


def test_a_message_that_was_not_taken_is_not_consumed():
    gate = a_gate(2)
    assert gate.take(1, 0)
    with pytest.raises(ProtocolError, match="channel 0: a message is consumed that was not sent"):
        gate.consume(0, 1)
    assert figures(gate, 0) == (2, 0, 0, 0)


def test_a_channel_that_starts_late_has_its_exclusive_buffers_ahead():
    gate = a_gate(1, floating=0)
    gate.skip_to(0, 40)
    assert figures(gate, 0) == (42, 40, 40, 0)
    assert [gate.take(0, 0) for _ in range(3)] == [True, True, False]
    gate.consume(0, 2)
    assert figures(gate, 0) == (42, 42, 42, 0)


def test_credit_without_a_buffer_is_a_damaged_state():
    gate = a_gate(1)
    state = gate.channel_state(0)
    state["buffers"][0] = 0  # no exclusive buffer free, two announced
    damaged = LinkGate.restore(2, 3, gate.task_state(), [state])
    with pytest.raises(ProtocolError, match="credit 2 but no buffer"):
        damaged.take(0, 0)


def test_channels_come_while_others_hold_buffers_and_wait():
    gate = a_gate(2, exclusive=1, floating=2)
    gate.on_backlog(0, 3)
    gate.on_backlog(1, 3)
    gate.announce()
    assert [gate.take(0, left) for left in (2, 1, 0)] == [True] * 3
    assert gate.add_channel() == 2
    gate.on_backlog(2, 1)
    gate.consume(0, 3)
    gate.announce()
    # The floating ones: to 0, which pushes it out again for its own, so to 2; and to 1.
    assert [gate.credit(channel) for channel in range(3)] == [1, 2, 2]
    assert gate.take(2, 0)
    gate.consume(2, 1)  # 1 still waits
    gate.announce()
    assert [gate.credit(channel) for channel in range(3)] == [1, 3, 1]


def test_a_gate_at_rest_keeps_the_order_of_who_waits_and_of_what_was_taken():
    gate = a_gate(3, exclusive=1, floating=1)
    for channel in (1, 0, 2):
        gate.on_backlog(channel, 2)  # 1 has the floating one, all wait: 1, 0, 2
    gate.announce()
    assert [gate.take(1, 2), gate.take(1, 2)] == [True, True]  # a floating one, an exclusive one
    gate.consume(1, 1)  # the floating one goes to 1 again, which waits again at the end
    gate.announce()
    assert gate.take(1, 2)
    states = [json.loads(json.dumps(gate.channel_state(channel))) for channel in range(3)]
    task = json.loads(json.dumps(gate.task_state()))
    # As every link's ledger has it: a column that moves is a link that cannot be read.
    assert task == {"pool": [1, 1, 0, 0, 1, 0, 0, 0], "waiting": [0, 2, 1]}
    assert states[1] == {
        "buffers": [0, 0, 3, 1, 0, 1, 0],
        "kinds": [TAKEN_EXCLUSIVE, TAKEN_FLOATING],
        "cursors": [3, 1, 3, 0],
    }
    gate = LinkGate.restore(1, 1, task, states)
    assert gate.floating_held(1) == 1
    gate.consume(1, 2)  # the exclusive one stays, the floating one goes to 0
    gate.announce()
    assert [gate.credit(channel) for channel in range(3)] == [2, 1, 1]


@pytest.mark.parametrize("channels", [31, 32, 33, 64, 200])
def test_any_number_of_channels_hears_of_its_credit(channels):
    gate = a_gate(channels, exclusive=1, floating=1)
    for channel in reversed(range(channels)):
        gate.on_backlog(channel, 1)
    gate.announce()
    assert [gate.credit(channel) for channel in range(channels)] == [1] * (channels - 1) + [2]
    for channel in reversed(range(1, channels)):  # it goes round
        assert gate.take(channel, 0)
        gate.consume(channel, 1)
        gate.announce()
        assert gate.credit(channel - 1) == 2


def test_a_gate_that_grows_gives_those_that_wait_no_more_than_it_has():
    """The first takes all three at once; the second one waits on."""
    gate = a_gate(2, exclusive=1, floating=0)
    for channel in range(2):
        gate.on_backlog(channel, 5)
    gate.resize(1, 3)
    gate.announce()
    assert gate.pool_used == 3
    assert [gate.floating_held(channel) for channel in range(2)] == [3, 0]


SIZE_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("backlog"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("take"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("consume"), st.integers(0, 2), st.just(1)),
        st.tuples(st.just("resize"), st.integers(1, 3), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=40,
)


@given(changes=SIZE_CHANGES)
def test_a_gate_holds_no_more_than_it_has_however_its_size_changes(changes):
    gate, most = a_gate(3, exclusive=1, floating=0), 0
    for kind, place, count in changes:
        if kind == "resize":
            gate.resize(place, count)
        elif kind == "backlog":
            gate.on_backlog(place, count)
        elif kind == "consume":
            gate.consume(place, min(count, gate.sent(place) - gate.consumed(place)))
        elif gate.credit(place) > 0:
            gate.take(place, count)
        gate.announce()
        most = max(gate.floating, min(most, gate.pool_used))  # what a smaller gate still has out
        assert gate.pool_used <= most
        assert sum(gate.floating_held(channel) for channel in range(3)) == gate.pool_used


# ---------------------------------------------------------------------- both ends, at random

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 4))


class LinkMachine(RuleBasedStateMachine):
    """Two senders and one receiver that see each other late; either may start again."""

    @initialize(sizes=SIZES)
    def begin(self, sizes):
        self.channels, self.exclusive, self.floating = sizes
        self.pools: list[OutputPool] = []
        self.gate = LinkGate(self.exclusive, self.floating)
        self.written: list[list[int]] = []
        self.released: list[list[int]] = []
        self.seen_released: list[list[int]] = []
        self.seen_consumed: list[list[int]] = []
        self.add_sender()

    @precondition(lambda self: len(self.pools) < 2)
    @rule()
    def add_sender(self):
        self.pools.append(OutputPool(self.exclusive, self.floating, [0] * self.channels))
        for table in (self.written, self.released, self.seen_released, self.seen_consumed):
            table.append([0] * self.channels)
        for _ in range(self.channels):
            self.gate.add_channel()

    def places(self):
        return [(s, c) for s in range(len(self.pools)) for c in range(self.channels)]

    def number(self, sender, channel):
        return sender * self.channels + channel

    @rule(data=st.data(), count=st.integers(1, 9))
    def write(self, data, count):
        sender, channel = data.draw(st.sampled_from(self.places()))
        self.written[sender][channel] += count

    @rule()
    def sender_looks_and_releases(self):
        for sender, channel in self.places():
            consumed = self.gate.consumed(self.number(sender, channel))
            self.pools[sender].recycle(channel, consumed - self.seen_consumed[sender][channel])
            self.seen_consumed[sender][channel] = consumed
        self.release()

    @rule()
    def release(self):
        for sender, channel in self.places():
            for _ in range(self.written[sender][channel] - self.released[sender][channel]):
                self.released[sender][channel] += self.pools[sender].request(channel)

    @rule()
    def receiver_looks(self):
        self.seen_released = [list(own) for own in self.released]
        for sender, channel in self.places():
            number = self.number(sender, channel)
            backlog = self.seen_released[sender][channel] - self.gate.sent(number)
            self.gate.on_backlog(number, backlog)

    @rule()
    def announce(self):
        self.gate.announce()

    @rule(data=st.data(), most=st.integers(1, 6))
    def take(self, data, most):
        sender, channel = data.draw(st.sampled_from(self.places()))
        number = self.number(sender, channel)
        for _ in range(most):
            left = self.seen_released[sender][channel] - self.gate.sent(number)
            if left == 0 or not self.gate.take(number, left - 1):
                break

    @rule(data=st.data())
    def consume(self, data):
        number = self.number(*data.draw(st.sampled_from(self.places())))
        taken = self.gate.sent(number) - self.gate.consumed(number)
        self.gate.consume(number, data.draw(st.integers(0, taken)))

    @rule()
    def sender_starts_again(self):
        """What a new process has is what the ledger says: released and consumed."""
        for sender, pool in enumerate(self.pools):
            numbers = [self.number(sender, channel) for channel in range(self.channels)]
            self.seen_consumed[sender] = [self.gate.consumed(number) for number in numbers]
            used = [
                released - consumed
                for released, consumed in zip(
                    self.released[sender], self.seen_consumed[sender], strict=True
                )
            ]
            assert all(new <= old for new, old in zip(used, pool.used, strict=True))
            self.pools[sender] = OutputPool(self.exclusive, self.floating, used)
            assert self.pools[sender].used == used

    @rule()
    def receiver_starts_again(self):
        task = json.loads(json.dumps(self.gate.task_state()))
        states = [
            json.loads(json.dumps(self.gate.channel_state(self.number(*place))))
            for place in self.places()
        ]
        before = [figures(self.gate, self.number(*place)) for place in self.places()]
        self.gate = LinkGate.restore(self.exclusive, self.floating, task, states)
        assert [figures(self.gate, self.number(*place)) for place in self.places()] == before
        assert self.gate.task_state() == task

    @invariant()
    def limits_hold(self):
        held = 0
        for sender, channel in self.places():
            number = self.number(sender, channel)
            announced, sent, consumed, floating = figures(self.gate, number)
            released = self.released[sender][channel]
            assert 0 <= consumed <= sent <= min(announced, released)
            assert released <= self.written[sender][channel]
            assert announced - consumed <= self.exclusive + floating
            assert released - consumed <= self.exclusive + self.floating
            kept = self.gate.channel_state(number)["buffers"]
            row = dict(zip(BUFFERS, kept, strict=True))
            free = row["exclusive"] + row["floating"]
            assert free == self.gate.credit(number) + row["unannounced"]
            held += floating
        assert held == self.gate.pool_used <= self.floating
        for sender, pool in enumerate(self.pools):
            assert pool.in_use <= pool.size == self.channels * self.exclusive + self.floating
            in_flight = sum(self.released[sender]) - sum(
                self.gate.consumed(self.number(sender, c)) for c in range(self.channels)
            )
            assert in_flight <= pool.size

    def teardown(self):
        """With a receiver that consumes, everything that was written gets through."""
        if not hasattr(self, "pools"):
            return
        waiting = sum(map(sum, self.written))
        for _ in range(2 * waiting + 2):
            self.sender_looks_and_releases()
            self.receiver_looks()
            self.gate.announce()
            for sender, channel in self.places():
                number = self.number(sender, channel)
                while (left := self.released[sender][channel] - self.gate.sent(number)) > 0:
                    if not self.gate.take(number, left - 1):
                        break
                self.gate.consume(number, self.gate.sent(number) - self.gate.consumed(number))
            self.limits_hold()
        for sender, channel in self.places():
            consumed = self.gate.consumed(self.number(sender, channel))
            assert consumed == self.written[sender][channel]
        assert self.gate.pool_used == 0  # nobody sits on a floating buffer


TestLinkMachine = LinkMachine.TestCase
TestLinkMachine.settings = settings(stateful_step_count=60)


@given(sizes=SIZES, requests=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=60))
def test_a_pool_is_what_its_used_buffers_say_it_is(sizes, requests):
    """A pool made anew of what is in use answers as the old one does."""
    channels, exclusive, floating = sizes
    pool = OutputPool(exclusive, floating, [0] * channels)
    for channel, freed in requests:
        channel %= channels
        pool.recycle(channel, min(freed, pool.used[channel]))
        again = OutputPool(exclusive, floating, pool.used)
        assert again.used == pool.used
        assert again.request(channel) == pool.request(channel)
        assert again.used == pool.used


@given(sizes=SIZES, slow=st.integers(0, 2), batches=st.integers(1, 8))
def test_a_channel_that_is_not_consumed_leaves_the_others_their_buffers(sizes, slow, batches):
    """No head-of-line blocking: the others keep moving with their exclusive buffers."""
    channels, exclusive, floating = sizes
    slow %= channels
    pool, gate = OutputPool(exclusive, floating, [0] * channels), LinkGate(exclusive, floating)
    numbers = [gate.add_channel() for _ in range(channels)]
    for _ in range(batches):
        for channel in [slow, *(n for n in numbers if n != slow)]:
            while pool.request(channel):
                gate.on_backlog(channel, pool.used[channel])
                gate.announce()
                gate.take(channel, 0)
        for channel in numbers:
            if channel != slow:
                done = gate.sent(channel) - gate.consumed(channel)
                assert done >= exclusive
                gate.consume(channel, done)
                pool.recycle(channel, done)
        gate.announce()
