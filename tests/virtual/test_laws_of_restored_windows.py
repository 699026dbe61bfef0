"""Random jobs that fail: exactly once, windows put out what they do without failures."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, note, settings

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import ALIGNED, TIMEOUTABLE, UNALIGNED
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import run_job
from modules import load

random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")
random_windows = load("tests/job/random_windows.py")

EXAMPLES = settings.default.max_examples // 3
MOST_RUNS = 24
"""Runs until what is seldom has happened."""

EVENTS = {"results in both", "restored a checkpoint", "in flight restored", "put out again"}
"""What must have happened in some of the runs."""


def of_logs(scenario: Scenario) -> Scenario:
    """The same with sources that read logs, and windows that fire once the watermark passes them.

    So a record has the same time whenever it comes, and a window's one result is whole.
    """
    assume(scenario.has_event_time)
    mapping = scenario.canonical()
    receivers = {edge["to"] for edge in mapping["edges"]}
    for stage in mapping["stages"]:
        if stage["name"] not in receivers and stage.get("arrival_rate") is None:
            stage["arrival_rate"], stage["emit_rate"] = stage["emit_rate"], 10_000
        if (window := stage.get("window")) is not None:
            if window["kind"] == "global":
                stage["window"] = window = {**window, "kind": "session", "gap_s": 0.01}
            window["trigger"] = "event_time"
    return parse_scenario(mapping)


def results(job: Job) -> tuple[dict[str, Counter[tuple[Any, ...]]], dict[str, Any]]:
    """How often each result was put out, by stage; and all tables."""
    tables = run_job(job, track=False).tables
    names = ["window_start", "window_end", "key", "n"]
    found = {
        name: Counter(zip(*(table[column].to_pylist() for column in names), strict=True))
        for name, table in tables.items()
        if name.startswith("output/")
    }
    return found, tables


def test_the_result_of_a_window_is_that_of_a_run_without_failures(draw_until: Any) -> None:
    """Of the windows that fired in both runs, as neither goes on until all have."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    def times(scenario: Scenario) -> Any:
        return random_windows.windowed(scenario, is_late=False).map(of_logs)

    modes = (UNALIGNED, TIMEOUTABLE, ALIGNED)
    drawn = random_failures.jobs(random_jobs, random_checkpoints, shape, times=times, modes=modes)

    @settings(max_examples=EXAMPLES)
    @given(job=drawn)
    def look(job: Job) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        (expected, _), (found, tables) = results(replace(job, faults=None)), results(job)
        assert max(tables["time"]["late_records"].to_pylist(), default=0) == 0
        for name, own in found.items():
            whole = {result[:3]: result[3] for result in expected[name]}
            assert len(whole) == len(expected[name]), "one result a window"
            for *window, n in own:
                if tuple(window) in whole:
                    seen["results in both"] += 1
                    assert whole[tuple(window)] == n, (name, window)
            seen["put out again"] += max(own.values(), default=0) > 1
        restarts = [row for row in tables["restarts"].to_pylist() if row["checkpoint_id"]]
        seen["restored a checkpoint"] += len(restarts) > 0
        if restarts and "checkpoints" in tables:
            held = {
                row["checkpoint_id"]: row["persisted_bytes"]
                for row in tables["checkpoints"].to_pylist()
            }
            seen["in flight restored"] += any(held[row["checkpoint_id"]] for row in restarts)

    draw_until(look, lambda: set(+seen) >= EVENTS and seen["put out again"] > 2, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(+seen) == set()
