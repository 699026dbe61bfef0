"""Channels that count records, when an attempt begins from a checkpoint.

What a channel has carried is cumulative, and so are its grants. So both sides go on from what the
sender had written before its barrier, with the grants of a fresh channel on top of it.
"""

from flowcontrol.protocol.states import InputChannel, Subpartition
from flowcontrol.systems.transports.rules import first_grant
from flowcontrol.systems.transports.transport import FREE, ChannelGrant, RecordTransport


def begin_sender(transport: RecordTransport, channel: Subpartition, record_bytes: int) -> None:
    """Have a fresh channel go on behind the records that its sender has written.

    Parameters
    ----------
    transport : RecordTransport
        Its parameters.
    channel : Subpartition
        Changed in place; its cursor ``written`` is that of the checkpoint.
    record_bytes : int
        Size of a record.
    """
    channel.sent = channel.written
    channel.announced = _granted(transport, ChannelGrant(), record_bytes, channel.written)


def begin_receiver(
    transport: RecordTransport,
    state: ChannelGrant,
    channel: InputChannel,
    written: int,
    record_bytes: int,
) -> None:
    """Have a fresh channel go on behind so many records; see :func:`begin_sender`.

    Parameters
    ----------
    state : ChannelGrant
        What its receiver remembers, changed in place.
    channel : InputChannel
        Changed in place; its cursor ``processed`` is that of the checkpoint.
    written : int
        Records that its sender had written.
    """
    channel.announced = _granted(transport, state, record_bytes, written)
    channel.arrived = written
    channel.consumed = channel.processed
    state.seen = channel.processed
    state.arrived = written


def _granted(
    transport: RecordTransport, state: ChannelGrant, record_bytes: int, carried: int
) -> int:
    """Return what a channel may have carried before its sender hears anything."""
    granted = first_grant(transport, state, record_bytes)
    return granted if granted == FREE else granted + carried
