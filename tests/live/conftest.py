"""What the tests of the live clock share: their helper modules, and a function that runs a job."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.run import RunResult, emulate
from flowcontrol.scenario import Scenario
from modules import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def runs() -> ModuleType:
    """Return ``runs.py``: ledgers to compare, and rows that must come."""
    return load("tests/live/runs.py")


@pytest.fixture(scope="session")
def checks() -> ModuleType:
    """Return ``checks.py``: the check of the classic experiment."""
    return load("tests/live/checks.py")


@pytest.fixture(scope="session")
def cases() -> ModuleType:
    """Return ``cases.py``: small scenarios."""
    return load("tests/live/cases.py")


@pytest.fixture(scope="session")
def failing() -> ModuleType:
    """Return ``failing.py``: small scenarios that fail and restart."""
    return load("tests/live/failing.py")


@pytest.fixture(scope="session")
def driver() -> ModuleType:
    """Return ``driver.py``: a stand-in for Spark that can be killed."""
    return load("tests/live/driver.py")


@pytest.fixture(scope="session")
def run_live(spark: SparkSession) -> Callable[..., RunResult]:
    """Return a function that runs a scenario to its end in the shared session."""

    def run(scenario: Scenario | Path, out: Path, **options: Any) -> RunResult:
        names = ("spark.scheduler.pool", "spark.job.description")
        before = [spark.sparkContext.getLocalProperty(name) for name in names]
        result = emulate(scenario, out=out, spark=spark, **options)
        assert result.is_finished
        # The caller's jobs go on where they went before.
        assert [spark.sparkContext.getLocalProperty(name) for name in names] == before
        return result

    return run


class Run(NamedTuple):
    """A live run with the rows of its job on the virtual clock."""

    job: Job
    result: RunResult
    ledgers: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="session")
def run_of(
    runs: ModuleType,
    cases: ModuleType,
    run_live: Callable[..., RunResult],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Run]:
    """Return a function that runs a case of ``cases.py`` live, once for all tests."""
    done: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in done:
            job = runs.job_of(getattr(cases, name.upper()))
            result = run_live(job.scenario, tmp_path_factory.mktemp(name) / "run")
            done[name] = Run(job, result, runs.assert_is_virtual(job, result.path))
        return done[name]

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that starts emulate.py by the start script; ends what a test left."""
    if not (Path(sys.prefix) / "flowcontrol" / "ready-run").exists():
        pytest.skip("the start script did not make this environment: run ./run-tests.sh")
    processes, started = load("tests/live/processes.py"), list[Any]()

    def begin(scenario: Path, *arguments: str, **options: Any) -> Any:
        started.append(processes.Emulation(scenario, *arguments, cwd=tmp_path, **options))
        return started[-1]

    yield begin
    for process in started:
        process.end()
