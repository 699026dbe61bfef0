"""Advice on real runs: what was planted is what helps, and every figure is that of a run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flowcontrol import advise
from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.advise.result import figures_of
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import as_base
from remembered import simulate

CONF = Path(__file__).resolve().parents[3] / "conf"

PLANTED: dict[str, tuple[dict[str, Any], str, str]] = {
    # a scenario, what to improve, and the kind of change that helps most for its cost
    "a slow stage": ({"stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 200},
        {"name": "map", "service_rate": 250},
        {"name": "sink", "service_rate": 2000},
    ]}, "throughput", "parallelism"),
    "a skewed edge": ({"stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 200},
        {"name": "map", "parallelism": 4, "service_rate": 300},
        {"name": "sink", "service_rate": 2000},
    ], "edges": [
        {"from": "source", "to": "map", "partitioner": "hash", "key_weights": {"a": 9, "b": 1}},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ]}, "throughput", "partitioner"),
    "a slow network": ({
        "cluster": {"task_managers": 3, "bandwidth_bytes_per_s": 40_000},
        "stages": [
            {"name": "source", "emit_rate": 1000, "record_bytes": 200},
            {"name": "map", "service_rate": 2000},
            {"name": "sink", "service_rate": 2000, "placement": [1]},
        ],
    }, "throughput", "placement"),
    "a flusher that waits": ({
        "options": {"execution.buffer-timeout.interval": "1s"},
        "stages": [
            {"name": "source", "emit_rate": 50, "record_bytes": 100},
            {"name": "map", "service_rate": 2000},
            {"name": "sink", "service_rate": 2000},
        ],
    }, "latency", "timeout"),
    "deep buffers before a barrier": ({
        "options": {
            "execution.checkpointing.interval": "4s",
            "taskmanager.network.memory.buffers-per-channel": 8,
        },
        "stages": [
            {"name": "source", "emit_rate": 300, "record_bytes": 2000, "arrival_rate": 150},
            {"name": "map", "service_rate": 2000},
            {"name": "sink", "service_rate": 155, "stalls": [{"at_s": 2, "for_s": 4}]},
        ],
    }, "checkpoints", "unaligned"),
}  # fmt: skip


def planted(name: str) -> dict[str, Any]:
    keys = PLANTED[name][0]
    edges = [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ]
    head = {"schema": 1, "name": "planted", "duration_s": 16, "round_ms": 20, "edges": edges}
    return {**head, "sample_interval_s": 0.5, "cluster": {"task_managers": 3}, **keys}


def slow_in_a_row() -> dict[str, Any]:
    """Map lets 250/s through, sink 300."""
    scenario = planted("a slow stage")
    stages = [dict(stage) for stage in scenario["stages"]]
    stages[2]["service_rate"] = 300
    return {**scenario, "stages": stages}


@pytest.mark.parametrize("name", PLANTED)
def test_what_was_planted_is_what_helps(name: str, tmp_path: Path) -> None:
    _, goal, kind = PLANTED[name]
    found = advise(
        planted(name),
        out=tmp_path,
        quiet=True,
        simulate=simulate,
        goal=goal if goal == "checkpoints" else None,
    )  # type: ignore[arg-type]
    assert found.goal == goal
    best = found.proposals[0]
    assert best.helps
    assert best.change.kind.split("+")[0] == kind, found.sentence
    assert best.gain > 0.2


def test_every_figure_is_that_of_a_run(tmp_path: Path) -> None:
    """Nothing is proposed that was not run: each row again, run alone."""
    base = as_base(slow_in_a_row())
    found = advise(base.mapping, out=tmp_path, quiet=True, simulate=simulate)
    assert found.before == figures_of(simulate(base.scenario()).tables, base.scenario())
    assert len(found.proposals) > 12
    assert any("+" in one.change.kind for one in found.proposals)
    for one in found.proposals:
        scenario = base.scenario(one.change.keys)
        assert one.figures == figures_of(simulate(scenario).tables, scenario), one.change.name
    scores = [one.score for one in found.proposals]
    assert scores == sorted(scores, reverse=True)


def test_what_limits_behind_the_best_is_changed_as_well(tmp_path: Path) -> None:
    found = advise(slow_in_a_row(), out=tmp_path, quiet=True, simulate=simulate)
    both = [one for one in found.proposals if one.change.kind == "parallelism+parallelism"]
    assert both
    assert max(one.figures.throughput for one in both) > 800
    assert "without the last of them sink limits" in {one.change.why for one in both}
    alone = [one for one in found.proposals if one.change.kind == "parallelism"]
    assert max(one.figures.throughput for one in alone) < 310


def test_the_folder_has_all_of_it_and_is_replaced_or_refused(tmp_path: Path) -> None:
    out = tmp_path / "advice"
    found = advise(planted("a slow stage"), out=out, quiet=True, simulate=simulate)
    kept = json.loads((out / "advice.json").read_text())
    assert kept["finished"] is True
    assert {key: kept[key] for key in found.summary} == json.loads(json.dumps(found.summary))
    page = (out / "report.html").read_text()
    assert found.proposals[0].change.name in page
    assert "--set &#x27;stages.map.parallelism=" in page
    with pytest.raises(ScenarioError, match="holds a finished advice on planted"):
        advise(planted("a skewed edge"), out=out, quiet=True, simulate=simulate)
    again = advise(planted("a slow stage"), out=out, quiet=True, simulate=simulate)
    assert again.summary == found.summary


def test_a_narrow_terminal_has_the_names_and_the_gain(tmp_path: Path) -> None:
    found = advise(planted("a slow stage"), out=tmp_path, quiet=True, simulate=simulate)
    for width in (40, 80, 160):
        text = io.StringIO()
        found.show(Console(file=text, width=width, color_system=None))
        lines = text.getvalue().splitlines()
        assert all(len(line) <= width for line in lines)
        assert any("as it is" in line for line in lines)
        assert any(line.rstrip().endswith(" x") for line in lines)


def test_a_change_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    def fails(scenario: Scenario) -> Any:
        if scenario.stage("sink").parallelism > 1 or scenario.stage("map").parallelism > 2:
            raise RunError("no room")
        return simulate(scenario)

    found = advise(planted("a slow stage"), out=tmp_path, quiet=True, simulate=fails)
    failed = [one for one in found.not_run if one.why == "no room"]
    assert failed
    assert len(found.proposals) > 10


@pytest.mark.parametrize(
    ("given", "more", "text"),
    [
        ("two-jobs.yaml", {}, "jobs: several jobs"),
        (
            "three-stages.yaml",
            {"goal": "speed"},
            "--for: 'speed' is not a goal: use one of throughput",
        ),
        ("three-stages.yaml", {"overrides": ["duration_s=-1"]}, "duration_s: -1"),
    ],
)
def test_what_is_refused_writes_nothing(
    given: str, more: dict[str, Any], text: str, tmp_path: Path
) -> None:
    out = tmp_path / "advice"
    with pytest.raises(ScenarioError, match=text):
        advise(CONF / given, out=out, quiet=True, **more)
    assert not out.exists()
