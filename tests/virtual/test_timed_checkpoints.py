"""Random jobs with event time and checkpoints: both clocks hold the same, and the cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.results.tables import checkpoint_tables
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.queues import END_OF_DATA, UNALIGNED_BARRIER, is_event
from flowcontrol.state.tasks import MAX_TIME
from flowcontrol.trace.round_state import RoundState, TaskState
from flowcontrol.virtual import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")
cuts = load("tests/job/checkpoints/cuts.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_event_time = load("tests/job/random_event_time.py")
random_jobs = load("tests/job/random_jobs.py")
random_windows = load("tests/job/random_windows.py")

watched_runs: Any = load("tests/job/watched_runs.py")

EXAMPLES = max(60, settings.default.max_examples)
"""Jobs that are drawn; fewer would be more like each other."""
COMPARED = settings.default.max_examples // 3
"""Jobs that are compared whatever they show; of the others those that show what is missing."""
MOST_RUNS = 24
"""Runs until what is seldom has happened."""

EVENTS = {
    "marks persisted",
    "barrier overtook marks",
    "channel blocked with marks behind",
    "mail waits for a burst",
    "barrier waits behind a burst",
    "snapshot with windows",
    "end of data behind the last watermark",
    "stopped with windows open",
    "unaligned",
    "at least once",
}
"""What must have happened in some of the runs."""


def happened(job: Job, state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    for task in state.tasks:
        assert task.checkpoints is not None
        assert task.time is not None
        yield from _of_channels(task)
        if task.window is not None:
            yield from _of_windows(task)
        for part in task.partitions:
            for out in part.subpartitions:
                kinds = [sent.message.kind for sent in out.under_way]
                if END_OF_DATA in kinds and _gave_the_end_out(task):
                    yield "end of data behind the last watermark"
                waiting = out.finished
                if any(one.kind == UNALIGNED_BARRIER for one in waiting) and any(
                    one.marks for one in waiting
                ):
                    yield "barrier overtook marks"


def _gave_the_end_out(task: TaskState) -> bool:
    return task.time.watermark == MAX_TIME


def _of_channels(task: TaskState) -> Iterator[str]:
    held = task.checkpoints
    if held.state.mode == AT_LEAST_ONCE and any(channel.barriers for channel in held.channels):
        yield "at least once"
    if held.alignment.is_unaligned == 1:
        yield "unaligned"
    queues = [channel.queue for gate in task.gates for channel in gate.channels]
    for channel, queue in zip(held.channels, queues, strict=True):
        marks = any(one.marks for one in queue)
        if channel.persisted > 0 and channel.mark_bytes > 0:
            yield "marks persisted"
        if channel.is_blocked == 1 and marks:
            yield "channel blocked with marks behind"


def _of_windows(task: TaskState) -> Iterator[str]:
    held, window = task.checkpoints, task.window
    if window.store.phase != 0 or window.held.to_give > 0:
        if task.state.mail > 0 or held.state.deadline >= 0:
            yield "mail waits for a burst"
        if any(is_event(one) for gate in task.gates for c in gate.channels for one in c.queue):
            yield "barrier waits behind a burst"
    for report in held.reports:
        if report.kind == TAKEN and report.contents > 0:
            yield "snapshot with windows"
    if task.state.is_finished == 1 and window.entries and task.time.watermark < MAX_TIME:
        yield "stopped with windows open"


def times(random_windows: ModuleType, random_event_time: ModuleType) -> Any:
    """Draw event times, of most jobs with windows."""

    def draw(scenario: Any) -> Any:
        windowed, timed = random_windows.windowed(scenario), random_event_time.timed(scenario)
        return st.one_of(windowed, windowed, timed)

    return draw


def test_each_checkpoint_is_a_consistent_cut(draw_until: Any) -> None:
    """Bytes put into a channel before the barrier are processed or persisted, marks too."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
    drawn = times(random_windows, random_event_time)
    modes = [TIMEOUTABLE, UNALIGNED, ALIGNED]

    @settings(max_examples=COMPARED)
    @given(job=random_checkpoints.jobs(random_jobs, shape, times=drawn, modes=modes))
    def look(job: Job) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        run = cuts.CheckpointRun(job)
        run.run()
        for checkpoint in run.completed:
            run.check_cut(checkpoint)
        seen["completed"] += len(run.completed)
        seen.update(+run.seen)
        for task in run.states[-1].tasks:
            for channel in task.checkpoints.channels:
                seen["marks processed and bytes persisted"] += (
                    channel.mark_bytes > 0 and channel.persisted > 0
                )

    wanted = {"completed", "marks processed and bytes persisted", "output overtaken", "switched"}
    draw_until(look, lambda: all(seen[name] > 0 for name in wanted), MOST_RUNS)
    print(dict(seen))
    assert all(seen[name] > 0 for name in wanted)


