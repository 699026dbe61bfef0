"""The parts of a transport that counts records: parameters, memory, and functions.

Each channel's memory is typed integers, so that the kernel compiles the functions as they stand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.state.network import InputChannel, Message, Subpartition
from flowcontrol.state.queues import DATA, forget_checkpoint
from flowcontrol.state.rows import Partition

FREE: Final = 1 << 60
"""The grant of a receiver that never stops its senders: more records than any run has."""


@dataclass(slots=True)
class RecordTransport:
    """Parameters of a transport that counts records; 0 where its kind has none of a name."""

    kind: int = 0  # Which one: its place among those that count records, in the table of parts
    # Records: queue, permits, credit at the beginning; of a window its initial size, units of
    # ``rate_window``, bytes of ``bdp_window``.
    slots: int = 0
    lot: int = 0  # Records from which permits go back
    mark: int = 0  # Records of credit from which it is topped up; of ``rate_window`` its queue
    unit: int = 0  # Bytes of a unit
    multiplier: int = 0  # Periods that a window is to last
    period: int = 0  # Rounds between two packets of flow control
    most: int = 0  # Bytes from which a window does not grow
    share: int = 0  # Share of a window that is returned at a time, millionths
    high: int = 0  # Mark above which senders stop, millionths of the slots
    low: int = 0  # Mark below which they go on, millionths of the slots
    check: int = 0  # Rounds between two looks at the overflow; 0: marks
    cache_bytes: int = 0  # What a stopped sender takes on before it blocks, bytes
    trip: int = 0  # Rounds of a round trip
    round_ns: int = 0  # Length of a round, ns
    barriers: int = 0  # Barriers that a channel may have under way; 0: any number
    # Of ``push_quota``, bytes: memory of a writer and of a reader, a buffer, what it has when it is
    # sent, what a channel's sockets take of that memory, what they hold, a message besides records.
    writer_bytes: int = 0
    reader_bytes: int = 0
    buffer_bytes: int = 0
    full_bytes: int = 0
    socket_bytes: int = 0
    kernel_bytes: int = 0
    header_bytes: int = 0
    flush_us: int = 0  # Time between two runs of a flusher, microseconds; 0: there is none


@dataclass(slots=True)
class ChannelGrant:
    """What a receiver remembers of a channel, to decide what it grants."""

    seen: int = 0  # Records taken up when it was last looked; of ``rate_window`` units
    held: int = 0  # Permits that lie with the receiver
    window: int = 0  # Units of ``rate_window``, bytes of ``bdp_window``
    arrived: int = 0  # Records arrived when the round trip began
    began: int = -1  # Its first round; -1: none is measured
    trip_ns: int = 0  # Mean round trip, ns
    highest: int = 0  # Highest bandwidth, bytes/s
    samples: int = 0  # Round trips measured, or packets of flow control sent


class RoundEnd(NamedTuple):
    """The end of a round at a receiver, for the channels of one gate."""

    now: int  # The round
    held: int  # 1: the receiver has its senders stopped (:func:`.rules.is_held`)
    record_bytes: int  # Size of a record


class Given(NamedTuple):
    """What a scenario says of a transport."""

    values: Mapping[str, float]  # Its parameters
    round_us: int  # Emulated time of a round, microseconds

    def whole(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self.values[name])

    def rounds(self, name: str) -> int:
        """Return a time as rounds: rounded up, at least one."""
        return max(1, -(-round(self.values[name] * 1000) // self.round_us))


def period_end(round_number: int, period: int) -> int:
    """Return the last round of the period, so many rounds long, of the round after this one."""
    return (round_number + 1) // period * period + period - 1


def _no_parameters(given: Given) -> RecordTransport:
    return RecordTransport()


def _all_slots(transport: RecordTransport, state: ChannelGrant, record_bytes: int) -> int:
    return transport.slots


def _never(transport: RecordTransport, state: ChannelGrant, end: RoundEnd) -> int:
    return 0


def _never_held(transport: RecordTransport, was: int, queued: int, now: int) -> int:
    return 0


def _credit(transport: RecordTransport, channel: Subpartition, record_bytes: int) -> int:
    return max(0, credit_of(channel.announced, channel.sent) - channel.buffers)


def _always(transport: RecordTransport, channel: Subpartition) -> int:
    return 1


def fill_message(message: Message, records: int, record_bytes: int) -> None:
    """Make a message one of so many records."""
    message.kind = DATA
    message.records = records
    message.nbytes = records * record_bytes
    message.backlog = 0
    forget_checkpoint(message)


def _no_room(
    transport: RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> int:
    return 0


def _nothing(
    transport: RecordTransport, partition: Partition, first: int, after: int, record_bytes: int
) -> None:
    return


def _not_flushed(
    transport: RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> None:
    return


def _none_taken(
    transport: RecordTransport, partition: Partition, channel: int, record_bytes: int
) -> int:
    return 0


def _no_number(transport: RecordTransport, channels: int) -> int:
    return 0


def _any_barrier(transport: RecordTransport, channel: Subpartition) -> int:
    return FREE


class Transport(NamedTuple):
    """The functions of a transport that counts records; :mod:`.rules` says what each one does."""

    # The functions of :mod:`.rules` of these names.
    next_grant: Callable[[RecordTransport, ChannelGrant, InputChannel, RoundEnd], int]
    # Turns what a scenario says into a :class:`RecordTransport`.
    parameters: Callable[[Given], RecordTransport] = _no_parameters
    first_grant: Callable[[RecordTransport, ChannelGrant, int], int] = _all_slots
    next_look: Callable[[RecordTransport, ChannelGrant, RoundEnd], int] = _never
    is_held: Callable[[RecordTransport, int, int, int], int] = _never_held
    room: Callable[[RecordTransport, Subpartition, int], int] = _credit
    may_send: Callable[[RecordTransport, Subpartition], int] = _always
    barrier_permits: Callable[[RecordTransport, Subpartition], int] = _any_barrier
    make_room: Callable[[RecordTransport, Partition, int, int, int], int] = _no_room
    written: Callable[[RecordTransport, Partition, int, int, int], None] = _nothing
    flush: Callable[[RecordTransport, Partition, int, int], None] = _not_flushed
    pull: Callable[[RecordTransport, Partition, int, int], int] = _none_taken
    # Places for buffers of a writer of so many channels; what a reader of so many holds of each.
    places: Callable[[RecordTransport, int], int] = _no_number
    quota: Callable[[RecordTransport, int], int] = _no_number
    runs: int = 0  # Messages that a channel's sender keeps apart besides events
    announces: bool = True  # Whether receivers tell their senders what they grant
    # Whether its window grows by itself, so that a small one at first says nothing.
    adapts: bool = False
