"""What a receiver that counts records grants its senders: each transport's rule.

The composition of the policies' formulas that both clocks run. A grant is the number of records
that a channel may ever have carried; only Jet's may fall. One transport has no grants but a switch
(``HOP_HYSTERESIS``).
"""

from __future__ import annotations

from flowcontrol.protocol.ratios import MOST
from flowcontrol.systems.batched_credit import returned as lot_returned
from flowcontrol.systems.bdp_window import next_window as next_bdp_window
from flowcontrol.systems.blocking_queue import free_slots
from flowcontrol.systems.cumulative_credit import topped_up
from flowcontrol.systems.half_return_credit import returned as half_returned
from flowcontrol.systems.hop_hysteresis import is_flagged, is_on
from flowcontrol.systems.rate_window import ITEM_OVERHEAD, units
from flowcontrol.systems.rate_window import next_window as next_rate_window
from flowcontrol.systems.record_transport import (
    BATCHED_CREDIT,
    BDP_WINDOW,
    BLOCKING_QUEUE,
    CUMULATIVE_CREDIT,
    FREE,
    HALF_RETURN_CREDIT,
    HOP_HYSTERESIS,
    MILLIONTHS,
    RATE_WINDOW,
    UNBOUNDED,
    ChannelGrant,
    RecordTransport,
)

__all__ = ["after_period", "after_taking", "after_trip", "first_grant", "is_held"]

HIGHEST = float(MOST)
"""Bandwidth that is kept at the most, bytes/s."""


def first_grant(transport: RecordTransport, state: ChannelGrant, record_bytes: int) -> int:
    """Fill a fresh channel's memory; return what its sender may send before it hears anything.

    Parameters
    ----------
    transport : RecordTransport
        Its parameters.
    state : ChannelGrant
        Changed in place.
    record_bytes : int
        Size of a record.
    """
    kind = transport.kind
    if kind in (UNBOUNDED, HOP_HYSTERESIS):
        return FREE
    if kind == RATE_WINDOW:  # before the first packet a sender may go past 0 units
        state.window = transport.slots
        return _records_of(1, transport.unit, record_bytes)
    if kind == BDP_WINDOW:
        state.window = transport.slots
        return max(1, transport.slots // record_bytes)
    return transport.slots


def after_taking(
    transport: RecordTransport, state: ChannelGrant, granted: int, taken: int, record_bytes: int
) -> int:
    """Return the grant after a receiver has taken records up.

    Parameters
    ----------
    granted : int
        The grant so far, records.
    taken : int
        Records of the channel that were ever taken up.

    Returns
    -------
    int
        The new grant, at least the old one.
    """
    kind = transport.kind
    if kind == BLOCKING_QUEUE:
        return granted + free_slots(granted - taken, transport.slots)
    if kind == BDP_WINDOW:
        return max(granted, taken + max(1, state.window // record_bytes))
    if kind == CUMULATIVE_CREDIT:
        return granted + topped_up(granted - taken, transport.slots, transport.mark)
    fresh = taken - state.seen
    state.seen = taken
    if kind == HALF_RETURN_CREDIT:
        state.held, back = half_returned(state.held, fresh, transport.lot, 0)
        return granted + back
    if kind == BATCHED_CREDIT:
        state.held, back = lot_returned(state.held, fresh, transport.lot)
        return granted + back
    return granted


def after_period(
    transport: RecordTransport, state: ChannelGrant, taken: int, is_empty: int, record_bytes: int
) -> int:
    """Return Jet's grant after a period: what was taken, and the window.

    Notes
    -----
    A sender goes on until it is past the limit, so the record that passes it still goes
    (:func:`flowcontrol.systems.rate_window.may_send`). As in Jet, the limit falls when the window
    shrinks faster than records are taken; what was sent by then is under way. The first packet only
    records what was taken.
    """
    weight = record_bytes + ITEM_OVERHEAD
    acked = units(taken * weight, transport.unit)
    if state.samples > 0:
        state.window = next_rate_window(
            state.window, acked, state.seen, 1, 1, transport.multiplier, is_empty
        )
    state.samples += 1
    state.seen = acked
    return _records_of(acked + state.window + 1, transport.unit, record_bytes)


def after_trip(
    transport: RecordTransport, state: ChannelGrant, arrived: int, now: int, record_bytes: int
) -> int:
    """Measure gRPC's round trips; return the round in which one ends, or -1.

    Parameters
    ----------
    arrived : int
        Records of the channel that have ever arrived.
    now : int
        The round.

    Notes
    -----
    A ping goes out with the first data after the one before has come back (``bdp_estimator.go``).
    """
    if state.began < 0:
        if arrived == state.arrived:
            return -1
        state.began = now
    if now < state.began + transport.trip:
        return state.began + transport.trip
    window, trip_s, highest, samples = next_bdp_window(
        state.window,
        state.trip_ns / 1e9,
        float(state.highest),
        state.samples,
        (arrived - state.arrived) * record_bytes,
        transport.trip * transport.round_ns / 1e9,
        transport.most,
    )
    state.window = window
    state.trip_ns = round(trip_s * 1e9)
    state.highest = int(min(highest, HIGHEST))
    state.samples = samples
    state.arrived = arrived
    state.began = -1
    return -1


def is_held(transport: RecordTransport, was: int, queued: int, now: int) -> int:
    """Tell whether a receiver has its senders stopped: 1 if so.

    Parameters
    ----------
    was : int
        Whether it had.
    queued : int
        Records in the receiver's queue, overflow included.
    now : int
        The round that ends.
    """
    slots = transport.slots
    overflow = max(0, queued - slots)
    if transport.check > 0:
        return is_flagged(was, overflow, 1 if (now + 1) % transport.check == 0 else 0)
    high, low = transport.high / MILLIONTHS, transport.low / MILLIONTHS
    return is_on(was, queued - overflow, overflow, slots, high, low)


def _records_of(most_units: int, unit: int, record_bytes: int) -> int:
    """Return how many records pass before so many whole units have been sent."""
    weight = record_bytes + ITEM_OVERHEAD
    return FREE if most_units > MOST // unit else -(-most_units * unit // weight)
