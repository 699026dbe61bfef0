"""What a transport that counts records is: its parameters, its memory, and its functions.

Each channel's memory is typed integers, so that the kernel compiles the functions as they stand.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.state.network import InputChannel, Subpartition

FREE: Final = 1 << 60
"""The grant of a receiver that never stops its senders: more records than any run has."""


@dataclass(slots=True)
class RecordTransport:
    """Parameters of a transport that counts records; 0 where its kind has none of a name.

    Attributes
    ----------
    kind : int
        Which one: its place among those that count records, in the table of parts.
    slots : int
        Records: queue, permits, credit at the beginning; of a window its initial size,
        units of ``rate_window``, bytes of ``bdp_window``.
    lot : int
        Records from which permits go back.
    mark : int
        Records of credit from which it is topped up.
    unit : int
        Bytes of a unit.
    multiplier : int
        Periods that a window is to last.
    period : int
        Rounds between two packets of flow control.
    most : int
        Bytes from which a window does not grow.
    high : int
        Mark above which senders stop, millionths of the slots.
    low : int
        Mark below which they go on, millionths of the slots.
    check : int
        Rounds between two looks at the overflow; 0: marks.
    cache_bytes : int
        What a stopped sender takes on before it blocks, bytes.
    trip : int
        Rounds of a round trip.
    round_ns : int
        Length of a round, ns.
    barriers : int
        Barriers that a channel may have under way; 0: any number.
    """

    kind: int = 0
    slots: int = 0
    lot: int = 0
    mark: int = 0
    unit: int = 0
    multiplier: int = 0
    period: int = 0
    most: int = 0
    high: int = 0
    low: int = 0
    check: int = 0
    cache_bytes: int = 0
    trip: int = 0
    round_ns: int = 0
    barriers: int = 0


@dataclass(slots=True)
class ChannelGrant:
    """What a receiver remembers of a channel, to decide what it grants.

    Attributes
    ----------
    seen : int
        Records taken up when it was last looked; of ``rate_window`` units.
    held : int
        Permits that lie with the receiver.
    window : int
        Units of ``rate_window``, bytes of ``bdp_window``.
    arrived : int
        Records arrived when the round trip began.
    began : int
        Its first round; -1: none is measured.
    trip_ns : int
        Mean round trip, ns.
    highest : int
        Highest bandwidth, bytes/s.
    samples : int
        Round trips measured, or packets of flow control sent.
    """

    seen: int = 0
    held: int = 0
    window: int = 0
    arrived: int = 0
    began: int = -1
    trip_ns: int = 0
    highest: int = 0
    samples: int = 0


class RoundEnd(NamedTuple):
    """The end of a round at a receiver, for the channels of one gate.

    Attributes
    ----------
    now : int
        The round.
    held : int
        1: the receiver has its senders stopped (:func:`.rules.is_held`).
    record_bytes : int
        Size of a record.
    """

    now: int
    held: int
    record_bytes: int


class Given(NamedTuple):
    """What a scenario says of a transport.

    Attributes
    ----------
    values : mapping of str to float
        Its parameters.
    round_us : int
        Emulated time of a round, microseconds.
    """

    values: Mapping[str, float]
    round_us: int

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


def _any_barrier(transport: RecordTransport, channel: Subpartition) -> int:
    return FREE


class Transport(NamedTuple):
    """The functions of a transport that counts records; :mod:`.rules` says what each one does.

    Attributes
    ----------
    next_grant, first_grant, next_look, is_held, room, may_send, barrier_permits : callable
        The functions of :mod:`.rules` of these names.
    parameters : callable
        Turns what a scenario says into a :class:`RecordTransport`.
    announces : bool
        Whether receivers tell their senders what they grant.
    adapts : bool
        Whether its window grows by itself, so that a small one at first says nothing.
    """

    next_grant: Callable[[RecordTransport, ChannelGrant, InputChannel, RoundEnd], int]
    parameters: Callable[[Given], RecordTransport] = _no_parameters
    first_grant: Callable[[RecordTransport, ChannelGrant, int], int] = _all_slots
    next_look: Callable[[RecordTransport, ChannelGrant, RoundEnd], int] = _never
    is_held: Callable[[RecordTransport, int, int, int], int] = _never_held
    room: Callable[[RecordTransport, Subpartition, int], int] = _credit
    may_send: Callable[[RecordTransport, Subpartition], int] = _always
    barrier_permits: Callable[[RecordTransport, Subpartition], int] = _any_barrier
    announces: bool = True
    adapts: bool = False
