"""``key_distribution`` of a hash edge: defaults, what is written down, and words."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario

HASH = ("edges/0/partitioner", "hash")


def parsed(changed: Any, given: dict[str, Any]) -> Any:
    return parse_scenario(changed(HASH, ("edges/0/key_distribution", given)))


@pytest.mark.parametrize(
    ("given", "written", "words"),
    [
        (
            {"kind": "zipf", "keys": 1000},
            {"kind": "zipf", "keys": 1000, "exponent": 1.1},
            "1,000 keys, zipf 1.1",
        ),
        ({"kind": "uniform", "keys": 1}, {"kind": "uniform", "keys": 1}, "1 key, uniform"),
        (
            {"kind": "hot", "keys": 50, "share": 0.25},
            {"kind": "hot", "keys": 50, "share": 0.25},
            "50 keys, hot 0.25",
        ),
        ({"kind": "hot", "keys": 2}, {"kind": "hot", "keys": 2, "share": 0.5}, "2 keys, hot 0.5"),
    ],
)
def test_it_is_written_as_it_is_and_not_as_its_keys(
    changed: Any, given: dict[str, Any], written: dict[str, Any], words: str
) -> None:
    scenario = parsed(changed, given)
    edge = scenario.canonical()["edges"][0]
    assert edge["key_distribution"] == written
    assert "key_weights" not in edge
    assert parse_scenario(json.loads(json.dumps(scenario.canonical()))) == scenario
    assert parsed(changed, written) == scenario
    assert str(scenario.edges[0].key_distribution) == words


def test_numbers_are_exact(changed: Any) -> None:
    found = parsed(changed, {"kind": "zipf", "keys": 10, "exponent": 0.1}).edges[0].key_distribution
    assert found.exponent == Fraction(1, 10)
    assert found.share is None


def test_a_scenario_without_it_is_written_as_before(changed: Any) -> None:
    assert "key_distribution" not in parse_scenario(changed()).canonical()["edges"][0]
