"""Operators in the place of stages: what is read of them, chained, placed, and refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.given import as_base, as_scenario
from flowcontrol.scenario.json_schema import scenario_schema
from modules import load

set_value = load("tests/scenario/conftest.py").set_value
VALIDATOR = Draft7Validator(scenario_schema())
ONE_EDGE = {"from": "source", "to": "sink"}
TAKE_OUT = "<remove it>"

JOB: dict[str, Any] = {
    "schema": 1,
    "name": "words",
    "duration_s": 5,
    "operators": [
        {"name": "source", "parallelism": 2, "total_rate": 1000},
        {"name": "split", "parallelism": 2, "service_rate": 900},
        {"name": "count", "parallelism": 3, "service_rate": 300},
        {"name": "sink", "parallelism": 3, "kind": "sink"},
    ],
    "edges": [
        {"from": "source", "to": "split"},
        {"from": "split", "to": "count", "partitioner": "hash", "key_weights": {"a": 1, "b": 2}},
        {"from": "count", "to": "sink"},
    ],
}
SLOTS = "options/taskmanager.numberOfTaskSlots"
MODE = "options/taskmanager.load-balance.mode"


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    mapping = copy.deepcopy(JOB)
    for path, value in changes:
        set_value(mapping, path, copy.deepcopy(value))
    return mapping


def chains(scenario: Scenario) -> list[bool]:
    return [edge.chain for edge in scenario.edges]


def places(scenario: Scenario) -> list[tuple[int, ...]]:
    return [stage.placement for stage in scenario.stages]


def test_operators_are_chained_and_placed_by_the_rules() -> None:
    scenario = parse_scenario(JOB)
    assert chains(scenario) == [True, False, True]
    assert places(scenario) == [(0, 1), (0, 1), (0, 1, 2), (0, 1, 2)]
    assert [one.name for one in scenario.operators] == ["source", "split", "count", "sink"]


# Changes, which edges are chained, where each subtask runs, task managers and their slots.
LOWERED = [
    ([("cluster", {"slots": 2})], "101", "00 00 001 001", (2, 2)),
    ([(SLOTS, 2)], "101", "00 00 001 001", (2, 2)),
    ([(SLOTS, 2), ("cluster", {"task_managers": 3})], "101", "00 00 001 001", (3, 2)),
    (
        [(SLOTS, 2), ("cluster", {"task_managers": 3}), (MODE, "SLOTS")],
        "101",
        "01 01 012 012",
        (3, 2),
    ),
    (
        [("cluster", {"task_managers": 3, "slots": 2}),
         ("options/cluster.evenly-spread-out-slots", True)],
        "101", "01 01 012 012", (3, 2),
    ),
    ([(SLOTS, 3)], "101", "00 00 000 000", (1, 3)),
    ([("options/pipeline.operator-chaining", False)], "000", "01 01 012 012", (3, 1)),
    ([("operators/1/chaining", "head")], "001", "01 01 012 012", (3, 1)),
    ([("operators/2/slot_group", "heavy")], "101", "01 01 234 234", (5, 1)),
    ([("operators/3/slot_group", "heavy")], "100", "01 01 012 345", (6, 1)),
    (
        [("operators/0/parallelism", TAKE_OUT), ("operators/1/parallelism", TAKE_OUT),
         ("options/parallelism.default", 3)],
        "101", "012 012 012 012", (3, 1),
    ),
    ([("operators/3/parallelism", 4)], "100", "01 01 012 0123", (4, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "chained", "placed", "machines"), LOWERED)
def test_lowered(changes: list[Any], chained: str, placed: str, machines: tuple[int, int]) -> None:
    scenario = parse_scenario(changed(*changes))
    assert "".join("01"[chain] for chain in chains(scenario)) == chained
    assert " ".join("".join(map(str, one)) for one in places(scenario)) == placed
    assert (scenario.cluster.task_managers, scenario.cluster.slots) == machines


REFUSED = [
    ([("cluster", {"task_managers": 2})], "cluster.task_managers",
     ["2 with 1 slots each", "required 3 slots, but only 2 available", "300 s",
      "taskmanager.numberOfTaskSlots", "needed: 3"]),
    ([("cluster", {"task_managers": 1}), (SLOTS, 2), ("options/slot.request.timeout", "10 s")],
     "cluster.task_managers", ["1 with 2 slots each", "only 2 available", "10 s", "needed: 2"]),
    ([("cluster", {"slots": 1}), (SLOTS, 2)], 'options."taskmanager.numberOfTaskSlots"',
     ["2 is not cluster.slots, 1", "state only one"]),
    ([("operators/1/placement", [0, 1])], "operators[1].placement", ["placed in slots", "stages"]),
    ([("edges/0/chain", True)], "edges[0].chain", ["True", "follows from their keys"]),
    ([("edges/0/chain", False)], "edges[0].chain", ["False", "remove it"]),
    ([("stages", [])], "stages", ["next to operators"]),
    ([("jobs", [])], "jobs", ["next to operators"]),
    ([("operators/1/chainin", "head")], "operators[1].chainin", ["did you mean 'chaining'"]),
    ([("operators/1/chaining", "start")], "operators[1].chaining", ["'start'"]),
    ([("operators/1/kind", "source")], "operators", ["'split' is a source, but edges lead to it"]),
    ([("operators/2/max_parallelism", 2)], "operators[2].max_parallelism",
     ["2 is less than the parallelism, 3"]),
    ([("options/pipeline.max-parallelism", 2)], "operators", ["3, is higher than its max"]),
    ([("edges/1/partitioner", "forward")], "edges[1].partitioner", ["forward from 2 subtasks"]),
    ([("operators/0/uid", "x"), ("operators/1/uid", "x")], "operators", ["have the uid 'x'"]),
    ([("edges/1/partition_type", "hybrid_full")], "operators", ["for batch jobs only"]),
    ([("operators", [])], "operators", ["at least 1"]),
    ([("options/taskmanager.memory.managed.size", "1gb"),
      ("options/taskmanager.memory.flink.size", "512mb")],
     'options."taskmanager.memory.managed.size"', ["1073741824", "more than Flink's 536870912"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "place", "texts"), REFUSED)
def test_refused(changes: list[Any], place: str, texts: list[str]) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(changed(*changes))
    found = {problem.place: problem.message for problem in refused.value.problems}
    assert place in found, found
    for text in texts:
        assert text in found[place]


def test_an_input_is_an_operator_s() -> None:
    mapping = changed(("edges/0/input", 1))
    assert parse_scenario(mapping).edges[0].input == 1
    mapping["stages"] = mapping.pop("operators")
    for stage in mapping["stages"]:
        stage.pop("kind", None)
    with pytest.raises(ScenarioError, match=r"edges\[0\].input: 1: a stage has one input"):
        parse_scenario(mapping)


def test_stages_take_the_option_of_slots_too() -> None:
    stages = [{"name": "a", "emit_rate": 1}, {"name": "b", "parallelism": 3, "placement": [0] * 3}]
    mapping = {key: JOB[key] for key in ("schema", "name", "duration_s")} | {
        "stages": stages, "edges": [{"from": "a", "to": "b"}],
        "options": {"taskmanager.numberOfTaskSlots": 3},
    }  # fmt: skip
    assert parse_scenario(mapping).cluster.slots == 3
    mapping["options"] = {"taskmanager.numberOfTaskSlots": 2}
    with pytest.raises(ScenarioError, match="which has 2 slots"):
        parse_scenario(mapping)


def test_problems_of_a_clock_name_operators() -> None:
    scenario = parse_scenario(changed(("operators/1/service_time", "exponential")))
    problems = {problem.place: problem.message for problem in check_clock(scenario, "live")}
    assert list(problems) == ["operators[1].service_time"]
    source, sink = JOB["operators"][0], JOB["operators"][3]
    lone = {**JOB, "operators": [source, {**sink, "parallelism": 2}], "edges": [ONE_EDGE]}
    [problem] = check_clock(parse_scenario(lone), "live")
    assert problem.place == "edges[0].chain"
    assert "set pipeline.operator-chaining.enabled: false" in problem.message


def test_changes_name_an_operator_with_and_without_its_list() -> None:
    for key in ("operators.count.parallelism", "count.parallelism"):
        scenario = as_scenario(JOB, {key: 2, "sink.parallelism": 2})
        assert scenario.stage("count").placement == (0, 1)
        assert scenario.cluster.task_managers == 2
    read = as_base(parse_scenario(JOB), {"count.service_rate": 7}).scenario()
    assert read.operators == parse_scenario(JOB).operators


def test_managed_memory_is_a_share_unless_it_is_stated() -> None:
    size = "options/taskmanager.memory.flink.size"
    managed = "options/taskmanager.memory.managed."
    for changes, expected in (
        ([], None),
        ([(size, "1000mb")], 400 << 20),
        ([(size, "1000mb"), (f"{managed}fraction", 0.25)], 250 << 20),
        ([(size, "1000mb"), (f"{managed}size", "128mb")], 128 << 20),
    ):
        assert parse_scenario(changed(*changes)).options.managed_bytes == expected


def equal_again(scenario: Scenario) -> None:
    written = scenario.canonical()
    assert "stages" not in written
    again = parse_scenario(written)
    assert again.canonical() == written
    assert again == scenario
    assert [error.message for error in VALIDATOR.iter_errors(written)] == []


@given(st.data())
def test_any_scenario_with_operators_is_written_and_read_again(data: Any) -> None:
    count = data.draw(st.integers(2, 4))
    operators: list[dict[str, Any]] = []
    for place in range(count):
        one: dict[str, Any] = {"name": f"n{place}", "parallelism": data.draw(st.integers(1, 3))}
        for key, values in (
            ("chaining", ["always", "head", "never"]),
            ("slot_group", ["g"]),
            ("max_parallelism", [8, 200]),
            ("uid", [f"u{place}"]),
        ):
            if data.draw(st.integers(0, 3)) == 0:
                one[key] = data.draw(st.sampled_from(values))
        operators.append(one)
    operators[0] |= {"emit_rate": 5}
    edges = [
        {"from": f"n{data.draw(st.integers(0, place - 1))}", "to": f"n{place}"}
        for place in range(1, count)
    ]
    options: dict[str, Any] = {}
    if data.draw(st.booleans()):
        options["execution.runtime-mode"] = "batch"
        edges[0]["partition_type"] = data.draw(st.sampled_from(["blocking", "pipelined_bounded"]))
    if data.draw(st.booleans()):
        options["taskmanager.numberOfTaskSlots"] = 2
        options["taskmanager.load-balance.mode"] = data.draw(st.sampled_from(["slots", "tasks"]))
    head = {key: JOB[key] for key in ("schema", "name", "duration_s")}
    scenario = parse_scenario({**head, "operators": operators, "edges": edges, "options": options})
    equal_again(scenario)
    assert all(len(stage.placement) == stage.parallelism for stage in scenario.stages)


def test_what_is_refused_in_one_place_the_schema_refuses() -> None:
    for change in (
        ("operators/1/placement", [0, 1]),
        ("operators/1/chaining", "start"),
        ("operators/1/max_parallelism", 0),
        ("operators", []),
        ("stages", [{"name": "a"}]),
    ):
        assert list(VALIDATOR.iter_errors(changed(change))) != [], change
    assert list(VALIDATOR.iter_errors(JOB)) == []
