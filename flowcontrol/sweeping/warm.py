"""Compiling the virtual clock once, before many workers would do it at the same time."""

from __future__ import annotations

from typing import Any, Final

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual.compiled import is_compiled, is_kept

__all__ = ["COMPILING", "lacks_kernel", "warm_up"]

COMPILING: Final = "compiling the virtual clock{place}, about 50 s, once"
"""What a user is told before it takes that long."""

_TINY: Final[dict[str, Any]] = {
    "schema": 1,
    "name": "warm-up",
    "duration_s": 0.01,
    "round_ms": 1,
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 100},
        {"name": "sink", "service_rate": 1000},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


def lacks_kernel() -> bool:
    """Tell whether this machine's first run compiles, and the next ones need not."""
    return is_compiled() and not is_kept()


def warm_up() -> None:
    """Run a tiny scenario, so that the compiler's cache is filled; nothing if there is none."""
    if is_compiled():
        from flowcontrol.virtual import simulate

        simulate(parse_scenario(_TINY))
