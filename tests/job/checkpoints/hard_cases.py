"""Random jobs made so that something seldom happens to their checkpoints, if they also fail.

Data in flight that is restored, a checkpoint that a later one subsumes, and one too many that fails
before others complete: in jobs drawn at large each needs several things at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from flowcontrol.layout.job import CheckpointSettings, Job
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.scenario import Scenario, parse_scenario

IN_FLIGHT, SUBSUMED, TOO_MANY = "in flight", "subsumed", "too many"
CASES = (IN_FLIGHT, SUBSUMED, TOO_MANY)

STATE_BYTES = 60_000
POINTWISE = ("forward", "rescale", "broadcast")
"""Partitioners whose receivers align all their inputs, whatever the mode, and persist nothing."""


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, shape: Any, case: str) -> Job:
    """A random job in which one of ``CASES`` is likely if it fails in its second half."""
    scenario = draw(random_jobs.scenarios(shape))
    change = {IN_FLIGHT: pressed, SUBSUMED: slowly_written, TOO_MANY: standing_still}[case]
    job = random_jobs.laid_out(draw(change(scenario)))
    return replace(job, checkpoints=draw(_SETTINGS[case](job.round_us)))


@st.composite
def pressed(draw: Any, scenario: Scenario) -> Scenario:
    """Sources emit many times what the sinks take, in records of which few fill a channel."""
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6
    senders = {edge["from"] for edge in mapping["edges"]}
    receivers = {edge["to"] for edge in mapping["edges"]}
    for stage in mapping["stages"]:
        stage["record_bytes"] = draw(st.sampled_from([4096, 1500, 6000, 900]))
        if stage["name"] not in receivers:
            stage["emit_rate"] = draw(st.sampled_from([30, 60])) / round_s
            stage.pop("arrival_rate", None)
        elif stage["name"] not in senders:
            stage["service_rate"] = draw(st.sampled_from([1, 0.4, 3])) / round_s
        else:
            stage["selectivity"] = 1
            stage.pop("service_rate", None)
            stage.pop("service_time", None)
            stage.pop("service_time_cv", None)
        stage.pop("stalls", None)
    for edge in mapping["edges"]:
        if edge["partitioner"] in POINTWISE and not edge.get("chain"):
            edge["partitioner"] = draw(st.sampled_from(["rebalance", "shuffle"]))
    return parse_scenario(mapping)


@st.composite
def slowly_written(draw: Any, scenario: Scenario) -> Scenario:
    """Tasks whose first snapshots take many rounds to write, and the ones behind them nearly none.

    What refers to the first completed one is written before what was cut while that was pending.
    """
    mapping, round_s = scenario.canonical(), scenario.live_round_us / 1e6
    for stage in mapping["stages"]:
        stage["state"] = {
            "bytes": STATE_BYTES,
            "incremental_share": draw(st.sampled_from([0.0, 0.01])),
        }
        stage.pop("service_rate", None)  # barriers are quick
        stage.pop("service_time", None)
        stage.pop("service_time_cv", None)
        stage.pop("stalls", None)
    mapping.setdefault("cluster", {})
    rounds = draw(st.sampled_from([12, 16]))
    tasks = Counter(manager for stage in mapping["stages"] for manager in stage["placement"])
    written = STATE_BYTES * max(tasks.values())
    mapping["cluster"]["upload_bytes_per_s"] = round(written / (rounds * round_s))
    mapping["cluster"]["upload_slowdown"] = draw(st.sampled_from([0, 0, 0.25]))
    return parse_scenario(mapping)


@st.composite
def standing_still(draw: Any, scenario: Scenario) -> Scenario:
    """A sink that stands still for a while, under pressure, and takes up all that comes later."""
    made = draw(pressed(scenario))
    mapping, round_us = made.canonical(), made.live_round_us
    senders = {edge["from"] for edge in mapping["edges"]}
    at, length = draw(st.sampled_from([2, 8])), draw(st.sampled_from([12, 20]))
    for stage in mapping["stages"]:
        if stage["name"] not in senders:
            stage["service_rate"] = 60e6 / round_us
            stage["stalls"] = [{"at_s": at * round_us / 1e6, "for_s": length * round_us / 1e6}]
    return parse_scenario(mapping)


def _in_flight(round_us: int) -> st.SearchStrategy[CheckpointSettings]:
    return st.builds(
        _settings,
        st.just(round_us),
        mode=st.sampled_from([UNALIGNED, TIMEOUTABLE]),
        interval=st.sampled_from([4, 7]),
        aligned_timeout=st.sampled_from([1, 2]),
    )


def _subsumed(round_us: int) -> st.SearchStrategy[CheckpointSettings]:
    return st.builds(
        _settings,
        st.just(round_us),
        mode=st.sampled_from([ALIGNED, AT_LEAST_ONCE]),
        interval=st.sampled_from([8, 9]),
        concurrent=st.sampled_from([2, 2, 3]),
    )


def _too_many(round_us: int) -> st.SearchStrategy[CheckpointSettings]:
    return st.builds(
        _settings,
        st.just(round_us),
        mode=st.sampled_from([ALIGNED, AT_LEAST_ONCE, UNALIGNED, TIMEOUTABLE]),
        interval=st.sampled_from([4, 7]),
        timeout=st.sampled_from([6, 9]),
        tolerable=st.sampled_from([0, 1]),
    )


_SETTINGS = {IN_FLIGHT: _in_flight, SUBSUMED: _subsumed, TOO_MANY: _too_many}


def _settings(
    round_us: int,
    *,
    mode: int,
    interval: int,
    aligned_timeout: int = 3,
    timeout: int = 1000,
    concurrent: int = 1,
    tolerable: int = 1000,
) -> CheckpointSettings:
    """Times in rounds."""
    return CheckpointSettings(
        mode=mode,
        interval_us=interval * round_us,
        aligned_timeout_us=aligned_timeout * round_us,
        timeout_us=timeout * round_us,
        min_pause_us=0,
        max_concurrent=concurrent,
        tolerable_failures=tolerable,
        after_tasks_finish=True,
        savepoints=(),
    )
