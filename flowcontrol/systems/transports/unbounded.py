"""Unbounded queues: the receiver keeps all records in memory."""

from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t


def _first_grant(transport: t.RecordTransport, state: t.ChannelGrant, record_bytes: int) -> int:
    return t.FREE


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    return channel.announced


RULES = t.Transport(_next_grant, first_grant=_first_grant, announces=False)
