"""Random jobs with checkpoints: the kernel's state is that of stages apart after every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job.checkpoint_state import CheckpointState
from flowcontrol.job.checkpoint_tables import checkpoint_tables
from flowcontrol.job.round_state import RoundState, TaskState
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.protocol.checkpoints.barriers import (
    ACKNOWLEDGED,
    DECLINED,
    ENDED,
    FINISHED,
    STOPS,
    TAKEN,
)
from flowcontrol.protocol.queues import KINDS
from flowcontrol.scenario import Savepoint
from flowcontrol.virtual import run_job
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

EXAMPLES = settings.default.max_examples * 3 // 2
MOST_RUNS = 12
"""Runs until what is seldom has happened."""

REPORTS = {
    ACKNOWLEDGED: "acknowledged",
    DECLINED: "declined",
    FINISHED: "finished",
    ENDED: "ended",
    TAKEN: "taken",
}

EVENTS = {
    "aligned_barrier",
    "timeoutable_barrier",
    "unaligned_barrier",
    "at_least_once_barrier",
    "cancel_marker",
    "end_of_data",
    "blocked channel",
    "blocked subpartition",
    "flushed while blocked",
    "several events queued",
    "announced",
    "overtaken at the receiver",
    "overtaken at the sender",
    "switched",
    "persisted input",
    "several tracked",
    "aborted before its barrier",
    "stands still",
    "slowed",
    "stopped",
    *REPORTS.values(),
}
"""What must have happened in some of the runs; a channel that ends in an alignment is met below."""


def happened(state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    for task in state.tasks:
        assert task.checkpoints is not None
        yield from _to_the_task(task, task.checkpoints)
        if task.checkpoints.state.synced_at > state.end_us:
            yield "stands still"
        for out in (out for part in task.partitions for out in part.subpartitions):
            yield from (KINDS[sent.message.kind].name for sent in out.under_way)
            if out.state.is_blocked == 1:
                yield "blocked subpartition"
                if out.state.is_flushed == 1:
                    yield "flushed while blocked"
            if out.state.events > 1:
                yield "several events queued"
            if out.state.persisted > 0:
                yield "overtaken at the sender"


def _to_the_task(task: TaskState, held: CheckpointState) -> Iterator[str]:
    alignment = held.alignment
    for channel in held.channels:
        if channel.is_blocked == 1:
            yield "blocked channel"
        if channel.is_announced == 1:
            yield "announced"
        if channel.is_overtaken == 1 or (alignment.kind == UNALIGNED and channel.persisted > 0):
            yield "overtaken at the receiver"
        if channel.persisted > 0:
            yield "persisted input"
    if alignment.barriers < alignment.delivered:
        yield "ends in alignment"
    if alignment.kind == TIMEOUTABLE and alignment.is_unaligned == 1:
        yield "switched"
    if len(held.tracked) > 1:
        yield "several tracked"
    if held.state.is_slowed == 1:
        yield "slowed"
    if any(message.is_savepoint == STOPS for message in held.triggers):
        yield "stopped"
    if held.aborted:
        yield "aborted before its barrier"
    yield from (REPORTS[report.kind] for report in held.reports)


@pytest.mark.long
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, random_jobs: ModuleType, random_checkpoints: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_checkpoints.jobs(random_jobs, shape), every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Any, every: int) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        clocks.compare(job, every=(1, every), look=lambda state: seen.update(happened(state)))

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


@pytest.mark.parametrize("mode", [ALIGNED, TIMEOUTABLE, UNALIGNED, AT_LEAST_ONCE])
def test_a_channel_may_end_in_an_alignment(
    clocks: ModuleType, small_checkpoints: ModuleType, mode: int
) -> None:
    """The left source ends in the round in which it is asked, before it hears of the savepoint.

    Nothing waits for a last checkpoint, as savepoints are all there are; the end stands behind data
    that the sink has not read when the right source's barrier is there.
    """
    left = [{"at_s": 0, "rate": 400}, {"at_s": 1.1, "rate": 0}]
    made = small_checkpoints.two_inputs(left, 40, 200)
    job = small_checkpoints.with_settings(
        made, mode=mode, interval_us=None, savepoints=(Savepoint(at_s=1.0, stop=False),)
    )
    seen: Counter[str] = Counter()
    clocks.compare(job, every=(1, 3), look=lambda state: seen.update(happened(state)))
    if mode != AT_LEAST_ONCE:  # which counts
        assert seen["ends in alignment"] > 0
    assert seen["finished"] > 0
    assert seen["acknowledged"] == 2  # of the right source and of the sink


@settings(max_examples=max(5, EXAMPLES // 3))
@given(data=st.data())
def test_the_tables_are_those_of_a_coordinator_that_looks_every_round(
    random_jobs: ModuleType, random_checkpoints: ModuleType, data: Any
) -> None:
    shape = random_jobs.Shape(rounds=(30, 40), is_virtual=True)
    job = data.draw(random_checkpoints.jobs(random_jobs, shape))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run = watched_runs.WatchedRun(job)
    run.run()
    expected = checkpoint_tables(job, run.checkpoints.coordinator)
    found = run_job(job, track=False).tables
    for name, table in expected.items():
        assert found[name].equals(table), name


@settings(max_examples=max(3, EXAMPLES // 6))
@given(data=st.data())
def test_jobs_of_the_live_clock_too(
    clocks: ModuleType, random_jobs: ModuleType, random_checkpoints: ModuleType, data: Any
) -> None:
    job = data.draw(random_checkpoints.jobs(random_jobs, random_jobs.LIVE))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    clocks.compare(job)
