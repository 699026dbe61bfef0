"""Queries that fail: which ones are started again, and what is said of the others. No JVM."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import RunError
from flowcontrol.live import queries
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.queries import MOST_RESTARTS, StageQueries
from flowcontrol.live.rows import row_schemas
from flowcontrol.live.source import StageReader
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")

SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."
BROKEN = "Traceback ...\nValueError: 7 is not a number\n=== Streaming Query ==="


class Query:
    """A query that ends, one look after it was started, as it was told."""

    def __init__(self, error: str | None, ended: Callable[[], None]) -> None:
        self._error, self._ended, self._looks = error, ended, 0

    @property
    def isActive(self) -> bool:
        self._looks += 1
        if self._looks == 2 and self._error is None:
            self._ended()
        return self._looks < 3

    def exception(self) -> Exception | None:
        return None if self._error is None else RuntimeError(self._error)


class Spark:
    """What a run needs of a session before its queries start."""

    @property
    def dataSource(self) -> Spark:
        return self

    def register(self, source: type) -> None:
        assert source.__name__ == "StageSource"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A function that runs queries that end with the errors given per stage, one a start."""
    job = runs.job_of(cases.SINGLE)
    monkeypatch.setattr(queries, "LOOK_EVERY_S", 0)

    def run_them(**errors: list[str | None]) -> list[str]:
        started: list[str] = []
        stages = StageQueries(Spark(), job, RunPaths(tmp_path), row_schemas(job, {}), "run")  # type: ignore[arg-type]

        def begin(stage: str) -> Any:
            started.append(stage)
            left = errors.setdefault(stage, [])
            batch = stages.batches[stage]
            return Query(left.pop(0) if left else None, lambda: setattr(batch, "rounds", 18))

        monkeypatch.setattr(stages, "_start", begin)
        assert stages.run(lambda *_: None)
        return started

    return run_them


@pytest.mark.parametrize("failed_since", [False, True])
def test_a_query_that_ends_unasked_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed_since: bool
) -> None:
    """Others waited for it for ever: its checkpoint said that it was at its end."""
    job, paths = runs.job_of(cases.SINGLE), RunPaths(tmp_path)
    monkeypatch.setattr(queries, "LOOK_EVERY_S", 0)

    class Waiting:
        """Runs until the run is asked to stop."""

        @property
        def isActive(self) -> bool:
            return not paths.stop_file.exists()

        def exception(self) -> None:
            return None

    class Ended:
        """Has ended, maybe with an error that comes up between two looks."""

        isActive = False
        looks = 0

        def exception(self) -> Exception | None:
            self.looks += 1
            return RuntimeError(BROKEN) if failed_since and self.looks > 1 else None

    stages = StageQueries(Spark(), job, paths, row_schemas(job, {}), "run")  # type: ignore[arg-type]
    monkeypatch.setattr(stages, "_start", lambda stage: Ended() if stage == "sink" else Waiting())
    text = "7 is not a number" if failed_since else "ended after 0 of 18 rounds, and this process"
    with pytest.raises(RunError, match=f"stage sink: .*{text}") as caught:
        stages.run(lambda *_: None)
    if not failed_since:
        for part in (str(paths.checkpoint("sink")), "same command again", "--overwrite"):
            assert part in str(caught.value)


class Endless:
    """A query of Spark before 4.2, which ends when it is stopped and not before."""

    def __init__(self) -> None:
        self.isActive, self.stops = True, 0

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive, self.stops = False, self.stops + 1


def test_a_query_that_spark_does_not_end_is_stopped_when_its_reader_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, paths, started = runs.job_of(cases.SINGLE), RunPaths(tmp_path), dict[str, Endless]()
    monkeypatch.setattr(queries, "LOOK_EVERY_S", 0)
    stages = StageQueries(Spark(), job, paths, row_schemas(job, {}), "run")  # type: ignore[arg-type]

    def begin(stage: str) -> Endless:
        started[stage] = Endless()
        return started[stage]

    def watch(_rounds: int, _records: int) -> None:
        """One reader after the other has planned its last round."""
        active = [stage for stage, query in started.items() if query.isActive]
        for stage in active[:1]:
            stages.batches[stage].rounds = job.rounds
            paths.ended_file(stage).parent.mkdir(parents=True, exist_ok=True)
            paths.ended_file(stage).touch()

    monkeypatch.setattr(stages, "_start", begin)
    assert stages.run(watch)
    assert [query.stops for query in started.values()] == [1] * len(job.stages)


