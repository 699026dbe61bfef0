"""What is said of a scenario as it is given: times that its options state without a unit."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol import notices
from flowcontrol.scenario.given import as_base, as_scenario

INTERVAL = "execution.checkpointing.interval"
MAPPING: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 1,
    "stages": [{"name": "source", "emit_rate": 100}, {"name": "sink", "service_rate": 50}],
    "edges": [{"from": "source", "to": "sink"}],
}


@pytest.mark.parametrize("written", [30, "30", " 30 "])
def test_a_time_without_a_unit_is_milliseconds_as_in_flink_and_that_is_said(
    written: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """``TimeUtils.parseDuration`` takes a number alone for milliseconds."""
    scenario = as_scenario({**MAPPING, "options": {INTERVAL: written}})
    assert scenario.options.checkpoint_interval_us == 30_000
    text = f"options.{INTERVAL}: 30 is 30 ms, as Flink reads it; 30s would be seconds\n"
    assert capsys.readouterr().err == text


def test_one_of_the_command_line_is_said_too(capsys: pytest.CaptureFixture[str]) -> None:
    as_base(MAPPING, [f"options.{INTERVAL}=30"])
    assert "30 is 30 ms" in capsys.readouterr().err
    with notices.quiet():
        as_base(MAPPING, [f"options.{INTERVAL}=30"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "options",
    [
        {INTERVAL: "30s"},
        {INTERVAL: "30 ms"},
        {"execution.buffer-timeout.interval": 0},
        {"execution.buffer-timeout.interval": -1},
        {"taskmanager.network.memory.buffers-per-channel": 30},
        {"no.such.option": 30},
        [],
    ],
)
def test_what_can_be_meant_in_one_way_is_not_said(
    options: object, capsys: pytest.CaptureFixture[str]
) -> None:
    as_base({**MAPPING, "options": options})
    assert capsys.readouterr().err == ""


def test_a_scenario_that_was_read_is_not_spoken_of_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = as_scenario({**MAPPING, "options": {INTERVAL: 30}})
    capsys.readouterr()
    assert as_base(scenario).scenario() == scenario
    assert capsys.readouterr().err == ""
