"""Queues that block: Storm 2 within a worker, Arroyo's edges.

``JCQueue`` of Storm 2.8; ``ArrowContext`` of Arroyo 0.15.
"""

from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t


def free_slots(queued: int, slots: int) -> int:
    """Return how many more a producer may publish; at none it waits, whatever else it could do."""
    return max(0, slots - queued)


def _parameters(given: t.Given) -> t.RecordTransport:
    return t.RecordTransport(slots=given.whole("slots"))


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    granted = channel.announced
    return granted + free_slots(granted - channel.processed, transport.slots)


RULES = t.Transport(_next_grant, _parameters)
