"""RisingWave's exchange: permits that come back in lots, and barriers on a lane of their own.

``executor/exchange/permit.rs`` and ``input.rs``, RisingWave 3.0's line.
"""

from flowcontrol.systems.transports.half_return_credit import lots_returned
from flowcontrol.systems.transports.transport import Given, RecordTransport, Transport


def chunk_cost(rows: int, initial: int, lot: int) -> int:
    """Return the permits that a chunk takes: one a row, at least 1, at most what always comes back.

    Parameters
    ----------
    rows : int
        Rows of the chunk, 256 at most there.
    initial, lot : int
        2048 permits, of which 256 come back at a time: up to lot - 1 lie with the receiver, so no
        chunk may cost more than initial - lot.
    """
    return min(max(rows, 1), initial - lot)


def may_send_chunk(permits: int, cost: int) -> int:
    """Tell whether a chunk may go: 1 if its permits are there."""
    return 1 if permits >= cost else 0


def may_send_barrier(under_way: int, most: int) -> int:
    """Tell whether a barrier may go, in its order: 1 if fewer than ``most`` are under way."""
    return 1 if under_way < most else 0


def _parameters(given: Given) -> RecordTransport:
    return RecordTransport(slots=given.whole("slots"), lot=given.whole("lot"))


RULES = Transport(lots_returned, _parameters)
