"""Sampling beside timers: levels, times that differ, and bursts into which no sample fell."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.analysis import Pressure
from flowcontrol.analysis.frames import result_frame
from flowcontrol.records import RESULTS, SAMPLES
from flowcontrol.scenario import parse_scenario
from flowcontrol.topics.monitoring import MOST_UNSEEN, intervals, sampling_summary

SCENARIO = parse_scenario(
    {
        "schema": 1,
        "name": "watched",
        "duration_s": 40,
        "monitoring": {"sampling": {"samples": 21, "delay_ms": 100, "refresh_s": 10}},
        "stages": [
            {"name": "a", "emit_rate": 10, "parallelism": 2},
            {"name": "b", "parallelism": 2},
            {"name": "c", "service_rate": 10},
        ],
        "edges": [{"from": "a", "to": "b", "chain": True}, {"from": "b", "to": "c"}],
    }
)


def tables(blocked: dict[int, float], sets: dict[float, float]) -> dict[str, pa.Table]:
    """A sample a second: ms/s of subtask 1 of ``a`` in the second that ends then; ends of sets."""
    schema = RESULTS["stages"].arrow_schema()
    empty = {f.name: 0 if pa.types.is_integer(f.type) else 0.0 for f in schema}
    stages = [
        empty | {"t_s": float(t), "stage": stage, "subtask": i}
        | {"backpressured_ms_per_s": blocked.get(t, 0.0) if (stage, i) == ("a", 1) else 0.0}
        for t in range(1, 41)
        for stage, count in (("a", 2), ("b", 2), ("c", 1))
        for i in range(count)
    ]  # fmt: skip
    samples = [
        {
            "t_s": t_s,
            "stage": stage,
            "subtask": i,
            "ratio": ratio if (stage, i) == ("a", 1) else 0.0,
        }
        for t_s, ratio in sets.items()
        for stage, count in (("a", 2), ("b", 2), ("c", 1))
        for i in range(count)
    ]
    return {
        "stages": pa.Table.from_pylist(stages, schema=schema),
        "samples": pa.Table.from_pylist(samples, schema=SAMPLES.arrow_schema()),
    }


def summary(blocked: dict[int, float], sets: dict[float, float]) -> dict[str, Any]:
    monitoring = SCENARIO.monitoring
    assert monitoring is not None
    assert monitoring.sampling is not None
    return sampling_summary(tables(blocked, sets), SCENARIO, monitoring.sampling)


def test_sets_stand_beside_the_timers_over_the_same_time() -> None:
    found = summary({1: 200.0, 2: 600.0, 14: 1000.0}, {2.0: 0.4, 14.5: 0.2})
    assert found["stages"]["a"]["sets"] == [
        {"from_s": 0.0, "t_s": 2.0, "level": "LOW", "ratio": 0.4}
        | {"timer_level": "LOW", "timer_ratio": 0.4},
        {"from_s": 12.5, "t_s": 14.5, "level": "LOW", "ratio": 0.2}
        | {"timer_level": "LOW", "timer_ratio": 0.5},
    ]
    assert (found["set_s"], found["refresh_s"]) == (2.0, 10.0)


def test_messages_are_one_to_each_subtask_of_a_task_and_back() -> None:
    """The chain of a and b is one task of two subtasks; c has one."""
    found = summary({}, {2.0: 0.0, 14.0: 0.0, 26.0: 0.0})
    keys = ("requests_per_set", "requests", "answers")
    assert [found[key] for key in keys] == [3, 9, 9]


def test_what_the_page_did_not_show() -> None:
    blocked = {
        1: 300.0,
        2: 300.0,
        **dict.fromkeys((5, 6, 7), 900.0),
        9: 200.0,
        13: 800.0,
        14: 800.0,
    }
    found = summary(blocked, {2.0: 0.3, 14.0: 0.8, 26.0: 0.0})["stages"]["a"]
    # LOW from 2 on, HIGH from 14, OK from 26. Timers: HIGH in 5 to 7 and in 13; 14 is shown at 14
    assert found["unseen"] == [
        {"from_s": 4.0, "until_s": 7.0, "level": "HIGH", "shown": "LOW", "most_blocked": 0.9}
    ]
    assert found["hidden_s"] == 4.0
    # shown LOW, was OK: 3, 4, 8, 10, 11, 12; shown HIGH, was OK: 15 to 25
    assert found["differs_s"] == 4.0 + 6 + 11


def test_before_the_first_set_a_page_shows_nothing_that_could_differ() -> None:
    found = summary({1: 900.0, 2: 900.0}, {3.0: 0.9})["stages"]["a"]
    assert (found["unseen"], found["hidden_s"]) == ([], 0.0)


def test_the_worst_and_longest_are_kept() -> None:
    blocked = dict.fromkeys(range(4, 41, 2), 200.0) | {29: 900.0, 30: 900.0}
    many = summary(blocked, {2.0: 0.0})["stages"]["a"]["unseen"]
    assert 10 < len(many) <= MOST_UNSEEN
    high = [one for one in many if one["level"] == "HIGH"]
    assert [(one["from_s"], one["until_s"]) for one in high] == [(27.0, 30.0)]


def test_samples_have_moments_of_their_own() -> None:
    """The intervals of the other tables end where those have rows."""
    found = tables({}, {4.95: 0.0})
    assert set(result_frame(found, "stages")["interval_s"]) == {1.0}
    stages = result_frame(found, "stages")
    own = intervals(found["samples"].to_pandas(), stages[stages["stage"] == "a"])
    assert [one.shown for one in own] == [None] * 4 + [Pressure.OK] * 36
    assert own[0].until_s - own[0].from_s == pytest.approx(1.0)
