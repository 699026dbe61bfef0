"""Random jobs that checkpoint, fail and restart: what the tests of several folders draw."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from flowcontrol.layout.job import FaultSettings, Job
from flowcontrol.scenario.fault_tolerance import (
    ExponentialDelay,
    Failure,
    FailureRate,
    FixedDelay,
    Heartbeat,
    NoRestart,
)

POLICIES = (
    FixedDelay(1000, 0),
    FixedDelay(1000, 0),
    FixedDelay(1000, 0),
    FixedDelay(1000, 1000),
    FixedDelay(1, 0),
    FailureRate(2, 1_000_000_000, 1000),
    ExponentialDelay(1000, 4000, 1.5, 1_000_000, 0.1, None),
    NoRestart(),
)


@st.composite
def faults_of(draw: Any, job: Job) -> FaultSettings:
    """Failures of anything at any time; heartbeats of a few rounds, restores that take some."""
    round_us, cluster = job.round_us, job.scenario.cluster
    found, at_us = [], 0
    for number in range(draw(st.integers(1, 4))):
        first = job.rounds // 2 if number == 0 else 1
        at_us += draw(st.sampled_from([first, 2, 4, 3, 10])) * round_us + draw(st.integers(0, 1))
        what = draw(st.sampled_from(["subtask", "subtask", "task_manager", "job_manager"]))
        keys: dict[str, Any] = {"job_manager": True}
        if what == "subtask":
            stage = draw(st.sampled_from(job.scenario.stages))
            keys = {"stage": stage.name, "subtask": draw(st.integers(0, stage.parallelism - 1))}
        elif what == "task_manager":
            keys = {"task_manager": draw(st.integers(0, cluster.task_managers - 1))}
        fields = {"task_manager": None, "stage": None, "subtask": None, "job_manager": False}
        found.append(Failure.model_construct(at_s=Fraction(at_us, 10**6), **{**fields, **keys}))
    interval_us = round_us * draw(st.integers(1, 4))
    heartbeat = Heartbeat(interval_us, 3 * interval_us, draw(st.sampled_from([2, None])))
    restore = Fraction(draw(st.sampled_from([10**9, 3_000, 500])) * 10**6, round_us)
    policy = draw(st.sampled_from(POLICIES))
    return FaultSettings(tuple(found), policy, heartbeat, restore, 1)


@st.composite
def jobs(
    draw: Any, random_jobs: ModuleType, random_checkpoints: ModuleType, shape: Any, **rest: Any
) -> Job:
    """A random job that fails, most often with checkpoints."""
    job = draw(random_checkpoints.jobs(random_jobs, shape, **rest))
    if draw(st.sampled_from([False] * 5 + [True])):
        job = replace(job, checkpoints=None)
    elif draw(st.sampled_from([False] * 4 + [True])):
        job = replace(job, checkpoints=replace(job.checkpoints, tolerable_failures=0))
    return replace(job, faults=draw(faults_of(job)))
