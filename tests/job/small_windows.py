"""Small jobs with windows: what the tests of two folders run."""

from __future__ import annotations

from typing import Any

from flowcontrol.scenario import Scenario, check_clock, parse_scenario

TUMBLING = {"kind": "tumbling", "size_s": 0.5}
SEGMENT = "taskmanager.memory.segment-size"
INTERVAL = "pipeline.auto-watermark-interval"
FLUSH = "execution.buffer-timeout.interval"
FEW_BUFFERS = {
    SEGMENT: "4kb",
    INTERVAL: "50ms",
    FLUSH: "10ms",
    "taskmanager.network.memory.buffers-per-channel": 1,
    "taskmanager.network.memory.floating-buffers-per-gate": 1,
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": 0,
}
ZIPF = {"kind": "zipf", "keys": 30}


def mapping(window: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A source of 100 records/s for 2 s, windows, a sink; keys are the file's, or a stage's."""
    source = {
        "name": "source",
        "arrival_rate": [{"at_s": 0, "rate": 100}, {"at_s": 2, "rate": 0}],
        "emit_rate": 1000,
        "record_bytes": 400,
        "event_time": {"out_of_orderness_s": 0.3},
        "watermark": {"delay_s": 0.3},
    }
    given = {
        "schema": 1,
        "name": "windows",
        "duration_s": 4,
        "round_ms": 10,
        "sample_interval_s": 1,
        "options": {SEGMENT: "4kb", INTERVAL: "50ms", FLUSH: "10ms"},
        "stages": [
            {**source, **keys.pop("source", {})},
            {"name": "count", "record_bytes": 400, "window": window, **keys.pop("count", {})},
            {"name": "sink", **keys.pop("sink", {})},
        ],
        "edges": [{"from": "source", "to": "count"}, {"from": "count", "to": "sink"}],
    }
    return {**given, **keys}


def scenario(window: dict[str, Any], **keys: Any) -> Scenario:
    return checked(mapping(window, **keys))


def checked(given: dict[str, Any]) -> Scenario:
    found = parse_scenario(given)
    assert check_clock(found, "virtual") == []
    return found


CHECKPOINT = "execution.checkpointing."
UNALIGNED = {f"{CHECKPOINT}unaligned.enabled": True}
INTERRUPTED = {**UNALIGNED, f"{CHECKPOINT}unaligned.interruptible-timers.enabled": True}


def bursting(*, is_on: bool, **keys: Any) -> Scenario:
    """More than 400 keys fire at 2.3 s, into a sink that needs 8 s for them; unaligned barriers."""
    options = INTERRUPTED if is_on else UNALIGNED
    return burst(options, **keys)


def burst(
    options: dict[str, Any], drain: float = 50, record_bytes: int = 4000, **keys: Any
) -> Scenario:
    """The same with options, a rate of the sink, a size of results."""
    given = mapping(
        {"kind": "tumbling", "size_s": 2, "keys": 500},
        source={"arrival_rate": [{"at_s": 0, "rate": 500}], "emit_rate": 1000},
        count={"record_bytes": record_bytes},
        sink={"service_rate": [{"at_s": 0, "rate": drain}]},
        options={**FEW_BUFFERS, f"{CHECKPOINT}interval": "1s", **options},
        **{"duration_s": 20, "sample_interval_s": 0.5, **keys},
    )
    for edge in given["edges"]:
        edge["partitioner"] = "rebalance"  # a pointwise edge forces barriers to be aligned
    return checked(given)


def keyed(window: dict[str, Any], **keys: Any) -> Scenario:
    return checked(keyed_mapping(window, **keys))


def keyed_mapping(window: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Two subtasks with windows, which records reach by their key through a stage in between."""
    given = mapping(window, **keys)
    given["stages"][1]["parallelism"] = 2
    given["stages"].insert(1, {"name": "map", "parallelism": 2, "record_bytes": 4000})
    into = {"from": "map", "to": "count", "partitioner": "hash", "key_distribution": ZIPF}
    first = {"from": "source", "to": "map", "partitioner": "rebalance"}
    given["edges"] = [first, into, {"from": "count", "to": "sink", "partitioner": "rebalance"}]
    return given
