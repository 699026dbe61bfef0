"""Dumps of a real Flink that ran, and the scenarios that it ran."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

import dumps
import tables

from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_scenario

NAMES = [
    f"{shape}.{change}" if change else shape
    for shape in dumps.SINK_RATES
    for change in ("", "slower-sink", "more-buffers")
]


def scenario(name: str) -> Scenario:
    """What ran in a dump."""
    shape, _, change = name.partition(".")
    overrides = dumps.changes(shape)[change] if change else {}
    return as_scenario(dumps.SHAPES / f"{shape}.yaml", overrides)


@cache
def polls(name: str) -> list[dict[str, Any]]:
    """The polls of a dump."""
    found: list[dict[str, Any]] = json.loads(
        gzip.decompress((dumps.DUMPS / f"{name}.json.gz").read_bytes())
    )["polls"]
    return found


def start_ms(name: str) -> int:
    """When the sources of a dump began, to a second: its first poll is of `dumps.SETTLED_S`."""
    first = polls(name)[0]
    now: int = first[tables.job_path(first)]["now"]
    return now - int(1000 * dumps.SETTLED_S)
