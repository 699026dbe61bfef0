"""When the memory that queues take is more than a heap."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.results.run import heap_exhausted_s
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate

HEAP = {"transport": {"name": "unbounded", "heap_bytes": 1000}}


def scenario(system: Any = HEAP, placement: tuple[int, int] = (0, 1)) -> Scenario:
    return parse_scenario(
        {
            "schema": 1,
            "name": "heap",
            "duration_s": 10,
            "round_ms": 100,
            "sample_interval_s": 1,
            "system": system,
            "cluster": {"task_managers": 2},
            "stages": [
                {"name": "a", "emit_rate": 30, "record_bytes": 10, "placement": [0]},
                {"name": "b", "service_rate": 10, "parallelism": 2, "placement": list(placement)},
            ],
            "edges": [{"from": "a", "to": "b"}],
        }
    )


def channels(*rows: tuple[float, int, int]) -> pa.Table:
    """Samples of time, receiver and bytes."""
    return pa.table(
        {
            "t_s": [t for t, _, _ in rows],
            "edge": ["a->b"] * len(rows),
            "receiver": [receiver for _, receiver, _ in rows],
            "in_flight_bytes": [nbytes for _, _, nbytes in rows],
        }
    )


@pytest.mark.parametrize(
    ("nbytes", "expected"), [(0, None), (999, None), (1000, None), (1001, 2.0), (5000, 2.0)]
)
def test_a_heap_is_full_above_its_size(nbytes: int, expected: float | None) -> None:
    table = channels((1.0, 0, 0), (1.0, 1, 0), (2.0, 0, nbytes), (2.0, 1, 0))
    assert heap_exhausted_s(table, scenario()) == expected


@pytest.mark.parametrize(("placement", "expected"), [((0, 1), None), ((1, 1), 1.0)])
def test_what_waits_on_one_task_manager_is_added_up(
    placement: tuple[int, int], expected: float | None
) -> None:
    table = channels((1.0, 0, 600), (1.0, 1, 600))
    assert heap_exhausted_s(table, scenario(placement=placement)) == expected


def test_no_heap_is_never_full() -> None:
    assert heap_exhausted_s(channels((1.0, 0, 10**12)), scenario("flink")) is None
    assert heap_exhausted_s(channels(), scenario()) is None


def test_a_run_says_when() -> None:
    """Each receiver gets 15 records/s and serves 10: 50 bytes/s pile up, 1,000 after 20 s."""
    slow = scenario().model_copy(update={"duration_s": 30.0})
    run = simulate(slow)
    assert run.heap_exhausted_s in {20.0, 21.0}
    assert not run.is_bounded
    assert simulate(scenario("flink")).is_bounded
