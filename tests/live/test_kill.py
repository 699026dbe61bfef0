"""kill -9 of the driver, again and again, in one run: it ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.live.folder import RunPaths, open_folder
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.run import RunResult
from flowcontrol.spark.crash_points import CrashPoint
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
runs = load("tests/live/runs.py")

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = [
    ("source", 1, CrashPoint.BEFORE_EXCHANGE),
    ("source", 2, CrashPoint.BEFORE_LEDGER),
    ("source", 3, CrashPoint.AFTER_LEDGER),
    ("map", 5, CrashPoint.BEFORE_EXCHANGE),
    ("map", 6, CrashPoint.BEFORE_LEDGER),
    ("map", 7, CrashPoint.BETWEEN_LEDGERS),
    ("map", 8, CrashPoint.AFTER_LEDGER),
    ("sink", 10, CrashPoint.BEFORE_EXCHANGE),
    ("sink", 11, CrashPoint.BEFORE_LEDGER),
    ("sink", 12, CrashPoint.AFTER_LEDGER),
]
"""A stage may be ahead of one that is killed by a round for every edge between the two: hence
the gaps where another stage is next."""


STAGES = ("source", "map", "sink")

SEED = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))


def some_kills() -> list[tuple[str, int, str]]:
    """Return all of them in the long form; in the quick one one of the stage with two ledgers."""
    if "FLOWCONTROL_LONG" in os.environ:
        return KILLS
    return [random.Random(SEED).choice([kill for kill in KILLS if kill[0] == "map"])]


def three_stages(cases: ModuleType) -> dict[str, Any]:
    return {**cases.STAGES, "name": "killed", "duration_s": 1.5}


def test_every_point_is_reached_in_every_kind_of_stage() -> None:
    """A kill that no process reaches would test nothing: rows must move in that round."""
    job = runs.job_of(three_stages(cases))
    ledgers = runs.virtual_rows(job)
    assert runs.saw(ledgers) == {"floating", "waiting", "no credit", "blocked"}
    for stage, number, _ in KILLS:
        side = "sender" if job.stage(stage).outputs else "receiver"
        [edge] = [link.name for link in job.stage(stage).outputs or job.stage(stage).inputs]
        own = [row for row in ledgers[edge] if (row["side"], row["batch_id"]) == (side, number)]
        assert sum(row["rows"] for row in own) > 0, (stage, number)
    points = {(stage, point) for stage, _, point in KILLS}
    for point in (CrashPoint.BEFORE_EXCHANGE, CrashPoint.BEFORE_LEDGER, CrashPoint.AFTER_LEDGER):
        assert {(stage, point) for stage in STAGES} <= points


@pytest.mark.long  # the other kills here are quick; test_restarts.py has every point
def test_a_run_that_is_killed_again_and_again(start: Callable[..., Any], tmp_path: Path) -> None:
    job = runs.job_of(three_stages(cases))
    scenario, out = tmp_path / "killed.yaml", tmp_path / "killed"
    scenario.write_text(yaml.safe_dump(three_stages(cases)))
    kills, planned = 0, some_kills()
    print(f"FLOWCONTROL_SEED={SEED}: {planned}")
    for stage, number, point in planned:
        killed = start(scenario, "--out", str(out), kill_at=f"{stage}:{number}:{point}")
        assert killed.wait() == -signal.SIGKILL, killed.said()
        assert not json.loads((out / "run.json").read_text())["finished"]
        killed.assert_nothing_left()
        kills += 1
    assert kills == len(planned) >= 1
    last = start(scenario, "--out", str(out))
    assert last.wait() == 0, last.said()
    last.assert_nothing_left()
    assert json.loads((out / "summary.json").read_text())["rounds"] == job.rounds
    runs.assert_is_virtual(job, out)
    expected = run_job(job).tables
    for name in ("stages", "channels"):
        assert in_order(DeltaTable(str(out / name)).to_pyarrow_table()) == in_order(expected[name])
    rows = Counter(runs.rows_in_order(out / "output" / "sink"))
    numbers = len(rows)
    assert numbers > 100
    # Three records for every two: number n leaves the map between 1.5 n and 1.5 (n + 1).
    assert [rows["source", 0, n] for n in range(numbers)] == [
        3 * (n + 1) // 2 - 3 * n // 2 for n in range(numbers)
    ]
    if "FLOWCONTROL_LONG" in os.environ:
        compare_with_undisturbed(runs, job, out, start, scenario)


RESTART_KILLS = [
    ("map", 6, CrashPoint.BEFORE_STATE),
    ("sink", 13, CrashPoint.AFTER_LEDGER),
    ("source", 14, CrashPoint.BEFORE_LEDGER),
    ("map", 15, CrashPoint.BETWEEN_LEDGERS),
    ("sink", 16, CrashPoint.BEFORE_LEDGER),
    ("source", 17, CrashPoint.BEFORE_EXCHANGE),
    ("map", 18, CrashPoint.AFTER_LEDGER),
]
"""In the rounds of the failure, its detection, the cancellation, the restore, and of its run."""


def failing_stages(cases: ModuleType) -> dict[str, Any]:
    failing = load("tests/live/failing.py")
    failed = [{"at_s": 1.3, "stage": "sink", "subtask": 0}]
    case = failing.failing(failing.sinks_at(cases.STAGES, 300), failed, 24, failing.UNALIGNED)
    return {**case, "name": "killed"}


def test_the_kills_of_a_restart_are_in_its_rounds() -> None:
    """A kill that no process reaches would test nothing: each is where it says."""
    job = runs.job_of(failing_stages(cases))
    [restart] = load("tests/live/failing.py").restarts_of(job).restarts
    assert (restart.failed, restart.detected, restart.restarted, restart.running) == (
        13,
        14,
        16,
        17,
    )
    assert restart.checkpoint > 1
    ledgers = runs.virtual_rows(job)
    [row] = [
        row for row in ledgers["source->map"] if (row["side"], row["batch_id"]) == ("receiver", 6)
    ]
    reports = row["task_state"]["checkpoints"]["reports"]
    assert TAKEN in {report["kind"] for report in reports}


@pytest.mark.long
def test_a_run_that_is_killed_while_it_restarts(start: Callable[..., Any], tmp_path: Path) -> None:
    job = runs.job_of(failing_stages(cases))
    scenario, out = tmp_path / "killed.yaml", tmp_path / "killed"
    scenario.write_text(yaml.safe_dump(failing_stages(cases)))
    kills = 0
    for stage, number, point in RESTART_KILLS:
        killed = start(scenario, "--out", str(out), kill_at=f"{stage}:{number}:{point}")
        assert killed.wait() == -signal.SIGKILL, killed.said()
        killed.assert_nothing_left()
        kills += 1
    assert kills == len(RESTART_KILLS)
    last = start(scenario, "--out", str(out))
    assert last.wait() == 0, last.said()
    runs.assert_is_virtual(job, out)
    compare_with_undisturbed(runs, job, out, start, scenario)


def compare_with_undisturbed(
    runs: ModuleType, job: Any, out: Path, start: Callable[..., Any], scenario: Path
) -> None:
    """Compare all tables of a run with those of the same scenario that nobody kills."""
    whole = out.with_name("whole")
    undisturbed = start(scenario, "--out", str(whole))
    assert undisturbed.wait() == 0, undisturbed.said()
    runs.assert_is_virtual(job, whole)
    runs.assert_same_rows(job, out, whole)
    assert runs.rows_in_order(out / "output" / "sink") == runs.rows_in_order(
        whole / "output" / "sink"
    )
    kept = {path.parent.name for path in whole.glob("*/_delta_log")} - {"state"}
    assert kept >= {"stages", "channels", "latency"}
    for name in kept:
        one, other = (DeltaTable(str(path / name)).to_pyarrow_table() for path in (out, whole))
        assert in_order(one) == in_order(other), name
    assert exchanged(RunPaths(out), job) == exchanged(RunPaths(whole), job)


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a result, by their first columns."""
    order = [(column, "ascending") for column in table.column_names[:4]]
    return table.sort_by(order).to_pylist()  # type: ignore[no-any-return]


