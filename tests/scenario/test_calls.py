"""Keys of operators that call a service: defaults, and what is refused as Flink refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.scenario.requests import Requests


def scenario(stage: str = "map", **keys: Any) -> Any:
    """Return a scenario in which a stage calls a service."""
    stages: list[dict[str, Any]] = [
        {"name": "src", "emit_rate": 1},
        {"name": "map"},
        {"name": "sink"},
    ]
    for one in stages:
        if one["name"] == stage:
            one["requests"] = {"latency_ms": 5, **keys}
    edges = [{"from": "src", "to": "map"}, {"from": "map", "to": "sink"}]
    return parse_scenario(
        {"schema": 1, "name": "calls", "duration_s": 1, "stages": stages, "edges": edges}
    )


def read(**keys: Any) -> Requests:
    """Return the requests of an operator as they are read."""
    found = scenario(**keys).stage("map").requests
    assert isinstance(found, Requests)
    return found


AWAIT = {"style": "await"}


@pytest.mark.parametrize(
    ("keys", "place", "text"),
    [
        ({"like": "dynamodb"}, "", "write await or lookup"),
        ({"style": "lookup", "like": "async-io"}, "style", "has another style"),
        ({**AWAIT, "buffered": 5}, "buffered", "style await have no buffered"),
        ({**AWAIT, "in_flight": 0}, "in_flight", "at least 1"),
        ({**AWAIT, "errors": {"record": 0.1}}, "errors.record", "have no errors.record"),
        ({**AWAIT, "timeout_s": 1, "retry": {"whole": True}}, "retry.whole", "have no retry.whole"),
        ({**AWAIT, "retry": {"attempts": 1}}, "retry", "state timeout_s"),
        (
            {"style": "lookup", "retry": {"attempts": 1, "delay_ms": 9, "max_delay_ms": 3}},
            "retry.max_delay_ms", "is below delay_ms, 9",
        ),
        ({"style": "lookup", "timeout_s": 3}, "timeout_s", "style lookup have no timeout_s"),
        ({"style": "lookup", "in_flight": 3}, "in_flight", "have no in_flight"),
        ({**AWAIT, "cache": {}}, "cache", "write the share of hits"),
        ({**AWAIT, "cache": {"hit": 0.5, "rows": 9}}, "cache", "write the share of hits"),
        ({**AWAIT, "cache": {"hit": 1.5}}, "cache.hit", "at most 1"),
    ],
)  # fmt: skip
def test_refusals(keys: dict[str, Any], place: str, text: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(**keys)
    [problem] = refused.value.problems
    assert problem.place == f"stages[1].requests.{place}".rstrip(".")
    assert text in problem.message


@pytest.mark.parametrize("style", ["await", "lookup"])
def test_only_operators_call(style: str) -> None:
    for stage, text in (("sink", "no edge leaves 'sink'"), ("src", "is a source")):
        with pytest.raises(ScenarioError, match=text):
            scenario(stage, style=style)


def test_defaults_of_asynchronous_operators() -> None:
    plain, lookup = read(style="await"), read(like="async-lookup")
    assert (plain.in_flight_most, plain.ordered, plain.timeout_us) == (100, True, None)
    assert (lookup.own_style, lookup.in_flight_most, lookup.timeout_us) == (
        "await",
        100,
        180 * 10**6,
    )
    assert read(like="async-io", timeout_s=3, retry={"attempts": 3}).retrying.attempts == 3
    assert read(style="lookup").in_flight_most == 1
    assert read(style="lookup").repeated == ("error",)


def test_a_cache_of_rows_needs_keys() -> None:
    [problem] = check_clock(scenario(style="lookup", cache={"rows": 9}), "virtual")
    assert problem.place == "stages[1].requests.cache.rows"
    assert "state these, or hit" in problem.message
