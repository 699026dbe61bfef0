"""Buffers that change their size: what is in flight lasts as long as the target says."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

NETMEM = "taskmanager.network.memory."
RECORD = 100


def run(rates: Any, *, duration_s: float = 40, **options: Any) -> pd.DataFrame:
    """Run a sink that is always behind; return its channel, a row a second."""
    scenario = {
        "schema": 1,
        "name": "debloated",
        "duration_s": duration_s,
        "round_ms": 5,
        "options": {NETMEM + key.replace("_", "-"): value for key, value in options.items()},
        "stages": [
            {"name": "source", "emit_rate": 5000, "record_bytes": RECORD},
            {"name": "sink", "service_rate": rates},
        ],
        "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
    }
    return simulate(parse_scenario(scenario)).tables["channels"].to_pandas()


def debloated(rates: Any, target: str, **keys: Any) -> pd.DataFrame:
    options = {"buffer-debloat.enabled": True, "buffer-debloat.target": target}
    return run(rates, **options, **keys)


@pytest.mark.parametrize(
    ("rate", "target", "seconds"), [(1000, "1s", 1), (1000, "250ms", 0.25), (3000, "500ms", 0.5)]
)
def test_what_is_in_flight_is_consumed_in_the_target_time(
    rate: float, target: str, seconds: float
) -> None:
    """A size is announced when it has changed by a quarter: up to that much more stays."""
    wanted = rate * RECORD * seconds
    late = debloated(rate, target).in_flight_bytes.iloc[-10:]
    assert 0.95 * wanted < late.min()
    assert late.max() < 1.4 * wanted
    assert late.max() < run(rate).in_flight_bytes.iloc[-10:].min() / 2


def test_a_target_beyond_all_buffers_changes_nothing() -> None:
    assert debloated(1000, "60s").equals(run(1000))


def test_buffers_grow_again_when_the_sink_is_quicker() -> None:
    phases = [{"at_s": 0, "rate": 1000}, {"at_s": 30, "rate": 4000}]
    found = debloated(phases, "500ms", duration_s=80).in_flight_bytes
    slow, quick = found.iloc[20:30].mean(), found.iloc[-10:].mean()
    assert 0.75 < slow / (1000 * RECORD * 0.5) < 1.4
    assert 0.75 < quick / (4000 * RECORD * 0.5) < 1.4


def test_no_buffer_is_smaller_than_the_smallest() -> None:
    """At the limit, 20 buffers of 256 bytes: 2.56 records each."""
    found = debloated(1000, "1ms", duration_s=20)
    late = found.iloc[-5:]
    buffers = late.queued + late.backlog + 2  # one is read, one is open
    assert late.in_flight_bytes.min() > 0.8 * 256 * late.queued.min()
    assert (late.in_flight_bytes <= 256 * buffers + 2 * RECORD).all()
