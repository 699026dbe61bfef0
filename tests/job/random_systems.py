"""Random systems, of records or with a throttle: what the tests of several folders draw."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from flowcontrol.scenario.models import SystemSpec
from flowcontrol.scenario.system import THROTTLE_PARTS


@st.composite
def systems(draw: Any, transport: str, round_ms: float) -> SystemSpec:
    """A transport with few slots, so that its limits are met."""
    # A window may let one record go per period, which must not be tens of thousands of rounds.
    periods = [ms for ms in (1, 100, 250) if ms <= 100 * round_ms]
    slots, share = draw(st.sampled_from([1, 2, 7, 40])), st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
    low, high = sorted(max(0.001, draw(share)) for _ in range(2))
    values: dict[str, dict[str, float]] = {
        "unbounded": {"heap_bytes": 1e6},
        "blocking_queue": {"slots": slots},
        "half_return_credit": {"slots": slots, "share": draw(share)},
        "batched_credit": {
            "slots": slots,
            "lot": draw(st.integers(1, slots)),
            "barriers": draw(st.sampled_from([1, 2])),
        },
        "cumulative_credit": {"credit": slots, "mark": draw(st.integers(0, slots))},
        "rate_window": {
            "unit": draw(st.sampled_from([1, 3000, 65_536])),
            "initial_units": slots,
            "multiplier": draw(st.sampled_from([1, 3])),
            "period_ms": draw(st.sampled_from(periods)),
            "queue_items": draw(st.sampled_from([0, 1, slots])),
        },
        "bdp_window": {
            "initial": slots * 1000,
            "most": draw(st.sampled_from([slots * 1000, 10**5])),
            "share": draw(st.sampled_from([0, 0.25, 0.5, 1])),
        },
        "push_quota": {
            "writer_bytes": draw(st.sampled_from([1, 20_000])),
            "reader_bytes": slots * 300,
            "buffer_bytes": draw(st.sampled_from([1, 900, 3000])),
            "fill": draw(share),
            "flush_ms": draw(st.sampled_from([0, round_ms, 170])),
            "socket_bytes": draw(st.sampled_from([0, 400])),
            "kernel_bytes": draw(st.sampled_from([0, 1000])),
            "header_bytes": draw(st.sampled_from([0, 32])),
        },
        "hop_hysteresis": {
            "slots": slots,
            "high": high,
            "low": low,
            "check_ms": draw(st.sampled_from([0, 1, 250])),
            "cache_bytes": draw(st.sampled_from([0, 5000])),
        },
    }
    return SystemSpec(transport=transport, transport_values=values[transport])


@st.composite
def throttled(draw: Any, throttle: str, round_ms: float = 100) -> SystemSpec:
    """A throttle that acts within few rounds, over queues without bound or with few slots."""
    few, interval = draw(st.sampled_from([2, 10, 60])), draw(st.sampled_from([100, 250, 700]))
    stated: dict[str, dict[str, float]] = {
        "global_hysteresis": {
            "slots": few,
            "takes_all": draw(st.sampled_from([0, 1])),
            "check_ms": draw(st.sampled_from([0, 100])),
            "delay_on_ms": draw(st.sampled_from([0, 300])),
            "delay_off_ms": draw(st.sampled_from([0, 300])),
        },
        "stepwise_sleep": {"slots": few, "interval_ms": 100, "samples": 2},
        "pid_rate": {
            "interval_ms": interval,
            "min_rate": few,
            "start_ms": draw(st.sampled_from([0, 150])),
        },
        "static_admission": {
            "interval_ms": draw(st.sampled_from([0, interval])),
            "max_records": draw(st.sampled_from([0, few])),
            "min_records": draw(st.sampled_from([0, 5])),
            "max_delay_ms": 500,
            "start_ms": draw(st.sampled_from([0, 150])),
        },
        "long_batches": {"batch_ms": interval, "overhead_ms": draw(st.sampled_from([0, 200]))},
        "aimd_rate": {"min_rate": few, "max_rate": 500, "late_ms": 300, "cooldown_ms": 300},
        "frontier_lag": {"interval_ms": interval, "lag": draw(st.sampled_from([1, 3]))},
    }
    values = {name: float(p.default) for name, p in THROTTLE_PARTS[throttle].parameters.items()}
    transports: dict[str, dict[str, float]] = {
        "unbounded": {"heap_bytes": 1e9},
        "blocking_queue": {"slots": 30},
        "credit": {},
    }
    transport = draw(st.sampled_from(list(transports)))
    return SystemSpec(
        transport=transport,
        transport_values=transports[transport],
        throttle=throttle,
        throttle_values={**values, **stated[throttle]},
    )
