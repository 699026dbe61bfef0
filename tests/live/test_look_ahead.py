"""Several rounds a micro-batch: every row is that of a run with one round a batch."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from deltalake import DeltaTable
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.errors import LedgerError
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.live import runtime
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.runtime import rounds_at_once
from flowcontrol.spark.crash_points import CrashPoint
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
dying = load("tests/live/dying.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

LATENCIES = {
    "single": 300,
    "hash": 250,
    "fan_in": 400,
    "local": 300,
    "shuffle": 200,
    "large": 500,
    "killed": 300,
}
"""Milliseconds of the network, by case of ``cases.py``."""

IS_LONG = "FLOWCONTROL_LONG" in os.environ
RUN = list(LATENCIES) if IS_LONG else ["fan_in", "shuffle"]

TIMED = {"joined": 300, "each": 200}
"""Likewise of ``timing.py``: records have stamps, and marks are between them."""


def late(mapping: Any, latency_ms: float) -> Any:
    """Give the network of a scenario a latency."""
    cluster = {**mapping["cluster"], "network_latency_ms": latency_ms}
    return {**mapping, "cluster": cluster}


def two_runs(job: Job, driver: ModuleType, root: Path, patch: pytest.MonkeyPatch) -> list[Any]:
    """Run a job as it is, and with one round a batch; return the queries' batches."""
    commits = []
    for name, most in (("several", runtime.MOST_AT_ONCE), ("one", 1)):
        with patch.context() as once:
            once.setattr(runtime, "MOST_AT_ONCE", most)
            watched = Counter[str]()
            driver.Driver(
                job, root / name, watch=lambda stage, _, of=watched: of.update([stage])
            ).run()
            commits.append(watched)
    return commits


def assert_alike(job: Job, runs: ModuleType, root: Path) -> None:
    """Assert that both runs have the same rows: ledgers, tables, output."""
    for name in ("several", "one"):  # what a process knows of messages under way may differ
        runs.assert_is_virtual(job, root / name)
    for plan in job.stages:
        if plan.stage.output is not None:
            found, due = (
                written(RunPaths(root / name).output(plan.stage.output.path))
                for name in ("several", "one")
            )
            assert found == due != {}
    assert audit(root / "several") is None


def written(table: Path) -> Counter[str]:
    """Return the rows of an output table: the files of a run differ in what they hold of them."""
    return Counter(map(str, DeltaTable(str(table)).to_pyarrow_table().to_pylist()))


