"""Windows on the live clock: every ledger row, window and result, also after a crash.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.results.windows import window_stages
from flowcontrol.run import RunResult
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

held = load("tests/live/window_runs.py")

EXAMPLES = max(1, settings.default.max_examples // 8)
MOST_RUNS = 24
IS_LONG = "FLOWCONTROL_LONG" in os.environ
EVERY = ["barriers", "sessions", "update", "append", "sinks", "clock", "again"]
NAMES = EVERY if IS_LONG else ["barriers", "sessions"]
KILLED = {"sessions": range(7, 8), "append": range(8, 9)}
if IS_LONG:
    KILLED = dict.fromkeys(["sessions", "again", "barriers", "update", "append"], range(7, 9))
"""The quick form leaves out what the others have as well."""
SEEN = {"results", "burst", "late", "died"}
"""What must have happened in some of the random runs: results, a burst that was not over at the end
of a round, a late record, a crash."""


@pytest.mark.parametrize("name", NAMES)
def test_a_job_with_windows_is_that_of_the_virtual_clock(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(timing.every_window(cases)[name])
    driver.Driver(job, tmp_path / "run").run()
    ledgers = held.assert_is_virtual(job, tmp_path / "run", runs)
    tables = run_job(job).tables
    assert ("checkpoint_tasks" in tables) == (name == "barriers")
    one = tables["time"].to_pandas()
    assert one.fired.max() >= 8
    assert one.open_windows.max() > 1
    assert (one.late_records.max() > 0) == (name not in {"sessions", "clock"})
    for stage in window_stages(job):
        assert len(held.written(tmp_path / "run", stage)) >= 8
    if name in {"sessions", "clock"}:
        assert_the_sink_has_results(job, tmp_path / "run", runs, ledgers)
        assert "burst" in happened(ledgers)


def assert_the_sink_has_results(job: Job, root: Path, runs: ModuleType, ledgers: Any) -> None:
    """The sink of results has written the first ones, in their order, as they are in the table."""
    came = [
        row for _, rows in runs.batches_of(root / "output" / "sink") for row in rows.to_pylist()
    ]
    table = run_job(job).tables["output/count"].drop_columns(["emitted_s"])
    [count] = runs.taken(ledgers, "count->sink").values()
    assert came == table.to_pylist()[:count]
    assert len(came) >= 10


def test_a_result_is_as_old_as_the_record_before_it(tmp_path: Path) -> None:
    """A count of 1 puts each record out again: latencies are those of the job without a window."""
    plain = cases.scenario(
        "ages",
        [cases.source(rate=200), {"name": "count", "record_bytes": 200}, cases.sink(rate=150)],
        [cases.edge("source", "count"), cases.edge("count", "sink")],
    )
    each = {"kind": "global", "trigger": {"count": 1}, "keys": 5}
    latencies = []
    for case in (timing.timed(plain, {"source": {"event_time": {}}}), plain):
        given = timing.windowed(case, "count", each) if case is not plain else case
        job, root = runs.job_of(given), tmp_path / str(len(latencies))
        driver.Driver(job, root).run()
        tables = runs.live_results(job, root)
        latencies.append(tables["latency"].to_pandas())
    assert len(latencies[0]) > 1
    pd.testing.assert_frame_equal(*latencies)


@pytest.mark.parametrize("name", list(KILLED))
def test_a_driver_that_dies_at_every_place_goes_on_with_the_same_windows(
    name: str, tmp_path: Path
) -> None:
    """At each commit and named point of a round in the middle of a burst, and of the next one."""
    job = runs.job_of({**timing.every_window(cases)[name], "duration_s": 1.0})
    crashes = driver.dying_in(KILLED[name])
    killed, whole = driver.Driver(job, tmp_path / "killed", crashes), tmp_path / "whole"
    killed.run()
    ledgers = held.assert_is_virtual(job, tmp_path / "killed", runs)
    driver.Driver(job, whole).run()
    runs.assert_same_rows(job, tmp_path / "killed", whole)
    assert killed.starts == len(crashes.places) + 1 > 10 * len(KILLED[name])
    around = {edge: [row for row in rows if row["batch_id"] == 7] for edge, rows in ledgers.items()}
    expected = {"sessions": "burst", "append": "late"}.get(name, "results")
    assert expected in happened(around)


@pytest.mark.long
def test_a_sink_of_results_writes_them_exactly_once(tmp_path: Path) -> None:
    """With checkpoints: all that it took up is visible after the last one, also after kills."""
    case = timing.every_window(cases)["again"]
    del case["stages"][-1]["window"]
    case["stages"][-1] |= {"guarantee": "exactly-once", **cases.OUTPUT}
    options = {**case["options"], "execution.checkpointing.interval": "400ms"}
    job = runs.job_of({**case, "duration_s": 3, "options": options})
    driver.Driver(job, tmp_path, driver.dying_in({9})).run()
    held.assert_is_virtual(job, tmp_path, runs)
    [count] = (
        runs.live_results(job, tmp_path)["stages"]
        .to_pandas()
        .query("stage == 'second' and t_s == 3")
        .records_in
    )
    rows = held.written(tmp_path, "second")
    assert len(rows) == len(rows.drop_duplicates(["window_start", "key"])) == count > 50


@pytest.mark.spark
@pytest.mark.holds("credit", "live", "windows of a job on both clocks: every ledger row and result")
def test_windows_run_alike_on_both_clocks(
    run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    job = runs.job_of(timing.every_window(cases)["sessions"])
    result = run_live(job.scenario, tmp_path / "run")
    ledgers = held.assert_is_virtual(job, result.path, runs)
    assert_the_sink_has_results(job, result.path, runs, ledgers)
    assert "burst" in happened(ledgers)
    written = {name: one for name, one in result.tables.items() if name != "metrics"}
    runs.assert_same_tables(written, run_job(job).tables)
    assert all(len(table) > 0 for table in written.values())
    assert 'id="event-time"' in (result.path / "report.html").read_text()


@pytest.mark.long
def test_random_windows_are_those_of_the_virtual_clock(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver dies at every place of a round, named ones too, and goes on."""
    drawn, windowed = load("tests/job/random_jobs.py"), load("tests/job/random_windows.py")
    shape, seen = drawn.Shape(rounds=(12, 25)), Counter[str]()

    @settings(max_examples=EXAMPLES)
    @given(job=windowed.jobs(drawn, shape), trims=st.sampled_from([1, 3]), at=st.integers(2, 24))
    def look(job: Job, trims: int, at: int) -> None:
        assume(job.links and held.has_equal_inputs(job))
        note(job.scenario.to_yaml())
        root = tmp_path / "run"
        seen.update(driver.run_drawn(job, root, monkeypatch, trims=trims, at=at))
        seen.update(happened(held.assert_is_virtual(job, root, runs)))

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    assert SEEN - set(seen) == set()


def happened(ledgers: Any) -> set[str]:
    """Tell what a run shows."""
    rows = [row for found in ledgers.values() for row in found]
    tasks = [row["task_state"] for row in rows if row["task_state"] is not None]
    windows = [one["window"] for one in tasks if "window" in one]
    seen = {"results"} if any(one["store"]["fired"] > 0 for one in windows) else set[str]()
    seen |= {"burst"} if any(one["store"]["phase"] > 0 for one in windows) else set()
    seen |= {"late"} if any(one["store"]["late"] > 0 for one in windows) else set()
    return seen