@settings(max_examples=max(3, COMPARED // 3))
@given(data=st.data())
def test_the_tables_are_those_of_a_coordinator_that_looks_every_round(data: Any) -> None:
    """With the sizes of the windows, which make checkpoints larger."""
    shape = random_jobs.Shape(rounds=(30, 40), is_virtual=True)
    job = data.draw(random_checkpoints.jobs(random_jobs, shape, times=random_windows.windowed))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    run = watched_runs.WatchedRun(job)
    run.run()
    expected = checkpoint_tables(job, run.checkpoints.coordinator)
    found = run_job(job, track=False).tables
    for name, table in expected.items():
        assert found[name].equals(table), name


@pytest.mark.holds(
    "credit", "virtual", "stages apart: event time beside checkpoints after every round"
)
def test_the_kernel_does_what_stages_apart_do(draw_until: Any) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
    tight, overtaking = replace(shape, is_tight=True), [TIMEOUTABLE, UNALIGNED]
    drawn = times(random_windows, random_event_time)

    @settings(max_examples=EXAMPLES)
    @given(
        job=st.one_of(
            random_checkpoints.jobs(random_jobs, shape, times=drawn),
            random_checkpoints.jobs(random_jobs, tight, times=drawn, modes=overtaking),
            random_checkpoints.jobs(
                random_jobs, shape, times=random_windows.windowed, is_stopped=True
            ),
        ),
        every=st.sampled_from([2, 3, 10, 1000]),
    )
    def look(job: Job, every: int) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        seen["jobs"] += 1
        of_job = partial(happened, job)
        if seen["jobs"] > COMPARED and not clocks.shows(job, EVENTS - set(seen), of_job):
            return

        def watch(state: RoundState) -> None:
            seen.update(happened(job, state))

        clocks.compare(job, every=(1, every), look=watch)

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


def test_a_sender_is_woken_by_a_buffer_that_comes_back_empty() -> None:
    """A barrier overtook all that was in it, so its channel sends no message for it."""
    prefix = "execution.checkpointing."
    keys = {"partitioner": "hash", "key_distribution": {"kind": "uniform", "keys": 7}}
    window = {"kind": "session", "gap_s": 1, "trigger": "processing_time", "accumulate": False}
    own = {"parallelism": 3, "emit_rate": 461.538, "arrival_rate": 115.385}
    stages = [
        {"name": "small", "record_bytes": 200, **own},
        {"name": "large", "record_bytes": 4095, "parallelism": 2, "emit_rate": 11.538},
        {"name": "count", "parallelism": 2, "service_rate": 10.231, "window": window},
    ]
    given = {
        "schema": 1,
        "name": "empty",
        "seed": 2,
        "duration_s": 4.55,
        "round_ms": 130,
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "taskmanager.network.memory.buffers-per-channel": 3,
            "taskmanager.network.memory.floating-buffers-per-gate": 3,
            "taskmanager.network.memory.max-buffers-per-channel": 2,
            "execution.buffer-timeout.interval": 0,
            f"{prefix}interval": "260ms",
            f"{prefix}min-pause": "390ms",
            f"{prefix}timeout": "780ms",
            f"{prefix}unaligned.enabled": True,
            f"{prefix}aligned-checkpoint-timeout": "260ms",
        },
        "stages": stages,
        "edges": [{"from": one, "to": "count", **keys} for one in ("small", "large")],
    }
    seen = []

    def look(state: RoundState) -> None:
        for task in state.tasks[:3]:
            seen.append(sum(out.state.empty for p in task.partitions for out in p.subpartitions))

    clocks.compare(build_physical_graph(parse_scenario(given)), look=look)
    assert max(seen) > 0
