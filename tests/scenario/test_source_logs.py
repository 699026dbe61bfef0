"""``arrival_rate`` and ``latency_from``: where they belong, what is refused, how they read back."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, check_clock, parse_scenario


def scenario(source: dict[str, Any], sink: dict[str, Any] | None = None, **keys: Any) -> Scenario:
    stages = [{"name": "source", **source}, {"name": "sink", **(sink or {})}]
    edge = {"from": "source", "to": "sink", **keys.pop("edge", {})}
    return parse_scenario(
        {"schema": 1, "name": "log", "duration_s": 10, "stages": stages, "edges": [edge], **keys}
    )


def test_arrivals_are_written_like_any_rate() -> None:
    schedule = [{"at_s": 0, "rate": 5}, {"at_s": 2, "rate": 0}]
    source = {"emit_rate": 10, "arrival_rate": [7, schedule], "parallelism": 2}
    found = scenario({**source, "latency_from": "arrival"})
    [stage] = found.sources
    assert stage.reads_log
    written = found.canonical()["stages"][0]
    assert written["arrival_rate"] == [[{"at_s": 0, "rate": 7}], schedule]
    assert written["latency_from"] == "arrival"
    assert parse_scenario(found.canonical()) == found


def test_a_source_without_a_log_is_written_as_before() -> None:
    written = scenario({"emit_rate": 10}).canonical()["stages"][0]
    assert not {"arrival_rate", "latency_from"} & set(written)


@pytest.mark.parametrize(
    ("source", "sink", "text"),
    [
        ({"arrival_rate": 5}, {}, "stages[0].emit_rate: is missing: 'source' reads a log"),
        ({"emit_rate": 5}, {"arrival_rate": 5}, "stages[1].arrival_rate: edges lead to 'sink'"),
        ({"emit_rate": 5, "latency_from": "arrival"}, {}, "stages[0].latency_from: 'arrival'"),
        (
            {"emit_rate": 5, "arrival_rate": [1, 2, 3], "parallelism": 2},
            {},
            "stages[0].arrival_rate: 3 rates for 2 subtasks",
        ),
        ({"emit_rate": 5, "arrival_rate": -1}, {}, "stages[0].arrival_rate: -1"),
        ({"emit_rate": 5, "latency_from": "reading"}, {}, "stages[0].latency_from"),
        ({"total_arrival_rate": 5}, {}, "stages[0].emit_rate: is missing: 'source' reads a log"),
        (
            {"emit_rate": 5},
            {"total_arrival_rate": 5},
            "stages[1].total_arrival_rate: edges lead to 'sink'",
        ),
        (
            {"emit_rate": 5, "arrival_rate": 5, "total_arrival_rate": 5},
            {},
            "stages[0].total_arrival_rate: total_arrival_rate and arrival_rate are both stated",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    source: dict[str, Any], sink: dict[str, Any], text: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        scenario(source, sink)
    assert text in str(error.value)


def test_a_log_that_ends_makes_a_source_finite() -> None:
    """A blocking partition is consumed when its producer has ended: what arrives must end."""
    edge = {"edge": {"partition_type": "blocking"}, "cluster": {"disk_bytes_per_s": 1e8}}
    ending = [{"at_s": 0, "rate": 5}, {"at_s": 2, "rate": 0}]
    assert check_clock(scenario({"emit_rate": 9, "arrival_rate": ending}, **edge), "virtual") == []
    [problem] = check_clock(scenario({"emit_rate": ending, "arrival_rate": 5}, **edge), "virtual")
    assert "end its arrival_rate with a phase of rate 0" in str(problem)


def test_a_source_with_a_log_of_its_own_may_be_chained_under_a_throttle_of_batches() -> None:
    keys = {"edge": {"chain": True}, "system": "spark-streaming"}
    rated = {"service_rate": 5}
    assert (
        check_clock(scenario({"emit_rate": 9, "arrival_rate": 5}, rated, **keys), "virtual") == []
    )
    assert check_clock(scenario({"emit_rate": 9}, rated, **keys), "virtual") != []


def test_a_throttle_that_looks_at_ages_keeps_those_of_emission() -> None:
    source = {"emit_rate": 9, "arrival_rate": 5}
    system = {"system": {"throttle": {"name": "frontier_lag"}}}
    assert check_clock(scenario(source, **system), "virtual") == []
    [problem] = check_clock(scenario({**source, "latency_from": "arrival"}, **system), "virtual")
    assert problem.place == "stages[0].latency_from"
    assert "under the throttle 'frontier_lag'" in problem.message
