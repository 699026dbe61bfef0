"""A run that goes on after something of it was taken away, or put in another's place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from flowcontrol.errors import DamagedError, LedgerError, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.history import check_run
from flowcontrol.live.queries import StageQueries, run_live
from flowcontrol.live.rows import row_schemas

REMEDY = r"Put it back as it was .* --overwrite"


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-10])


Damage = Callable[[Path], object]
DAMAGE: dict[str, tuple[Damage, str]] = {
    "gone": (Path.unlink, "is missing although the log needs it"),
    "torn": (cut, r"is damaged: it has [\d,]+ bytes, written were [\d,]+"),
}


def tree(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def left(runs: ModuleType, cases: ModuleType, driver: ModuleType, tmp_path: Path) -> Job:
    """A run of several rounds a batch, as it lies in a folder."""
    single = cases.SINGLE
    cluster = {**single["cluster"], "network_latency_ms": 300}
    job = runs.job_of({**single, "cluster": cluster})
    driver.Driver(job, tmp_path).run()
    return job


def go_on(job: Job, root: Path) -> StageQueries:
    """Do what a run does before its queries start."""
    return StageQueries(None, job, RunPaths(root), row_schemas(job, {}), "run")  # type: ignore[arg-type]


def test_a_whole_run_may_go_on(left: Job, tmp_path: Path) -> None:
    assert all(batch.rounds == left.rounds for batch in go_on(left, tmp_path).batches.values())


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize(
    "pattern", ["ledger/receiver-*", "ledger/sender-*", "exchange/**/*.parquet"]
)
def test_a_run_that_lacks_a_file_is_refused_before_anything_is_written(
    left: Job, tmp_path: Path, pattern: str, how: str
) -> None:
    """A file of an old round was missed when all rounds were done, the last one by some stage."""
    files = sorted(tmp_path.glob(f"links/*/{pattern}"))
    damage, text = DAMAGE[how]
    damage(files[0])
    before = tree(tmp_path)
    with pytest.raises(DamagedError, match=rf"{files[0].name} {text}\. {REMEDY}"):
        go_on(left, tmp_path)
    assert tree(tmp_path) == before


def test_such_a_folder_is_refused_as_one_of_another_scenario_is(left: Job, tmp_path: Path) -> None:
    """The status of the command is that of a refusal: nothing was written."""
    sorted(tmp_path.glob("links/*/ledger/_delta_log/*.json"))[-1].write_text("")
    before, folder = tree(tmp_path), SimpleNamespace(paths=RunPaths(tmp_path), run_id="run")
    with pytest.raises(ScenarioError, match=rf"is damaged: .*{REMEDY}") as caught:
        run_live(None, left, folder, lambda *_: None)  # type: ignore[arg-type]
    assert [problem.place for problem in caught.value.problems] == ["--out"]
    assert tree(tmp_path) == before


def test_an_exchange_log_that_lacks_its_newest_commit_is_refused(left: Job, tmp_path: Path) -> None:
    """The sender's next commit took its name, and then the rows before it were missed."""
    [log] = tmp_path.glob("links/*/exchange/_delta_log")
    sorted(log.glob("*.json"))[-1].unlink()
    before = tree(tmp_path)
    with pytest.raises(LedgerError, match=rf"exchange: channel \d->\d holds no .*{REMEDY}"):
        go_on(left, tmp_path)
    assert tree(tmp_path) == before


CRASHED = {"FAN_OUT": 300, "COMPETE": 200, "KILLED": 300}
"""Milliseconds of the network, by case of ``cases.py``."""


@pytest.mark.parametrize("name", CRASHED)
def test_a_run_that_died_anywhere_may_go_on(
    cases: ModuleType,
    runs: ModuleType,
    driver: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    case = getattr(cases, name)
    cluster = {**case["cluster"], "network_latency_ms": CRASHED[name]}
    job = runs.job_of({**case, "duration_s": 0.9, "cluster": cluster})
    begin, checked = driver.Driver._go_on, list[int]()

    def begin_checked(self: Any) -> bool:
        if self.starts > 0:
            check_run(job, self.paths, "run")
            checked.append(self.starts)
        return bool(begin(self))

    monkeypatch.setattr(driver.Driver, "_go_on", begin_checked)
    monkeypatch.setattr(exchange, "TRIM_EVERY", 2)
    driver.Driver(job, tmp_path, driver.Crashes(named=True)).run()
    assert len(checked) > 20


@pytest.mark.parametrize("stage", ["source", "sink"])
@pytest.mark.parametrize("ahead", [1, 4, 9])
def test_a_checkpoint_that_is_ahead_of_its_ledger_is_refused(
    runs: ModuleType, cases: ModuleType, driver: ModuleType, tmp_path: Path, stage: str, ahead: int
) -> None:
    """Two batches ahead all stages waited for one another; at its end, others for its query."""
    cluster = {**cases.SINGLE["cluster"], "network_latency_ms": 300}
    job = runs.job_of({**cases.SINGLE, "cluster": cluster})
    made = driver.Driver(job, tmp_path)
    queries = {plan.name: driver.Query(made, plan.name) for plan in job.stages}
    for name in ("source", "sink"):
        queries[name].step()
    last = min(2 + 3 * ahead, job.rounds - 1)
    reader = queries[stage]._reader
    with pytest.raises(LedgerError, match=f"round {last} is done, .* end with round 2: .*{REMEDY}"):
        reader.next_offset({"round": last, "cursors": {}})
    assert reader.next_offset({"round": 2, "cursors": {}})["round"] == 5


def checkpoint(root: Path, stage: str, text: Any) -> Path:
    folder = RunPaths(root).checkpoint(stage)
    folder.mkdir(parents=True)
    (folder / "metadata").write_text(text)
    return folder


def test_the_checkpoint_of_another_query_is_refused(left: Job, tmp_path: Path) -> None:
    """Spark stopped the other query, and the run waited for it for ever."""
    folders = [checkpoint(tmp_path, name, json.dumps({"id": "7f"})) for name in ("source", "sink")]
    with pytest.raises(DamagedError, match=f"query 7f too. {REMEDY}") as caught:
        go_on(left, tmp_path)
    assert all(str(folder) in str(caught.value) for folder in folders)


def test_checkpoints_of_their_own_are_not(left: Job, tmp_path: Path) -> None:
    for name in ("source", "sink"):
        checkpoint(tmp_path, name, json.dumps({"id": name}))
    go_on(left, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]"])
def test_a_damaged_checkpoint_is_named(left: Job, tmp_path: Path, text: str) -> None:
    folder = checkpoint(tmp_path, "sink", text)
    with pytest.raises(DamagedError, match=f"{folder}/metadata is damaged: .*{REMEDY}"):
        go_on(left, tmp_path)
