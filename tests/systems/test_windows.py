"""Jet's window, Pulsar's permits, RisingWave's lots and their kin against tables by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario import parse_scenario
from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import bdp_window
from flowcontrol.systems.transports import cumulative_credit as c
from flowcontrol.systems.transports import half_return_credit as p
from flowcontrol.systems.transports import rate_window as w
from flowcontrol.systems.transports import transport as g

INITIAL_UNITS = 800
"""Jet's window at the beginning, about 50 MiB in units of 64 KiB."""

# Jet, packets every 100 ms, three periods: units acked in the period, time it took, starved or not;
# then the window. Target 3 ceil(100 acked / time); half of the way, towards zero.
JET = [
    ((100, 100, 0), 550),  # 300 - 800 = -500
    ((100, 100, 0), 425),
    ((100, 100, 0), 363),  # -125 / 2 = -62
    ((100, 100, 0), 332),  # -63 / 2 = -31
    ((100, 100, 0), 316),
    ((100, 100, 0), 308),
    ((100, 100, 0), 304),
    ((100, 100, 0), 302),
    ((100, 100, 0), 301),
    ((100, 100, 0), 301),  # one above: -1 / 2 is nothing
    ((0, 100, 1), 301),  # starved: it does not shrink
    ((0, 100, 0), 151),  # stalled: -301 / 2 = -150
    ((0, 100, 0), 76),
    ((0, 100, 0), 38),
    ((0, 100, 0), 19),
    ((0, 100, 0), 10),
    ((0, 100, 0), 5),
    ((0, 100, 0), 3),
    ((0, 100, 0), 2),
    ((0, 100, 0), 1),
    ((0, 100, 0), 1),  # 0 or 1 stays after a long stall
    ((10, 200, 0), 8),  # ceil(1000 / 200) = 5; 15 - 1 = 14
    ((10, 300, 0), 10),  # ceil(3.33) = 4; 12 - 8 = 4
    ((10, 100, 0), 20),
    ((10, 100, 0), 25),
    ((10, 100, 0), 27),
    ((10, 100, 0), 28),
    ((10, 100, 0), 29),
    ((10, 100, 0), 29),  # one short from below
]


@pytest.mark.holds("rate_window", "rules", "a table by hand from Jet 4.5.4")
def test_jet_by_hand():
    assert len(JET) >= 20
    window, acked = INITIAL_UNITS, 0
    for step, ((more, elapsed, is_empty), expected) in enumerate(JET):
        window = w.next_window(window, acked + more, acked, elapsed, 100, 3, is_empty)
        acked += more
        assert window == expected, step


def test_jet_counts_whole_units():
    assert [w.units(nbytes, 1 << 16) for nbytes in (0, 65_535, 65_536)] == [0, 0, 1]


# Pulsar, a queue of 10, so a lot of 5: taken, paused or not; then permits kept, and given back.
PULSAR = [
    ((1, 0), (1, 0)),
    ((1, 0), (2, 0)),
    ((2, 0), (4, 0)),
    ((1, 0), (0, 5)),  # half of the queue
    ((0, 0), (0, 0)),
    ((4, 0), (4, 0)),
    ((2, 0), (0, 6)),  # all of them, not the lot
    ((5, 1), (5, 0)),  # paused
    ((1, 1), (6, 0)),
    ((0, 0), (0, 6)),  # goes on
    ((10, 0), (0, 10)),
    ((1, 0), (1, 0)),
    ((1, 1), (2, 0)),
    ((1, 0), (3, 0)),
    ((1, 0), (4, 0)),
    ((1, 1), (5, 0)),
    ((1, 0), (0, 6)),
    ((3, 0), (3, 0)),
    ((1, 0), (4, 0)),
    ((1, 0), (0, 5)),
    ((5, 0), (0, 5)),
]


@pytest.mark.holds("half_return_credit", "rules", "a table by hand from Pulsar's client")
def test_pulsar_by_hand():
    assert len(PULSAR) >= 20
    kept, lot = 0, p.half(10)
    for step, ((taken, is_paused), expected) in enumerate(PULSAR):
        kept, given_back = p.returned(kept, taken, lot, is_paused)
        assert (kept, given_back) == expected, step


