"""Small scenarios, each for one thing that both clocks must agree on."""

from __future__ import annotations

from typing import Any

OUTPUT = {"output": {"format": "delta"}}

SLOW = [{"at_s": 0, "rate": 1200}, {"at_s": 0.4, "rate": 100}, {"at_s": 1.2, "rate": 1500}]


def scenario(
    name: str,
    stages: list[dict[str, Any]],
    edges: list[dict[str, Any]],
    *,
    rounds: int = 14,
    task_managers: int = 2,
    exclusive: int = 4,
    floating: int = 6,
    **more: Any,
) -> dict[str, Any]:
    """Rounds of 100 ms, buffers of 4 KiB: 20.48 records of 200 bytes."""
    network = "taskmanager.network.memory."
    return {
        "schema": 1,
        "name": name,
        "duration_s": rounds / 10,
        "round_ms": 100,
        "sample_interval_s": 0.5,
        "cluster": {"task_managers": task_managers},
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            f"{network}buffers-per-channel": exclusive,
            f"{network}floating-buffers-per-gate": floating,
        },
        "stages": stages,
        "edges": edges,
        **more,
    }


def edge(sender: str, receiver: str, partitioner: str = "rebalance", **more: Any) -> dict[str, Any]:
    return {"from": sender, "to": receiver, "partitioner": partitioner, **more}


def source(name: str = "source", rate: Any = 1000, **more: Any) -> dict[str, Any]:
    return {"name": name, "emit_rate": rate, "record_bytes": 200, **more}


def sink(rate: Any = SLOW, name: str = "sink", **more: Any) -> dict[str, Any]:
    return {"name": name, "service_rate": rate, **OUTPUT, **more}


SINGLE = scenario("single", [source(), sink()], [edge("source", "sink")], rounds=18)

HASH = scenario(
    "hash",
    [source(rate=1500, placement=[0]), sink(rate=300, parallelism=3, placement=[1, 1, 1])],
    [edge("source", "sink", "hash", key_weights={"a": 6, "b": 3, "c": 2, "d": 1})],
)

SHORT = scenario(
    "short",
    [
        {"name": "source", "parallelism": 3, "total_rate": 1000, "record_bytes": 200},
        {"name": "sink", "parallelism": 2, "total_rate": SLOW, **OUTPUT},
    ],
    [edge("source", "sink", "hash", key_distribution={"kind": "zipf", "keys": 1000})],
)

FAN_IN = scenario(
    "fan-in",
    [source("big", 1000), source("small", 200), sink(rate=SLOW)],
    [edge("big", "sink"), edge("small", "sink")],
    task_managers=3,
    rounds=16,
)

COMPETE = scenario(
    "compete",
    [
        source(rate=[800, 800, 300], parallelism=3, placement=[0, 0, 0]),
        sink(rate=[250, [{"at_s": 0, "rate": 900}, {"at_s": 0.5, "rate": 60}]], parallelism=2,
             placement=[1, 1]),
    ],
    [edge("source", "sink")],
    exclusive=1,
    floating=3,
    rounds=16,
)  # fmt: skip
"""Three channels a gate share three floating buffers, with one of their own each."""

LOCAL = scenario("local", [source(), sink()], [edge("source", "sink")], task_managers=1, rounds=16)

STAGES = scenario(
    "stages",
    [
        source(),
        {"name": "map", "service_rate": 2000, "selectivity": 1.5, "record_bytes": 300},
        sink(rate=[{"at_s": 0, "rate": 1500}, {"at_s": 0.4, "rate": 150}]),
    ],
    [edge("source", "map"), edge("map", "sink")],
    task_managers=3,
    rounds=18,
)

SHUFFLE = scenario(
    "shuffle",
    [
        source(rate=700, parallelism=2, placement=[0, 1]),
        sink(rate=[400, 150, 800], parallelism=3, placement=[0, 1, 1]),
    ],
    [edge("source", "sink", "shuffle")],
    seed=7,
)
"""Local and remote channels side by side, and the only partitioner that draws numbers."""

RESCALE = scenario(
    "rescale",
    [source(rate=600, parallelism=2), sink(rate=150, parallelism=3)],
    [edge("source", "sink", "rescale")],
)
"""The first receiver of a sender's channels has a number that no subtask of the sender's has."""

LARGE = scenario(
    "large",
    [source(rate=40, record_bytes=10_000), sink(rate=[{"at_s": 0, "rate": 40}, {"at_s": 0.5,
                                                                               "rate": 10}])],
    [edge("source", "sink")],
    rounds=18,
)  # fmt: skip
"""A record spans two or three buffers; most buffers hold the end of none."""

FAN_OUT = scenario(
    "fan-out",
    [source(), sink(name="quick", rate=1500), sink(name="slow", rate=200, parallelism=2)],
    [edge("source", "quick"), edge("source", "slow", "custom", channel_weights=[3, 1])],
    task_managers=4,
    exclusive=0,
)
"""Without exclusive buffers: backlogs are announced."""

KILLED = scenario(
    "killed",
    [
        source("one", 500),
        source("two", 300),
        {"name": "map", "service_rate": 2000, "selectivity": 0.5},
        sink(rate=[{"at_s": 0, "rate": 600}, {"at_s": 0.3, "rate": 90}], parallelism=2),
    ],
    [edge("one", "map"), edge("two", "map"), edge("map", "sink")],
    task_managers=4,
    exclusive=3,
    floating=3,
    rounds=16,
)
"""A middle stage with two inputs and an output: three ledgers."""

EVERY = [SINGLE, HASH, SHORT, FAN_IN, COMPETE, LOCAL, STAGES, SHUFFLE, LARGE, FAN_OUT]
