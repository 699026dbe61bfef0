"""Jobs drawn at random, over all keys that both a real Flink and the emulation run.

Rates stay so low that the sleeps of a service are exact, and buffers so small that a phase of a
dozen seconds fills them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from refusals import check

from flowcontrol.errors import FlowControlError
from flowcontrol.scenario import parse_scenario

Mapped = dict[str, Any]

DURATION_S = 24
TURN_S = 12
"""When a rate changes, if it does: three in ten do."""

MOST_RECORDS_S = 4000
MOST_BYTES_S = 40e6
MOST_TASKS = 12
TRIES = 1000
"""So often a job is drawn until both sides take it."""

SEGMENTS = {"4kb": 4096, "8kb": 8192, "16kb": 16384, "32kb": 32768}


def draw(seed: int, version: str) -> Mapped:
    """Return a scenario as a mapping.

    Parameters
    ----------
    seed : int
        The same seed gives the same job, as long as this file stays as it is.
    version : str
        Of the Flink that will run it.

    Raises
    ------
    RuntimeError
        If none of many draws is a job.
    """
    chance = random.Random(seed)
    for _ in range(TRIES):
        stated = _job(chance, f"random-{seed}", version)
        try:
            check(parse_scenario(stated), version)
        except FlowControlError:
            continue
        return stated
    raise RuntimeError(f"seed {seed}: no job after {TRIES} draws")


def _job(chance: random.Random, name: str, version: str) -> Mapped:
    shape = chance.choice((_chain, _chain, _fan_in, _fan_out, _diamond))
    names, pairs = shape(chance)
    managers = chance.choice((1, 2, 2, 3))
    size, segment = chance.choice([*SEGMENTS.items()])
    rate = chance.choice((100, 300, 800, 2000, MOST_RECORDS_S))
    most = min(3 * segment, MOST_BYTES_S / rate)
    record_bytes = int(min(chance.choice((60, 200, 1000, 5000, 3 * segment)), most))
    parallelism = _parallelism(chance, names)
    sources = [one for one in names if all(to != one for _, to in pairs)]
    stages = []
    for one in names:
        stage: Mapped = {"name": one, "parallelism": parallelism[one]}
        inputs = [sender for sender, to in pairs if to == one]
        own = rate / parallelism[one] / (len(sources) if one in sources else 1)
        if one in sources:
            stage |= {"record_bytes": record_bytes, **_source(chance, own)}
        elif chance.random() < 0.8:
            stage["service_rate"] = _rates(chance, own * chance.choice((0.3, 0.7, 1.5, 3)))
            stage |= _service(chance)
        if inputs and any(sender == one for sender, _ in pairs):
            stage |= chance.choice(({}, {}, {"selectivity": 0.5}, {"selectivity": 2}))
        stage["placement"] = [chance.randrange(managers)] * parallelism[one]
        stages.append(stage)
    return {
        "schema": 1,
        "name": name,
        "seed": chance.randrange(1000),
        "duration_s": DURATION_S,
        "sample_interval_s": 1,
        "system": "flink",
        "cluster": {"task_managers": managers},
        "options": {
            "taskmanager.memory.segment-size": size,
            **_options(chance, version),
            **_checkpoints(chance),
        },
        "stages": stages,
        "edges": [_edge(chance, parallelism, *pair) for pair in pairs],
    }


def _chain(chance: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    names = ["source", *(f"map{n}" for n in range(chance.choice((0, 1, 1, 2)))), "sink"]
    return names, list(pairwise(names))


def _fan_in(chance: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    return ["left", "right", "map", "sink"], [("left", "map"), ("right", "map"), ("map", "sink")]


def _fan_out(chance: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    return ["source", "quick", "slow"], [("source", "quick"), ("source", "slow")]


def _diamond(chance: random.Random) -> tuple[list[str], list[tuple[str, str]]]:
    pairs = [("source", "left"), ("source", "right"), ("left", "sink"), ("right", "sink")]
    return ["source", "left", "right", "sink"], pairs


def _parallelism(chance: random.Random, names: list[str]) -> Mapping[str, int]:
    while True:
        found = {name: chance.choice((1, 1, 2, 2, 3)) for name in names}
        if sum(found.values()) <= MOST_TASKS:
            return found


def _rates(chance: random.Random, rate: float) -> Any:
    first, second = round(rate, 1), round(rate * chance.choice((0.3, 0.5, 2, 4)), 1)
    if chance.random() < 0.7:
        return first
    return [{"at_s": 0, "rate": first}, {"at_s": TURN_S, "rate": second}]


def _service(chance: random.Random) -> Mapped:
    kind = chance.choice(("constant", "constant", "exponential", "lognormal"))
    if kind == "constant":
        return {}
    if kind == "exponential":
        return {"service_time": kind}
    return {"service_time": kind, "service_time_cv": chance.choice((0.5, 2))}


def _source(chance: random.Random, rate: float) -> Mapped:
    if chance.random() < 0.3:
        return {
            "arrival_rate": round(rate, 1),
            "emit_rate": round(rate * chance.choice((1.5, 3)), 1),
        }
    return {"emit_rate": _rates(chance, rate), **_service(chance)}


def _options(chance: random.Random, version: str) -> Mapped:
    flush = chance.choice(("0 ms", "10ms", "50ms", "100ms", "100ms", "1s"))
    found: Mapped = {"execution.buffer-timeout.interval": flush}
    if version.startswith("2"):
        return found  # it has fixed numbers of buffers
    memory = "taskmanager.network.memory."
    found |= {
        f"{memory}buffers-per-channel": chance.choice((1, 2, 2, 4)),
        f"{memory}floating-buffers-per-gate": chance.choice((1, 4, 8, 8, 16)),
    }
    if chance.random() < 0.2:
        found[f"{memory}max-overdraft-buffers-per-gate"] = chance.choice((0, 2, 10))
    return found


def _checkpoints(chance: random.Random) -> Mapped:
    if chance.random() < 0.6:
        return {}
    begin = "execution.checkpointing."
    found: Mapped = {f"{begin}interval": chance.choice(("2s", "4s"))}
    if chance.random() < 0.6:
        found[f"{begin}unaligned.enabled"] = True
        found[f"{begin}aligned-checkpoint-timeout"] = chance.choice(("0 ms", "200ms", "1s"))
    elif chance.random() < 0.2:
        found[f"{begin}mode"] = "AT_LEAST_ONCE"
    return found


def _edge(chance: random.Random, parallelism: Mapping[str, int], sender: str, to: str) -> Mapped:
    edge: Mapped = {"from": sender, "to": to}
    choices: list[Callable[[], Mapped]] = [
        *(lambda: {"partitioner": "rebalance"},) * 3,
        lambda: {"partitioner": "rescale"},
        lambda: {"partitioner": "shuffle"},
        lambda: {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 50}},
        lambda: {
            "partitioner": "hash",
            "channel_weights": [chance.choice((1, 2, 4)) for _ in range(parallelism[to])],
        },
    ]
    if parallelism[sender] == parallelism[to]:
        choices.append(lambda: {"partitioner": "forward"})
    return edge | chance.choice(choices)()