@pytest.mark.parametrize("limits", [True, False])
def test_a_reader_says_that_it_has_no_further_round_where_spark_does_not_see_it(
    limits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, paths = runs.job_of({**cases.SINGLE, "duration_s": 0.3}), RunPaths(tmp_path)
    driver.Driver(job, tmp_path).run()
    monkeypatch.setattr("flowcontrol.live.planner.has_read_limits", lambda: limits)
    stage = job.stages[0].name
    paths.checkpoint(stage).mkdir(parents=True)
    options = {
        "scenario": json.dumps(job.scenario.canonical()),
        "folder": str(tmp_path),
        "run_id": "run",
        "stage": stage,
        "columns": "[]",
    }
    reader = StageReader(options)
    last = {"round": job.rounds - 1, "cursors": {}}
    assert reader.next_offset(last) is last
    assert paths.ended_file(stage).exists() is not limits


def test_a_reader_that_was_late_is_started_again(run: Callable[..., list[str]]) -> None:
    assert run(sink=[SLOW, SLOW]) == ["source", "sink", "sink", "sink"]


def test_every_stage_has_its_own_patience(run: Callable[..., list[str]]) -> None:
    """On a machine with twenty processes for two cores all readers of a run were late."""
    late = [SLOW] * MOST_RESTARTS
    started = run(source=list(late), sink=list(late))
    assert started.count("source") == started.count("sink") == MOST_RESTARTS + 1


def test_not_for_ever(run: Callable[..., list[str]], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"stage sink: .*failed to connect back"):
        run(sink=[SLOW] * (MOST_RESTARTS + 1))
    assert (tmp_path / "stop").exists()


def test_any_other_failure_ends_the_run(run: Callable[..., list[str]], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="stage source: ValueError: 7 is not a number") as caught:
        run(source=[BROKEN])
    assert str(tmp_path / "failure.txt") in str(caught.value)
    assert (tmp_path / "failure.txt").read_text() == BROKEN
    assert (tmp_path / "stop").exists()  # the others end between batches


# ---------------------------------------------------------------------- nothing goes on


class Running:
    """A query that goes on until it is asked to end, or is stopped."""

    def __init__(self, paths: RunPaths, *, hears: bool) -> None:
        self._paths, self._hears, self.is_stopped = paths, hears, False

    @property
    def isActive(self) -> bool:
        return not self.is_stopped and not (self._hears and self._paths.stop_file.exists())

    def exception(self) -> None:
        return None

    def awaitTermination(self, timeout: float) -> bool:
        assert timeout > 0
        return not self.isActive

    def stop(self) -> None:
        assert self.isActive
        self.is_stopped = True


class Context:
    """The properties of a thread's jobs."""

    def __init__(self, **properties: str) -> None:
        self.properties = {f"spark.{key.replace('_', '.')}": v for key, v in properties.items()}
        self.environment: dict[str, str] = {}

    def getLocalProperty(self, key: str) -> str | None:
        return self.properties.get(key)

    def setLocalProperty(self, key: str, value: str | None) -> None:
        if value is None:
            self.properties.pop(key, None)
        else:
            self.properties[key] = value


class Session(Spark):
    """A session in which any reader and writer may be made; ``begin`` is what starts a query."""

    def __init__(self, context: Context, begin: Callable[[str], Any]) -> None:
        self.sparkContext, self._begin, self._name = context, begin, ""

    def __getattr__(self, _name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Session:
        return self

    def queryName(self, name: str) -> Session:
        self._name = name
        return self

    def start(self) -> Any:
        return self._begin(self._name.rpartition("-")[2])


Started = dict[str, Running]


@pytest.fixture
def leaking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Started, Context]]:
    """A function that runs queries that go on, and fails in one of two ways."""
    job = runs.job_of(cases.SINGLE)
    monkeypatch.setattr(queries, "LOOK_EVERY_S", 0)

    def run_them(*, fails: str, hears: bool = True, **properties: str) -> tuple[Started, Context]:
        started: Started = {}
        context = Context(**properties)

        def begin(stage: str) -> Running:
            assert context.properties["spark.scheduler.pool"] == f"flowcontrol-{stage}"
            assert context.properties["spark.job.description"] == f"flowcontrol stage {stage}"
            if fails == stage:
                raise OSError("no space left")
            started[stage] = Running(RunPaths(tmp_path), hears=hears)
            return started[stage]

        def watch(*_: int) -> None:
            raise ZeroDivisionError

        spark: Any = Session(context, begin)
        stages = StageQueries(spark, job, RunPaths(tmp_path), row_schemas(job, {}), "run")
        with pytest.raises(ZeroDivisionError if fails == "watch" else OSError):
            stages.run(watch)
        return started, context

    return run_them


@pytest.mark.parametrize("hears", [True, False])
@pytest.mark.parametrize(("fails", "count"), [("sink", 1), ("watch", 2)])
def test_no_query_outlives_a_run_that_fails(
    leaking: Callable[..., tuple[Started, Context]], fails: str, count: int, hears: bool
) -> None:
    started, _ = leaking(fails=fails, hears=hears)
    assert len(started) == count
    for query in started.values():
        assert not query.isActive
        assert query.is_stopped != hears  # what ends between batches is not stopped in one


@pytest.mark.parametrize("fails", ["source", "sink", "watch"])
@pytest.mark.parametrize("before", [{}, {"scheduler_pool": "mine", "job_description": "my job"}])
def test_the_thread_has_its_own_properties_again(
    leaking: Callable[..., tuple[Started, Context]], fails: str, before: dict[str, str]
) -> None:
    _, context = leaking(fails=fails, **before)
    assert context.properties == Context(**before).properties
