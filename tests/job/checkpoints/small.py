"""Small jobs with checkpoints, and what their runs say."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from flowcontrol.layout.job import CheckpointSettings, Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from modules import load
from staged_runs import run_staged

NETMEM = "taskmanager.network.memory."
PREFIX = "execution.checkpointing."
ROUND_US = 100_000
TIMEOUT = {f"{PREFIX}unaligned": True, f"{PREFIX}aligned-checkpoint-timeout": "300ms"}
UNALIGNED = {f"{PREFIX}unaligned": True}
AT_LEAST_ONCE = {f"{PREFIX}mode": "AT_LEAST_ONCE"}


def cuts() -> ModuleType:
    """Return ``cuts.py``: runs that can be looked into."""
    return load("tests/job/checkpoints/cuts.py")


def job(
    stages: Iterable[Mapping[str, Any]],
    edges: Iterable[tuple[str, str, str]],
    options: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Job:
    """Rounds of 100 ms, buffers of 4 KiB, records of 400 bytes, a checkpoint each second."""
    mapping = {
        "schema": 1,
        "name": "small",
        "duration_s": 5,
        "round_ms": 100,
        "cluster": {"task_managers": 6},
        "stages": [{"record_bytes": 400, **stage} for stage in stages],
        "edges": [{"from": a, "to": b, "partitioner": how} for a, b, how in edges],
        **keys,
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "execution.buffer-timeout.interval": "100ms",
            f"{PREFIX}interval": "1s",
            **(options or {}),
        },
    }
    return build_physical_graph(parse_scenario(mapping))


def chain(rates: Mapping[str, Any], options: Mapping[str, Any] | None = None, **keys: Any) -> Job:
    """Stages in a row, each on a task manager of its own; the first is the source."""
    names = list(rates)
    first, *others = (
        {"name": name, ("service_rate" if i else "emit_rate"): rate, "placement": [i]}
        for i, (name, rate) in enumerate(rates.items())
    )
    edges = [(a, b, "rebalance") for a, b in itertools.pairwise(names)]
    return job([first, *others], edges, options, **keys)


def two_inputs(
    left: Any, right: Any, sink: Any, options: Mapping[str, Any] | None = None, **keys: Any
) -> Job:
    """Two sources, of which a sink reads."""
    stages = [
        {"name": "left", "emit_rate": left, "placement": [0]},
        {"name": "right", "emit_rate": right, "placement": [1]},
        {"name": "sink", "service_rate": sink, "placement": [2]},
    ]
    edges = [("left", "sink", "rebalance"), ("right", "sink", "rebalance")]
    return job(stages, edges, options, **keys)


def with_settings(made: Job, **changed: Any) -> Job:
    """Change how a job checkpoints."""
    assert made.checkpoints is not None
    settings: CheckpointSettings = replace(made.checkpoints, **changed)
    return replace(made, checkpoints=settings)


def rounds_of(run: Any, checkpoint: int) -> dict[int, tuple[int, int, int]]:
    """Return by task the round of its acknowledgement, start delay and alignment in ms."""
    return {
        one.task: (one.round, one.start_delay // 1000, one.alignment // 1000)
        for one in run.reports
        if one.checkpoint == checkpoint and one.kind == 1
    }


def durations(run: Any) -> dict[int, float]:
    """Return the end-to-end duration of each completed checkpoint, ms."""
    own = run.control.coordinator
    return {id: own.statistics(id).end_to_end / 1000 for id in run.completed}


def plain_rounds(made: Job) -> Any:
    """Run the same job without checkpoints."""
    return run_staged(replace(made, checkpoints=None))


def chain_of_large(made: Job) -> Job:
    """The same chain with records of more bytes than its output has buffers for."""
    mapping = made.scenario.canonical()
    for stage in mapping["stages"]:
        stage["record_bytes"] = 200_000
    return build_physical_graph(parse_scenario(mapping))


def processed_by(run: Any, stage: str, number: int) -> int:
    """Return the records that a stage's only subtask had taken up by the end of a round."""
    found: int = run.states[number].task(stage).state.taken
    return found