def test_half_of_a_queue():
    assert [p.half(size) for size in (1, 2, 3, 16, 1000, 1001)] == [1, 1, 1, 8, 500, 500]


# RisingWave, 2048 permits in lots of 256: what a chunk costs; then what the receiver keeps of it,
# and what comes back.
RISINGWAVE = [
    (256, (0, 256)),
    (255, (255, 0)),  # one short of a lot
    (1, (0, 256)),
    (1, (1, 0)),  # an empty chunk costs one
    (254, (255, 0)),
    (256, (0, 511)),  # all that is held, not a lot
    (100, (100, 0)),
    (100, (200, 0)),
    (55, (255, 0)),
    (2, (0, 257)),
    (1791, (0, 1791)),
    (1792, (0, 1792)),  # the most that always comes
    (1792, (0, 1792)),
    (1792, (0, 1792)),
    (10, (10, 0)),
    (245, (255, 0)),
    (1, (0, 256)),
    (128, (128, 0)),
    (127, (255, 0)),
    (255, (0, 510)),
    (256, (0, 256)),
]


@pytest.mark.holds("batched_credit", "rules", "a table by hand from RisingWave 3.0")
def test_risingwave_by_hand():
    assert len(RISINGWAVE) >= 20
    permits, held = 2048, 0
    for step, (cost, expected) in enumerate(RISINGWAVE):
        held, back = p.returned(held, cost, 256, 0)
        permits += back - cost
        assert (held, back) == expected, step
        assert 1793 <= permits <= 2048


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(50, 500), st.integers(0, 1)), max_size=60)
)
def test_jets_window_is_never_negative_and_does_not_fall_while_the_queue_is_empty(periods):
    window, acked = INITIAL_UNITS, 0
    for more, elapsed, is_empty in periods:
        before = window
        window = w.next_window(window, acked + more, acked, elapsed, 100, 3, is_empty)
        acked += more
        assert window >= 0
        if is_empty:
            assert window >= before


@pytest.mark.holds("cumulative_credit", "rules", "RabbitMQ's link credit by hand")
def test_rabbitmq_tops_up_at_half():
    """``DEFAULT_MAX_LINK_CREDIT`` of ``rabbit_amqp_session.erl`` is 170."""
    found = parse_scenario(
        {
            "schema": 1, "name": "rabbit", "duration_s": 1, "system": "rabbitmq",
            "stages": [{"name": "a", "emit_rate": 1}, {"name": "b"}],
            "edges": [{"from": "a", "to": "b", "partitioner": "forward"}],
        }
    ).system.transport_values  # fmt: skip
    assert (found["credit"], found["mark"]) == (170, 85)
    assert [c.topped_up(left, 170, 85) for left in (170, 86, 85, 0)] == [0, 0, 85, 170]


@pytest.mark.holds("bdp_window", "rules", "round trips by hand from gRPC")
def test_grpc_doubles_while_a_trip_fills_the_window():
    state = (65_535, 0.0, 0.0, 0)
    sizes = []
    for sample in (43_252, 43_253, 43_253, 100_000, 10_000_000, 20_000_000, 20_000_000):
        state = bdp_window.next_window(*state, sample, 0.1, bdp_window.MOST_BYTES)
        sizes.append(state[0])
    # 0.66 of 65,535 is 43,253.1; 100,000 fill it, and the bandwidth is a new high.
    assert sizes == [65_535, 65_535, 65_535, 200_000, 16_777_216, 16_777_216, 16_777_216]
    assert state[1] == pytest.approx(0.1)


