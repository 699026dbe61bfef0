"""RisingWave's exchange: permits that come back in lots, and barriers on a lane of their own.

``executor/exchange/permit.rs`` and ``input.rs``, RisingWave 3.0's line. A barrier takes a permit of
its lane, however few a channel has for records, and waits behind the records all the same. The
receiver gives it back when it takes the barrier; an actor that has none for a barrier waits with
it, and does nothing else meanwhile.
"""

from flowcontrol.state.network import Subpartition
from flowcontrol.systems.transports.half_return_credit import lots_returned
from flowcontrol.systems.transports.transport import Given, RecordTransport, Transport


def _parameters(given: Given) -> RecordTransport:
    slots, lot = given.whole("slots"), given.whole("lot")
    return RecordTransport(slots=slots, lot=lot, barriers=given.whole("barriers"))


def permits_left(transport: RecordTransport, channel: Subpartition) -> int:
    """Return the permits for barriers: those of the lane, less what is under way."""
    return transport.barriers - (channel.blocks - channel.resumed)


RULES = Transport(lots_returned, _parameters, barrier_permits=permits_left)
