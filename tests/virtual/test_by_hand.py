"""Single jobs in which the kernel and the rehearsal once went apart, or might."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.emulation import Job, lay_out
from flowcontrol.scenario import parse_scenario

NETMEM = "taskmanager.network.memory."


def job(
    stages: list[dict[str, Any]], edges: list[tuple[Any, ...]], *, round_us: int, **keys: Any
) -> Job:
    """Lay out a job of some rounds; an edge is (from, to, partitioner) and its other keys."""
    rounds = keys.pop("rounds", 60)
    mapping = {
        "schema": 1,
        "name": "by-hand",
        "duration_s": rounds * round_us / 1e6,
        "round_ms": round_us / 1000,
        "stages": stages,
        "edges": [
            {"from": edge[0], "to": edge[1], "partitioner": edge[2], **dict(*edge[3:])}
            for edge in edges
        ],
        **keys,
        "options": {"taskmanager.memory.segment-size": "4kb", **keys.get("options", {})},
    }
    return lay_out(parse_scenario(mapping))


def chain(between: dict[str, Any], sink: dict[str, Any], rate: Any = 1000) -> list[dict[str, Any]]:
    return [
        {"name": "source", "emit_rate": rate, "record_bytes": 1000},
        {"name": "map", **between},
        {"name": "sink", **sink},
    ]


EDGES = [("source", "map", "forward"), ("map", "sink", "forward")]


def test_a_variation_has_six_decimals(clocks: ModuleType) -> None:
    stages = chain(
        {"service_rate": 700, "service_time": "lognormal", "service_time_cv": 0.1234567}, {}
    )
    clocks.compare(job(stages, EDGES, round_us=7000))


@pytest.mark.parametrize("at_us", [24_001, 24_590, 24_999, 25_000, 25_001])
@pytest.mark.parametrize("for_us", [400, 1000, 3500])
@pytest.mark.parametrize("sink", [{}, {"service_rate": 20}])
def test_a_stage_without_a_rate_stands_still_from_the_next_round_on(
    clocks: ModuleType, at_us: int, for_us: int, sink: dict[str, Any]
) -> None:
    """Also one that sleeps, because it waits for its outputs or for something to do."""
    stages = chain({"stalls": [{"at_s": at_us / 1e6, "for_s": for_us / 1e6}]}, sink)
    for every in (1, 3, 60):
        clocks.compare(job(stages, EDGES, round_us=1000), every=every)


@pytest.mark.parametrize("rate", [10, 5, 20, 2.5, 33.3])
@pytest.mark.parametrize("emits", [4, 10, 1000])
def test_services_that_end_with_a_round(clocks: ModuleType, rate: float, emits: float) -> None:
    """What is done by the last microsecond of a round is written in it."""
    stages = chain({"service_rate": rate}, {"service_rate": 1000}, emits)
    for every in (1, 7, 60):
        clocks.compare(job(stages, EDGES, round_us=100_000), every=every)
