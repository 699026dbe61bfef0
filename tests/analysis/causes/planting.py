"""Jobs with a cause that is planted by parameters, drawn so that no threshold fits one number.

A :class:`Planted` draws a scenario from a seed and says which causes must be found, and which
places may be named as the bottleneck. Every job runs for seconds of emulated time on the virtual
clock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Where = tuple[str, str | None, int | None]
"""Cause, stage, subtask."""
Mapping = dict[str, Any]
Job = tuple[Mapping, set[Where], set[str | None]]
"""The scenario, what is planted, and the places that may be the bottleneck: a stage, an edge, a
throttle, or None."""


@dataclass(frozen=True)
class Planted:
    """A drawing: its name, and the function of a random generator that makes the job."""

    name: str
    draw: Callable[[random.Random], Job]

    def job(self, seed: int) -> Job:
        return self.draw(random.Random(f"{self.name}-{seed}"))


HOT = -1
"""Stands for the subtask of the hottest key, which its hash decides: any, but one."""

WHICHEVER = "*"
"""Stands for any stage."""

PLANTED: list[Planted] = []


def planted(draw: Callable[[random.Random], Job]) -> Callable[[random.Random], Job]:
    PLANTED.append(Planted(draw.__name__, draw))
    return draw


def scenario(stages: list[Mapping], edges: list[Mapping], **more: Any) -> Mapping:
    options = {"taskmanager.memory.segment-size": "4kb", **more.pop("options", {})}
    head = {"schema": 1, "name": "planted", "duration_s": 6, "sample_interval_s": 0.2}
    return head | {"stages": stages, "edges": edges, "options": options} | more


def edge(sender: str, receiver: str, partitioner: str = "rebalance", **more: Any) -> Mapping:
    return {"from": sender, "to": receiver, "partitioner": partitioner, **more}


def chain(*names: str) -> list[Mapping]:
    return [edge(a, b) for a, b in pairwise(names)]


def source(rate: float, name: str = "source", **more: Any) -> Mapping:
    return {"name": name, "emit_rate": round(rate), "record_bytes": 100, **more}


def stage(name: str, rate: float | None = None, parallelism: int = 1, **more: Any) -> Mapping:
    """Return a stage with a rate of all its subtasks together."""
    own = {} if rate is None else {"service_rate": max(1, round(rate / parallelism))}
    return {"name": name, "parallelism": parallelism, **own, **more}


def offered(rng: random.Random) -> float:
    return rng.uniform(4_000, 9_000)


def slow(rng: random.Random) -> float:
    """Return the part of what is offered that a slow part of the job can do."""
    return rng.uniform(0.35, 0.8)


def quick(rng: random.Random) -> float:
    """Return how many times what is offered the other parts can do."""
    return rng.uniform(1.4, 2.5)


def pauses(rng: random.Random, **more: Any) -> list[Mapping]:
    """Return some stalls of a run of 6 s, as of a full garbage collection."""
    return [
        {"at_s": round(at + rng.uniform(0, 0.5), 2), "for_s": round(rng.uniform(0.4, 0.7), 2)}
        | more
        for at in (0.8, 2.5, 4.2)
    ]


def weights(rng: random.Random, count: int, hot: int, share: float) -> list[float]:
    rest = [rng.uniform(0.8, 1.2) for _ in range(count - 1)]
    scaled = [round((1 - share) * one / sum(rest), 4) for one in rest]
    return [*scaled[:hot], round(share, 4), *scaled[hot:]]


def checkpointed(mode: str, interval_ms: int = 1000) -> Mapping:
    unaligned = {"execution.checkpointing.unaligned.enabled": True} if mode == "unaligned" else {}
    return {"execution.checkpointing.interval": f"{interval_ms}ms", **unaligned}


def event_time(name: str = "source", **more: Any) -> Mapping:
    return {"event_time": {"out_of_orderness_s": 0.2}, "watermark": {"delay_s": 0.2}, **more}


def far(rng: random.Random, r: float, nbytes: int, buffers: int) -> float:
    """Return a latency, ms, at which a window of 4 KiB buffers carries too little."""
    window_s = buffers * 4096 / (r * nbytes)
    return round(1000 * window_s / slow(rng) / 2, 1)
