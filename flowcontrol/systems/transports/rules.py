"""The rules of the transports that count records, chosen by number; and at a restart.

A grant is the number of records that a channel may ever have carried; only Jet's may fall. The
compiled kernel has no table: it compiles the functions of the job's own transport in these places.
"""

from functools import cache
from importlib import import_module

from flowcontrol.scenario.system import TRANSPORT_PARTS
from flowcontrol.state.network import InputChannel, Subpartition
from flowcontrol.state.rows import Partition
from flowcontrol.systems.transports.transport import (
    FREE,
    ChannelGrant,
    Given,
    RecordTransport,
    RoundEnd,
    Transport,
)

# --- The rules of whichever transport counts a job's records: one signature each, looked up by
# kind.


def names() -> list[str]:
    """Return the transports that count records, by kind."""
    return [name for name, part in TRANSPORT_PARTS.items() if part.counts_records]


def kind_of(name: str) -> int:
    """Return the kind of a transport that counts records."""
    return names().index(name)


@cache
def transport_named(name: str) -> Transport:
    """Return the functions of a transport: ``RULES`` of the module of its name."""
    found: Transport = import_module(f"{__package__}.{name}").RULES
    return found


@cache
def rules_of_kind(kind: int) -> Transport:
    """Return the functions of a transport, by its kind."""
    return transport_named(names()[kind])


def parameters(
    name: str, values: dict[str, float], *, round_us: int, latency: int
) -> RecordTransport:
    """Return the parameters of a transport as its rules take them.

    ``round_us``: emulated time of a round, microseconds; times are rounded up to whole rounds.
    """
    made = transport_named(name).parameters(Given(values, round_us))
    made.kind, made.trip, made.round_ns = kind_of(name), 2 * latency, 1000 * round_us
    return made


def first_grant(transport: RecordTransport, state: ChannelGrant, record_bytes: int) -> int:
    """Fill a fresh channel's memory; return what its sender may send before it hears anything."""
    return rules_of_kind(transport.kind).first_grant(transport, state, record_bytes)


def next_grant(
    transport: RecordTransport, state: ChannelGrant, channel: InputChannel, end: RoundEnd
) -> int:
    """Return the grant of a channel after a round; called once a round at most.

    ``end``: the round that ends.
    """
    return rules_of_kind(transport.kind).next_grant(transport, state, channel, end)


def next_look(transport: RecordTransport, state: ChannelGrant, end: RoundEnd) -> int:
    """Return the round whose end may change a grant though nothing comes; 0: there is none."""
    return rules_of_kind(transport.kind).next_look(transport, state, end)


def is_held(transport: RecordTransport, was: int, queued: int, now: int) -> int:
    """Tell whether a receiver has its senders stopped: 1 if so.

    - ``was``: whether it had.
    - ``now``: the round that ends.
    """
    return rules_of_kind(transport.kind).is_held(transport, was, queued, now)


def room(transport: RecordTransport, channel: Subpartition, record_bytes: int) -> int:
    """Return how many records may be written to a channel now."""
    return rules_of_kind(transport.kind).room(transport, channel, record_bytes)


def may_send(transport: RecordTransport, channel: Subpartition) -> int:
    """Tell whether a channel may send what was written: 1 if so."""
    return rules_of_kind(transport.kind).may_send(transport, channel)


def barrier_permits(transport: RecordTransport, channel: Subpartition) -> int:
    """Return how many barriers a channel may send before it hears that one was taken."""
    return rules_of_kind(transport.kind).barrier_permits(transport, channel)


def make_room(
    transport: RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> int:
    """Make room for a record in channels, those from ``first`` on, that have none: 1 if so."""
    return rules_of_kind(transport.kind).make_room(transport, partition, first, after, record_bytes)


def written(
    transport: RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> None:
    """Take notice of a record that was written to channels where room was made for it."""
    rules_of_kind(transport.kind).written(transport, partition, first, after, record_bytes)


def flush(
    transport: RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> None:
    """Have what a channel has be sent, though more might come: a flusher runs, or an event."""
    rules_of_kind(transport.kind).flush(transport, partition, channel, record_bytes)


def pull(transport: RecordTransport, partition: Partition, channel: int, record_bytes: int) -> int:
    """Return the records that a channel sends now, where ``may_send`` does not say so; 0: none."""
    return rules_of_kind(transport.kind).pull(transport, partition, channel, record_bytes)


CHOSEN = (
    *(next_grant, next_look, is_held, room, may_send, barrier_permits),
    *(make_room, written, flush, pull),
)
"""Functions in whose place the kernel compiles those of the job's transport."""


# --- Channels that count records, when an attempt begins from a checkpoint.
#
# What a channel has carried is cumulative, and so are its grants. So both sides go on from
# what the sender had written before its barrier, with the grants of a fresh channel on top of
# it.


def begin_sender(transport: RecordTransport, channel: Subpartition, record_bytes: int) -> None:
    """Have a fresh channel go on behind the records that its sender has written.

    ``channel``: changed in place; its cursor ``written`` is that of the checkpoint.
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

    ``channel``: changed in place; its cursor ``processed`` is that of the checkpoint.
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
