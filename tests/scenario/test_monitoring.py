"""The key ``monitoring``: what it may say, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.scenario import parse_scenario

KEYS = {
    "schema": 1,
    "name": "watched",
    "duration_s": 10,
    "stages": [{"name": "a", "emit_rate": 10}, {"name": "b", "service_rate": 10}],
    "edges": [{"from": "a", "to": "b"}],
}


def scenario(monitoring: Any) -> Any:
    return parse_scenario({**KEYS, "monitoring": monitoring})


def test_flinks_settings_are_the_default() -> None:
    found = scenario({"sampling": {}}).monitoring
    keys = found.sampling
    assert (keys.samples, keys.delay_ms, keys.length_ms, keys.refresh_ms) == (100, 50, 4950, 60_000)
    assert found.metrics is None
    found = scenario({"sampling": {"samples": 3, "delay_ms": 7, "refresh_s": 0.5}}).monitoring
    assert (found.sampling.length_ms, found.sampling.refresh_ms) == (14, 500)


@pytest.mark.parametrize(
    "monitoring",
    [None, {"sampling": {}}, {"sampling": {"refresh_s": 0}, "metrics": True}, {"metrics": False}],
)
def test_its_canonical_form_is_read_as_the_same(monitoring: Any) -> None:
    one = scenario(monitoring)
    assert parse_scenario(one.canonical()) == one
    assert ("monitoring" in one.canonical()) == (monitoring is not None)


@pytest.mark.parametrize(
    ("monitoring", "place", "texts"),
    [
        (3, "monitoring", ["3 is not a mapping"]),
        ({"samples": 1}, "monitoring.samples", ["unknown key 'samples'"]),
        ({"metrics": 1}, "monitoring.metrics", ["1"]),
        ({"sampling": 5}, "monitoring.sampling", ["5 is not a mapping"]),
        ({"sampling": {"sample": 1}}, "monitoring.sampling.sample", ["did you mean 'samples'"]),
        ({"sampling": {"samples": 0}}, "monitoring.sampling.samples", ["at least 1"]),
        (
            {"sampling": {"samples": 2.5}},
            "monitoring.sampling.samples",
            ["whole number of samples"],
        ),
        ({"sampling": {"samples": "9"}}, "monitoring.sampling.samples", ["without quotes"]),
        ({"sampling": {"delay_ms": 0}}, "monitoring.sampling.delay_ms", ["whole milliseconds"]),
        ({"sampling": {"delay_ms": 0.5}}, "monitoring.sampling.delay_ms", ["whole milliseconds"]),
        ({"sampling": {"refresh_s": -1}}, "monitoring.sampling.refresh_s", ["at least 0"]),
        ({"sampling": {"refresh_s": 1e-4}}, "monitoring.sampling.refresh_s", ["milliseconds"]),
        (
            {"sampling": {"samples": 201}},
            "monitoring.sampling",
            ["201 samples, 50 ms apart, take 10 s", "ends at 10 s", "take fewer samples"],
        ),
    ],
)
def test_a_slip_is_refused_with_its_place(monitoring: Any, place: str, texts: list[str]) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(monitoring)
    assert [problem.place for problem in caught.value.problems] == [place]
    for text in texts:
        assert text in str(caught.value)


def test_a_set_may_end_just_before_the_run() -> None:
    assert scenario({"sampling": {"samples": 200}}).monitoring.sampling.length_ms == 9950


def test_a_sweep_and_a_comparison_leave_it_out() -> None:
    base = varied_base({**KEYS, "monitoring": {"sampling": {}}})
    assert base.scenario([(("duration_s",), 20)]).monitoring is None
