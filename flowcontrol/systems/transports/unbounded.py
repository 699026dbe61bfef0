"""Queues without a bound: whatever comes is kept in the receiver's memory."""

from __future__ import annotations

from flowcontrol.protocol.states import InputChannel
from flowcontrol.systems.transports.transport import (
    FREE,
    ChannelGrant,
    RecordTransport,
    RoundEnd,
    Transport,
)


def _first_grant(transport: RecordTransport, state: ChannelGrant, record_bytes: int) -> int:
    return FREE


def _next_grant(
    transport: RecordTransport, state: ChannelGrant, channel: InputChannel, end: RoundEnd
) -> int:
    return channel.announced


RULES = Transport(_next_grant, first_grant=_first_grant, announces=False)
