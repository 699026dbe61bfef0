"""Stages in one task: what Flink would chain is read, all else is refused; and where they run."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, parse_scenario


def job(*edges: tuple[str, str, dict[str, Any]], **stages: dict[str, Any]) -> dict[str, Any]:
    """Return a job on three task managers; a stage that no edge leads to is a source."""
    receivers = {receiver for _, receiver, _ in edges}
    return {
        "schema": 1,
        "name": "chains",
        "duration_s": 1,
        "cluster": {"task_managers": 3},
        "stages": [
            {"name": name, **({} if name in receivers else {"emit_rate": 1}), **keys}
            for name, keys in stages.items()
        ],
        "edges": [{"from": one, "to": other, **keys} for one, other, keys in edges],
    }


CHAIN: dict[str, Any] = {"chain": True}
TWO: dict[str, Any] = {"parallelism": 2}


def placements(scenario: Scenario) -> dict[str, tuple[int, ...]]:
    return {stage.name: stage.placement for stage in scenario.stages}


def problems_of(mapping: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(mapping)
    return [(problem.place, problem.message) for problem in caught.value.problems]


def test_a_chained_stage_runs_with_its_sender_and_is_not_counted() -> None:
    """source, map and sink are two tasks on two machines, as they were one stage and a sink."""
    mapping = job(("source", "map", CHAIN), ("map", "sink", {}), source={}, map={}, sink={})
    scenario = parse_scenario(mapping)
    assert placements(scenario) == {"source": (0,), "map": (0,), "sink": (1,)}
    assert [edge.partitioner for edge in scenario.edges] == ["forward", "forward"]
    assert [edge.chain for edge in scenario.edges] == [True, False]


def test_chains_may_be_long_and_their_stages_stand_in_any_order() -> None:
    mapping = job(
        ("b", "c", CHAIN), ("a", "b", CHAIN), ("c", "d", CHAIN), ("a", "x", {}),
        ("first", "y", {}),
        d=TWO, c=TWO, first=TWO, a=TWO, b=TWO, x=TWO, y=TWO,
    )  # fmt: skip
    assert placements(parse_scenario(mapping)) == {
        "first": (0, 1), "a": (2, 0), "b": (2, 0), "c": (2, 0), "d": (2, 0), "x": (1, 2),
        "y": (0, 1),
    }  # fmt: skip


def test_a_sender_may_send_to_others_and_to_several_chains() -> None:
    mapping = job(
        ("a", "b", CHAIN), ("a", "c", CHAIN), ("a", "d", {"partitioner": "hash",
                                                         "key_weights": {"k": 1}}),
        a={"placement": [2]}, b={}, c={}, d={},
    )  # fmt: skip
    assert placements(parse_scenario(mapping)) == {"a": (2,), "b": (2,), "c": (2,), "d": (1,)}


@pytest.mark.parametrize("placement", [None, [1, 2]])
def test_an_equal_placement_may_be_stated(placement: list[int] | None) -> None:
    mapping = job(
        ("a", "b", CHAIN),
        ("b", "c", CHAIN),
        a={**TWO, "placement": [1, 2]},
        b={**TWO, "placement": placement},
        c={**TWO, "placement": [1, 2]},
    )
    assert set(placements(parse_scenario(mapping)).values()) == {(1, 2)}


@pytest.mark.parametrize(
    ("sender", "stated"), [({}, [1, 2]), ({"placement": [1, 1]}, [1, 2]), ({}, [1, 0])]
)
def test_another_placement_is_refused(sender: dict[str, Any], stated: list[int]) -> None:
    mapping = job(("a", "b", CHAIN), a={**TWO, **sender}, b={**TWO, "placement": stated})
    [(place, message)] = problems_of(mapping)
    assert place == "stages[1].placement"
    assert f"{stated} is not {sender.get('placement', [0, 1])}, the placement of 'a'" in message
    assert "remove it" in message


def test_a_placement_that_is_wrong_by_itself_is_told_once() -> None:
    short = job(("a", "b", CHAIN), a={**TWO, "placement": [1]}, b={**TWO, "placement": [1, 1]})
    assert [place for place, _ in problems_of(short)] == ["stages[0].placement"]
    far = job(("a", "b", CHAIN), a={**TWO, "placement": [1, 3]}, b=TWO)
    assert [place for place, _ in problems_of(far)] == ["stages[0].placement[1]"]


@pytest.mark.parametrize(
    "partitioner", ["rebalance", "rescale", "shuffle", "broadcast", "global", "hash", "custom"]
)
def test_only_forward_is_chained(partitioner: str) -> None:
    weights = {"channel_weights": [1]} if partitioner in {"hash", "custom"} else {}
    keys = {**CHAIN, "partitioner": partitioner, **weights}
    [(place, message)] = problems_of(job(("a", "b", keys), a={}, b={}))
    assert place == "edges[0].partitioner"
    assert f"'{partitioner}' sends records to other subtasks" in message
    assert "use forward, or remove the partitioner or chain" in message


def test_forward_may_be_stated() -> None:
    mapping = job(("a", "b", {**CHAIN, "partitioner": "forward"}), a=TWO, b=TWO)
    assert placements(parse_scenario(mapping)) == {"a": (0, 1), "b": (0, 1)}


@pytest.mark.parametrize(
    ("keys", "place"),
    [({}, "edges[0].chain"), ({"partitioner": "forward"}, "edges[0].partitioner")],
)
def test_unequal_parallelism_is_not_chained(keys: dict[str, Any], place: str) -> None:
    [(found, message)] = problems_of(job(("a", "b", {**CHAIN, **keys}), a=TWO, b={}))
    assert found == place
    assert "from 2 subtasks to 1" in message
    assert "need equal parallelism" in message or "needs equal parallelism" in message


@pytest.mark.parametrize("second", [{}, CHAIN])
def test_a_chained_stage_has_one_input(second: dict[str, Any]) -> None:
    mapping = job(("a", "c", CHAIN), ("b", "c", second), a={}, b={}, c={})
    found = problems_of(mapping)
    assert [place for place, _ in found] == ["edges[0].chain", "edges[1].chain"][: len(found)]
    assert len(found) == (2 if second else 1)
    assert all("'c' has 2 inputs (a, b), but a chained" in text for _, text in found)


def test_a_cycle_of_chains_is_a_cycle() -> None:
    mapping = job(("a", "b", CHAIN), ("b", "a", CHAIN), a={}, b={})
    assert [place for place, _ in problems_of(mapping)] == ["edges"]
