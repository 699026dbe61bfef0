"""The key ``trace``: what it may say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.system import TRANSPORT_PARTS

STAGES = [
    {"name": "a", "emit_rate": 10},
    {"name": "b", "service_rate": 10},
    {"name": "c", "service_rate": 10},
]
EDGES = [{"from": "a", "to": "b", "chain": True}, {"from": "b", "to": "c"}]


def scenario(trace: Any, **more: Any) -> Any:
    """Ten seconds of two edges, of which one is chained."""
    keys = {"schema": 1, "name": "t", "duration_s": 10, "stages": STAGES, "edges": EDGES}
    return parse_scenario({**keys, "trace": trace, **more})


def test_it_covers_the_whole_run_unless_it_says_otherwise() -> None:
    found = scenario({}).trace
    assert found.window_us(10_000_000) == (0, 10_000_000)
    assert found.edges == ()
    found = scenario({"from_s": 1.5, "to_s": 10, "edges": ["b->c"]}).trace
    assert found.window_us(10_000_000) == (1_500_000, 10_000_000)
    assert found.edges == ("b->c",)


@pytest.mark.parametrize("trace", [None, {}, {"from_s": 1}, {"to_s": 2, "edges": ["b->c"]}])
def test_its_canonical_form_is_read_as_the_same(trace: Any) -> None:
    one = scenario(trace)
    assert parse_scenario(one.canonical()) == one
    assert ("trace" in one.canonical()) == (trace is not None)


@pytest.mark.parametrize(
    ("trace", "place", "texts"),
    [
        (3, "trace", ["3 is not a mapping"]),
        ({"from": 1}, "trace.from", ["unknown key 'from'", "did you mean 'from_s'"]),
        ({"from_s": -1}, "trace.from_s", ["-1 is out of range", "at least 0"]),
        ({"from_s": "1s"}, "trace.from_s", ["'1s' is not a number"]),
        ({"from_s": 1e-7}, "trace.from_s", ["whole microseconds"]),
        ({"to_s": 0}, "trace.to_s", ["0 is out of range", "more than 0"]),
        ({"to_s": 10.1}, "trace.to_s", ["10.1 is after the end of the run, 10", "duration_s"]),
        ({"from_s": 10}, "trace.from_s", ["10 is not before its end, 10"]),
        ({"from_s": 2, "to_s": 2}, "trace.from_s", ["2 is not before its end, 2"]),
        ({"edges": "b->c"}, "trace.edges", ["'b->c' is not a list"]),
        ({"edges": ["b->d"]}, "trace.edges[0]", ["unknown edge 'b->d'", "did you mean 'b->c'"]),
        ({"edges": ["a->b"]}, "trace.edges[0]", ["'a->b' is chained", "remove chain"]),
        ({"edges": ["b->c", "b->c"]}, "trace.edges[1]", ["stated twice"]),
    ],
)
def test_a_slip_is_refused_with_its_place(trace: Any, place: str, texts: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(trace)
    assert [problem.place for problem in caught.value.problems] == [place]
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    "transport", [name for name, part in TRANSPORT_PARTS.items() if part.no_messages]
)
def test_a_system_without_messages_is_refused_by_name_with_the_reason(transport: str) -> None:
    system = {"transport": transport}
    edges = [{"from": "b", "to": "c"}]
    stages = [{"name": "b", "emit_rate": 10}, {"name": "c", "service_rate": 10}]
    with pytest.raises(ScenarioError) as caught:
        scenario({}, system=system, stages=stages, edges=edges)
    assert [problem.place for problem in caught.value.problems] == ["trace"]
    expected = (
        f"the transport {transport!r} has no messages, because "
        f"{TRANSPORT_PARTS[transport].no_messages}"
    )
    assert expected in str(caught.value)
