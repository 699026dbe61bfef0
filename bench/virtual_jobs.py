"""The jobs that the virtual clock is timed on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowcontrol.scenario import Scenario, parse_scenario

__all__ = ["CHAIN", "Chain", "chain", "idle", "square", "wide"]

SEGMENT_BYTES = 4096
_MEMORY = "taskmanager.network.memory."


class Chain(NamedTuple):
    """Three stages of parallelism 1; a record is a buffer.

    Attributes
    ----------
    rates : tuple of float, buffers/s
        What the source emits at most, what the middle and the sink process at most.
    pool, gate : int, buffers
        Of the sender and of the receiver of each edge.
    """

    rates: tuple[float, float, float]
    pool: int
    gate: int


CHAIN = Chain((10_000.0, 9_500.0, 9_000.0), 32, 32)
"""The sink limits: 9,000 buffers/s, 9 a round of 1 ms, where 2 rounds of credit are 32."""


def _scenario(name: str, duration_s: float, keys: Mapping[str, Any]) -> Scenario:
    options = {"taskmanager.memory.segment-size": f"{SEGMENT_BYTES}b", **keys["options"]}
    head = {"schema": 1, "name": name, "duration_s": duration_s, "sample_interval_s": duration_s}
    return parse_scenario({**head, **keys, "options": options})


def chain(duration_s: float, job: Chain = CHAIN, *, round_ms: float | None = None) -> Scenario:
    """Return the chain; the round is chosen by the clock unless given."""
    names = ("source", "middle", "sink")
    given = {} if round_ms is None else {"round_ms": round_ms}
    return _scenario(
        "chain",
        duration_s,
        {
            **given,
            "cluster": {"task_managers": 3},
            "options": {
                _MEMORY + "buffers-per-channel": job.gate // 2,
                _MEMORY + "floating-buffers-per-gate": job.gate - job.gate // 2,
                _MEMORY + "max-buffers-per-channel": 2 * job.pool,
            },
            "stages": [
                {
                    "name": name,
                    "service_rate" if number else "emit_rate": rate,
                    "record_bytes": SEGMENT_BYTES,
                    "placement": [number],
                }
                for number, (name, rate) in enumerate(zip(names, job.rates, strict=True))
            ],
            "edges": [{"from": "source", "to": "middle"}, {"from": "middle", "to": "sink"}],
        },
    )


def idle(duration_s: float, active_s: float) -> Scenario:
    """Return the chain with a source that emits for a while and is silent for the rest."""
    scenario = chain(duration_s, round_ms=1)
    source = scenario.stages[0]
    assert source.emit_rate is not None
    from flowcontrol.scenario import Phase, Schedule

    rate = source.emit_rate[0].phases[0].rate
    phases = (Phase(at_us=0, rate=rate), Phase(at_us=int(active_s * 1e6), rate=rate * 0))
    quiet = source.model_copy(update={"emit_rate": (Schedule(phases=phases),)})
    return scenario.model_copy(update={"stages": (quiet, *scenario.stages[1:])})


def wide(duration_s: float) -> Scenario:
    """Return 4 stages x 8 subtasks on 4 task managers with every feature on.

    Hash by weighted keys, rebalance and shuffle; schedules by subtask, stalls, selectivity, times
    that are exponential and lognormal; latency and bandwidth of connections, local channels,
    overdraft, the periodic flusher, debloating, and a second way from the source to the sink.
    """
    width = 8
    spread = [subtask % 4 for subtask in range(width)]
    keys = {f"key{number}": 1.0 / (number + 1) for number in range(64)}
    busy = [{"at_s": 0, "rate": 40_000}, {"at_s": duration_s / 2, "rate": 50_000}]
    return _scenario(
        "wide",
        duration_s,
        {
            "round_ms": 1,
            "seed": 1,
            "cluster": {
                "task_managers": 4,
                "network_latency_ms": 1,
                "bandwidth_bytes_per_s": 10**10,
            },
            "options": {
                "taskmanager.memory.network.min": "256mb",
                _MEMORY + "buffers-per-channel": 16,
                _MEMORY + "floating-buffers-per-gate": 64,
                _MEMORY + "max-buffers-per-channel": 64,
                _MEMORY + "buffer-debloat.enabled": True,
                "execution.buffer-timeout.interval": "10ms",
            },
            "stages": [
                {
                    "name": "source",
                    "parallelism": width,
                    "emit_rate": [busy] * (width - 1) + [40_000],
                    "record_bytes": SEGMENT_BYTES,
                    "placement": spread,
                },
                {
                    "name": "filter",
                    "parallelism": width,
                    "service_rate": 60_000,
                    "service_time": "lognormal",
                    "selectivity": 0.9,
                    "placement": spread,
                    "stalls": [{"at_s": duration_s / 4, "for_s": 0.05, "subtasks": [0, 3]}],
                },
                {
                    "name": "window",
                    "parallelism": width,
                    "service_rate": 150_000,
                    "service_time": "exponential",
                    "placement": spread,
                },
                {
                    "name": "sink",
                    "parallelism": width,
                    "service_rate": 150_000,
                    "placement": spread,
                },
            ],
            "edges": [
                {"from": "source", "to": "filter", "partitioner": "rebalance"},
                {"from": "filter", "to": "window", "partitioner": "hash", "key_weights": keys},
                {"from": "window", "to": "sink", "partitioner": "shuffle"},
                {"from": "source", "to": "sink", "partitioner": "rebalance"},
            ],
        },
    )


def square(side: int, rounds: int) -> Scenario:
    """Return two stages of ``side`` subtasks, all to all, for a number of rounds of 1 ms.

    A buffer a channel and round, whatever the number of channels, and nothing ever blocks.
    """
    buffers = 4 * side * side + 64 * side + 64
    return _scenario(
        f"square-{side}",
        rounds / 1000,
        {
            "round_ms": 1,
            "cluster": {"task_managers": 2},
            "options": {
                "taskmanager.memory.network.min": f"{buffers * SEGMENT_BYTES}b",
                _MEMORY + "buffers-per-channel": 2,
            },
            "stages": [
                {
                    "name": "source",
                    "parallelism": side,
                    "emit_rate": 1000 * side,
                    "record_bytes": SEGMENT_BYTES,
                    "placement": [0] * side,
                },
                {"name": "sink", "parallelism": side, "placement": [1] * side},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        },
    )