@pytest.mark.holds("bdp_window", "rules", "round trips by hand from gRPC")
def test_grpc_also_doubles_at_a_bandwidth_that_equals_the_highest():
    """``bwCurrent == bwMax`` in grpc-go: the sample that made the maximum need not be the first."""
    state = (1000, 0.0, 0.0, 0)
    sizes = []
    for sample in (600, 660, 660, 1319, 1320):
        state = bdp_window.next_window(*state, sample, 0.1, 100_000)
        sizes.append(state[0])
    assert sizes == [1000, 1320, 1320, 2638, 2638]
    again = (1400, *state[1:])  # a window that 1320 fill: the same bandwidth as the highest
    assert bdp_window.next_window(*again, 1320, 0.1, 100_000)[0] == 2640
    lower = bdp_window.next_window(*again, 1319, 0.1, 100_000)
    assert lower[0] == 1400


@pytest.mark.holds("bdp_window", "rules", "round trips by hand from gRPC")
@pytest.mark.parametrize("sample", [700, 701, 703])
def test_a_channel_s_row_keeps_the_highest_bandwidth_so_that_an_equal_one_is_equal(sample):
    """With a round trip of 70 ms: bandwidths that are no whole number, rounded up and down."""
    values = g.RecordTransport(trip=1, round_ns=70_000_000)
    rules = bdp_window.RULES
    values.slots, values.most = 2000, 100_000
    state = g.ChannelGrant()
    assert rules.first_grant(values, state, 1) == 2000
    arrived, now, windows = 0, 0, []
    for _ in range(2):
        arrived += sample
        for at in (now, now + 1):
            rules.next_grant(values, state, InputChannel(arrived=arrived), g.RoundEnd(at, 0, 1))
        windows.append(state.window)
        state.window = 1000
        now += 2
    assert windows == [2000, 2 * sample]


# gRPC for Java, a window of ten records: processed, then granted.
LOTS = [(1, 10), (4, 10), (5, 15), (9, 15), (10, 20), (10, 20), (17, 27)]


@pytest.mark.holds("bdp_window", "rules", "lots of a window by hand from Netty")
def test_a_window_goes_back_once_half_of_it_was_taken():
    rules, state = bdp_window.RULES, g.ChannelGrant()
    values = rules.parameters(g.Given({"initial": 1000, "most": 1000, "share": 0.5}, 1000))
    channel = InputChannel(announced=rules.first_grant(values, state, 100))
    for processed, granted in LOTS:
        channel.processed = processed
        channel.announced = rules.next_grant(values, state, channel, g.RoundEnd(0, 0, 100))
        assert channel.announced == granted


def of_jet(queue_items: int) -> tuple[g.RecordTransport, g.ChannelGrant]:
    """Return Jet's window of records that weigh a unit each, three periods of a round long."""
    values = {"unit": 100, "initial_units": 30, "multiplier": 3, "period_ms": 1}
    transport = w.RULES.parameters(g.Given({**values, "queue_items": queue_items}, 1000))
    state = g.ChannelGrant()
    assert w.RULES.first_grant(transport, state, 100 - w.ITEM_OVERHEAD) == 1
    return transport, state


@pytest.mark.holds("rate_window", "rules", "the queue behind Jet's receiver by hand")
@pytest.mark.parametrize(("arrived", "taken"), [(4, 4), (6, 6), (7, 7), (8, 7), (20, 7)])
def test_what_is_in_the_queue_behind_jets_receiver_is_acknowledged(arrived, taken):
    transport, state = of_jet(5)
    channel = InputChannel(arrived=arrived, processed=2)
    end = g.RoundEnd(0, 0, 100 - w.ITEM_OVERHEAD)
    assert w.RULES.next_grant(transport, state, channel, end) == taken + 30 + 1
    assert state.seen == taken


@pytest.mark.holds("rate_window", "rules", "periods that are not exact by hand")
def test_a_period_of_jet_that_is_a_little_short_counts_a_unit_more():
    """Ten units a period are 30 in three; a period that is short has 11, and goes half of the way.

    One that is long has 10 and takes half of the difference back, truncated.
    """
    transport, state = of_jet(0)
    windows = []
    for now in range(7):
        channel = InputChannel(arrived=10 * now + 20, processed=10 * now)
        w.RULES.next_grant(transport, state, channel, g.RoundEnd(now, 0, 100 - w.ITEM_OVERHEAD))
        windows.append(state.window)
    assert windows == [30, 30, 31, 31, 32, 31, 32]
