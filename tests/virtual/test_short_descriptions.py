"""Short descriptions run as what they stand for, and equally on both clocks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

KEYS = {
    "zipf": {"kind": "zipf", "keys": 5000, "exponent": 0.9},
    "uniform": {"kind": "uniform", "keys": 7},
    "hot": {"kind": "hot", "keys": 40, "share": 0.3},
}


def made(source: dict[str, Any], sink: dict[str, Any], keys: dict[str, Any]) -> Job:
    mapping = {
        "schema": 1,
        "name": "short",
        "duration_s": 3,
        "round_ms": 20,
        "cluster": {"task_managers": 2},
        "options": {"taskmanager.memory.segment-size": "4kb"},
        "stages": [
            {"name": "source", "parallelism": 2, "record_bytes": 300, **source},
            {"name": "sink", "parallelism": 3, **sink},
        ],
        "edges": [{"from": "source", "to": "sink", "partitioner": "hash", **keys}],
    }
    return build_physical_graph(parse_scenario(mapping))


@pytest.mark.parametrize("kind", KEYS)
def test_both_clocks_run_a_key_distribution(clocks: ModuleType, kind: str) -> None:
    job = made({"total_rate": 1001}, {"total_rate": 700}, {"key_distribution": KEYS[kind]})
    clocks.compare(job, every=(1, 7))


def test_a_total_of_thirds_is_exact_to_the_last_record() -> None:
    """Three subtasks of 100/3 records/s each: 300 records in 3 s, a hundred of each."""
    job = made({"parallelism": 3, "total_rate": 100}, {}, {"key_distribution": KEYS["uniform"]})
    stages = simulate(job.scenario).tables["stages"].to_pylist()
    last = [row for row in stages if row["stage"] == "source" and row["t_s"] == 3]
    assert [row["records_out"] for row in last] == [100, 100, 100]
