"""``total_rate``, ``total_arrival_rate``: of all subtasks together, divided evenly, exactly."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.experiments.base import as_base
from flowcontrol.experiments.capacity.probe import at_rate
from flowcontrol.scenario import Schedule, parse_scenario
from flowcontrol.virtual import simulate

MISSING = "<remove it>"
OF_SOURCE = (("stages/0/emit_rate", MISSING), ("stages/0/total_rate", 100))
OF_SINK = (("stages/1/service_rate", MISSING), ("stages/1/total_rate", 100))


def test_it_is_the_emit_rate_of_a_source_and_the_service_rate_of_others(changed: Any) -> None:
    scenario = parse_scenario(changed(*OF_SOURCE, *OF_SINK))
    source, sink = scenario.stages
    assert source.emit_rate == (Schedule.constant(50),) * 2
    assert source.service_rate is None
    assert sink.service_rate == (Schedule.constant(Fraction(100, 3)),) * 3
    assert sink.emit_rate is None
    assert source.is_source
    assert not sink.is_source


def test_a_schedule_is_divided_phase_by_phase(changed: Any) -> None:
    phases = [{"at_s": 0, "rate": 100}, {"at_s": 2, "rate": 0.1}]
    scenario = parse_scenario(
        changed(("stages/1/service_rate", MISSING), ("stages/1/total_rate", phases))
    )
    [schedule, *others] = scenario.stage("sink").service_rate or ()
    assert [phase.rate for phase in schedule.phases] == [Fraction(100, 3), Fraction(1, 30)]
    assert others == [schedule, schedule]


def test_a_third_is_written_as_the_whole_that_it_is_of(changed: Any) -> None:
    """No decimal states 100/3, so the file's own key stands in the canonical text."""
    scenario = parse_scenario(changed(*OF_SOURCE, *OF_SINK))
    written = scenario.canonical()
    assert json.loads(json.dumps(written)) == written
    for stage in written["stages"]:
        assert stage["total_rate"] == [{"at_s": 0, "rate": 100}]
        assert "emit_rate" not in stage
        assert "service_rate" not in stage
    assert parse_scenario(written) == scenario
    assert "total_rate" not in parse_scenario(changed()).canonical()["stages"][0]


@given(st.integers(1, 64), st.floats(0, 10**12) | st.integers(0, 10**12))
def test_the_parts_are_equal_and_make_the_whole(parallelism: int, total: float) -> None:
    mapping = {
        "schema": 1,
        "name": "totals",
        "duration_s": 1,
        "stages": [{"name": "a", "parallelism": parallelism, "total_rate": total}, {"name": "b"}],
        "edges": [{"from": "a", "to": "b", "partitioner": "rebalance"}],
    }
    scenario = parse_scenario(mapping)
    rates = [schedule.rate_at(0) for schedule in scenario.stage("a").emit_rate or ()]
    assert len(rates) == parallelism
    assert len(set(rates)) == 1
    assert sum(rates) == (Fraction(repr(total)) if isinstance(total, float) else total)
    assert parse_scenario(json.loads(json.dumps(scenario.canonical()))) == scenario


def test_it_stays_the_whole_when_the_parallelism_changes(changed: Any) -> None:
    scenario = parse_scenario(changed(*OF_SINK))
    base = as_base(scenario, overrides=["stages.sink.parallelism=4"])
    [*_, sink] = parse_scenario(base.mapping).stages
    assert sink.service_rate == (Schedule.constant(25),) * 4


def test_a_search_for_the_highest_rate_replaces_it(changed: Any) -> None:
    faster = at_rate(parse_scenario(changed(*OF_SOURCE)), "source", Fraction(70))
    assert "total_rate" not in faster.canonical()["stages"][0]
    [source, _] = parse_scenario(faster.canonical()).stages
    assert source.emit_rate == (Schedule.constant(70),) * 2


OF_LOG = (*OF_SOURCE, ("stages/0/total_arrival_rate", 25))


def test_a_topic_may_be_stated_whole(changed: Any) -> None:
    source = parse_scenario(changed(*OF_LOG)).stages[0]
    assert source.arrival_rate == (Schedule.constant(Fraction(25, 2)),) * 2
    assert source.emit_rate == (Schedule.constant(50),) * 2
    assert source.reads_log


def test_a_topic_stays_whole_in_what_is_stored(changed: Any) -> None:
    thirds = (("stages/0/parallelism", 3), ("stages/0/latency_from", "arrival"))
    scenario = parse_scenario(changed(*OF_LOG, *thirds))
    written = scenario.canonical()
    assert written["stages"][0]["total_arrival_rate"] == [{"at_s": 0, "rate": 25}]
    assert "arrival_rate" not in written["stages"][0]
    assert parse_scenario(json.loads(json.dumps(written))) == scenario
    assert sum(rate.rate_at(0) for rate in scenario.stages[0].arrival_rate or ()) == 25


def test_a_search_for_the_highest_rate_of_a_topic_replaces_its_total(changed: Any) -> None:
    faster = at_rate(parse_scenario(changed(*OF_LOG)), "source", Fraction(70))
    assert "total_arrival_rate" not in faster.canonical()["stages"][0]
    [source, _] = parse_scenario(faster.canonical()).stages
    assert source.arrival_rate == (Schedule.constant(70),) * 2


@pytest.mark.parametrize("total", [[{"at_s": 0, "rate": 20}, {"at_s": 2, "rate": 0}], 20])
def test_both_forms_of_a_topic_run_alike(changed: Any, total: Any) -> None:
    """Every record of both clocks' tables follows from the layout, which is the same."""
    half = total / 2 if total == 20 else [{**phase, "rate": phase["rate"] / 2} for phase in total]
    whole = parse_scenario(changed(*OF_SOURCE, ("stages/0/total_arrival_rate", total)))
    parts = parse_scenario(changed(*OF_SOURCE, ("stages/0/arrival_rate", half)))
    assert simulate(whole).tables == simulate(parts).tables
