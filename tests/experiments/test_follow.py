"""Following chunks that run elsewhere: the end, a failure, an interruption."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import RunError
from flowcontrol.experiments.base import Paths
from flowcontrol.experiments.executor import Work, follow, shown_late, unseen_results
from flowcontrol.notices import quiet


class Planned:
    """A executor whose futures are what a test says."""

    workers = 1

    def __init__(self, *futures: Future[Any]) -> None:
        self.futures = list(futures)
        self.calls: list[str] = []

    def warm_up(self, say: Any, parts: int) -> None:
        self.calls.append("warm_up")

    def start(self, work: Any) -> list[Future[Any]]:
        self.calls.append("start")
        return self.futures

    def stop(self) -> None:
        self.calls.append("stop")

    def abandon(self) -> None:
        self.calls.append("abandon")


def ended(error: BaseException | None = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(error) if error else future.set_result(1)
    return future


class Runs(Work):
    def run_chunk(self, number: int) -> int:
        return number


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    (tmp_path / ".notes").mkdir()
    return Runs(Paths(tmp_path), "run", (), None, 0)


def test_what_has_ended_is_polled_once_more(runs: Runs) -> None:
    executor, polled, said = Planned(ended(), ended()), [], []
    follow(executor, runs, lambda: polled.append(1) or "", said.append, "runs")
    assert (executor.calls, polled, said) == (["start"], [1], [])
    assert not runs.stop_file.exists()


def test_a_failure_says_how_far_it_is_and_stops_the_others(runs: Runs) -> None:
    executor, said = Planned(ended(OSError("the disk is full"))), []
    with pytest.raises(RunError, match=r"OSError: the disk is full; 2 of 3, and the same command"):
        follow(executor, runs, lambda: "2 of 3", said.append, "runs")
    assert executor.calls == ["start", "stop", "abandon"]
    assert said == ["stopping after the runs under way"]
    assert runs.stop_file.exists()


def test_ctrl_c_reaches_the_caller_even_if_the_workers_cannot_be_stopped(runs: Runs) -> None:
    executor = Planned(ended())
    executor.stop = lambda: 1 / 0  # type: ignore[method-assign]

    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow(executor, runs, interrupted, lambda _: None, "runs")
    assert runs.stop_file.exists()


def test_who_is_quiet_sees_no_progress() -> None:
    with quiet(), shown_late("runs")(3, 1) as bar:
        bar.update(2, 1)


def test_results_that_the_driver_cannot_see_name_the_folder(tmp_path: Path) -> None:
    text = str(unseen_results("3 variants were run but their rows are", tmp_path))
    assert text.startswith(f"3 variants were run but their rows are not in {tmp_path}: the workers")
