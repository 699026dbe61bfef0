"""The key ``scaling``: what it may say, what is refused in it, and what beside it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.base import varied_base
from flowcontrol.run.jobs import rounds
from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.virtual import simulate

KEYS: dict[str, Any] = {
    "schema": 1,
    "name": "scaled",
    "duration_s": 10,
    "stages": [
        {"name": "a", "emit_rate": 300, "arrival_rate": 100},
        {"name": "b", "service_rate": 50, "parallelism": 2},
        {"name": "c"},
    ],
    "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}],
}
DS2 = {"policy": "ds2"}
FLINK = {"policy": "flink-autoscaler"}
WINDOW = "job.autoscaler.metrics.window"


def scenario(scaling: Any, **more: Any) -> Any:
    return parse_scenario({**KEYS, "scaling": scaling, **more})


@pytest.mark.parametrize(
    "scaling",
    [
        None,
        DS2,
        {**DS2, "redeploy_s": 0, "target_rate_ratio": 1.5},
        FLINK,
        {**FLINK, WINDOW: "3 min", "partitions": {"a": 3}, "version": "1.15"},
    ],
)
def test_its_canonical_form_is_read_as_the_same(scaling: Any) -> None:
    one = scenario(scaling)
    assert parse_scenario(one.canonical()) == one
    assert ("scaling" in one.canonical()) == (scaling is not None)
    assert check_clock(one, "virtual") == []


def test_what_is_left_out_has_its_default() -> None:
    found = scenario({**FLINK, WINDOW: "3 min"}).scaling
    assert (found.interval_us, found.stands_us) == (60_000_000, 30_000_000)
    assert found.autoscaler.metrics_window == 180_000_000
    found = scenario({**DS2, "policy_interval": 0.5}).scaling
    assert (found.interval_us, found.stands_us) == (500_000, 40_000_000)
    assert (found.warm_up_time, found.activation_time) == (Fraction(10), 1)


@pytest.mark.parametrize(
    ("scaling", "place", "text"),
    [
        (3, "scaling", "3 is not a mapping"),
        ({}, "scaling.policy", "is missing: rules that choose"),
        ({"policy": "dhalion"}, "scaling.policy", "unknown policy 'dhalion'"),
        (
            {**DS2, "interval_s": 5},
            "scaling.interval_s",
            "is a key of flink-autoscaler, not of ds2",
        ),
        ({**FLINK, "redeploy_s": 5}, "scaling.redeploy_s", "is a key of ds2, not of flink"),
        ({**DS2, WINDOW: "1 s"}, f'scaling."{WINDOW}"', "is a key of flink-autoscaler"),
        ({**DS2, "policy_interval": 0}, "scaling.policy_interval", "0 is out of range"),
        ({**DS2, "target_rate_ratio": 0.5}, "scaling.target_rate_ratio", "0.5 is out of range"),
        ({**FLINK, WINDOW: "soon"}, f'scaling."{WINDOW}"', "'soon' is not a duration"),
        ({**FLINK, f"{WINDOW}s": "1 s"}, f'scaling."{WINDOW}s"', "unknown key; did you mean"),
        ({**FLINK, "partitions": {"x": 2}}, "scaling.partitions.x", "unknown stage 'x'"),
        (
            {**FLINK, "job.autoscaler.vertex.exclude.ids": "x"},
            'scaling."job.autoscaler.vertex.exclude.ids"',
            "unknown stage 'x'",
        ),
        (
            {**FLINK, "job.autoscaler.quota.cpu": 4},
            'scaling."job.autoscaler.quota.cpu"',
            "most proc",
        ),
    ],
)
def test_a_slip_is_refused_with_its_place(scaling: Any, place: str, text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(scaling)
    (problem,) = caught.value.problems
    assert problem.place == place
    assert text in problem.message


def staged(index: int, **keys: Any) -> dict[str, Any]:
    stages = [dict(stage) for stage in KEYS["stages"]]
    stages[index] |= keys
    return {"stages": stages}


OPTION = 'options."execution.checkpointing.unaligned.enabled"'
UNALIGNED = {
    "options": {
        "execution.checkpointing.interval": "1 s",
        "execution.checkpointing.unaligned.enabled": True,
    }
}


@pytest.mark.parametrize(
    ("scaling", "more", "place"),
    [
        (DS2, {"savepoints": [{"at_s": 2}]}, "savepoints"),
        (DS2, {"trace": {}}, "trace"),
        (DS2, UNALIGNED, OPTION),
        (
            DS2,
            {"cluster": {"task_managers": 2, "control_latency_ms": 3}},
            "cluster.control_latency_ms",
        ),
        (DS2, staged(1, state={"bytes": 5}), "stages[1].state"),
        (DS2, staged(2, guarantee="exactly-once"), "stages[2].guarantee"),
        (DS2, staged(0, replayable=False), "stages[0].replayable"),
        (DS2, staged(1, service_rate=[50, 60]), "stages[1].service_rate"),
        (DS2, staged(1, placement=[1, 1]), "stages[1].placement"),
        (
            DS2,
            staged(1, stalls=[{"at_s": 1, "for_s": 1, "subtasks": [0]}]),
            "stages[1].stalls[0].subtasks",
        ),
        (FLINK, staged(0, parallelism=2, arrival_rate=[100, 50]), "stages[0].arrival_rate"),
        (
            DS2,
            {
                "edges": [
                    {"from": "a", "to": "b", "partitioner": "custom", "channel_weights": [1, 2]},
                    {"from": "b", "to": "c"},
                ]
            },
            "edges[0].channel_weights",
        ),
    ],
)
def test_what_does_not_go_with_it_is_refused(scaling: Any, more: Any, place: str) -> None:
    places = [problem.place for problem in check_clock(scenario(scaling, **more), "virtual")]
    assert place in places


def test_what_is_not_scaled_may_be_what_it_likes() -> None:
    uneven = staged(0, parallelism=2, arrival_rate=[100, 50])
    assert check_clock(scenario(DS2, **uneven), "virtual") == []
    fixed = {**FLINK, "job.autoscaler.vertex.exclude.ids": "a"}
    assert check_clock(scenario(fixed, **uneven), "virtual") == []


@pytest.mark.parametrize("call", [simulate, rounds, varied_base])
def test_who_runs_one_parallelism_refuses_it(call: Any) -> None:
    with pytest.raises(ScenarioError) as caught:
        call(scenario(DS2))
    (problem,) = caught.value.problems
    assert problem.place == "scaling"
    assert "remove scaling" in problem.message
