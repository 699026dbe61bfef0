from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

MISSING = "<remove it>"
"""As a value: remove the key."""

JOB: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 10,
    "stages": [
        {"name": "source", "parallelism": 2, "emit_rate": 100, "record_bytes": 200},
        {"name": "sink", "parallelism": 3, "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}

Change = Callable[..., dict[str, Any]]


def set_value(mapping: dict[str, Any], path: str, value: Any) -> None:
    """Set or remove one value; the path's parts stand between slashes, positions are digits."""
    keys: list[Any] = [int(key) if key.isdecimal() else key for key in path.split("/")]
    container: Any = mapping
    for key in keys[:-1]:
        if isinstance(container, dict) and key not in container:
            container[key] = {}
        container = container[key]
    if isinstance(value, str) and value == MISSING:
        del container[keys[-1]]
    elif isinstance(container, list) and keys[-1] == len(container):
        container.append(value)
    else:
        container[keys[-1]] = value


@pytest.fixture
def changed() -> Change:
    """A function that returns a small valid scenario with some values changed."""

    def change(*changes: tuple[str, Any]) -> dict[str, Any]:
        mapping = copy.deepcopy(JOB)
        for path, value in changes:
            set_value(mapping, path, copy.deepcopy(value))
        return mapping

    return change
