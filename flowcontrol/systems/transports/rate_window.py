"""Hazelcast Jet's receive window: three periods of the recent processing rate.

``ReceiverTasklet`` and ``SenderTasklet`` of Jet 4.5 and Hazelcast 5. Everything is counted in units
of 64 KiB of the items' weight. A grant is cumulative: the units that may ever have been sent.
"""

from flowcontrol.protocol.service import MOST
from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t

ITEM_OVERHEAD = 56
"""Bytes that an item weighs beside its own."""


def units(nbytes: int, unit: int) -> int:
    """Return whole units of a number of bytes."""
    return nbytes // unit


def next_window(
    window: int,
    acked: int,
    acked_before: int,
    elapsed: int,
    period: int,
    multiplier: int,
    is_empty: int,
) -> int:
    """Return the window after a period.

    It goes half of the way, rounded towards zero: from below it stops one unit short.

    - ``window``: the window, units.
    - ``acked``, ``acked_before``: units ever handed to the tasklet behind, now and when the window
      was last set.
    - ``elapsed``, ``period``: time since then, and the time between two flow-control packets, in
      the same unit.
    - ``is_empty``: 1 if the inbox is empty: a receiver that starves is not slow, so its window does
      not shrink.
    """
    per_period = min(-(-period * (acked - acked_before) // elapsed), MOST // multiplier)
    difference = multiplier * per_period - window
    if difference < 0 and is_empty == 1:
        return window
    return window + (difference // 2 if difference >= 0 else -(-difference // 2))


def rounded_up(acked: int, acked_before: int, packets: int) -> int:
    """Return what counts as handed on at the end of a period, units.

    No timer is exact: here every other period is a little short, and what was done in it counts a
    unit more, as it is rounded up to a whole period's.

    ``packets``: packets of flow control before this one.
    """
    return acked + 1 if packets % 2 == 0 and acked > acked_before else acked


def _records_of(most_units: int, unit: int, record_bytes: int) -> int:
    """Return how many records pass before so many whole units have been sent."""
    weight = record_bytes + ITEM_OVERHEAD
    return t.FREE if most_units > MOST // unit else -(-most_units * unit // weight)


def _parameters(given: t.Given) -> t.RecordTransport:
    return t.RecordTransport(
        slots=given.whole("initial_units"),
        unit=given.whole("unit"),
        multiplier=given.whole("multiplier"),
        period=given.rounds("period_ms"),
        mark=given.whole("queue_items"),
    )


def _first_grant(transport: t.RecordTransport, state: t.ChannelGrant, record_bytes: int) -> int:
    """Let a sender go past 0 units before the first packet."""
    state.window = transport.slots
    return _records_of(1, transport.unit, record_bytes)


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    """Return the grant after a period: what has gone into the queue of the tasklet, and the window.

    A sender goes on until it is past the limit, so the record that passes it still goes. As in Jet,
    the limit falls when the window shrinks faster than records are taken; what was sent by then is
    under way. The first packet only records what was taken.
    """
    if (end.now + 1) % transport.period > 0:
        return channel.announced
    taken = min(channel.arrived, channel.processed + transport.mark)
    acked = units(taken * (end.record_bytes + ITEM_OVERHEAD), transport.unit)
    if state.samples > 0:
        is_empty = 1 if channel.arrived == taken else 0
        done = rounded_up(acked, state.seen, state.samples)
        state.window = next_window(
            state.window, done, state.seen, 1, 1, transport.multiplier, is_empty
        )
    state.samples += 1
    state.seen = acked
    return _records_of(acked + state.window + 1, transport.unit, end.record_bytes)


def _next_look(transport: t.RecordTransport, state: t.ChannelGrant, end: t.RoundEnd) -> int:
    return t.period_end(end.now, transport.period)


RULES = t.Transport(_next_grant, _parameters, _first_grant, _next_look, adapts=True)
