"""A queue as a scenario, and its means from the tables of a run.

- A source with exponential times emits a Poisson stream; what falls due while it has no room is
  lost. A stage with a rate is a server.
- A record is as large as a segment and is flushed at once, so a record is a buffer. All stages
  stand on one task manager, so the exchange is local and the sender's pool is all the room there
  is. The record being served holds no buffer: a pool of n buffers is n places to wait.
- The mean service time of a server of rate 1 is 10 ms, a round is a 200th of it. A record written
  in one round is seen in the next, so a round is what an exchange adds to a delay, and what a
  place that gets free stays unseen for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flowcontrol.scenario import Scenario, parse_scenario

SERVICE_RATE = 100
"""Records/s of a server of rate 1."""

ROUND_MS = 0.05
SAMPLE_SERVICES = 10
"""Mean service times between two samples: some relaxation times of a queue at half load."""

SEGMENT_BYTES = 4096
AMPLE = 600
"""Room that is never full at the loads tried here."""

WARM_UP = 0.1
"""Share of a run that is left out: hundreds of service times, where tens would do."""


@dataclass(frozen=True)
class Means:
    """Means of one run after its warm-up.

    Attributes
    ----------
    waiting : dict of str to float, records
        By name of the edge: emitted and not yet taken up.
    delay_s : float, s
        From emission at the source to the start of service at the sink.
    throughput : float, records/s
        Taken up by the sink.
    blocked, busy : dict of str to float
        Shares of the time, by name of the stage.
    """

    waiting: dict[str, float]
    delay_s: float
    throughput: float
    blocked: dict[str, float]
    busy: dict[str, float]


def scenario(
    stages: Mapping[str, Mapping[str, Any]],
    *,
    room: int,
    seed: int,
    services: int,
    round_ms: float = ROUND_MS,
) -> Scenario:
    """Return stages in a row, all on one task manager.

    Parameters
    ----------
    stages : mapping
        In order, by name: what the scenario file says of each.
    room : int, at least 2
        Places to wait between any two of them. A pool has at least one buffer more than channels.
    seed : int
        Of all times drawn.
    services : int
        Length of the run in mean service times.
    round_ms : float, ms
        Length of a round.
    """
    memory = "taskmanager.network.memory."
    names = list(stages)
    return parse_scenario(
        {
            "schema": 1,
            "name": "queue",
            "duration_s": services / SERVICE_RATE,
            "round_ms": round_ms,
            "sample_interval_s": SAMPLE_SERVICES / SERVICE_RATE,
            "seed": seed,
            "cluster": {"task_managers": 1},
            "options": {
                "taskmanager.memory.segment-size": f"{SEGMENT_BYTES}b",
                memory + "buffers-per-channel": 1,
                memory + "floating-buffers-per-gate": room - 1,
                memory + "max-buffers-per-channel": 10 * room,
                memory + "max-overdraft-buffers-per-gate": 0,
                "execution.buffer-timeout.interval": "0ms",
            },
            "stages": [
                {"name": name, "record_bytes": SEGMENT_BYTES, **keys}
                for name, keys in stages.items()
            ],
            "edges": [
                {"from": sender, "to": receiver, "partitioner": "forward"}
                for sender, receiver in itertools.pairwise(names)
            ],
        }
    )


def means(tables: Mapping[str, pa.Table]) -> Means:
    """Return the means of a run, its warm-up left out."""
    end = pc.max(tables["stages"]["t_s"]).as_py()
    late = {name: _after(table, WARM_UP * end) for name, table in tables.items()}
    stages = {name: _of(late["stages"], "stage", name) for name in _names(late["stages"], "stage")}
    edges = {name: _of(late["channels"], "edge", name) for name in _names(late["channels"], "edge")}
    served = late["latency"]["count"]
    count = pc.sum(served).as_py()
    total_ms = pc.sum(pc.multiply(late["latency"]["mean_ms"], served)).as_py()
    return Means(
        waiting={name: _mean(table, "in_flight_records") for name, table in edges.items()},
        delay_s=total_ms / count / 1000,
        throughput=count / (end - WARM_UP * end),
        blocked={n: _mean(t, "backpressured_ms_per_s") / 1000 for n, t in stages.items()},
        busy={n: _mean(t, "busy_ms_per_s") / 1000 for n, t in stages.items()},
    )


def _after(table: pa.Table, t_s: float) -> pa.Table:
    return table.filter(pc.greater(table["t_s"], t_s))


def _names(table: pa.Table, column: str) -> Sequence[str]:
    names: list[str] = pc.unique(table[column]).to_pylist()
    return names


def _of(table: pa.Table, column: str, name: str) -> pa.Table:
    return table.filter(pc.equal(table[column], name))


def _mean(table: pa.Table, column: str) -> float:
    """Return the mean of a column; samples are equally far apart."""
    value: float = pc.mean(table[column]).as_py()
    return value
