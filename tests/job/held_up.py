"""A job made by hand whose output waits: what random jobs seldom show, for a test to meet it."""

from __future__ import annotations

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario

NETMEM = "taskmanager.network.memory."


def windows_of_the_clock() -> Job:
    """Return a job whose windows fire by the clock, more results than there is room for."""
    options = {
        "taskmanager.memory.segment-size": "4kb",
        "execution.buffer-timeout.interval": 0,
        NETMEM + "buffers-per-channel": 1,
        NETMEM + "floating-buffers-per-gate": 2,
    }
    window = {"kind": "tumbling", "size_s": 0.5, "trigger": "processing_time"}
    keyed = {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 40}}
    given = {
        "schema": 1,
        "name": "held-up",
        "duration_s": 3,
        "round_ms": 100,
        "options": options,
        "stages": [
            {"name": "source", "emit_rate": 150, "record_bytes": 200},
            {"name": "count", "record_bytes": 6000, "window": window},
            {"name": "sink", "service_rate": 20},
        ],
        "edges": [
            {"from": "source", "to": "count", **keyed},
            {"from": "count", "to": "sink", "partitioner": "rebalance"},
        ],
    }
    return build_physical_graph(parse_scenario(given))
