"""Failures beside event time and windows on the live clock: each row, window, result and table.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE, TIMEOUTABLE, UNALIGNED
from flowcontrol.results.windows import window_stages
from flowcontrol.state.rows import KIND_RESTORED
from flowcontrol.state.tasks import MIN_TIME
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

held = load("tests/live/window_runs.py")

EXAMPLES = max(1, settings.default.max_examples // 8)
MOST_RUNS = 24
IS_LONG = "FLOWCONTROL_LONG" in os.environ
EVERY = {
    "marks": {"records restored", "marks restored", "watermarks begin anew"},
    "aligned": {"watermarks begin anew"},
    "joined": {"watermarks begin anew"},
    "kept": {"records restored", "marks restored"},
    "at least once": {"windows restored"},
    "bursts": {"windows restored", "records restored", "fails in a burst", "put out again"},
    "clock": {"put out again"},
    "again": {"windows restored", "put out again"},
    "finished": {"had finished", "windows restored", "put out again"},
    "from the beginning": {"begins without windows"},
}
"""Each case, and what must happen in it."""
RUN = list(EVERY) if IS_LONG else ["marks"]
DIES = {"bursts": range(17, 18)}
if IS_LONG:
    DIES = {"bursts": range(12, 26), "marks": range(13, 22), "aligned": range(11, 20)}
"""Rounds in which the driver dies: that in which tasks begin anew, or all around it."""
MODES = (UNALIGNED, UNALIGNED, TIMEOUTABLE, AT_LEAST_ONCE)
SEEN = {"records restored", "marks restored", "windows restored", "fails in a burst", "died"}
"""What must have happened in some of the random runs."""


def test_every_case_is_named() -> None:
    assert list(timing.every_failure(cases, failing)) == list(EVERY)


@pytest.mark.parametrize("name", RUN)
def test_a_failing_job_is_that_of_the_virtual_clock(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(timing.every_failure(cases, failing)[name])
    driver.Driver(job, tmp_path / "run").run()
    ledgers = held.assert_is_virtual(job, tmp_path / "run", runs)
    control = failing.restarts_of(job)
    assert any(one.running >= 0 for one in control.restarts)
    assert audit(tmp_path / "run") is None
    assert happened(job, ledgers) >= EVERY[name]
    assert all(len(held.written(tmp_path / "run", stage)) >= 8 for stage in window_stages(job))
    time = run_job(job).tables["time"].to_pandas()
    down = time[time.t_s.isin(times_down(job, control))]
    assert down.watermark_s.isna().any()
    assert not down.open_windows.where(down.watermark_s.isna(), 0).any()


def times_down(job: Job, control: Any) -> set[float]:
    """Return the samples in which some tasks are not deployed."""
    return {
        t_s
        for t_s, _, last in job.samples(job.rounds)
        for one in control.restarts
        if one.detected < last < one.running
    }


@pytest.mark.parametrize("name", list(DIES))
def test_a_driver_that_dies_at_every_place_of_a_restart_goes_on(name: str, tmp_path: Path) -> None:
    """At each commit and named point of the rounds around it."""
    job = runs.job_of(timing.every_failure(cases, failing)[name])
    # The quick form dies at each third place: before a commit, after another, at a named point.
    every = 1 if IS_LONG else 3
    crashes = driver.dying_in(set(DIES[name]), every=every)
    killed = driver.Driver(job, tmp_path / "killed", crashes)
    killed.run()
    ledgers = held.assert_is_virtual(job, tmp_path / "killed", runs)
    assert {one.running for one in failing.restarts_of(job).restarts} & set(DIES[name])
    assert happened(job, ledgers) >= EVERY[name]
    driver.Driver(job, tmp_path / "whole").run()
    runs.assert_same_rows(job, tmp_path / "killed", tmp_path / "whole")
    assert killed.starts == len(crashes.places) + 1 > 30 // every * len(DIES[name])
    assert {place[0] for place in crashes.places} >= {"before", "after", "point"}
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "whole") != []


def state_of(root: Path) -> list[str]:
    """Return what is kept of a run's checkpoints."""
    return sorted(map(str, DeltaTable(str(root / "state")).to_pyarrow_table().to_pylist()))


