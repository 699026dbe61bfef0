"""Several jobs in one file: read, told apart, refused at their place, written down."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.experiments.capacity import capacity
from flowcontrol.scenario import JobSpan, check_clock, parse_scenario

TWO: dict[str, Any] = {
    "schema": 1,
    "name": "two",
    "duration_s": 10,
    "cluster": {"task_managers": 2},
    "jobs": [
        {
            "name": "first",
            "stages": [
                {"name": "a", "parallelism": 3, "emit_rate": 100, "record_bytes": 200},
                {"name": "b", "service_rate": 50},
            ],
            "edges": [{"from": "a", "to": "b"}],
        },
        {
            "name": "second",
            "start_at_s": 2.5,
            "stop_at_s": 7,
            "stages": [{"name": "c", "emit_rate": 10}, {"name": "d"}],
            "edges": [{"from": "c", "to": "d"}],
        },
    ],
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    mapping = copy.deepcopy(TWO)
    for path, value in changes:
        keys: list[Any] = [int(key) if key.isdecimal() else key for key in path.split("/")]
        container: Any = mapping
        for key in keys[:-1]:
            container = container[key]
        container[keys[-1]] = value
    return mapping


def test_stages_of_all_jobs_are_one_list_and_jobs_say_whose_they_are() -> None:
    scenario = parse_scenario(TWO)
    assert [stage.name for stage in scenario.stages] == ["a", "b", "c", "d"]
    assert [edge.name for edge in scenario.edges] == ["a->b", "c->d"]
    assert scenario.jobs == (
        JobSpan(name="first", stages=("a", "b")),
        JobSpan(name="second", start_at_s=2.5, stop_at_s=7, stages=("c", "d")),
    )
    assert scenario.shares_memory


def test_each_job_is_placed_from_the_first_task_manager_on() -> None:
    """Subtasks are counted within a job: a takes 0, 1, 0 and b 1; c and d begin at 0 again."""
    placements = [stage.placement for stage in parse_scenario(TWO).stages]
    assert placements == [(0, 1, 0), (1,), (0,), (1,)]


def test_what_a_job_says_is_written_down_and_read_again() -> None:
    scenario = parse_scenario(TWO)
    written = scenario.canonical()
    assert "stages" not in written
    assert "edges" not in written
    assert [(j["name"], j["start_at_s"], j.get("stop_at_s")) for j in written["jobs"]] == [
        ("first", 0, None),
        ("second", 2.5, 7),
    ]
    assert json.loads(json.dumps(written)) == written
    assert parse_scenario(written) == scenario
    assert parse_scenario(written).canonical() == written


@pytest.mark.parametrize(
    "change",
    [("jobs/0/name", "other"), ("jobs/1/start_at_s", 2), ("jobs/1/stop_at_s", 8),
     ("jobs/1/stages/0/emit_rate", 11)],
)  # fmt: skip
def test_whatever_decides_a_run_shows(change: tuple[str, Any]) -> None:
    assert parse_scenario(changed(change)).canonical() != parse_scenario(TWO).canonical()


def test_one_job_for_the_whole_run_shares_no_memory() -> None:
    one = {**TWO, "jobs": TWO["jobs"][:1]}
    assert not parse_scenario(one).shares_memory
    late = copy.deepcopy(one)
    late["jobs"][0]["start_at_s"] = 1
    assert parse_scenario(late).shares_memory


REFUSED = [
    # what is changed; where it is refused; what the text says
    (("jobs", []), "jobs", "at least one job"),
    (("jobs", "first"), "jobs", "'first' is not a list of jobs"),
    (("stages", []), "stages", "cannot be next to jobs"),
    (("edges", []), "edges", "cannot be next to jobs"),
    (("jobs/1", 3), "jobs[1]", "is not a mapping"),
    (("jobs/1/begin", 3), "jobs[1].begin", "unknown key 'begin'"),
    (("jobs/1/stages", []), "jobs[1].stages", "is empty"),
    (("jobs/1/name", "First"), "jobs[1].name", "is also the name of jobs[0]"),
    (("jobs/1/start_at_s", -1), "jobs[1].start_at_s", "-1 is out of range"),
    (("jobs/1/start_at_s", 10), "jobs[1].start_at_s", "not before the end of the run, 10"),
    (("jobs/1/stop_at_s", 2.5), "jobs[1].stop_at_s", "2.5 is not after its start, 2.5"),
    (("jobs/1/stop_at_s", 10.5), "jobs[1].stop_at_s", "10.5 is after the end of the run, 10"),
    (("jobs/1/stages/0/emit_rate", -1), "jobs[1].stages[0].emit_rate", "-1"),
    (("jobs/1/stages/1/name", "b"), "jobs[1].stages[1].name", "also the name of jobs[0].stages[1]"),
    (("jobs/1/stages/1/placement", [2]), "jobs[1].stages[1].placement[0]", "not a task manager"),
    (("jobs/1/edges/0/to", "b"), "jobs[1].edges[0].to", "a stage of the job 'first'"),
    (("jobs/1/edges/0/to", "e"), "jobs[1].edges[0].to", "unknown stage 'e'"),
    (("jobs/1/edges/0/partitioner", "custom"), "jobs[1].edges[0].channel_weights", "custom needs"),
    (("jobs/1/edges", [{"from": "c", "to": "d"}, {"from": "d", "to": "c"}]), "jobs", "a cycle"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "place", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_refusals_name_the_place_in_the_job(change: tuple[str, Any], place: str, text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_scenario(changed(change))
    found = {problem.place: problem.message for problem in refused.value.problems}
    assert place in found, found
    assert text in found[place]


@pytest.mark.parametrize(("stop", "start"), [(2.500001, 2.5), (10, 9.999999)])
def test_limits_of_times_are_taken(stop: float, start: float) -> None:
    parse_scenario(changed(("jobs/1/stop_at_s", stop), ("jobs/1/start_at_s", start)))


def test_a_chain_between_jobs_is_refused_and_not_followed() -> None:
    with pytest.raises(ScenarioError, match="an edge stays within its job"):
        parse_scenario(changed(("jobs/1/edges/0", {"from": "c", "to": "b", "chain": True})))


def test_both_clocks_run_jobs() -> None:
    assert check_clock(parse_scenario(TWO), "virtual") == []
    assert check_clock(parse_scenario(TWO), "live") == []


def test_a_sweep_refuses_jobs() -> None:
    for scenario in (TWO, parse_scenario(TWO)):
        with pytest.raises(ScenarioError, match="cannot be varied yet"):
            varied_base(scenario)


def test_no_capacity_is_sought_of_jobs() -> None:
    with pytest.raises(ScenarioError, match="no capacity is sought where jobs start"):
        capacity(parse_scenario(TWO), "a")
