"""The parameters of a transport that counts records, as its rules take them."""

from __future__ import annotations

from flowcontrol.scenario import Scenario
from flowcontrol.systems import record_transport as g
from flowcontrol.systems.half_return_credit import half

KINDS = {
    "unbounded": g.UNBOUNDED,
    "blocking_queue": g.BLOCKING_QUEUE,
    "half_return_credit": g.HALF_RETURN_CREDIT,
    "batched_credit": g.BATCHED_CREDIT,
    "cumulative_credit": g.CUMULATIVE_CREDIT,
    "rate_window": g.RATE_WINDOW,
    "bdp_window": g.BDP_WINDOW,
    "hop_hysteresis": g.HOP_HYSTERESIS,
}


def record_transport(scenario: Scenario, round_us: int) -> g.RecordTransport:
    """Return a transport's parameters.

    Parameters
    ----------
    scenario : Scenario
        Its transport counts records.
    round_us : int
        Emulated time of a round, microseconds; times are rounded up to whole rounds.
    """
    given = scenario.system.transport_values

    def whole(name: str) -> int:
        return int(given[name])

    def rounds(name: str) -> int:
        return max(1, -(-round(given[name] * 1000) // round_us))

    latency = max(1, -(-scenario.cluster.network_latency_us // round_us))
    kind = KINDS[scenario.system.transport]
    made = g.RecordTransport(kind=kind, trip=2 * latency, round_ns=1000 * round_us)
    if kind == g.BLOCKING_QUEUE:
        made.slots = whole("slots")
    elif kind == g.HALF_RETURN_CREDIT:
        made.slots = whole("slots")
        lot = int(given["slots"] * given["share"])
        made.lot = half(made.slots) if given["share"] == 0.5 else max(1, lot)
    elif kind == g.BATCHED_CREDIT:
        made.slots, made.lot = whole("slots"), whole("lot")
    elif kind == g.CUMULATIVE_CREDIT:
        made.slots, made.mark = whole("credit"), whole("mark")
    elif kind == g.RATE_WINDOW:
        made.unit, made.slots = whole("unit"), whole("initial_units")
        made.multiplier, made.period = whole("multiplier"), rounds("period_ms")
    elif kind == g.BDP_WINDOW:
        made.slots, made.most = whole("initial"), whole("most")
    elif kind == g.HOP_HYSTERESIS:
        made.slots, made.cache_bytes = whole("slots"), whole("cache_bytes")
        made.high = round(given["high"] * g.MILLIONTHS)
        made.low = round(given["low"] * g.MILLIONTHS)
        made.check = rounds("check_ms") if given["check_ms"] > 0 else 0
    return made
