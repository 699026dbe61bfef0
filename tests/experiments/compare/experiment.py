"""The classic experiment, run once under each preset that a test asks for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from flowcontrol.analysis.producer_rates import Counted
from flowcontrol.analysis.run_view import RunView
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.compare.limits import job_limits
from flowcontrol.experiments.compare.run import Compared, figures_of, scenario_of
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[3] / "conf"

ROUND_S: Final = 0.01
"""Not the file's 100 ms, nor its latency of 300, which are longer than some windows last: 16
records in two such trips are 27/s, so the network would limit the producer, not the system."""

CHANGES: Final = (f"round_ms={ROUND_S * 1000:g}", "cluster.network_latency_ms=0")

TRIP_S: Final = 2 * ROUND_S
"""From a record that is sent until what its receiver says of it is heard: a round each way."""

SAMPLE_S: Final = 1.0


@dataclass(frozen=True)
class Phase:
    """A time in which the consumer is slow."""

    start_s: float
    end_s: float
    offered: float
    served: float

    @property
    def excess(self) -> float:
        """What is offered and not served, records/s."""
        return self.offered - self.served

    @property
    def slack(self) -> float:
        """Records that are under way, or of a round that is not over, at the two ends of a way."""
        return self.offered * (TRIP_S + ROUND_S)


class Run:
    """A run of the experiment under one preset; ``changed``: parameters of its throttle."""

    def __init__(self, system: str, *changed: tuple[str, float]) -> None:
        base = varied_base(CONF / "experiment.yaml", CHANGES)
        own = scenario_of(base, system)
        values = {**own.system.throttle_values, **dict(changed)}
        spec = own.system.model_copy(update={"throttle_values": values})
        self.scenario: Scenario = own.model_copy(update={"system": spec})
        job = build_physical_graph(self.scenario, round_us=round(ROUND_S * 1e6))
        run = simulate(self.scenario)
        tables = run.tables
        self.figures: Compared = figures_of(run, self.scenario, job_limits(job))
        self.emitted: Counted = RunView(self.scenario, tables).produced
        stages, channels = tables["stages"].to_pandas(), tables["channels"].to_pandas()
        self.t_s = np.array([0.0, *self.emitted.times])
        self.out = np.array([0.0, *self.emitted.records])
        taken = stages[stages["stage"] == "consumer"]["records_in"]
        self.taken = np.array([0.0, *taken])
        self.flight = np.array([0.0, *channels["in_flight_records"]])
        self.queued = np.array([0.0, *channels["queued"]])
        self.backlog = np.array([0.0, *channels["backlog"]])
        assert np.allclose(self.out - self.taken, self.flight)

    @property
    def values(self) -> dict[str, float]:
        """The parameters of its transport and its throttle."""
        system = self.scenario.system
        return {**system.transport_values, **system.throttle_values}

    @property
    def record_bytes(self) -> int:
        """Size of a record."""
        return self.scenario.stage("producer").record_bytes

    def rate(self, stage: str, at_s: float) -> float:
        """Return what a stage's file says of its rate at a moment."""
        spec = self.scenario.stage(stage)
        (schedule,) = (spec.emit_rate if stage == "producer" else spec.service_rate) or ()
        return float(schedule.rate_at(round(at_s * 1e6)))

    def offered(self) -> Any:
        """Return the records that fell due until each sample."""
        per_s = [self.rate("producer", t) for t in self.t_s[:-1]]
        return np.concatenate([[0.0], np.cumsum(np.array(per_s) * np.diff(self.t_s))])

    def phases(self) -> list[Phase]:
        """Return the times in which less is served than is offered."""
        ends = (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
        found = [
            Phase(a, b, self.rate("producer", a), self.rate("consumer", a))
            for a, b in itertools.pairwise(ends)
        ]
        return [phase for phase in found if phase.excess > 0]

    def at(self, series: Any, t_s: float) -> float:
        """Return the value of a series at a sample."""
        return float(series[round(t_s / SAMPLE_S)])

    def within(self, series: Any, start_s: float, end_s: float) -> Any:
        """Return the values at the samples after a moment, until another."""
        return series[(self.t_s > start_s + 1e-9) & (self.t_s < end_s + 1e-9)]


ran = cache(Run)
