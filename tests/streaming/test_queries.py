"""Queries that fail: which ones are started again, and what is said of the others. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.errors import RunError
from flowcontrol.streaming import queries
from flowcontrol.streaming.paths import RunPaths
from flowcontrol.streaming.queries import MOST_RESTARTS, StageQueries
from flowcontrol.streaming.rowschema import row_schemas

SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."
BROKEN = "Traceback ...\nValueError: 7 is no number\n=== Streaming Query ==="


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
def run(
    runs: ModuleType, cases: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
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


def test_a_reader_that_was_late_is_started_again(run: Callable[..., list[str]]) -> None:
    assert run(sink=[SLOW, SLOW]) == ["source", "sink", "sink", "sink"]


def test_not_for_ever(run: Callable[..., list[str]], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"stage sink: .*failed to connect back"):
        run(sink=[SLOW] * (MOST_RESTARTS + 1))
    assert (tmp_path / "stop").exists()


def test_any_other_failure_ends_the_run(run: Callable[..., list[str]], tmp_path: Path) -> None:
    with pytest.raises(RunError, match="stage source: ValueError: 7 is no number") as caught:
        run(source=[BROKEN])
    assert str(tmp_path / "failure.txt") in str(caught.value)
    assert (tmp_path / "failure.txt").read_text() == BROKEN
    assert (tmp_path / "stop").exists()  # the others end between batches
