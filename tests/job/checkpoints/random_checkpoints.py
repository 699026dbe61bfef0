"""Random jobs with checkpoints: what the tests of several folders draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
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
from flowcontrol.scenario import Savepoint, Scenario, parse_scenario

MODES = (TIMEOUTABLE, ALIGNED, UNALIGNED, AT_LEAST_ONCE)


@st.composite
def settings_of(
    draw: Any,
    round_us: int,
    rounds: int = 0,
    modes: Sequence[int] = MODES,
    *,
    is_stopped: bool = False,
) -> CheckpointSettings:
    """How a job checkpoints: a checkpoint every few rounds, and timeouts of some.

    One that ``is_stopped`` is stopped with a savepoint in the first half of its rounds.
    """
    savepoints: list[Savepoint] = []
    if is_stopped or (rounds and draw(st.sampled_from([True, False, False]))):
        last = rounds // 2 if is_stopped else rounds - 1
        at_us = draw(st.integers(1, last)) * round_us
        stop = is_stopped or draw(st.booleans())
        savepoints.append(Savepoint(at_s=Fraction(at_us, 1_000_000), stop=stop))
    mode = draw(st.sampled_from(modes))
    concurrent = 1 if mode in {TIMEOUTABLE, UNALIGNED} else draw(st.sampled_from([1, 1, 2, 3]))
    return CheckpointSettings(
        mode=mode,
        interval_us=draw(st.sampled_from([4, 2, 7, 11, 1.5])) * round_us // 1,
        aligned_timeout_us=draw(st.sampled_from([3, 2, 5, 8])) * round_us,
        timeout_us=draw(st.sampled_from([1000, 12, 6, 20])) * round_us,
        min_pause_us=draw(st.sampled_from([0, 0, 3])) * round_us,
        max_concurrent=concurrent,
        tolerable_failures=1000,
        after_tasks_finish=draw(st.sampled_from([True, True, True, False])),
        savepoints=tuple(savepoints),
    )


@st.composite
def jobs(
    draw: Any,
    random_jobs: ModuleType,
    shape: Any,
    *,
    has_state: bool = True,
    systems: Any = None,
    times: Any = None,
    modes: Sequence[int] = MODES,
    is_stopped: bool = False,
) -> Job:
    """A random job that checkpoints; of most, some stages have a state.

    ``systems`` draws its system by the length of a round, ms; by default it is Flink. ``times``
    draws what a scenario is with event times or windows; by default it has none.
    """
    scenario = draw(random_jobs.scenarios(shape))
    if times is not None:
        scenario = draw(times(scenario))
    if systems is not None:
        system = draw(systems(scenario.round_ms))
        scenario = scenario.model_copy(update={"system": system})
    if has_state and draw(st.sampled_from([True, True, False])):
        scenario = draw(with_states(scenario))
    job = random_jobs.laid_out(scenario)
    drawn = settings_of(job.round_us, job.rounds, modes, is_stopped=is_stopped)
    return with_checkpoints(job, draw(drawn))


@st.composite
def with_states(draw: Any, scenario: Scenario) -> Scenario:
    """Give stages a state, whose snapshots block them and take some rounds to write."""
    mapping, round_ms = scenario.canonical(), scenario.live_round_us / 1000
    most = 100_000
    for stage in mapping["stages"]:
        if draw(st.booleans()):
            stage["state"] = {
                "bytes": draw(st.sampled_from([most, 0, most // 3])),
                "bytes_per_record": draw(st.sampled_from([0, most // 50])),
                "incremental_share": draw(st.sampled_from([1, 0.1, 0.0])),
                "sync_ms": round(draw(st.sampled_from([0, 0.4, 1, 2.5])) * round_ms, 3),
            }
    in_rounds = most / (draw(st.sampled_from([2, 0.7, 6])) * round_ms / 1000)
    mapping.setdefault("cluster", {})
    mapping["cluster"]["upload_bytes_per_s"] = max(1, round(in_rounds))
    mapping["cluster"]["upload_slowdown"] = draw(st.sampled_from([0, 0, 0.25, 1 / 3, 1]))
    return parse_scenario(mapping)


def with_checkpoints(job: Job, settings: CheckpointSettings) -> Job:
    """Return a job that checkpoints, whose times need not be Flink's whole milliseconds."""
    settings = replace(settings, interval_us=int(settings.interval_us or 0) or None)
    return replace(job, checkpoints=settings)
