from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.graph import find_cycle, in_order

Links = Sequence[tuple[str, str]]


def job(links: Links, names: Sequence[str] | None = None, **more: Any) -> dict[str, Any]:
    """A scenario of these edges; stages in the order of the names."""
    names = names or list(dict.fromkeys(name for link in links for name in link))
    inner = {receiver for _, receiver in links}
    stages: list[dict[str, Any]] = [
        {"name": name} if name in inner else {"name": name, "emit_rate": 1} for name in names
    ]
    for name, changes in more.items():
        stages[names.index(name)].update(changes)
    edges = [{"from": sender, "to": receiver} for sender, receiver in links]
    return {"schema": 1, "name": "g", "duration_s": 1, "stages": stages, "edges": edges}


def refused(mapping: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(mapping)
    return [(problem.place, problem.message) for problem in caught.value.problems]


def test_a_cycle_is_named() -> None:
    [(place, message)] = refused(job([("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]))
    assert place == "edges"
    assert "cycle" in message
    assert any(way in message for way in ("b -> c -> d -> b", "c -> d -> b -> c"))


def test_an_edge_to_itself_is_a_cycle() -> None:
    assert refused(job([("a", "b"), ("b", "b")])) == [
        ("edges", "they form a cycle, b -> b, but a job flows from sources to sinks: "
         "remove one of these edges")
    ]  # fmt: skip


def test_an_edge_drawn_twice_is_refused() -> None:
    [(place, message)] = refused(job([("a", "b"), ("b", "c"), ("a", "b")]))
    assert place == "edges[2]"
    assert "from 'a' to 'b', like edges[0]" in message


@pytest.mark.parametrize("other", ["x-y", "X-Y"])
def test_two_links_never_share_a_folder(other: str) -> None:
    [(place, message)] = refused(job([("x", "y-z"), (other, "z")]))
    assert place == "edges[1]"
    assert f"'{other}-z' is also that of edges[0]" in message


@pytest.mark.parametrize("other", ["b", "B"])
def test_two_stages_never_share_a_name(other: str) -> None:
    problems = refused(job([("a", "b")], ["a", "b", other]))
    assert ("stages[2].name", problems[0][1]) == problems[0]
    assert f"{other!r} is also the name of stages[1]" in problems[0][1]


def test_a_stage_without_edges_is_refused() -> None:
    [(place, message)] = refused(job([("a", "b")], ["a", "b", "alone"], alone={"emit_rate": 1}))
    assert place == "stages[2]"
    assert "'alone' has no edge" in message


def test_inputs_of_different_sizes_need_a_stated_one() -> None:
    links = [("a", "c"), ("b", "c"), ("c", "d")]
    sizes = {"a": {"record_bytes": 100}, "b": {"record_bytes": 300}}
    [(place, message)] = refused(job(links, **sizes))
    assert place == "stages[1].record_bytes"
    assert "100 from 'a', 300 from 'b' bytes" in message


def test_inputs_of_different_sizes_may_end_in_a_sink() -> None:
    sizes = {"a": {"record_bytes": 100}, "b": {"record_bytes": 300}}
    assert parse_scenario(job([("a", "c"), ("b", "c")], **sizes)).stage("c").record_bytes == 300


def diamond(**more: Any) -> Scenario:
    links = [("top", "left"), ("top", "right"), ("left", "end"), ("right", "end"), ("end", "sink")]
    return parse_scenario(job(links, ["sink", "end", "right", "left", "top"], **more))


def test_record_size_holds_downstream_until_restated() -> None:
    scenario = diamond(top={"record_bytes": 7}, end={"record_bytes": 9})
    sizes = {stage.name: stage.record_bytes for stage in scenario.stages}
    assert sizes == {"top": 7, "left": 7, "right": 7, "end": 9, "sink": 9}
    assert {stage.record_bytes for stage in diamond().stages} == {1024}


def test_upstream_and_downstream_stages_come_senders_first() -> None:
    links = [("left", "map"), ("right", "map"), ("map", "sink"), ("right", "log")]
    scenario = parse_scenario(job(links, ["sink", "log", "map", "right", "left"]))
    assert scenario.upstream("sink") == ("right", "left", "map")
    assert scenario.downstream("right") == ("log", "map", "sink")
    assert (scenario.upstream("left"), scenario.downstream("log")) == ((), ())
    assert [stage.name for stage in scenario.sources] == ["right", "left"]
    assert [stage.name for stage in scenario.sinks] == ["sink", "log"]


def test_order_is_topological_then_that_of_the_file() -> None:
    scenario = diamond()
    assert [stage.name for stage in scenario.stages] == ["sink", "end", "right", "left", "top"]
    order = [stage.name for stage in scenario.topological()]
    assert order == ["top", "right", "left", "end", "sink"]


def test_inputs_and_outputs_are_in_the_order_of_the_file() -> None:
    scenario = diamond()
    assert [edge.name for edge in scenario.inputs("end")] == ["left->end", "right->end"]
    assert [edge.folder for edge in scenario.outputs("top")] == ["top-left", "top-right"]
    assert scenario.inputs("top") == ()
    assert [stage.name for stage in scenario.stages if stage.is_source] == ["top"]


def test_a_stage_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        diamond().stage("nowhere")


NAMES = st.sampled_from("abcdef")
LINKS = st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=12)


def has_way_back(links: Links) -> bool:
    """Whether a stage can reach itself, by the dullest closure."""
    reach = set(links)
    for _ in "abcdef":
        reach |= {(one, end) for one, mid in reach for begin, end in reach if mid == begin}
    return any(one == end for one, end in reach)


@given(LINKS)
def test_a_cycle_is_found_exactly_when_there_is_one(links: Links) -> None:
    cycle = find_cycle(links)
    assert bool(cycle) == has_way_back(links)
    assert all(link in links for link in pairwise(cycle))
    if cycle:
        assert cycle[0] == cycle[-1]
    else:
        order = in_order(links)
        assert all(order.index(sender) < order.index(receiver) for sender, receiver in links)
