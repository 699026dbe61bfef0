"""A stage that is never idle while more and more waits for it limits before it blocks anybody."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.limits import find_limits
from flowcontrol.experiments.advise.adviser import seen_in
from flowcontrol.experiments.advise.result import Subject
from flowcontrol.experiments.advise.rules import changes_of
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate
from modules import load

builder = load("tests/analysis/builder.py")

TIMES = [float(n) for n in range(1, 101)]


def judge(builder: ModuleType, waiting: list[int], busy: Any = 1000) -> tuple[str | None, float]:
    """Return what limits before a sink that takes up 100 records/s, and for how long, s."""
    scenario = builder.scenario("held", {"source": {}, "sink": {}}, ["source->sink"])
    made = builder.Results(TIMES).stage("source")
    made.stage("sink", busy_ms_per_s=busy, rate_in=100)
    made.channel("source->sink", in_flight_records=waiting)
    found = find_bottleneck(made.tables(), scenario)
    return found.stage, found.limited_s


def growing(per_s: float, until_s: float = 100) -> list[int]:
    """Return what waits if it grows until some time, and is then worked off."""
    return [round(per_s * (t_s if t_s <= until_s else 2 * until_s - t_s)) for t_s in TIMES]


@pytest.mark.parametrize(("busy", "stage"), [(994, None), (995, "sink"), (1000, "sink")])
def test_only_who_is_never_idle_falls_behind(busy: int, stage: str | None) -> None:
    assert judge(builder, growing(20), busy)[0] == stage


@pytest.mark.parametrize(("per_s", "stage"), [(0, None), (5, None), (6, "sink"), (500, "sink")])
def test_what_waits_must_grow_against_what_is_taken_up(per_s: float, stage: str | None) -> None:
    """100 records/s: 5 more each second may come and go."""
    assert judge(builder, growing(per_s))[0] == stage


@pytest.mark.parametrize(("until_s", "stage"), [(4, None), (5, "sink"), (50, "sink")])
def test_it_limits_until_most_waits(until_s: float, stage: str | None) -> None:
    """Not for less than 5 % of the run."""
    found = judge(builder, growing(20, until_s))
    assert found == (stage, until_s if stage else 0)


def test_bursts_that_are_worked_off_before_the_next_one_are_none() -> None:
    """900 records every 10 s: the sink is busy for 9 s after each, and idle in the last one."""
    waiting = [100 * (9 - n % 10) for n in range(100)]
    busy = [1000 if n % 10 < 9 else 500 for n in range(100)]
    assert judge(builder, waiting, busy) == (None, 0.0)


def test_bursts_that_are_not_worked_off_are_one_backlog() -> None:
    """1,100 records every 10 s from 30 to 80 s."""
    waiting, sizes = 0, []
    for t_s in range(1, 101):
        waiting = max(0, waiting - 100) + 1100 * (30 <= t_s <= 80 and t_s % 10 == 0)
        sizes.append(waiting)
    busy = [1000 if t_s >= 30 else 0 for t_s in range(1, 101)]
    assert judge(builder, sizes, busy) == ("sink", 51.0)


def test_a_hot_subtask_falls_behind_alone() -> None:
    scenario = builder.scenario("hot", {"a": {}, "k": {"parallelism": 3}}, ["a->k"])
    made = builder.Results(TIMES).stage("a")
    for subtask in range(3):
        is_hot = subtask == 1
        made.stage("k", subtask, busy_ms_per_s=1000 if is_hot else 400, rate_in=100)
        made.channel("a->k", 0, subtask, in_flight_records=growing(20) if is_hot else 3)
    found = find_bottleneck(made.tables(), scenario)
    assert (found.stage, found.subtasks) == ("k", (1,))


@pytest.mark.parametrize("blocked", [0, 900])
def test_it_limits_beside_another_branch(blocked: int) -> None:
    stages: dict[str, Any] = {"a": {}, "b": {}, "slow": {}, "other": {}}
    scenario = builder.scenario("two", stages, ["a->slow", "b->other"])
    made = builder.Results(TIMES).stage("a", backpressured_ms_per_s=800)
    made.stage("b", backpressured_ms_per_s=blocked)
    made.stage("slow", busy_ms_per_s=1000, rate_in=100)
    made.stage("other", busy_ms_per_s=1000, rate_in=100)
    made.channel("a->slow").channel("b->other", in_flight_records=growing(50))
    found = [names for _, names in find_limits(made.tables(), scenario)]
    assert all(sorted(names) == ["other", "slow"] for names in found)


def small_mapping(**sink: Any) -> dict[str, Any]:
    """A window of 2 s into a sink that is slow from 10 to 30 s; its buffers hold what waits."""
    rates = [{"at_s": 0, "rate": 100}, {"at_s": 10, "rate": 20}, {"at_s": 30, "rate": 100}]
    return {
        "schema": 1, "name": "held", "duration_s": 60, "round_ms": 10, "sample_interval_s": 1,
        "stages": [
            {"name": "source", "emit_rate": 500, "event_time": {}, "watermark": {}},
            {"name": "count", "service_rate": 5000, "window": {"kind": "tumbling", "size_s": 2}},
            {"name": "sink", "parallelism": 2, "total_rate": rates, **sink},
            {"name": "archive", "service_rate": 1000},
        ],
        "edges": [
            {"from": "source", "to": "count", "partitioner": "hash",
             "key_distribution": {"kind": "uniform", "keys": 60}},
            {"from": "count", "to": "sink", "partitioner": "rebalance"},
            {"from": "source", "to": "archive", "partitioner": "rebalance"},
        ],
    }  # fmt: skip


def test_a_run_names_it_and_more_of_it_is_tried() -> None:
    scenario = parse_scenario(small_mapping())
    tables = simulate(scenario).tables
    found = find_bottleneck(tables, scenario)
    assert found.stage == "sink"
    assert "while nothing before it was held back, and up to " in found.sentence
    assert "records waited in buffers" in found.sentence
    cause = find_causes(tables, scenario)[0]
    assert (cause.stage, cause.cause, cause.confidence) == ("sink", "operator", 0.85)
    assert "and blocked nobody yet (channels)" in cause.evidence[0]
    subject = Subject(scenario, small_mapping(), seen_in(tables, scenario))
    names = [one.name for one in changes_of(subject)]
    assert any(name.startswith("4 subtasks of sink instead of 2") for name in names)
    quick = parse_scenario(small_mapping(total_rate=100))
    assert find_bottleneck(simulate(quick).tables, quick).stage is None
