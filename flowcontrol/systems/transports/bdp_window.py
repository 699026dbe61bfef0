"""gRPC's window: it doubles while a round trip fills it and no bandwidth was higher before.

``bdp_estimator.go`` of gRPC for Go: ``bwCurrent == bwMax`` once the maximum has taken the sample
in, so a bandwidth that equals the highest counts. gRPC's C++ core differs: there it must be a new
high. The window only grows.

What was taken goes back in lots, a share of the window: a quarter in Go (``inFlow.onRead``), half
in Java (``DefaultHttp2LocalFlowController`` of Netty).
"""

from flowcontrol.protocol.service import MOST
from flowcontrol.state.network import InputChannel
from flowcontrol.systems.transports import transport as t

ALPHA, BETA, GAMMA = 0.9, 0.66, 2
"""Weight of the old round trip in the mean; share that a sample must fill; growth."""

INITIAL_BYTES, MOST_BYTES = 65_535, 16 << 20

SETTLING = 10
"""Samples for which the mean of round trips is a plain one."""


def next_window(
    window: int,
    trip_s: float,
    highest: float,
    samples: int,
    sample: int,
    measured_s: float,
    most: int,
) -> tuple[int, float, float, int]:
    """Take notice of a round trip: the bytes that came in it, and how long it took.

    The bandwidth is sample / (1.5 x mean round trip): a ping leaves, on average, half a trip late.
    It is compared in whole bytes/s, which is how a channel's row keeps the highest one.

    - ``window``: the window, bytes.
    - ``trip_s``, ``highest``: mean round trip, s, and the highest bandwidth so far, whole bytes/s;
      0 at the beginning.
    - ``most``: the window does not grow any more from here, bytes.
    """
    samples += 1
    if samples < SETTLING:
        trip_s += (measured_s - trip_s) / samples
    else:
        trip_s += (measured_s - trip_s) * ALPHA
    bandwidth = float(round(sample / (trip_s * 1.5))) if trip_s > 0 else 0.0
    is_highest = bandwidth >= highest
    highest = max(highest, bandwidth)
    if window < most and is_highest and sample >= BETA * window:
        window = min(GAMMA * sample, most)
    return window, trip_s, highest, samples


MILLIONTHS = 1_000_000

HIGHEST = float(MOST)
"""Bandwidth that is kept at the most, bytes/s."""


def _measure(
    transport: t.RecordTransport, state: t.ChannelGrant, arrived: int, now: int, record_bytes: int
) -> None:
    """Measure round trips.

    A ping goes out with the first data after the one before has come back (``bdp_estimator.go``).
    """
    if state.began < 0:
        if arrived == state.arrived:
            return
        state.began = now
    if now < state.began + transport.trip:
        return
    window, trip_s, highest, samples = next_window(
        state.window,
        state.trip_ns / 1e9,
        float(state.highest),
        state.samples,
        (arrived - state.arrived) * record_bytes,
        transport.trip * transport.round_ns / 1e9,
        transport.most,
    )
    state.window = window
    state.trip_ns = round(trip_s * 1e9)
    state.highest = int(min(highest, HIGHEST))
    state.samples = samples
    state.arrived = arrived
    state.began = -1


def _parameters(given: t.Given) -> t.RecordTransport:
    return t.RecordTransport(
        slots=given.whole("initial"),
        most=given.whole("most"),
        share=round(given.values["share"] * MILLIONTHS),
    )


def _first_grant(transport: t.RecordTransport, state: t.ChannelGrant, record_bytes: int) -> int:
    state.window = transport.slots
    return max(1, transport.slots // record_bytes)


def _next_grant(
    transport: t.RecordTransport, state: t.ChannelGrant, channel: InputChannel, end: t.RoundEnd
) -> int:
    _measure(transport, state, channel.arrived, end.now, end.record_bytes)
    size = max(1, state.window // end.record_bytes)
    lot = max(1, int(size * (transport.share / MILLIONTHS)))
    granted = channel.processed + size
    return granted if granted >= channel.announced + lot else channel.announced


def _next_look(transport: t.RecordTransport, state: t.ChannelGrant, end: t.RoundEnd) -> int:
    """Return the round in which the trip ends that is being measured."""
    return state.began + transport.trip if state.began >= 0 else 0


RULES = t.Transport(_next_grant, _parameters, _first_grant, _next_look, adapts=True)