@pytest.mark.parametrize("name", RUN)
def test_batches_of_several_rounds_are_the_rounds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = runs.job_of(late(getattr(cases, name.upper()), LATENCIES[name]))
    several, one = two_runs(job, driver, tmp_path, monkeypatch)
    assert set(one.values()) == {job.rounds}
    for plan in job.stages:
        count = rounds_at_once(job, plan)
        assert several[plan.name] == -(-job.rounds // count)
    mixed = {"local", "shuffle"}  # their neighbours are on the same task manager, too
    assert {rounds_at_once(job, plan) for plan in job.stages} == {
        1 if name in mixed else job.latency
    }
    assert_alike(job, runs, tmp_path)


@pytest.mark.parametrize("name", list(TIMED) if IS_LONG else ["each"])
def test_event_time_is_that_of_single_rounds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = runs.job_of(late(timing.every_case(cases)[name], TIMED[name]))
    several, one = two_runs(job, driver, tmp_path, monkeypatch)
    assert max(several.values()) < min(one.values()) == job.rounds
    assert_alike(job, runs, tmp_path)


def test_a_stage_that_hears_sooner_runs_fewer_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What executors find of a window's records is part of the next round's state."""
    job = runs.job_of(late(timing.every_window(cases)["update"], 300))
    several, _ = two_runs(job, driver, tmp_path, monkeypatch)
    assert several == {
        "one": job.rounds,  # it has a neighbour on the same task manager
        "two": -(-job.rounds // 3),
        "count": job.rounds,
        "sink": -(-job.rounds // 3),
    }
    assert job.stage("count").stage.window is not None
    assert_alike(job, runs, tmp_path)


def test_a_sink_that_stages_its_files_runs_a_round_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without checkpoints nothing of it is ever shown, and all of it is in the ledger."""
    mapping = late(cases.SINGLE, 300)
    source, sink = mapping["stages"]
    sink = {**sink, "output": {"format": "delta"}, "guarantee": "exactly-once"}
    job = runs.job_of({**mapping, "stages": [source, sink]})
    several, _ = two_runs(job, driver, tmp_path, monkeypatch)
    assert several == {source["name"]: -(-job.rounds // 3), sink["name"]: job.rounds}
    runs.assert_is_virtual(job, tmp_path / "several")
    assert audit(tmp_path / "several") is None


def test_a_driver_that_dies_everywhere_repeats_whole_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are consumed are trimmed as well, and none that a batch reads again."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 4)
    job = runs.job_of(late(cases.KILLED, 250))
    assert {rounds_at_once(job, plan) for plan in job.stages} == {3}
    assert job.rounds % 3 != 0  # the last batch is shorter
    driver.die_everywhere(job, runs, tmp_path, None if IS_LONG else range(6, 13))


SPARK_KILLS = [
    ("map", 5, CrashPoint.BEFORE_EXCHANGE),
    ("map", 8, CrashPoint.BETWEEN_LEDGERS),
    ("sink", 11, CrashPoint.AFTER_LEDGER),
]
"""The last rounds of batches of three."""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long  # the stand-in dies at every place above
def test_a_run_on_spark_is_killed_within_its_batches(
    run_live: Callable[..., Any], tmp_path: Path
) -> None:
    case = late(cases.KILLED, 250)
    job, scenario, root = runs.job_of(case), tmp_path / "killed.yaml", tmp_path / "killed"
    assert {rounds_at_once(job, plan) for plan in job.stages} == {3}
    scenario.write_text(yaml.safe_dump(case))
    kills = 0
    for place in SPARK_KILLS:
        status, said = dying.emulate(scenario, root, place)
        assert status == -signal.SIGKILL, said
        kills += 1
    assert kills == len(SPARK_KILLS)
    run_live(job.scenario, root)
    driver.Driver(job, tmp_path / "whole").run()
    runs.assert_same_rows(job, root, tmp_path / "whole")
    runs.assert_is_virtual(job, root)
    assert audit(root) is None
    found, due = (
        written(RunPaths(path).output("output/sink")) for path in (root, tmp_path / "whole")
    )
    assert found == due != {}


def test_the_audit_looks_as_far_back_as_messages_take() -> None:
    job = runs.job_of(late(cases.SINGLE, 300))
    [table] = runs.virtual_tables(job).values()
    assert audit(table) is None
    place = table.column_names.index("channel_state")
    texts = [text.replace(',"trip":3', "") for text in table["channel_state"].to_pylist()]
    assert texts != table["channel_state"].to_pylist()
    found = audit(table.set_column(place, "channel_state", pa.array(texts)))
    assert found is not None
    assert found.invariant == "credit"
    ahead = table.filter((pc.field("side") == "sender") | (pc.field("batch_id") < 5))
    found = audit(ahead)
    assert found is not None
    assert (found.invariant, found.batch_id) == ("lock_step", 8)


def test_a_batch_of_another_length_is_refused(tmp_path: Path) -> None:
    """A batch is what its offsets say; who would run other rounds for it must not go on."""
    job = runs.job_of(late(cases.SINGLE, 300))
    query = driver.Query(driver.Driver(job, tmp_path), "source")
    with pytest.raises(LedgerError, match="has a batch of rounds 0 to 1, and batches here"):
        query._reader.partitions({"round": -1, "cursors": {}}, {"round": 1, "cursors": {}})


MET = {"died", "several", "fewer", "blocked", "no credit"}
MOST_RUNS = 12
"""Runs until what is seldom has happened."""


@pytest.mark.long
def test_random_jobs_are_those_of_the_virtual_clock(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver dies at every place of a batch, named ones too, and goes on."""
    drawn, seen = load("tests/job/random_jobs.py"), Counter[str]()
    shape = drawn.Shape(rounds=(12, 20), latencies=(2, 3, 5))

    @settings(max_examples=25)
    @given(scenario=drawn.scenarios(shape), trims=st.sampled_from([1, 3]), at=st.integers(2, 14))
    def look(scenario: Any, trims: int, at: int) -> None:
        note(scenario.to_yaml())
        job, root = drawn.laid_out(scenario), tmp_path / "run"
        assume(job.links)
        seen.update(driver.run_drawn(job, root, monkeypatch, trims=trims, at=at))
        seen.update(runs.saw(runs.assert_is_virtual(job, root)))
        assert job.record_transport is None
        assert audit(root) is None
        counts = {rounds_at_once(job, plan) for plan in job.stages}
        seen.update(["several"] * (max(counts) > 1) + ["fewer"] * (len(counts) > 1))

    draw_until(look, lambda: set(seen) >= MET, MOST_RUNS)
    assert MET - set(seen) == set()
