"""Processors of a task manager, and what a stage needs of one: read, refused, written down."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from jsonschema import Draft7Validator

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.json_schema import scenario_schema

VALIDATOR = Draft7Validator(scenario_schema())
RATED = ("stages/1/service_rate", 50)


def test_nobody_counts_processors_unless_told(changed: Any) -> None:
    scenario = parse_scenario(changed())
    assert scenario.cluster.cores is None
    assert not scenario.counts_processors
    assert not scenario.has_processes
    assert [stage.processor_share for stage in scenario.stages] == [0, 1]
    assert "cores" not in scenario.to_yaml()
    assert "cpu" not in scenario.to_yaml()


@pytest.mark.parametrize(
    "change", [("cluster/cores", 1.5), ("stages/1/cpu", 0.1), ("stages/0/cpu", 1)]
)
def test_either_has_them_counted_and_is_written_down(changed: Any, change: Any) -> None:
    scenario = parse_scenario(changed(RATED, change))
    assert scenario.counts_processors
    assert scenario.has_processes
    assert parse_scenario(scenario.canonical()) == scenario
    assert scenario != parse_scenario(changed(RATED))


def test_numbers_are_those_of_the_file(changed: Any) -> None:
    stated = [("cluster/cores", 0.3), ("stages/1/cpu", 0.1), ("stages/0/cpu", 0)]
    scenario = parse_scenario(changed(*stated))
    assert scenario.cluster.cores == Fraction(3, 10)
    assert [stage.processor_share for stage in scenario.stages] == [0, Fraction(1, 10)]


def test_a_stall_alone_has_the_table(changed: Any) -> None:
    scenario = parse_scenario(changed(("stages/1/stalls", [{"at_s": 1, "for_s": 1}])))
    assert scenario.has_processes
    assert not scenario.counts_processors


@pytest.mark.parametrize(
    ("path", "value", "texts"),
    [
        ("cluster/cores", 0, ["0 is out of range", "a number of processors", "more than 0"]),
        ("cluster/cores", 1e6, ["1000000.0 is out of range", "at most 100000"]),
        ("cluster/cores", "4", ["'4' is not a number", "without quotes"]),
        ("stages/1/cpu", 1.1, ["1.1 is out of range", "a share", "at most 1"]),
        ("stages/0/cpu", -1, ["-1 is out of range", "at least 0"]),
        ("stages/0/cpu", "10%", ["'10%' is not a number"]),
    ],
)
def test_other_numbers_are_refused(changed: Any, path: str, value: Any, texts: list[str]) -> None:
    given = changed((path, value))
    with pytest.raises(ScenarioError) as found:
        parse_scenario(given)
    [problem] = found.value.problems
    assert problem.place == path.replace("stages/", "stages[").replace("/c", ".c").replace(
        ".cpu", "].cpu"
    )
    for text in texts:
        assert text in problem.message
    assert list(VALIDATOR.iter_errors(given))  # an editor says so too


def test_records_that_take_no_time_take_no_processor(changed: Any) -> None:
    given = changed(("stages/1/cpu", 0.5))
    del given["stages"][1]["service_rate"]
    with pytest.raises(ScenarioError) as found:
        parse_scenario(given)
    [problem] = found.value.problems
    assert problem.place == "stages[1].cpu"
    assert "0.5: 'sink' has no service_rate" in problem.message
    assert "state one, or remove cpu" in problem.message


def test_a_total_rate_is_a_rate(changed: Any) -> None:
    given = changed(("stages/1/cpu", 0.5), ("stages/1/total_rate", 150))
    del given["stages"][1]["service_rate"]
    assert parse_scenario(given).stage("sink").processor_share == Fraction(1, 2)
