"""Sums, means, steps and capacities behind the drawings."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis.frames import result_frame, summed
from flowcontrol.report.figures import (
    MAX_POINTS,
    capability,
    edge_capacity,
    is_remote,
    over_interval,
    phase_changes,
    thinned,
)
from flowcontrol.scenario import Phase, Schedule


def steps(*pairs: tuple[int, int]) -> Schedule:
    """The schedule of pairs of a start, s, and a rate."""
    phases = (Phase(at_us=at_s * 1_000_000, rate=Fraction(rate)) for at_s, rate in pairs)
    return Schedule(phases=tuple(phases))


STEPS = steps((0, 1200), (20, 300), (40, 1200))


def frame(times: list[float], values: list[float]) -> pd.DataFrame:
    lengths = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    return pd.DataFrame({"t_s": times, "interval_s": lengths, "value": values})


def test_an_interval_is_drawn_from_its_start() -> None:
    series = over_interval("rate", frame([5.0, 10.0], [1.0, 3.0]), "value", 10)
    assert (series.x, series.y) == ([0.0, 5.0, 10.0], [10.0, 10.0, 30.0])


def test_nothing_sampled_is_an_empty_series() -> None:
    series = over_interval("rate", frame([], []), "value")
    assert (series.x, series.y) == ([], [])


@pytest.mark.parametrize("count", [1, MAX_POINTS - 1, MAX_POINTS])
def test_short_runs_are_drawn_sample_by_sample(count: int) -> None:
    times = [float(n + 1) for n in range(count)]
    assert thinned(frame(times, times), "value") == (times, times)


@given(
    pattern=st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 1e6)), min_size=1, max_size=20),
    count=st.integers(MAX_POINTS + 1, 4 * MAX_POINTS),
)
def test_long_runs_keep_their_mean_and_their_end(
    pattern: list[tuple[float, float]], count: int
) -> None:
    samples = [pattern[index % len(pattern)] for index in range(count)]
    times = [0.0]
    for length, _ in samples:
        times.append(times[-1] + length)
    data = frame(times[1:], [value for _, value in samples])
    x, y = thinned(data, "value")
    assert len(x) == len(y) <= MAX_POINTS
    assert x[-1] == times[-1]
    lengths = [b - a for a, b in zip([0.0, *x], x, strict=False)]
    drawn = sum(length * value for length, value in zip(lengths, y, strict=True))
    meant = float((data["interval_s"] * data["value"]).sum())
    assert drawn == pytest.approx(meant, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("how", "expected"), [("sum", 9), ("mean", 3), ("max", 5), ("median", 3)])
def test_rows_of_a_sample_become_one(how: str, expected: float) -> None:
    rows = pd.DataFrame({"t_s": [2.0] * 3, "interval_s": [2.0] * 3, "value": [1, 3, 5]})
    one = summed(rows, "value", how)
    assert one[["t_s", "interval_s", "value"]].to_numpy().tolist() == [[2.0, 2.0, expected]]


def test_capability_adds_the_subtasks_at_every_change() -> None:
    late = steps((0, 100), (30, 50))
    series = capability("able", [STEPS, late], 60.0)
    assert series.x == [0.0, 20.0, 30.0, 40.0, 60.0]
    assert series.y == [1300.0, 400.0, 350.0, 1250.0, 1250.0]


def test_capability_ends_with_the_run() -> None:
    series = capability("able", [STEPS], 20.0)
    assert (series.x, series.y) == ([0.0, 20.0], [1200.0, 1200.0])


def test_nothing_is_able_in_no_time() -> None:
    series = capability("able", [STEPS], 0.0)
    assert (series.x, series.y) == ([], [])


@given(st.integers(1, 99))
def test_capability_holds_the_rate_of_the_schedule_at_any_time(at: int) -> None:
    series = capability("able", [STEPS, Schedule.constant(Fraction(1, 2))], 100.0)
    value = [y for x, y in zip(series.x, series.y, strict=True) if x <= at][-1]
    assert value == float(STEPS.rate_at(at * 1_000_000)) + 0.5


def test_changes_of_all_schedules_before_the_end(experiment: Any) -> None:
    assert phase_changes(experiment.scenario, 100.0) == [20.0, 40.0, 60.0, 80.0]
    assert phase_changes(experiment.scenario, 60.0) == [20.0, 40.0]


def test_a_channel_within_a_task_manager_is_local(fan: Any) -> None:
    edge = fan.scenario.edges[0]
    sender, receiver = fan.scenario.stage("left"), fan.scenario.stage("clean")
    remote = {
        (a, b): is_remote(edge, a, b, fan.scenario) for a in range(2) for b in range(2)
    }  # fmt: skip
    assert set(remote.values()) == {True, False}
    for (a, b), crosses in remote.items():
        assert crosses is (sender.placement[a] != receiver.placement[b])


def test_capacity_is_the_output_pool_the_exclusive_and_the_floating_buffers(
    experiment: Any, synthetic: Any
) -> None:
    frames = [result_frame(experiment.tables, name) for name in ("channels", "stages")]
    capacity = edge_capacity(experiment.scenario.edges[0], *frames, experiment.scenario)
    assert capacity == synthetic.POOL + synthetic.EXCLUSIVE + synthetic.FLOATING == 52


def test_only_remote_channels_have_exclusive_buffers(synthetic: Any) -> None:
    tables, scenario = synthetic.job([("a", "b")], parallelism=2, samples=2)
    frames = [result_frame(tables, name) for name in ("channels", "stages")]
    # two output pools of 12; of the four channels two are remote, one into each gate
    assert edge_capacity(scenario.edges[0], *frames, scenario) == 2 * 12 + 2 * 2 + 2 * 8


def test_an_edge_that_shares_a_pool_has_no_capacity_of_its_own(fan: Any) -> None:
    frames = [result_frame(fan.tables, name) for name in ("channels", "stages")]
    assert edge_capacity(fan.scenario.edges[0], *frames, fan.scenario) is None


def test_nothing_sampled_has_no_capacity(empty: Any) -> None:
    frames = [result_frame(empty.tables, name) for name in ("channels", "stages")]
    assert edge_capacity(empty.scenario.edges[0], *frames, empty.scenario) is None
