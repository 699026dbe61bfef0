"""What fails on Flink as in the scenario, and what its timestamps and counters say of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import faults
import pytest
import refusals
import translate

import report
from conf_list import CONF
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_scenario
from flowcontrol.virtual import simulate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"
SHAPES = sorted(file.stem for file in report.FAULTED_SHAPES.iterdir())
KEPT = report.read(report.FAULTED)


def shape(name: str, **changes: Any) -> Scenario:
    """A shape of shapes/faults/."""
    return as_scenario(report.FAULTED_SHAPES / f"{name}.yaml", changes)


@cache
def figures(name: str) -> dict[tuple[str, str], float]:
    found = faults.figures(simulate(shape(name)).tables)
    return {(place, figure): value for (place, figure, _), value in found}


def test_the_program_is_told_what_fails_and_flink_how_it_restarts() -> None:
    job = translate.flink_job(shape("task-manager"))
    assert job["failures"] == [{"at_s": 13, "task_manager": 1, "subtask": None}]
    assert job["options"]["restart-strategy.fixed-delay.delay"] == "2000ms"
    [planned] = translate.flink_job(shape("sink-exception"))["failures"]
    assert planned["subtask"] == "sink/0"


def test_without_failures_nothing_restarts_and_without_a_strategy_flinks_default_does() -> None:
    given = translate.flink_options(as_scenario(CONF / "checkpoint-aligned.yaml"))
    assert not any(key.startswith("restart-strategy") for key in given)
    changes = {"failures": [{"at_s": 20, "stage": "map", "subtask": 0}]}
    given = translate.flink_options(as_scenario(CONF / "checkpoint-aligned.yaml", changes))
    assert given["restart-strategy.type"] == "exponential-delay"


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        (
            {"failures": [{"at_s": 5, "job_manager": True}]},
            "failures[0].job_manager",
            "has no second JobManager",
        ),
        (
            {"failures": [{"at_s": 5, "task_manager": 0}], "stages.sink.placement": [1]},
            "failures[0].task_manager",
            "heartbeats",
        ),
        (
            {"failures": [{"at_s": 5, "task_manager": 0}], "stages.map.placement": [0, 1]},
            "failures[0].task_manager",
            "put each stage on one task manager",
        ),
        ({"stages.source.replayable": False}, "stages[0].replayable", "rewind"),
        (
            {"stages.sink.requests": {"like": "kinesis", "latency_ms": 5}},
            "stages[2].requests",
            "restores no requests",
        ),
    ],
)
def test_what_cannot_fail_here_is_refused(changes: dict[str, Any], place: str, words: str) -> None:
    if "heartbeats" in words:
        changes = {**changes, "stages.source.placement": [1, 1]}
    with pytest.raises(ScenarioError) as refused:
        refusals.check(shape("task-manager", **changes))
    [problem] = [one for one in refused.value.problems if one.place == place]
    assert words in problem.message


def test_event_time_and_failures_are_refused_together() -> None:
    changes = {"failures": [{"at_s": 20, "stage": "sink", "subtask": 0}]}
    with pytest.raises(ScenarioError, match="restores no windows"):
        refusals.check(as_scenario(report.TIMED_SHAPES / "tumbling.yaml", changes))


def attempts(*times: tuple[float, float, float]) -> list[list[int]]:
    """When each attempt was made, ran and ended, s of a run that begins at 1 s."""
    return [[int(1000 * (at + 1)) if at >= 0 else 0 for at in one] for one in times]


def lanes(second: tuple[float, float, float]) -> dict[str, Any]:
    """A run of two-lanes: the first one restarts at 15 s, the second as it is given."""
    found = {}
    for stage in ("Source: source", "map", "sink"):
        found[f"{stage}/0"] = attempts((-0.5, 0, 13.1), (15.1, 15.2, -1))
        found[f"{stage}/1"] = attempts((-0.5, 0, 14.1), second)
    names = ["map/0", "map/1", "sink/0", "sink/1", "source/0", "source/1"]
    restored = [["source/0", 15.2, 1950, 1500, 4], ["source/1", 16.3, 2100, 1500, 4]]
    samples = [[k / 10, [*_lane(k / 10), *_sink(k / 10), *_source(k / 10)]] for k in range(300)]
    return {
        "attempts": found, "subtasks": names, "restored": restored,
        "samples": samples, "failed_ms": None,
    }  # fmt: skip


def _lane(at_s: float) -> list[list[int]]:
    return [[10, 10, -1]] * 2


def _sink(at_s: float) -> list[list[int]]:
    return [[10, 0, -1]] * 2


def _source(at_s: float) -> list[list[int]]:
    """One record is in flight of each, and the lag of the first is made up for at 24 s."""
    waiting = 1000 if 13 < at_s < 24 else 5
    return [[0, 11, waiting], [0, 11, 5 if at_s < 14 or at_s > 26 else 999]]


def test_each_region_has_a_restart_of_its_own() -> None:
    found = faults.restarts_table(shape("two-lanes"), lanes((16.1, 16.3, -1)), 1000)
    first, second = found.to_pylist()
    assert (first["failed_s"], first["restarted_s"], first["running_s"]) == (13, 15.1, 15.2)
    assert (second["failed_s"], second["restarted_s"], second["running_s"]) == (14, 16.1, 16.3)
    assert [row["tasks"] for row in (first, second)] == [3, 3]
    assert [row["records_reprocessed"] for row in (first, second)] == [450, 600]
    assert first["detected_s"] == 13.1
    assert first["checkpoint_id"] == 4
    assert (first["caught_up_s"], second["caught_up_s"]) == pytest.approx((24.0, 26.1))


def test_regions_that_restart_together_are_one_restart_for_two_failures() -> None:
    [row] = faults.restarts_table(shape("two-lanes"), lanes((15.1, 15.3, -1)), 1000).to_pylist()
    assert row["cause"] == "subtask 0 of map and subtask 1 of map"
    assert (row["tasks"], row["running_s"]) == (6, 15.3)


def test_a_restart_that_never_ran_has_no_downtime() -> None:
    found = faults.restarts_table(shape("two-lanes"), lanes((16.1, -1, 17)), 1000)
    assert found.to_pylist()[1]["running_s"] is None
    assert {place for (place, *_), _ in faults.figures({"restarts": found})} == {"failure 1"}


def test_a_job_that_fails_for_good_has_its_time() -> None:
    run = {**lanes((16.1, 16.3, -1)), "failed_ms": 22_100}
    scenario = shape("two-lanes", failures=[
        {"at_s": 13, "stage": "map", "subtask": 0}, {"at_s": 14, "stage": "map", "subtask": 1},
        {"at_s": 21, "stage": "map", "subtask": 0},
    ])  # fmt: skip
    found = faults.restarts_table(scenario, run, 1000)
    assert dict(faults.figures({"restarts": found}))["failure 3", "job failed", "s"] == 21.1
