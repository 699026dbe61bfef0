"""Ctrl-C, a second start beside a running one, and runs that stand in the way."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.live.folder import RunPaths
from flowcontrol.records import RESULTS
from flowcontrol.run import emulate
from flowcontrol.scenario import load_scenario

pytestmark = pytest.mark.spark


def rounds_done(job: Any, out: Path) -> int:
    """Rounds whose rows both sides of every link have committed; 0 where no ledger stands."""
    last: list[int] = []
    for link in job.links:
        if not (RunPaths(out).ledger(link) / "_delta_log" / f"{0:020d}.json").exists():
            return 0
        view = LedgerView(RunPaths(out).ledger(link))
        view.refresh()
        last += [view.last_batch(side) for side in ("sender", "receiver")]
    return min(last) + 1


def wait_until(happened: Callable[[], bool], process: Any) -> None:
    while not happened():
        assert process.process.poll() is None, process.said()
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.long  # a run that is killed goes on in test_kill.py
def test_ctrl_c_ends_a_run_between_batches_and_the_same_command_goes_on(
    cases: ModuleType, runs: ModuleType, start: Callable[..., Any], tmp_path: Path
) -> None:
    mapping = {**cases.STAGES, "name": "stopped", "duration_s": 2.5}
    scenario, out = tmp_path / "stopped.yaml", tmp_path / "stopped"
    scenario.write_text(yaml.safe_dump(mapping))
    job = runs.job_of(mapping)
    assert job.rounds == 25

    # Before Spark is there: nothing but the folder is made, and nothing stays behind.
    early = start(scenario, "--out", str(out))
    wait_until((out / "run.json").exists, early)
    early.interrupt()
    assert early.wait() == 130, early.said()
    assert "Traceback" not in early.said()
    early.assert_nothing_left()

    first = start(scenario, "--out", str(out))
    wait_until(lambda: rounds_done(job, out) >= 3, first)
    second = start(scenario, "--out", str(out))  # on the same folder
    assert second.wait() == 2, second.said()
    assert "another process runs in this folder" in second.said()
    assert first.process.poll() is None
    wait_until(lambda: rounds_done(job, out) >= 6, first)
    first.interrupt()
    assert first.wait() == 130, first.said()
    assert "stopped before its end; run the same command again to resume it" in first.said()
    assert "Traceback" not in first.said()
    first.assert_nothing_left()
    done = rounds_done(job, out)
    assert 6 <= done < 25
    check_part(runs, job, out, done)

    last = start(scenario, "--out", str(out))
    assert last.wait() == 0, last.said()
    runs.assert_is_virtual(job, out)
    assert json.loads((out / "summary.json").read_text())["rounds"] == 25
    assert json.loads((out / "run.json").read_text())["finished"]


def check_part(runs: ModuleType, job: Any, out: Path, done: int) -> None:
    """Check what a run that was stopped has written: results of the rounds that are done."""
    assert not (out / "failure.txt").exists()
    assert not json.loads((out / "run.json").read_text())["finished"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["rounds"] == done
    assert "<html" in (out / "report.html").read_text()[:200]
    for name in RESULTS:
        table = DeltaTable(str(out / name)).to_pyarrow_table()
        assert max(table.column("t_s").to_pylist()) == pytest.approx(done / 10)
    expected, found = map(runs.of_contract, (runs.virtual_rows(job), runs.live_rows(job, out)))
    for edge, rows in expected.items():
        # Ended between batches: both sides have whole rounds, one of them perhaps one more.
        for side in ("sender", "receiver"):
            own = [row for row in found[edge] if row["side"] == side]
            assert own == [r for r in rows if r["side"] == side][: len(own)]
            assert done <= own[-1]["batch_id"] + 1 <= done + 2


def test_a_finished_run_is_kept_or_replaced(
    cases: ModuleType,
    run_of: Callable[[str], Any],
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that other tests have made; the rules alone are in test_folder.py."""
    monkeypatch.chdir(tmp_path)
    named = tmp_path / "out" / "small-live"
    shutil.copytree(run_of("compete").result.path, named)
    scenario = tmp_path / "small.yaml"
    scenario.write_text(yaml.safe_dump({**cases.SINGLE, "name": "small", "duration_s": 0.3}))
    before = {path: path.read_bytes() for path in named.rglob("*") if path.is_file()}
    with pytest.raises(ScenarioError, match="holds a finished run"):
        emulate(scenario, out=named, spark=spark)
    assert {path: path.read_bytes() for path in named.rglob("*") if path.is_file()} == before
    result = emulate(scenario, spark=spark)
    assert result.is_finished
    assert result.path == named
    assert json.loads((named / "run.json").read_text())["finished"]
    assert before[named / "run.json"] != (named / "run.json").read_bytes()
    job = build_physical_graph(load_scenario(scenario))
    assert rounds_done(job, named) == 3
