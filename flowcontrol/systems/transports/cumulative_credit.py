"""AMQP's credit: a cumulative limit of deliveries, so a lost or repeated grant does no harm.

OASIS AMQP 1.0, core transport 2.6.7; RabbitMQ's limits; Reactive Streams 1.0.4, whose demand adds
up.
"""

from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t


def topped_up(left: int, most: int, mark: int) -> int:
    """Return the credit that a receiver adds: up to ``most`` once no more than ``mark`` is left.

    - ``left``: credit that the sender has by the receiver's count.
    - ``most``, ``mark``: 170 a link in RabbitMQ 4, topped up at half (``rabbit_amqp_session.erl``).
    """
    return most - left if left <= mark else 0


def _parameters(given: t.Given) -> t.RecordTransport:
    return t.RecordTransport(slots=given.whole("credit"), mark=given.whole("mark"))


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    granted = channel.announced
    return granted + topped_up(granted - channel.processed, transport.slots, transport.mark)


RULES = t.Transport(_next_grant, _parameters)
