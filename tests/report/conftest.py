"""Made-up runs for the tests of this folder."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.analysis import summarise
from flowcontrol.scenario import Scenario
from modules import load

JOB = [("left", "clean"), ("right", "clean"), ("clean", "store"), ("right", "sink")]


@dataclass(frozen=True)
class Run:
    """A run with everything that the report takes."""

    tables: dict[str, pa.Table]
    scenario: Scenario
    summary: dict[str, Any]


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    """Return the module ``synthetic.py`` beside this file."""
    return load("tests/report/synthetic.py")


@pytest.fixture(scope="session")
def drawing() -> ModuleType:
    """Return the script ``picture.py``."""
    return load("scripts/picture.py")


def summarised(tables: dict[str, pa.Table], scenario: Scenario) -> Run:
    summary = summarise(
        tables, scenario, clock="live", rounds=500, wall_s=52.3, round_ms=200.0
    )  # fmt: skip
    return Run(tables, scenario, summary)


@pytest.fixture(scope="session")
def experiment(synthetic: ModuleType) -> Run:
    """Return the classic experiment."""
    return summarised(*synthetic.experiment())


@pytest.fixture(scope="session")
def fan(synthetic: ModuleType) -> Run:
    """Return a job with two sources, two sinks and two subtasks each."""
    return summarised(*synthetic.job(JOB, parallelism=2))


@pytest.fixture(scope="session")
def large(synthetic: ModuleType) -> Run:
    """Return a chain of twelve stages."""
    names = [f"stage-{number:02d}" for number in range(12)]
    edges = list(itertools.pairwise(names))
    return summarised(*synthetic.job(edges, samples=5))


@pytest.fixture(scope="session")
def empty(experiment: Run) -> Run:
    """Return the experiment, stopped before its first sample."""
    tables = {name: table.slice(0, 0) for name, table in experiment.tables.items()}
    return summarised(tables, experiment.scenario)


@pytest.fixture(scope="session")
def timed() -> Run:
    """Return a run with event time, aligned sources and windows."""
    return summarised(*load("tests/report/timed_run.py").timed())


@pytest.fixture(scope="session")
def hostile(synthetic: ModuleType) -> Run:
    """Return a run whose names are markup, which no scenario file can say."""
    tables, scenario = synthetic.experiment()
    evil, worse = "<b>x</b>", '"><script>alert(1)</script>'
    names = {"producer": evil, "consumer": worse, "producer->consumer": f"{evil}->{worse}"}
    stages = tuple(s.model_copy(update={"name": names[s.name]}) for s in scenario.stages)
    edge = scenario.edges[0].model_copy(update={"sender": evil, "receiver": worse})
    changed = scenario.model_copy(update={"name": worse, "stages": stages, "edges": (edge,)})
    return summarised({name: _renamed(table, names) for name, table in tables.items()}, changed)


def _renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    for column in ("stage", "edge"):
        if column in table.column_names:
            values = [names[value] for value in table[column].to_pylist()]
            index = table.column_names.index(column)
            table = table.set_column(index, table.schema.field(column), pa.array(values))
    return table
