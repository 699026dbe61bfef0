"""Controllers by name, and the parameters that they refuse."""

from __future__ import annotations

import pytest

from flowcontrol.scenario.system import PRESETS, THROTTLE_PARTS
from flowcontrol.systems.throttles.controller import Batches, check_values, make_controller
from flowcontrol.systems.throttles.long_batches import LongBatches


def make(throttle, values, round_us=1000):
    return make_controller(throttle, values, round_us=round_us, spouts_above={})


@pytest.mark.parametrize("throttle", THROTTLE_PARTS)
def test_every_throttle_has_a_controller(throttle):
    made = make(throttle, {})
    assert (made is None) == (throttle == "none")
    if made is not None:
        assert isinstance(made, Batches | LongBatches) == THROTTLE_PARTS[throttle].has_log
        assert made.messages == 0
        assert made.next_look_us() > 0


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_made(name):
    preset = PRESETS[name]
    assert check_values(preset.throttle, preset.throttle_values) == []
    assert (make(preset.throttle, preset.throttle_values) is None) == (preset.throttle == "none")


@pytest.mark.parametrize(
    ("throttle", "values", "text"),
    [
        ("pid", {}, "'pid' is not the name of a throttle: write one of none, global_hysteresis"),
        ("none", {"high": 1}, "none.high: none has no such parameter; it has none"),
        ("frontier_lag", {"lags": 2}, "no such parameter; it has interval_ms, lag"),
        ("frontier_lag", {"lag": 0}, "frontier_lag.lag: 0 is not within 1 and"),
        ("stepwise_sleep", {"high": 1.01}, "1.01 is not within 0 and 1"),
        ("stepwise_sleep", {"high": 0.2, "low": 0.21}, "0.21 is above high, which is 0.2"),
        ("global_hysteresis", {"low": 0.91}, "0.91 is above high, which is 0.9"),
        ("global_hysteresis", {"low_bytes": 1}, "1 is above high_bytes, which is 0"),
        ("aimd_rate", {"max_rate": 499}, "500 is above max_rate, which is 499"),
    ],
)
def test_what_is_refused(throttle, values, text):
    with pytest.raises(ValueError, match=text):
        make(throttle, values)


def test_everything_that_is_wrong_is_named():
    wrong = check_values("frontier_lag", {"lag": 0, "interval_ms": 0, "x": 1})
    assert [key for key, _ in wrong] == ["lag", "interval_ms", "x"]


@pytest.mark.parametrize(
    ("throttle", "values"),
    [
        ("frontier_lag", {"lag": 1}),
        ("stepwise_sleep", {"high": 0.2, "low": 0.2}),
        ("aimd_rate", {"max_rate": 500}),
    ],
)
def test_the_bounds_themselves_are_allowed(throttle, values):
    assert make(throttle, values) is not None


@pytest.mark.parametrize("round_us", [0, -1])
def test_a_round_must_last(round_us):
    with pytest.raises(ValueError, match=f"round_us is {round_us}"):
        make("frontier_lag", {}, round_us)
