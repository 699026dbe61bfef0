"""A job of operators runs as the same job spelled out as stages, in every row of every table."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from flowcontrol.run.jobs import job_for
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import prepare_job, run_job

KEYS = {"a": 5, "b": 3, "c": 1, "d": 1}
HEAD = {
    "schema": 1,
    "name": "words",
    "duration_s": 4,
    "round_ms": 1,
    "sample_interval_s": 0.5,
    "options": {"taskmanager.memory.segment-size": "4kb"},
}
OPERATORS: list[dict[str, Any]] = [
    {"name": "source", "parallelism": 2, "emit_rate": 900, "record_bytes": 200},
    {"name": "split", "parallelism": 2, "service_rate": 800, "selectivity": 1.5},
    {"name": "count", "parallelism": 2, "service_rate": [{"at_s": 0, "rate": 900}]},
    {"name": "sink", "parallelism": 1, "service_rate": 1000},
]
EDGES: list[dict[str, Any]] = [
    {"from": "source", "to": "split"},
    {"from": "split", "to": "count", "partitioner": "hash", "key_weights": KEYS},
    {"from": "count", "to": "sink"},
]
# By hand: slots are source+split+count 0 with the sink, and source+split+count 1.
SPELLED = {
    "one slot each": (1, {"source": [0, 1], "count": [0, 1], "sink": [0]}, {}),
    "two slots of one task manager": (2, {"source": [0, 0], "count": [0, 0], "sink": [0]}, {}),
    "a slot group of its own": (
        1,
        {"source": [0, 1], "count": [2, 3], "sink": [2]},
        {"count": "heavy"},
    ),
}


def tables(mapping: dict[str, Any]) -> dict[str, Any]:
    job = job_for(parse_scenario(mapping), "virtual")
    prepare_job(job)
    return dict(run_job(job, track=False).tables)


@pytest.mark.parametrize("slots, placement, groups", SPELLED.values(), ids=list(SPELLED))
def test_the_tables_are_those_of_the_stages(
    slots: int, placement: dict[str, list[int]], groups: dict[str, str]
) -> None:
    operators = copy.deepcopy(OPERATORS)
    for one in operators:
        one |= {"slot_group": groups[one["name"]]} if one["name"] in groups else {}
    short = {**HEAD, "cluster": {"slots": slots}, "operators": operators, "edges": EDGES}
    stages = [
        {**one, "placement": placement[one["name"]]} if one["name"] in placement else one
        for one in copy.deepcopy(OPERATORS)
    ]
    edges = [{**EDGES[0], "chain": True}, *EDGES[1:]]
    managers = 1 + max(max(own) for own in placement.values())
    long = {
        **HEAD,
        "cluster": {"task_managers": managers, "slots": max(slots, 2)},
        "stages": stages,
        "edges": edges,
    }
    found, expected = tables(short), tables(long)
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert found[name].equals(table), name
    emitted = expected["stages"].to_pylist()[-1]
    assert emitted["stage"] == "sink"
    assert emitted["records_in"] > 0
