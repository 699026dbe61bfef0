"""Metrics: how they are named, and what they are over the replications of a point."""

from __future__ import annotations

import importlib
import math

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.metric import _T_975, points_frame, read_metrics
from flowcontrol.scenario import parse_scenario

RATE = "stages.sink.service_rate"


@pytest.fixture
def results(fakes):
    return importlib.import_module("results").made_table


@pytest.fixture
def metric(chain):
    def read(*texts):
        return read_metrics(texts, parse_scenario(chain))

    return read


def test_a_sink_s_throughput_and_latency_are_looked_at_by_default(metric):
    names = [(m.name, m.is_higher_better) for m in metric()]
    assert names == [("sink.rate_in_second_half", True), ("sink.latency_p99_ms_second_half", False)]


def test_a_metric_alone_is_not_taken_for_its_letters(chain):
    (found,) = read_metrics("sink.rate_in", parse_scenario(chain))
    assert found.name == "sink.rate_in"


def test_a_metric_has_a_unit(metric):
    (found,) = metric("source.backpressured_ms_per_s")
    assert found.title == "source.backpressured_ms_per_s (ms/s)"
    assert not found.is_higher_better


@pytest.mark.parametrize(
    ("text", "steady"),
    [
        ("sink.rate_in", "sink.rate_in_second_half"),
        ("sink.rate_in_second_half", "sink.rate_in_second_half"),
        ("map.latency_p50_ms", "map.latency_p50_ms_second_half"),
        ("map.max_in_flight_records", "map.max_in_flight_records"),  # a peak counts whenever it is
        ("sink.latency_max_ms", "sink.latency_max_ms"),
    ],
)
def test_the_second_half_of_a_metric_is_another_unless_it_is_a_peak(metric, text, steady):
    (found,) = metric(text)
    assert found.steady.name == steady
    assert found.steady.is_steady == steady.endswith("_second_half")
    assert found.steady.short_name == text.removesuffix("_second_half")
    assert found.steady.is_higher_better == found.is_higher_better


@pytest.mark.parametrize(
    ("name", "step"),
    [("latency_p99_ms", 1.0), ("rate_in", 200.0), ("records_in", 1.0), ("busy_ms_per_s", 0.0)],
)
def test_the_least_step_of_a_figure(plan, metric, results, name, step):
    """10 rounds of 1 ms: a record in the second half of them is 200 a second."""
    made = plan({RATE: [10, 20]}, replications=2)
    frame = points_frame(results(made, lambda rate: rate), made, metric(f"sink.{name}")[0])
    assert list(frame["step"]) == [step] * 2


@pytest.mark.parametrize("name", ["caught_up_at_s", "caught_up_after_s"])
def test_a_moment_is_as_exact_as_the_samples_of_its_run(plan, results, chain, name):
    chain["stages"][0] |= {"arrival_rate": 900}
    (lag,) = read_metrics([f"source.{name}"], parse_scenario(chain))
    made = plan({"sample_interval_s": [1, 5], RATE: [10, 20]})
    frame = points_frame(results(made, lambda _, rate: rate), made, lag)
    assert list(frame["step"]) == [1.0, 1.0, 5.0, 5.0]


def test_a_metric_counts_once(metric):
    assert len(metric("sink.rate_in", "sink.rate_in", "sink.rate_in_second_half")) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sink.rate", ["--metric sink.rate", "unknown column 'rate'", "rate_in"]),
        (".rate_in", ["--metric .rate_in", "unknown stage ''", "sink"]),
        ("rate", ["--metric rate", "unknown column 'rate'", "rate_in"]),
        ("snik.rate_in", ["unknown stage 'snik'", "did you mean 'sink'"]),
        ("", ["unknown column ''"]),
    ],
)
def test_what_is_no_metric_is_refused(metric, text, words):
    with pytest.raises(ScenarioError) as caught:
        metric(text)
    for word in words:
        assert word in str(caught.value)


