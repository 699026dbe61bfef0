"""Credit that comes back in lots: permits of Pulsar, demand of Pekko.

``ConsumerImpl.increaseAvailablePermits`` of Apache Pulsar's client; ``ActorGraphInterpreter`` of
Apache Pekko.
"""

from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t


def half(size: int) -> int:
    """Return the lot of Pulsar and Pekko: half of the queue, rounded down, at least 1."""
    return max(1, size // 2)


def returned(available: int, taken: int, lot: int, is_paused: int) -> tuple[int, int]:
    """Count what was taken from a queue, and give permits back when there are enough.

    - ``available``: permits that have come free and were not given back.
    - ``is_paused``: 1 if the consumer withholds them.
    """
    available += taken
    if is_paused == 1 or available < lot:
        return available, 0
    return 0, available


def _parameters(given: t.Given) -> t.RecordTransport:
    slots = given.whole("slots")
    share = given.values["share"]
    lot = half(slots) if share == 0.5 else max(1, int(slots * share))
    return t.RecordTransport(slots=slots, lot=lot)


def lots_returned(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    """Give back what was taken, once it is a lot."""
    fresh = channel.processed - state.seen
    state.seen = channel.processed
    state.held, back = returned(state.held, fresh, transport.lot, 0)
    return channel.announced + back


RULES = t.Transport(lots_returned, _parameters)
