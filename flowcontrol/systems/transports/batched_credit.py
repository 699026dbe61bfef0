"""RisingWave's exchange: permits that come back in lots, and barriers on a lane of their own.

``executor/exchange/permit.rs`` and ``input.rs``, RisingWave 3.0's line.
"""

from flowcontrol.systems.transports.half_return_credit import lots_returned
from flowcontrol.systems.transports.transport import Given, RecordTransport, Transport


def _parameters(given: Given) -> RecordTransport:
    return RecordTransport(slots=given.whole("slots"), lot=given.whole("lot"))


RULES = Transport(lots_returned, _parameters)
