"""The parameters of a transport that counts records, as its rules take them."""

from __future__ import annotations

from flowcontrol.policies import grant_rows as g
from flowcontrol.policies.half_return_credit import half
from flowcontrol.scenario import Scenario

__all__ = ["KINDS", "transport_row"]

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


def transport_row(scenario: Scenario, round_us: int) -> list[int]:
    """Return a transport's parameters.

    Parameters
    ----------
    scenario : Scenario
        Its transport counts records.
    round_us : int
        Emulated time of a round, microseconds; times are rounded up to whole rounds.

    Returns
    -------
    list of int, shape (VALUES_WIDTH,)
    """
    given, row = scenario.system.transport_values, [0] * g.VALUES_WIDTH

    def whole(name: str) -> int:
        return int(given[name])

    def rounds(name: str) -> int:
        return max(1, -(-round(given[name] * 1000) // round_us))

    latency = max(1, -(-scenario.cluster.network_latency_us // round_us))
    kind = KINDS[scenario.system.transport]
    row[g.V_KIND], row[g.V_TRIP], row[g.V_ROUND_NS] = kind, 2 * latency, 1000 * round_us
    if kind == g.BLOCKING_QUEUE:
        row[g.V_SLOTS] = whole("slots")
    elif kind == g.HALF_RETURN_CREDIT:
        row[g.V_SLOTS] = whole("slots")
        lot = int(given["slots"] * given["share"])
        row[g.V_LOT] = half(row[g.V_SLOTS]) if given["share"] == 0.5 else max(1, lot)
    elif kind == g.BATCHED_CREDIT:
        row[g.V_SLOTS], row[g.V_LOT] = whole("slots"), whole("lot")
    elif kind == g.CUMULATIVE_CREDIT:
        row[g.V_SLOTS], row[g.V_MARK] = whole("credit"), whole("mark")
    elif kind == g.RATE_WINDOW:
        row[g.V_UNIT], row[g.V_SLOTS] = whole("unit"), whole("initial_units")
        row[g.V_MULTIPLIER], row[g.V_PERIOD] = whole("multiplier"), rounds("period_ms")
    elif kind == g.BDP_WINDOW:
        row[g.V_SLOTS], row[g.V_MOST] = whole("initial"), whole("most")
    elif kind == g.HOP_HYSTERESIS:
        row[g.V_SLOTS], row[g.V_CACHE_BYTES] = whole("slots"), whole("cache_bytes")
        row[g.V_HIGH] = round(given["high"] * g.MILLIONTHS)
        row[g.V_LOW] = round(given["low"] * g.MILLIONTHS)
        row[g.V_CHECK] = rounds("check_ms") if given["check_ms"] > 0 else 0
    return row
