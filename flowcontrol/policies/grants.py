"""What a receiver that counts records grants its senders: each transport's rule, on rows.

The composition of the policies' formulas that both clocks run; a row is anything indexable, as in
:mod:`flowcontrol.protocol.rules`. A grant is the number of records that a channel may ever have
carried; only Jet's may fall. One transport has no grants but a switch (``HOP_HYSTERESIS``).
"""

from __future__ import annotations

from flowcontrol.policies.batched_credit import returned as lot_returned
from flowcontrol.policies.bdp_window import next_window as next_bdp_window
from flowcontrol.policies.blocking_queue import free_slots
from flowcontrol.policies.cumulative_credit import topped_up
from flowcontrol.policies.grant_rows import (
    BATCHED_CREDIT,
    BDP_WINDOW,
    BLOCKING_QUEUE,
    CUMULATIVE_CREDIT,
    FREE,
    HALF_RETURN_CREDIT,
    HOP_HYSTERESIS,
    MILLIONTHS,
    RATE_WINDOW,
    S_ARRIVED,
    S_BEGAN,
    S_HELD,
    S_HIGHEST,
    S_SAMPLES,
    S_SEEN,
    S_TRIP_NS,
    S_WINDOW,
    UNBOUNDED,
    V_CHECK,
    V_HIGH,
    V_KIND,
    V_LOT,
    V_LOW,
    V_MARK,
    V_MOST,
    V_MULTIPLIER,
    V_ROUND_NS,
    V_SLOTS,
    V_TRIP,
    V_UNIT,
)
from flowcontrol.policies.half_return_credit import returned as half_returned
from flowcontrol.policies.hop_hysteresis import is_flagged, is_on
from flowcontrol.policies.rate_window import ITEM_OVERHEAD, units
from flowcontrol.policies.rate_window import next_window as next_rate_window
from flowcontrol.protocol.ratios import MOST
from flowcontrol.protocol.rows import Row

__all__ = ["after_period", "after_taking", "after_trip", "first_grant", "is_held"]

HIGHEST = float(MOST)
"""Bandwidth that is kept at the most, bytes/s."""


def first_grant(values: Row, state: Row, record_bytes: int) -> int:
    """Fill a fresh channel's memory; return what its sender may send before it hears anything.

    Parameters
    ----------
    values : row of int, shape (VALUES_WIDTH,)
        The transport's parameters.
    state : row of int, shape (GRANT_WIDTH,)
        Changed in place.
    record_bytes : int
        Size of a record.
    """
    kind = values[V_KIND]
    state[S_BEGAN] = -1
    if kind in (UNBOUNDED, HOP_HYSTERESIS):
        return FREE
    if kind == RATE_WINDOW:  # before the first packet a sender may go past 0 units
        state[S_WINDOW] = values[V_SLOTS]
        return _records_of(1, values[V_UNIT], record_bytes)
    if kind == BDP_WINDOW:
        state[S_WINDOW] = values[V_SLOTS]
        return max(1, values[V_SLOTS] // record_bytes)
    return values[V_SLOTS]


def after_taking(values: Row, state: Row, granted: int, taken: int, record_bytes: int) -> int:
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
    kind = values[V_KIND]
    if kind == BLOCKING_QUEUE:
        return granted + free_slots(granted - taken, values[V_SLOTS])
    if kind == BDP_WINDOW:
        return max(granted, taken + max(1, state[S_WINDOW] // record_bytes))
    if kind == CUMULATIVE_CREDIT:
        return granted + topped_up(granted - taken, values[V_SLOTS], values[V_MARK])
    fresh = taken - state[S_SEEN]
    state[S_SEEN] = taken
    if kind == HALF_RETURN_CREDIT:
        state[S_HELD], back = half_returned(state[S_HELD], fresh, values[V_LOT], 0)
        return granted + back
    if kind == BATCHED_CREDIT:
        state[S_HELD], back = lot_returned(state[S_HELD], fresh, values[V_LOT])
        return granted + back
    return granted


def after_period(values: Row, state: Row, taken: int, is_empty: int, record_bytes: int) -> int:
    """Return Jet's grant after a period: what was taken, and the window.

    Notes
    -----
    A sender goes on until it is past the limit, so the record that passes it still goes
    (:func:`flowcontrol.policies.rate_window.may_send`). As in Jet, the limit falls when the window
    shrinks faster than records are taken; what was sent by then is under way. The first packet only
    records what was taken.
    """
    weight = record_bytes + ITEM_OVERHEAD
    acked = units(taken * weight, values[V_UNIT])
    if state[S_SAMPLES] > 0:
        state[S_WINDOW] = next_rate_window(
            state[S_WINDOW], acked, state[S_SEEN], 1, 1, values[V_MULTIPLIER], is_empty
        )
    state[S_SAMPLES] += 1
    state[S_SEEN] = acked
    return _records_of(acked + state[S_WINDOW] + 1, values[V_UNIT], record_bytes)


def after_trip(values: Row, state: Row, arrived: int, now: int, record_bytes: int) -> int:
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
    if state[S_BEGAN] < 0:
        if arrived == state[S_ARRIVED]:
            return -1
        state[S_BEGAN] = now
    if now < state[S_BEGAN] + values[V_TRIP]:
        return state[S_BEGAN] + values[V_TRIP]
    window, trip_s, highest, samples = next_bdp_window(
        state[S_WINDOW],
        state[S_TRIP_NS] / 1e9,
        float(state[S_HIGHEST]),
        state[S_SAMPLES],
        (arrived - state[S_ARRIVED]) * record_bytes,
        values[V_TRIP] * values[V_ROUND_NS] / 1e9,
        values[V_MOST],
    )
    state[S_WINDOW] = window
    state[S_TRIP_NS] = round(trip_s * 1e9)
    state[S_HIGHEST] = int(min(highest, HIGHEST))
    state[S_SAMPLES] = samples
    state[S_ARRIVED] = arrived
    state[S_BEGAN] = -1
    return -1


def is_held(values: Row, was: int, queued: int, now: int) -> int:
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
    slots = values[V_SLOTS]
    overflow = max(0, queued - slots)
    if values[V_CHECK] > 0:
        return is_flagged(was, overflow, 1 if (now + 1) % values[V_CHECK] == 0 else 0)
    high, low = values[V_HIGH] / MILLIONTHS, values[V_LOW] / MILLIONTHS
    return is_on(was, queued - overflow, overflow, slots, high, low)


def _records_of(most_units: int, unit: int, record_bytes: int) -> int:
    """Return how many records pass before so many whole units have been sent."""
    weight = record_bytes + ITEM_OVERHEAD
    return FREE if most_units > MOST // unit else -(-most_units * unit // weight)
