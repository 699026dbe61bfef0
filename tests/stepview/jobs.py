"""Small scenarios for the step-through view, and their films."""

from __future__ import annotations

from itertools import islice
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.results.running import step
from flowcontrol.scenario.resolve import parse_scenario
from flowcontrol.stepview.film import Film, film

FORWARD: dict[str, Any] = {
    "schema": 1,
    "name": "lanes",
    "duration_s": 6,
    "sample_interval_s": 0.5,
    "seed": 1,
    "cluster": {"task_managers": 2},
    "options": {"taskmanager.memory.segment-size": "4kb"},
    "stages": [
        {
            "name": "A", "parallelism": 2, "placement": [0, 0],
            "emit_rate": 1000, "record_bytes": 200,
        },
        {"name": "B", "parallelism": 2, "placement": [1, 1], "service_rate": [2000, 200]},
    ],
    "edges": [{"from": "A", "to": "B", "partitioner": "forward"}],
}  # fmt: skip
"""Two lanes over one connection, of which the second has a slow receiver."""

BARRIERS: dict[str, Any] = {
    **FORWARD,
    "name": "barriers",
    "options": {
        "taskmanager.memory.segment-size": "4kb",
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.unaligned.enabled": True,
    },
    "stages": [{**FORWARD["stages"][0], "placement": [0, 1]}, FORWARD["stages"][1]],
    "edges": [{"from": "A", "to": "B", "partitioner": "rebalance"}],
}
"""All to all, two of the channels local, with barriers that overtake."""


def job_of(mapping: dict[str, Any], round_us: int = 5000, **changes: Any) -> Job:
    """Return a scenario with some keys changed, laid out."""
    return build_physical_graph(parse_scenario({**mapping, **changes}), round_us=round_us)


def film_of(job: Job, first: int, last: int) -> Film:
    """Return a film of some rounds of a run."""
    before = max(0, first - 1)
    return film("own", job, islice(step(job, first=before), last + 1 - before), first)
