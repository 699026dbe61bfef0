"""The slider's data: every slot of the graph at every sample, by the rules of the graph."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from flowcontrol.report import rundata as made
from flowcontrol.report.graph import job_graph
from flowcontrol.report.rundata import RunData, player, player_note, step_note, timeline
from flowcontrol.scenario.system import preset_system
from modules import load

builder = load("tests/analysis/builder.py")


def data_of(run: Any) -> RunData:
    return RunData.of(run.tables, run.scenario)


@pytest.fixture
def halves() -> RunData:
    """Return a run that is blocked in its second half by one of two subtasks."""
    job = builder.scenario("job", {"source": {}, "sink": {"parallelism": 2}}, ["source->sink"])
    run = builder.Results([10.0, 20.0])
    run.stage("source", rate_out=[500, 100], busy_ms_per_s=100, backpressured_ms_per_s=[0, 800])
    run.stage("sink", 0, rate_in=[250, 50], busy_ms_per_s=[400, 1000])
    run.stage("sink", 1, rate_in=[250, 50], busy_ms_per_s=[400, 100])
    run.channel("source->sink", 0, 0, released=[10, 60], consumed=[8, 20], in_flight_records=7)
    run.channel("source->sink", 0, 1, released=[10, 11], consumed=[10, 10])
    return RunData.of(run.tables(), job)


def test_a_stage_at_each_sample(halves: RunData) -> None:
    found = timeline(halves)
    assert found["times"] == ["10 s", "20 s"]
    slots = found["slots"]
    assert slots["s0.status"] == ["OK · blocked 0 %", "HIGH · blocked 80 %"]
    assert slots["s0.fill"] == ["#009E73", "#D55E00"]
    assert slots["s0.line1"] == ["out 500 records/s", "out 100 records/s"]
    assert slots["s1.line0"] == ["2 subtasks, busy 40 %", "2 subtasks, busy 55 %"]
    assert slots["s1.line1"] == ["busiest 40 %", "busiest 100 %"]
    assert slots["s1.line2"] == ["in 500 records/s", "in 100 records/s"]


def test_the_bar_is_busy_then_blocked(halves: RunData) -> None:
    slots = timeline(halves)["slots"]
    ends = [[float(x) for x in re.findall(r"[MH]([\d.]+)", d)] for d in slots["s0.blocked"]]
    busy = [float(d.rsplit("H", 1)[1]) for d in slots["s0.busy"]]
    assert [start for start, _ in ends] == busy
    assert ends[0][0] == ends[0][1]
    assert (ends[1][1] - ends[1][0]) / (busy[1] - 11) == pytest.approx(8, rel=0.05)


def test_an_edge_at_each_sample(halves: RunData) -> None:
    slots = timeline(halves)["slots"]
    assert slots["e0.rate"] == ["500/s", "100/s"]
    assert slots["e0.held"] == ["2 buffers", "41 buffers"]


def test_records_are_counted_where_the_transport_counts_them(halves: RunData) -> None:
    scenario = halves.scenario.model_copy(update={"system": preset_system("storm")})
    counted = RunData(halves.stages, halves.channels, halves.latency, scenario, halves.until_s)
    assert timeline(counted)["slots"]["e0.held"] == ["7 records", "7 records"]


def test_a_broadcast_edge_carries_a_copy_for_each_receiver(halves: RunData) -> None:
    edge = halves.scenario.edges[0].model_copy(update={"partitioner": "broadcast"})
    scenario = halves.scenario.model_copy(update={"edges": (edge,)})
    run = RunData(halves.stages, halves.channels, halves.latency, scenario, halves.until_s)
    assert timeline(run)["slots"]["e0.rate"] == ["1,000/s", "200/s"]


@pytest.mark.parametrize("name", ["experiment", "fan", "large", "hostile"])
def test_every_slot_of_the_graph_has_a_value_at_every_sample(
    name: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(name)
    root = ElementTree.fromstring(job_graph(run.summary, run.scenario))
    drawn = [node.get("data-slot") for node in root.iter() if node.get("data-slot")]
    found = timeline(data_of(run))
    assert len(drawn) == len(set(drawn))
    assert 'data-slot="step.command"' in step_note(data_of(run))
    assert {*drawn, "step.command"} == set(found["slots"])
    assert {len(values) for values in found["slots"].values()} == {len(found["times"])}


def test_a_slot_sets_a_text_or_an_attribute_that_is_drawn(fan: Any) -> None:
    root = ElementTree.fromstring(job_graph(fan.summary, fan.scenario))
    for node in root.iter():
        if node.get("data-slot") and (attribute := node.get("data-sets")):
            assert node.get(attribute)
        elif node.get("data-slot"):
            assert node.text


def test_a_long_run_keeps_some_samples_and_its_last_one(
    experiment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made, "MOST_SAMPLES", 30)
    times = timeline(data_of(experiment))["times"]
    assert len(times) == 25
    assert times[-1] == "100 s"
    assert "Of 100 samples one in 4 is shown." in player_note(data_of(experiment))


def test_the_slider_starts_at_the_whole_run(experiment: Any) -> None:
    markup = player(data_of(experiment))
    assert 'min="0" max="100" value="0"' in markup
    assert "<output>whole run</output>" in markup
    assert "one in" not in player_note(data_of(experiment))


def test_without_samples_there_is_no_slider(empty: Any) -> None:
    assert player(data_of(empty)) == ""
    assert player_note(data_of(empty)) == ""


def test_names_cannot_end_the_script(hostile: Any) -> None:
    markup = player(data_of(hostile))
    assert markup.count("</script>") == 1
    assert "<b>" not in markup