@pytest.mark.long
def test_random_jobs_are_those_of_the_virtual_clock(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver dies at every place of a round, named ones too, and goes on."""
    drawn, failed = load("tests/job/random_jobs.py"), load("tests/job/failures/random_failures.py")
    checkpointed = load("tests/job/checkpoints/random_checkpoints.py")
    timed, windows = load("tests/job/random_event_time.py"), load("tests/job/random_windows.py")
    shape, seen = drawn.Shape(rounds=(30, 45)), Counter[str]()

    def times(scenario: Any) -> Any:
        windowed, others = windows.windowed(scenario), timed.timed(scenario).flatmap(timed.aligned)
        return st.one_of(windowed, windowed, others)

    @settings(max_examples=EXAMPLES)
    @given(
        job=failed.jobs(drawn, checkpointed, shape, times=times, modes=MODES),
        trims=st.sampled_from([1, 2, 5]),
        every=st.sampled_from([2, 3, 5]),
        at=st.integers(2, 44),
    )
    def look(job: Job, trims: int, every: int, at: int) -> None:
        assume(job.links and held.has_equal_inputs(job))
        if job.checkpoints is not None:  # in time for its failures
            own = replace(job.checkpoints, interval_us=every * job.round_us)
            job = replace(job, checkpoints=own)
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        root = tmp_path / "run"
        seen.update(driver.run_drawn(job, root, monkeypatch, trims=trims, at=at))
        seen.update(happened(job, held.assert_is_virtual(job, root, runs)))

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    print(dict(seen))
    assert SEEN - set(seen) == set()


def happened(job: Job, ledgers: Any) -> set[str]:
    """Tell what a run shows."""
    found, seen = [row for rows in ledgers.values() for row in rows], set[str]()
    for row in (row for row in found if row["side"] == "receiver"):
        tasks = [] if row["task_state"] is None else [row["task_state"]["task"]]
        waiting = [(one["records"], one) for one in row["channel_state"]["queue"]]
        in_hand = [(one["left"], one) for one in tasks]
        for records, one in (*waiting, *in_hand):
            if one["buffer"] == KIND_RESTORED:
                seen |= {"records restored"} if records > 0 else set()
                seen |= {"marks restored"} if one["marks"] > 0 else set()
    for link, side in ((link, side) for link in job.links for side in ("sender", "receiver")):
        states = {
            (row["batch_id"], row[side]): (row["channel_state"]["gone"], row["task_state"])
            for row in ledgers[link.name]
            if row["side"] == side and row["task_state"] is not None
        }
        for (number, task), (is_gone, after) in states.items():
            was_gone, before = states.get((number - 1, task), (is_gone, after))
            if is_gone > was_gone and "window" in before:
                seen |= {"fails in a burst"} if before["window"]["store"]["phase"] > 0 else set()
            if was_gone > is_gone:
                seen |= begun(before, after)
    return seen


def begun(before: Any, after: Any) -> set[str]:
    """Tell what a task shows that has begun anew, by its state in the rounds before and after."""
    seen = set[str]()
    marks = [one["time"]["state"]["valve"]["watermark"] for one in (before, after)]
    if marks[1] < marks[0] or marks[1] == MIN_TIME < marks[0]:
        seen.add("watermarks begin anew")
    if before["task"]["is_finished"] == 1:
        seen.add("had finished")
    if "window" in after:
        has_some = after["window"]["store"]["open"] > 0
        seen.add("windows restored" if has_some else "begins without windows")
        if after["window"]["store"]["fired"] < before["window"]["store"]["fired"]:
            seen.add("put out again")
    return seen
