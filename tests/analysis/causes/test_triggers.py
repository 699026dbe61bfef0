"""Sources that wait for a trigger are not held back: whole runs whose answer is known by hand."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.analysis.causes import find_causes
from flowcontrol.analysis.lag import find_lags
from flowcontrol.analysis.summary import summarise
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

pytestmark = pytest.mark.usefixtures("whole_kernel")

STATIC = "static_admission"


def run_of(throttle: dict[str, Any], service_rate: int = 10_000, **source: Any) -> Any:
    """Return a query that gets 100 records/s, and the tables of its run."""
    topic = {"name": "topic", "arrival_rate": 100, "emit_rate": 100_000, **source}
    scenario = parse_scenario(
        {
            "schema": 1, "name": "triggers", "duration_s": 60, "round_ms": 10,
            "cluster": {"task_managers": 1},
            "system": {"transport": "unbounded", "throttle": throttle},
            "stages": [topic, {"name": "query", "service_rate": service_rate}],
            "edges": [{"from": "topic", "to": "query", "partitioner": "forward"}],
        }
    )  # fmt: skip
    return scenario, simulate(scenario).tables


def verdicts(throttle: dict[str, Any], service_rate: int = 10_000, **source: Any) -> Any:
    """Return what limits, the first cause and the lags of a query that gets 100 records/s."""
    scenario, tables = run_of(throttle, service_rate, **source)
    found = find_bottleneck(tables, scenario)
    return found, find_causes(tables, scenario)[0].cause, find_lags(tables, scenario)


@pytest.mark.parametrize(
    "throttle",
    [
        {"name": STATIC},
        {"name": STATIC, "interval_ms": 10_000},
        {"name": STATIC, "interval_ms": 10_000, "max_records": 1000},
        {"name": STATIC, "overhead_ms": 100},
        {"name": STATIC, "min_records": 500},
        {"name": "pid_rate"},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_log", [True, False])
def test_a_source_that_waits_for_a_trigger_is_not_held_back(
    throttle: dict[str, Any], has_log: bool
) -> None:
    own: dict[str, Any] = {} if has_log else {"arrival_rate": None, "emit_rate": 100}
    found, cause, lags = verdicts(throttle, **own)
    assert (found.stage, found.edge, found.throttle) == (None, None, None)
    assert "topic waited only for triggers." in (found.sentence, *found.details)
    assert cause == ("none" if has_log else "source")
    assert all(lag.kept_up for lag in lags)


@pytest.mark.parametrize(
    ("throttle", "service_rate", "emit_rate"),
    [
        ({"name": STATIC, "interval_ms": 10_000}, 200, 100_000),  # a batch of 1,000 takes 5 s
        ({"name": STATIC, "interval_ms": 10_000}, 10_000, 200),  # reading it does
        ({"name": STATIC, "overhead_ms": 1500}, 200, 100_000),  # 3 s a batch: 1.5 / (1 - 0.5)
    ],
)
def test_a_batch_that_is_done_before_its_trigger_is_over_limits_nothing(
    throttle: dict[str, Any], service_rate: int, emit_rate: int
) -> None:
    found, cause, [lag] = verdicts(throttle, service_rate, emit_rate=emit_rate)
    assert (found.stage, found.edge, found.throttle) == (None, None, None)
    assert (cause, lag.kept_up) == ("none", True)


@pytest.mark.parametrize(
    ("throttle", "own"),
    [
        ({"name": STATIC, "interval_ms": 1000, "max_records": 50}, {}),
        ({"name": STATIC, "interval_ms": 5000, "max_records": 250}, {}),
        ({"name": STATIC, "interval_ms": 1000, "max_records": 50},
         {"arrival_rate": None, "emit_rate": 100}),
        ({"name": "pid_rate", "max_rate": 50}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_a_throttle_that_admits_less_than_comes_limits(
    throttle: dict[str, Any], own: dict[str, Any]
) -> None:
    found, cause, lags = verdicts(throttle, **own)
    assert (found.throttle, cause) == (throttle["name"], "throttle")
    assert found.limited_s > 45  # of 60: half of what comes waits, 7 s of it after 14 s
    assert not any(lag.kept_up for lag in lags)


@pytest.mark.parametrize(
    "throttle", [{"name": STATIC}, {"name": STATIC, "interval_ms": 5000}, {"name": "pid_rate"}]
)
def test_a_query_that_cannot_keep_up_with_its_batches_limits(throttle: dict[str, Any]) -> None:
    found, cause, [lag] = verdicts(throttle, service_rate=70)
    assert (found.stage, cause) == ("query", "operator")
    assert found.limited_s > 45
    assert not lag.kept_up
    assert lag.caught_up_at_s is None


def test_a_backlog_is_gone_when_a_trigger_takes_what_is_left() -> None:
    """2,000 in the first second, then 100/s, of which a trigger takes 300: 10 s."""
    backlog = [{"at_s": 0, "rate": 2000}, {"at_s": 1, "rate": 100}]
    throttle = {"name": STATIC, "interval_ms": 1000, "max_records": 300}
    _, _, [lag] = verdicts(throttle, arrival_rate=backlog)
    assert lag.caught_up_after_s == pytest.approx(10, abs=2)
    assert not lag.is_behind_again


@pytest.mark.parametrize(
    "throttle", [{"name": STATIC}, {"name": STATIC, "interval_ms": 10_000}, {"name": "pid_rate"}]
)
def test_the_table_has_a_wait_for_a_trigger_as_idle(throttle: dict[str, Any]) -> None:
    """The last 1,000 records wait for a trigger at the end, and are written all the same."""
    scenario, tables = run_of(throttle)
    found = summarise(tables, scenario, clock="virtual", rounds=6000, wall_s=1.0, round_ms=10.0)
    topic = found["stages"]["topic"]
    assert topic["pressure"] == "OK"
    for name in ("whole", "second_half"):
        shares = [topic[name][f"{one}_ms_per_s"] for one in ("busy", "idle", "backpressured")]
        assert shares[2] == 0
        assert sum(shares) == pytest.approx(1000)
    assert "what is written to its log, 100 records/s on average" in found["sentence"]


def test_the_table_has_who_is_held_back_as_blocked() -> None:
    scenario, tables = run_of({"name": STATIC, "interval_ms": 1000}, service_rate=50)
    found = summarise(tables, scenario, clock="virtual", rounds=6000, wall_s=1.0, round_ms=10.0)
    assert found["stages"]["topic"]["pressure"] == "HIGH"
