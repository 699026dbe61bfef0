"""Hand-made runs: tables with what a test states, and 0 everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.experiments.compare.limits import LimitPhase, job_limits
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.given import Base
from flowcontrol.scenario.system import PRESETS
from modules import load

CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 40,
    "round_ms": 100,
    "sample_interval_s": 1,
    "stages": [
        {"name": "source", "emit_rate": 200, "record_bytes": 100},
        {"name": "sink", "service_rate": [{"at_s": 0, "rate": 400}, {"at_s": 20, "rate": 100}]},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


def filled(table: str, **given: Any) -> dict[str, Any]:
    kinds = {"string": "", "int64": 0, "float64": 0.0}
    return {column.name: kinds[column.type] for column in RESULTS[table].columns} | given


def made_tables(rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """Return result tables of the rows that are given; what they leave out is 0."""
    return {
        name: pa.Table.from_pylist(
            [filled(name, **row) for row in rows.get(name, ())], schema=table.arrow_schema()
        )
        for name, table in RESULTS.items()
    }


@dataclass
class FakeRun:
    """A run that never took place."""

    tables: dict[str, pa.Table]
    rounds: int = 400
    round_us: int = 100_000
    wall_s: float = 0.5
    control_messages: int | None = None
    is_bounded: bool | None = None
    heap_exhausted_s: float | None = None


def run_at(scenario: Scenario, rates: Sequence[float], **facts: Any) -> FakeRun:
    """Return a run of the chain whose source emits these records/s, a second each.

    The sink takes what there is, as quickly as its schedule allows.
    """
    stages, channels, latency = [], [], []
    emitted = taken = 0.0
    schedule = scenario.stage("sink").service_rate
    assert schedule is not None
    for second, rate in enumerate(rates):
        able = float(schedule[0].rate_at(second * 1_000_000))
        emitted += rate
        into = min(able, emitted - taken)
        taken += into
        t_s = second + 1.0
        stages += [
            {"t_s": t_s, "stage": "source", "records_out": int(emitted), "rate_out": rate},
            {"t_s": t_s, "stage": "sink", "records_in": int(taken), "rate_in": into},
        ]
        held = int(emitted - taken)
        channels.append(
            {"t_s": t_s, "edge": "source->sink", "queued": held, "in_flight_records": held,
             "in_flight_bytes": 100 * held}
        )  # fmt: skip
        ms = 10.0 + held
        if into:
            latency.append(
                {"t_s": t_s, "stage": "sink", "kind": "record", "count": int(into), "mean_ms": ms,
                 "p50_ms": ms, "p90_ms": ms, "p99_ms": 2 * ms, "max_ms": 2 * ms}
            )  # fmt: skip
    tables = made_tables({"stages": stages, "channels": channels, "latency": latency})
    return FakeRun(tables, **facts)


def laid_out(mapping: Mapping[str, Any]) -> tuple[Job, list[LimitPhase] | None]:
    job = build_physical_graph(parse_scenario(dict(mapping)))
    return job, job_limits(job)


@dataclass
class Systems:
    """Stands for systems: says under which name the chain runs how."""

    rates: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    ran: list[str] = field(default_factory=list)

    def scenario_of(self, base: Base, system: str) -> Scenario:
        """Hide the system in the seed, so that whoever runs it finds it again."""
        if system not in self.rates and system not in self.broken:
            return base.scenario([(("system",), "no such system")])
        return base.scenario([(("system",), "flink"), (("seed",), list(PRESETS).index(system))])

    def simulate(self, scenario: Scenario) -> FakeRun:
        system = list(PRESETS)[scenario.seed]
        self.ran.append(system)
        if system in self.broken:
            raise ArithmeticError("a planted fault")
        return run_at(scenario, self.rates[system], **self.facts.get(system, {}))


@pytest.fixture
def systems(monkeypatch: pytest.MonkeyPatch) -> Systems:
    """Return made-up systems: a good one, one that never follows, others that are refused."""
    made = Systems(
        {"flink": [200.0] * 20 + [150.0, 110.0] + [100.0] * 18, "unbounded": [200.0] * 40},
        {"unbounded": {"is_bounded": False, "heap_exhausted_s": 31.0}, "flink": {
            "is_bounded": True, "control_messages": 590}},
    )  # fmt: skip
    monkeypatch.setattr("flowcontrol.experiments.compare.run.scenario_of", made.scenario_of)
    return made


@pytest.fixture
def chain() -> dict[str, Any]:
    """Return the scenario of the chain, as a file has it."""
    import copy

    return copy.deepcopy(CHAIN)


@pytest.fixture
def tables_of() -> Callable[[Mapping[str, Iterable[Mapping[str, Any]]]], dict[str, pa.Table]]:
    """Return :func:`made_tables`."""
    return made_tables


@pytest.fixture
def made() -> Callable[[Mapping[str, Iterable[Mapping[str, Any]]]], FakeRun]:
    """Return what makes a run of the rows that are given."""
    return lambda rows: FakeRun(made_tables(rows))


@pytest.fixture
def lay() -> Callable[[Mapping[str, Any]], tuple[Job, list[LimitPhase] | None]]:
    """Return what lays a scenario out and says what it can carry."""
    return laid_out


@pytest.fixture
def running() -> Callable[..., FakeRun]:
    """Return :func:`run_at`."""
    return run_at


@pytest.fixture(scope="session")
def experiment() -> ModuleType:
    """Return ``experiment.py``: the classic experiment, run once under each preset."""
    return load("tests/experiments/compare/experiment.py")