def exchanged(paths: RunPaths, job: Any) -> dict[str, list[Any]]:
    """Rows of every exchange log, in order of round and sender; what a kill orphaned is not in."""
    found = {}
    for link in job.links:
        table = DeltaTable(str(paths.exchange(link))).to_pyarrow_table()
        rows = [tuple(row.values()) for row in table.to_pylist()]
        found[link.name] = sorted(rows)
    return found


def test_a_run_that_was_killed_after_its_last_round_is_finished(
    run_of: Callable[[str], Any], run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    """All is committed, only the note that the run is finished is missing."""
    job, first = run_of("compete").job, tmp_path / "run"
    shutil.copytree(run_of("compete").result.path, first)
    before = runs.live_rows(job, first)
    run_file = first / "run.json"
    noted = json.loads(run_file.read_text())
    run_file.write_text(json.dumps({**noted, "finished": False}))
    again = run_live(job.scenario, first)  # asserts that it is finished
    assert again.summary["rounds"] == job.rounds
    kept = {path.name for path in (again.path / "queries").iterdir() if path.is_dir()}
    assert kept == {plan.name for plan in job.stages}
    assert not (again.path / "checkpoints").exists(), "that is a table of results"
    assert json.loads(run_file.read_text()) == noted
    runs.assert_equal(runs.live_rows(job, first), before)


def test_a_run_that_was_killed_before_its_first_offsets_begins(
    run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    """Spark refuses a checkpoint that holds the temporary file of its first offsets."""
    job = runs.job_of(cases.LOCAL)
    # Nothing but the note that it has begun.
    open_folder(tmp_path / "run", job.scenario, named=True, overwrite=False).close()
    for plan in job.stages:
        offsets = RunPaths(tmp_path / "run").checkpoint(plan.name) / "offsets"
        offsets.mkdir(parents=True)
        for name in (".0.5a8a6c0e.tmp", "..0.5a8a6c0e.tmp.crc"):
            (offsets / name).write_text("v1")
    again = run_live(job.scenario, tmp_path / "run")  # asserts that it is finished
    assert again.summary["rounds"] == job.rounds
    runs.assert_is_virtual(job, tmp_path / "run")
