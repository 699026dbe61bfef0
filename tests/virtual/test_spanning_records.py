"""A buffer that ends with the beginning of a record is held until that record is asked for."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import simulate

SEGMENT = 32_768


def scenario(record_bytes: int, duration_s: float, **keys: Any) -> Scenario:
    """A source of 100/s and a sink of 30/s on two task managers, rounds of 1 ms."""
    return parse_scenario(
        {
            "schema": 1, "name": "spanning", "duration_s": duration_s, "round_ms": 1, **keys,
            "stages": [
                {"name": "source", "emit_rate": 100, "record_bytes": record_bytes},
                {"name": "sink", "service_rate": 30},
            ],
            "edges": [{"from": "source", "to": "sink"}],
        }
    )  # fmt: skip


def mean_in_flight(found: Any) -> float:
    """Records that are emitted and not taken up, the mean of the second half of a run."""
    stages = found.tables["stages"].to_pandas()
    late = stages[stages.t_s > stages.t_s.max() / 2].set_index(["t_s", "stage"])
    emitted, taken = (late.xs(name, level="stage") for name in ("source", "sink"))
    return float((emitted.records_out - taken.records_in).mean())


def test_large_records_in_flight() -> None:
    """A real Flink has 6.65 records of 100,017 bytes in flight; with buffers let go early, 7."""
    found = simulate(scenario(100_017, 20, sample_interval_s=0.1))
    assert mean_in_flight(found) == pytest.approx(6.65, abs=0.05)


@given(record_bytes=st.integers(SEGMENT // 3, 4 * SEGMENT))
@example(SEGMENT // 2)
@example(SEGMENT)
@example(3 * SEGMENT // 2)
@example(3 * SEGMENT)
def test_who_holds_the_beginning_of_a_record(clocks: ModuleType, record_bytes: int) -> None:
    """On both clocks the sink holds a buffer while it works on the last record that ends there."""
    held = 0

    def look(state: RoundState) -> None:
        nonlocal held
        task = state.task("sink").state
        [into] = [into for _, _, into in state.channels()]
        in_hand = task.left + task.marks + task.goes_on > 0
        taken = into.state.arrived - into.state.consumed
        assert taken == len(into.queue) + in_hand
        held += task.goes_on == 1 and task.left == 0

    clocks.compare(build_physical_graph(scenario(record_bytes, 0.25), round_us=1000), look=look)
    spans = record_bytes % SEGMENT != 0 and SEGMENT % record_bytes != 0
    assert (held > 0) == spans
