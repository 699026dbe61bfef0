"""What limits under a throttle, and where queues of records grow: jobs whose answer is known."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.system import preset_system

CHAIN: dict[str, Any] = {"source": {"emit_rate": 10000}, "middle": {}, "sink": {}}
EDGES = ["source->middle", "middle->sink"]
TIMES = [5.0 * n for n in range(1, 21)]


def chain(builder: ModuleType, system: str) -> Scenario:
    scenario: Scenario = builder.scenario("chain", CHAIN, EDGES)
    return scenario.model_copy(update={"system": preset_system(system)})


def found(builder: ModuleType, system: str, source: int, middle: int, sink: int) -> Any:
    """What limits if the source is blocked, and the others are busy, for so many ms/s."""
    results = builder.Results(TIMES).stage("source", backpressured_ms_per_s=source)
    results.stage("middle", busy_ms_per_s=middle).stage("sink", busy_ms_per_s=sink)
    return find_bottleneck(results.tables(), chain(builder, system))


def test_a_throttle_without_a_saturated_stage_limits_itself(builder: ModuleType) -> None:
    limit = found(builder, "storm-1", 700, 100, 899)
    assert (limit.stage, limit.edge, limit.throttle) == (None, None, "global_hysteresis")
    assert limit.detail()["throttle"] == "global_hysteresis"
    assert limit.sentence == (
        "Bottleneck: the throttle global_hysteresis — it held source back 70 % of the time in all "
        "100 s."
    )
    assert limit.details == (
        "Meanwhile sink, the busiest stage after it, was busy only 90 %.",
        "Give system.throttle larger limits or a quicker reaction.",
    )


def test_a_throttle_reaches_over_the_stages_before_the_saturated_one(builder: ModuleType) -> None:
    limit = found(builder, "storm-1", 700, 100, 900)
    assert (limit.stage, limit.edge, limit.throttle) == ("sink", None, None)
    assert "throttle" not in limit.detail()
    assert "sink — it was busy 90 %" in limit.sentence


def test_without_a_throttle_the_exchange_limits(builder: ModuleType) -> None:
    assert found(builder, "flink", 700, 100, 900).edge == "source->middle"
    assert "Its buffers are too few" in found(builder, "flink", 700, 100, 900).details[0]


def test_an_exchange_of_records_has_no_buffers(builder: ModuleType) -> None:
    limit = found(builder, "pulsar", 700, 100, 100)
    assert limit.edge == "source->middle"
    assert not any("buffer" in text for text in (limit.sentence, *limit.details))
    assert "Its transport, half_return_credit, lets too few records go" in limit.details[0]


@pytest.mark.parametrize(("system", "busy", "stage"), [
    ("storm-2", 1000, "sink"), ("storm-2", 994, None),
    ("flink", 1000, "sink"), ("flink", 994, None),
])  # fmt: skip
def test_a_queue_of_records_that_grows(
    builder: ModuleType, system: str, busy: int, stage: str | None
) -> None:
    waiting = [100 * n for n in range(1, 21)]
    results = builder.Results(TIMES).stage("source").stage("middle", busy_ms_per_s=500)
    results.stage("sink", busy_ms_per_s=busy, input_queue_buffers=waiting)
    results.channel("middle->sink", in_flight_records=waiting)
    limit = find_bottleneck(results.tables(), chain(builder, system))
    assert limit.stage == stage
    where, when = "its queues", "in 95 of 100 s"
    if system == "flink":
        where, when = "buffers", "in all 100 s"
    if stage:
        assert limit.sentence == (
            f"Bottleneck: sink — it was busy 100 % of the time {when}, while nothing before it was "
            f"held back, and up to 2,000 records waited in {where}."
        )
        assert limit.details == ("Give sink more parallelism or speed.",)


def test_a_queue_that_does_not_grow_limits_nobody(builder: ModuleType) -> None:
    results = builder.Results(TIMES).stage("source").stage("middle")
    results.stage("sink", busy_ms_per_s=1000, input_queue_buffers=500)
    results.channel("middle->sink", in_flight_records=500)
    assert find_bottleneck(results.tables(), chain(builder, "storm-2")).stage is None
