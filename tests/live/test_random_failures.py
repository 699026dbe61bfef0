"""Random jobs that fail on the live clock: every ledger row, table and row that was moved."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.live import planner
from flowcontrol.protocol.checkpoints.alignment import UNALIGNED
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.rows import KIND_RESTORED
from modules import load

driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

EXAMPLES = settings.default.max_examples // 4
MOST_RUNS = 24

EVENTS = {"restored", "in flight", "from the beginning", "part of the job", "several", "for good"}
"""What must have happened in some of the runs."""


@pytest.mark.long
def test_the_live_clock_does_what_the_virtual_clock_does(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stages' readers lay the job out from its scenario, which cannot say all of it."""
    drawn = load("tests/job/random_jobs.py")
    checkpointed = load("tests/job/checkpoints/random_checkpoints.py")
    failed = load("tests/job/failures/random_failures.py")
    shape, seen = drawn.Shape(rounds=(30, 45)), Counter[str]()

    @settings(max_examples=EXAMPLES)
    @given(
        job=failed.jobs(drawn, checkpointed, shape),
        trims=st.sampled_from([1, 2, 5]),
        every=st.sampled_from([2, 3, 5]),
        overtakes=st.booleans(),
    )
    def look(job: Job, trims: int, every: int, overtakes: bool) -> None:
        assume(job.links)
        job = often(with_outputs(drawn, job), every, overtakes)
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        monkeypatch.setattr(exchange, "TRIM_EVERY", trims)
        monkeypatch.setattr(planner, "build_physical_graph", lambda _: job)
        root = tmp_path / "run"
        shutil.rmtree(root, ignore_errors=True)
        driver.Driver(job, root).run()
        ledgers = runs.assert_is_virtual(job, root)
        control = failing.restarts_of(job)
        assert audit(root) is None
        for plan in job.stages:
            if not plan.outputs and all(
                job.stage(one.edge.sender).is_source for one in plan.inputs
            ):
                came = Counter(runs.rows_in_order(root / "output" / plan.name))
                assert came == Counter(failing.rows_taken(runs, job, ledgers, plan.name))
        seen.update(happened(job, control, ledgers))

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


def with_outputs(drawn: ModuleType, job: Job) -> Job:
    """Have the sinks of a job write their rows."""
    mapping = job.scenario.canonical()
    senders = {edge["from"] for edge in mapping["edges"]}
    for stage in mapping["stages"]:
        if stage["name"] not in senders:
            stage["output"] = {"format": "delta"}
    laid_out: Job = drawn.laid_out(parse_scenario(mapping))
    return replace(laid_out, checkpoints=job.checkpoints, faults=job.faults)


def often(job: Job, every: int, overtakes: bool) -> Job:
    """Have a job checkpoint every few rounds, in time for its failures."""
    own = job.checkpoints
    if own is None:
        return job
    if overtakes:
        own = replace(own, mode=UNALIGNED, max_concurrent=1)
    return replace(job, checkpoints=replace(own, interval_us=every * job.round_us))


def happened(job: Job, control: Any, ledgers: Any) -> set[str]:
    """Tell what a run shows."""
    ran = [one for one in control.restarts if one.running >= 0]
    found = {"restored"} if any(one.checkpoint > 0 for one in ran) else set[str]()
    found |= {"from the beginning"} if any(one.checkpoint < 0 for one in ran) else set()
    count = sum(plan.stage.parallelism for plan in job.stages)
    found |= {"part of the job"} if any(len(one.tasks) < count for one in ran) else set()
    found |= {"several"} if len(ran) > 1 else set()
    found |= {"for good"} if control.failed_at >= 0 else set()
    queues = (
        message
        for rows in ledgers.values()
        for row in rows
        if row["side"] == "receiver"
        for message in row["channel_state"]["queue"]
    )
    return found | ({"in flight"} if any(m["buffer"] == KIND_RESTORED for m in queues) else set())
