"""A switch per hop: the receiver's queue stops and resumes its senders.

JStorm 2.2 and later (``NettyServerFlowCtrlHandler``): marks of the fill, strictly above and
strictly below. Storm 2 (``BackPressureTracker``, ``JCQueue``): a flag that is set when a tuple goes
to the overflow and cleared, when it is looked at every 50 ms, once the overflow is empty. The
overflow is taken behind the whole queue, and until then tuples go nowhere else.
"""

from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.state.network import InputChannel, Subpartition
from flowcontrol.systems.transports import transport as t


def is_on(was: int, queued: int, cached: int, slots: int, high: float, low: float) -> int:
    """Return whether JStorm's receiver holds its senders up.

    - ``was``: whether it does.
    - ``cached``: tuples that came when the queue was full, put aside at the receiver.
    - ``high``, ``low``: shares; 0.8 and 0.2.
    """
    if was == 0:
        return 1 if queued > high * slots else 0
    return 0 if queued < low * slots and cached == 0 else 1


def is_flagged(was: int, queued: int, slots: int, is_check: int) -> int:
    """Return whether Storm 2's receiver has a task under pressure.

    What overflows is taken behind the whole queue, so the overflow is empty once nothing waits.

    - ``was``: whether it has.
    - ``queued``: tuples in the queue and in the overflow.
    - ``is_check``: 1 every ``topology.backpressure.check.millis``: only then it is cleared.
    """
    if queued > slots:
        return 1
    return 0 if is_check == 1 and queued == 0 else was


MILLIONTHS = 1_000_000


def _parameters(given: t.Given) -> t.RecordTransport:
    return t.RecordTransport(
        slots=given.whole("slots"),
        cache_bytes=given.whole("cache_bytes"),
        high=round(given.values["high"] * MILLIONTHS),
        low=round(given.values["low"] * MILLIONTHS),
        check=given.rounds("check_ms") if given.values["check_ms"] > 0 else 0,
    )


def _first_grant(transport: t.RecordTransport, state: t.ChannelGrant, record_bytes: int) -> int:
    return t.FREE


def _is_held(transport: t.RecordTransport, was: int, queued: int, now: int) -> int:
    slots = transport.slots
    if transport.check > 0:
        return is_flagged(was, queued, slots, 1 if (now + 1) % transport.check == 0 else 0)
    overflow = max(0, queued - slots)
    high, low = transport.high / MILLIONTHS, transport.low / MILLIONTHS
    return is_on(was, queued - overflow, overflow, slots, high, low)


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    """Announce the switch: no records, or more than any run has."""
    return 0 if end.held == 1 else t.FREE


def _next_look(transport: t.RecordTransport, state: t.ChannelGrant, end: t.RoundEnd) -> int:
    """Return the round of the next look at the overflow, if the senders wait for it."""
    return t.period_end(end.now, transport.check) if end.held == 1 and transport.check > 0 else 0


def _room(transport: t.RecordTransport, channel: Subpartition, record_bytes: int) -> int:
    """Let a sender that is stopped take on what its cache holds, then block."""
    if channel.announced == 0:
        return max(0, transport.cache_bytes // record_bytes - channel.buffers)
    return max(0, credit_of(channel.announced, channel.sent) - channel.buffers)


def _may_send(transport: t.RecordTransport, channel: Subpartition) -> int:
    return 0 if channel.announced == 0 else 1


RULES = t.Transport(_next_grant, _parameters, _first_grant, _next_look, _is_held, _room, _may_send)
