"""A comparison of a scenario with checkpoints: who takes them, who runs without them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.compare import compare, run
from flowcontrol.experiments.compare.result import CompareResult
from flowcontrol.experiments.compare.run import plan_comparison
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.system import PRESETS

CONF = Path(__file__).resolve().parents[3] / "conf" / "experiment.yaml"
INTERVAL = 'options."execution.checkpointing.interval"=1s'


@pytest.mark.parametrize("name", PRESETS)
def test_a_system_without_barriers_runs_without_checkpoints(name: str) -> None:
    plan = plan_comparison(CONF, systems=[name], overrides=[INTERVAL])
    preset = PRESETS[name]
    job = run.check_one(plan.base, name, plan.clock)
    assert (job.checkpoints is not None) == bool(preset.barriers)
    assert job.scenario.system.transport == preset.transport


def test_savepoints_are_left_out_too_and_all_else_stays() -> None:
    more = ["savepoints=[{at_s: 5}]", "options.taskmanager.memory.segment-size=4kb"]
    plan = plan_comparison(CONF, systems=["kafka-streams"], overrides=[INTERVAL, *more])
    scenario = run.check_one(plan.base, "kafka-streams", plan.clock).scenario
    assert (scenario.savepoints, scenario.checkpointing) == ((), None)
    assert scenario.options.segment_bytes == 4096
    assert run.check_one(plan.base, "flink", plan.clock).scenario.savepoints


def test_failures_are_not_left_out() -> None:
    """A job that never fails is another job."""
    fails = "failures=[{at_s: 5, task_manager: 0}]"
    plan = plan_comparison(CONF, systems=["flink", "storm-1"], overrides=[INTERVAL, fails])
    with pytest.raises(ScenarioError, match="'storm-1' has no barriers, and failures need them"):
        run.check_one(plan.base, "storm-1", plan.clock)


CHAIN = {
    "schema": 1,
    "name": "chain",
    "duration_s": 40,
    "sample_interval_s": 1,
    "stages": [
        {"name": "source", "emit_rate": 200, "record_bytes": 100},
        {"name": "sink", "service_rate": 100},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


@pytest.fixture
def comparing(running: Any, tmp_path: Path) -> Callable[..., CompareResult]:
    """A function that compares systems with checkpoints; the runs are made up."""

    def simulate(scenario: Scenario) -> Any:
        return running(scenario, [100.0] * 40)

    given: Any = {"overrides": [INTERVAL], "processes": 1, "runner": simulate}
    return lambda *names: compare(CHAIN, names, out=tmp_path / "out", **given)


def test_who_runs_less_or_nothing_is_said_before_anything_runs(
    comparing: Callable[..., CompareResult],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    module = import_module("flowcontrol.experiments.compare.compare")
    monkeypatch.setattr(module, "_run_virtual", stopped)
    with pytest.raises(KeyboardInterrupt):
        comparing("flink", "kafka-streams", "arroyo", "storm-1")
    assert capsys.readouterr().err.splitlines() == [
        "kafka-streams, storm-1: run without checkpoints, which need barriers"
    ]


def test_who_ran_without_checkpoints_says_so(
    comparing: Callable[..., CompareResult], capsys: pytest.CaptureFixture[str]
) -> None:
    result = comparing("flink", "kafka-streams")
    flink, kafka = result.outcomes
    assert (flink.state, flink.reason) == ("ran", "")
    assert (kafka.state, kafka.reason) == ("ran", run.LEFT_OUT)
    result.show()
    said = " ".join(capsys.readouterr().out.split())
    assert "kafka-streams: run without checkpoints" in said
    assert "It was run without checkpoints" in result.report.read_text()