def test_points_stand_in_the_order_of_the_plan(plan, metric, results):
    made = plan({RATE: [30, 10, 20], "options.taskmanager.memory.segment-size": "8kb,4kb"})
    frame = points_frame(results(made, lambda rate, _: rate), made, metric("sink.rate_in")[0])
    assert list(frame["sink_service_rate"]) == [30, 30, 10, 10, 20, 20]
    assert list(frame["segment_size"]) == ["8kb", "4kb"] * 3
    assert list(frame["mean"]) == [30, 30, 10, 10, 20, 20]
    assert list(frame["error"]) == [0] * 6


def test_the_error_is_half_of_students_interval(plan, metric, results):
    made = plan({RATE: [10]}, replications=3)
    frame = points_frame(results(made, lambda rate: rate), made, metric("sink.rate_in")[0])
    # 10, 11 and 12: mean 11, deviation 1, t for two degrees of freedom 4.303.
    assert frame["mean"][0] == 11
    assert frame["error"][0] == pytest.approx(4.303 / math.sqrt(3))
    assert frame["count"][0] == 3


def test_the_quantiles_are_student_s():
    """Checked against the distribution itself, integrated."""
    for degrees in (1, 2, 5, 10, 30):
        scale = math.gamma((degrees + 1) / 2) / (
            math.sqrt(degrees * math.pi) * math.gamma(degrees / 2)
        )
        width, steps = _T_975[degrees - 1], 20_000
        density = [
            scale * (1 + (width * (i + 0.5) / steps) ** 2 / degrees) ** (-(degrees + 1) / 2)
            for i in range(steps)
        ]
        assert sum(density) * width / steps == pytest.approx(0.475, abs=2e-5)


@pytest.mark.parametrize("count", [31, 32, 100])
def test_many_replications_take_the_normal_quantile(plan, metric, results, count):
    made = plan({RATE: [10]}, replications=count)
    frame = points_frame(results(made, lambda rate: rate), made, metric("sink.rate_in")[0])
    deviation = math.sqrt(count * (count + 1) / 12)  # of 0, 1, ... count - 1
    quantile = 2.042 if count == 31 else 1.96
    assert frame["error"][0] == pytest.approx(quantile * deviation / math.sqrt(count))


def test_a_point_without_a_value_is_not_a_number(plan, metric, results):
    made = plan({RATE: [10, 20]}, replications=2)
    table = results(made, lambda rate: None if rate == 10 else rate)
    frame = points_frame(table, made, metric("sink.rate_in")[0])
    assert math.isnan(frame["mean"][0])
    assert (frame["count"][0], frame["mean"][1]) == (0, 20.5)


def test_what_limits_most_often_limits(plan, metric, results):
    made = plan({RATE: [10, 20]})
    table = results(made, lambda rate: rate, lambda rate: "map" if rate == 10 else "")
    frame = points_frame(table, made, metric("sink.rate_in")[0])
    assert list(frame["bottleneck"]) == ["map", ""]


def test_of_replications_that_differ_the_most_frequent_limit_counts(plan, metric, results):
    import pyarrow as pa

    made = plan({RATE: [10, 20]}, replications=3)
    table = results(made, lambda rate: rate)
    # Three stages a replication: the sinks are every third row.
    limits = ["map", "", "map", "sink", "map", ""]
    column = pa.array([limit for limit in limits for _ in range(3)])
    table = table.set_column(table.column_names.index("bottleneck"), "bottleneck", column)
    frame = points_frame(table, made, metric("sink.rate_in")[0])
    assert list(frame["bottleneck"]) == ["map", ""]


def reads_a_log(chain):
    source = {**chain["stages"][0], "arrival_rate": 5}
    return parse_scenario({**chain, "stages": [source, *chain["stages"][1:]]})


def test_a_column_alone_is_the_sink_s_and_a_lag_the_source_s(chain):
    found = read_metrics(
        ["rate_in", "caught_up_after_s", "source.lag_s", "lag_s"], reads_a_log(chain)
    )
    assert [m.name for m in found] == ["sink.rate_in", "source.caught_up_after_s", "source.lag_s"]


def test_the_lag_of_what_reads_no_log_is_refused(metric, chain):
    for text in ("lag_s", "source.lag_s"):
        with pytest.raises(ScenarioError, match=f"--metric {text}: no source reads a log"):
            metric(text)
    with pytest.raises(ScenarioError, match="'sink' reads no log: use one of source"):
        read_metrics(["sink.max_lag_s"], reads_a_log(chain))
