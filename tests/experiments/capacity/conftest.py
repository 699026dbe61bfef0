"""A stand-in for the virtual clock: a fluid that runs from a source into a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario, parse_scenario

STEPS = 100  # of a second


@dataclass
class FluidRun:
    """What is used of a run."""

    tables: dict[str, pa.Table]


@dataclass
class Fluid:
    """Runs two stages: the sink drains at its rate, at most ``room`` records wait.

    What does not fit in while the sink is busy is lost, as a blocked source loses it. ``rates``
    lists the rates at which it was called.
    """

    room: float = 500.0
    input_records: float = float("inf")

    def __post_init__(self) -> None:
        self.rates: list[float] = []

    def __call__(self, scenario: Scenario) -> FluidRun:
        source, sink = scenario.stage("source"), scenario.stage("sink")
        assert source.emit_rate is not None
        offered = [float(schedule.rate_at(0)) for schedule in source.emit_rate]
        self.rates.append(offered[0])
        width = source.parallelism
        rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RESULTS}
        waiting, emitted, total = 0.0, [0.0] * width, sum(offered) / STEPS
        lost, before = 0.0, [0.0] * width
        for step in range(int(scenario.duration_s * STEPS)):
            us = step * 1_000_000 // STEPS
            drained = sum(float(s.rate_at(us)) for s in sink.service_rate or ()) / STEPS
            room = self.room * width - waiting + drained
            due = min(total, max(0.0, self.input_records - sum(emitted)))
            let_in = min(due, room)
            lost += 1 - let_in / due if due > 0 else 0.0
            waiting = max(0.0, waiting + let_in - drained)
            emitted = [e + let_in / width for e in emitted]
            if (step + 1) % STEPS == 0:
                t_s = (step + 1) / STEPS
                rates = [e - b for e, b in zip(emitted, before, strict=True)]
                self._sample(rows, t_s, rates, 1000 * lost / STEPS, waiting, sink)
                lost, before = 0.0, list(emitted)
        return FluidRun(
            {
                name: pa.Table.from_pylist(rows[name], schema=RESULTS[name].arrow_schema())
                for name in RESULTS
            }
        )

    def _sample(
        self,
        rows: dict[str, list[dict[str, Any]]],
        t_s: float,
        rates: list[float],
        blocked: float,
        waiting: float,
        sink: Any,
    ) -> None:
        def add(table: str, **columns: Any) -> None:
            zeros = dict.fromkeys(RESULTS[table].names, 0)
            rows[table].append({**zeros, "t_s": t_s, **columns})

        for subtask, rate in enumerate(rates):
            add(
                "stages",
                stage="source",
                subtask=subtask,
                rate_out=rate,
                backpressured_ms_per_s=blocked,
                idle_ms_per_s=1000 - blocked,
            )
            share = int(waiting / len(rates))
            add("channels", edge="source->sink", sender=subtask, in_flight_records=share)
        busy = 1000.0 if waiting > 0 or blocked > 0 else 500.0
        add("stages", stage="sink", busy_ms_per_s=busy, idle_ms_per_s=1000 - busy)
        add("latency", stage="sink", kind="record", count=1, mean_ms=waiting)


@pytest.fixture
def fluid() -> type[Fluid]:
    """The stand-in."""
    return Fluid


@pytest.fixture
def make() -> Callable[..., Scenario]:
    """A function that makes the scenario of two stages with values changed."""

    def make_it(
        service: Any = 3000, parallelism: int = 1, duration_s: float = 20, **source: Any
    ) -> Scenario:
        return parse_scenario(
            {
                "schema": 1,
                "name": "two",
                "duration_s": duration_s,
                "round_ms": 1,
                "stages": [
                    {"name": "source", "emit_rate": 100, "parallelism": parallelism, **source},
                    {"name": "sink", "service_rate": service},
                ],
                "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
            }
        )

    return make_it
