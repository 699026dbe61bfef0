"""RisingWave's exchange: permits that come back in lots, and barriers on a lane of their own.

``executor/exchange/permit.rs`` and ``input.rs``, RisingWave 3.0's line.
"""

from __future__ import annotations

from flowcontrol.protocol.states import InputChannel
from flowcontrol.systems.transports.transport import ChannelGrant, Given, RecordTransport, Transport


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


def returned(held: int, cost: int, lot: int) -> tuple[int, int]:
    """Count the permits of a chunk that was taken; give back what is held once it is a lot.

    Parameters
    ----------
    held : int
        Permits with the receiver.
    cost : int
        Of the chunk.
    lot : int
        256 between nodes; 1 within one: each at once.

    Returns
    -------
    tuple of (int, int)
        Permits that stay with the receiver, and those that the sender gets.
    """
    held += cost
    return (held, 0) if held < lot else (0, held)


def _parameters(given: Given) -> RecordTransport:
    return RecordTransport(slots=given.whole("slots"), lot=given.whole("lot"))


def _next_grant(
    transport: RecordTransport,
    state: ChannelGrant,
    channel: InputChannel,
    held: int,
    record_bytes: int,
    now: int,
) -> int:
    fresh = channel.processed - state.seen
    state.seen = channel.processed
    state.held, back = returned(state.held, fresh, transport.lot)
    return channel.announced + back


RULES = Transport(_next_grant, _parameters)
