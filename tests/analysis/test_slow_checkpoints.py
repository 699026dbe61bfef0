"""Runs with a cause of slow checkpoints each, planted: the sentence names that one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.analysis import summarise
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

JOB = Path(__file__).resolve().parents[2] / "conf" / "checkpoint-aligned.yaml"
OPTION = "execution.checkpointing."
QUICK = {"sink": {"total_rate": 2000}}
"""A sink that takes more than comes."""

SKEWED = {"partitioner": "custom", "channel_weights": [0.9, 0.1]}


def checkpoints(
    options: dict[str, Any] | None = None, upload: float = 1e7, edge: Any = None, **stages: Any
) -> dict[str, Any]:
    """What the summary of the job says of checkpoints, with some keys changed."""
    given = yaml.safe_load(JOB.read_text())
    given["cluster"]["upload_bytes_per_s"] = upload
    given["options"] |= {OPTION + key: value for key, value in (options or {}).items()}
    for stage in given["stages"]:
        stage |= stages.get(stage["name"], {})
    given["edges"][0] |= edge or {}
    scenario = parse_scenario(given)
    run = simulate(scenario)
    summary = summarise(
        run.tables, scenario, clock="virtual", rounds=run.rounds, wall_s=1.0, round_ms=100.0
    )
    found: dict[str, Any] = summary["checkpoints"]
    return found


@pytest.mark.parametrize(
    ("changes", "kind", "stage", "second"),
    [
        ({}, "in_flight", "sink", None),
        ({"map": {"state": {"bytes": "20mb"}}, **QUICK}, "upload", "map", None),
        ({"map": {"state": {"bytes": 0, "sync_ms": 3000}}, **QUICK}, "sync", "map", None),
        ({"edge": SKEWED, "map": {"total_rate": 200}, **QUICK}, "channel", "sink", None),
        ({"sink": {"state": {"bytes": "20mb"}}}, "in_flight", "sink", "upload"),
        ({"sink": {"state": {"bytes": "60mb"}}}, "upload", "sink", "in_flight"),
        ({"sink": {"state": {"sync_ms": 2000}}}, "in_flight", "sink", "sync"),
    ],
    ids=["in flight", "upload", "sync", "channel", "and upload", "and in flight", "and sync"],
)
def test_the_cause_that_was_planted_is_named(
    changes: dict[str, Any], kind: str, stage: str, second: str | None
) -> None:
    cause = checkpoints(**changes)["cause"]
    assert (cause["kind"], cause["stage"], cause.get("second")) == (kind, stage, second)
    if kind == "channel":
        assert (cause["sender"], cause["sender_subtask"]) == ("map", 0)


def test_a_job_that_keeps_up_has_none() -> None:
    found = checkpoints(**QUICK)
    assert (found["cause"], found["late"]) == (None, None)
    assert found["counts"]["completed"] == 4


def test_the_one_checkpoint_of_a_pause_is_looked_at_alone() -> None:
    sink = QUICK["sink"] | {"stalls": [{"at_s": 7, "for_s": 5}]}
    found = checkpoints(sink=sink)
    assert (found["cause"]["kind"], found["cause"]["slow"]) == ("in_flight", 1)
    assert "makes 1 of 4 checkpoints slow" in found["sentences"][1]


def test_where_all_expire_the_first_stage_that_was_late_is_named() -> None:
    options = {"timeout": "1s", "tolerable-failed-checkpoints": 9}
    found = checkpoints(options)
    assert (found["cause"], found["late"]["stage"]) == (None, "map")
    assert found["sentences"][1].startswith("All 4 that expired waited for map")
    assert checkpoints({**options, "timeout": "3s"})["late"]["stage"] == "sink"


def test_many_quick_ones_have_no_cause() -> None:
    found = checkpoints({"interval": "40ms", "min-pause": "10ms"}, **QUICK)
    assert found["counts"]["completed"] > 50
    assert found["cause"] is None
