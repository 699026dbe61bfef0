"""Which points are best: by the steady half of the run, and no order where there is only noise."""

from __future__ import annotations

import importlib
import io
from html import escape
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.experiments.sweep import SweepResult, print_sweep, sweep
from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.experiments.sweep.overview import overview
from flowcontrol.scenario import parse_scenario

BUFFERS = "options.taskmanager.network.memory.buffers-per-channel"
SINK = "stages.sink.service_rate"
LONG = 10_000
"""Rounds of 1 ms: a record more or less is no difference then."""

SHARES = (0.2, 0.243, 0.1, 0.057, 0.3, 0.1)


@pytest.fixture
def found(plan, chain, fakes):
    """A function that ranks points by what ``figures(*point)`` says of the sink."""
    made_table = importlib.import_module("results").made_table

    def rank(vary, figures, *, texts=(), limit=lambda *_: "sink", **more):
        planned = plan(vary, **more)
        rate = None if more.get("replications") is None else (lambda *point: point[0])
        table = made_table(planned, rate or (lambda *_: 0.0), limit, figures=figures, rounds=LONG)
        return overview(table, planned, read_metrics(texts, parse_scenario(chain)))

    return rank


def sink(rate: float, p99: float | None, whole: float | None = None) -> dict[str, Any]:
    """Return figures of a sink: over the second half, and over the whole run if that differs."""
    return {
        "rate_in": rate if whole is None else whole,
        "rate_in_second_half": rate,
        "latency_p99_ms": p99,
        "latency_p99_ms_second_half": p99,
    }


def order(overview: Any) -> list[str]:
    return [row.values[0] for row in overview.ends(99)]


FILLING = {2: sink(43_750, 98, 43_790), 100: sink(43_790, 817, 46_305)}


@pytest.mark.parametrize("texts", [(), ("sink.rate_in",), ("sink.rate_in", "sink.latency_p99_ms")])
def test_what_fills_buffers_does_not_win(found, texts):
    made = found({BUFFERS: list(FILLING)}, FILLING.get, texts=texts)
    assert order(made) == ["2", "100"]
    assert made.sentence == (
        "No measurable difference in sink.rate_in over the second half of the run between "
        "buffers-per-channel=2 and buffers-per-channel=100: 43,750 to 43,790 records/s (up to 1 % "
        "is noise). Best of these by sink.latency_p99_ms over the same time: 98 ms at "
        "buffers-per-channel=2; worst: 817 ms at buffers-per-channel=100, 8.34 times as much. What "
        "limits, in points: sink 2."
    )


def test_the_rows_show_what_ranked_them(found):
    made = found({BUFFERS: list(FILLING)}, FILLING.get, texts=["sink.rate_in"])
    assert [metric.name for metric in made.metrics] == [
        "sink.rate_in_second_half", "sink.latency_p99_ms_second_half", "sink.rate_in",
    ]  # fmt: skip
    assert made.ends(9)[0].figures == ("43,750", "98", "43,790")


@pytest.mark.parametrize(("other", "is_noise"), [(990, True), (989.9, False)])
def test_the_band_of_noise(found, other, is_noise):
    made = found({SINK: [1, 2]}, {1: sink(1000, 50), 2: sink(other, 10)}.get)
    assert order(made) == (["2", "1"] if is_noise else ["1", "2"])
    assert made.sentence.startswith("No measurable" if is_noise else "Best over the second half")


def test_the_scatter_of_replications_is_noise(found):
    """Means of 1,000.5 and 1,041 with a deviation of 0.7 over two: t is 12.7, the interval ±6.4."""
    more = {"replications": 2}
    near = found({SINK: [500, 508]}, None, texts=["sink.latency_p50_ms"], **more)
    assert near.sentence.startswith("No measurable difference in sink.latency_p50_ms over")
    assert "(up to 1 %, or as the replications scatter, is noise)" in near.sentence
    far = found({SINK: [500, 520]}, None, texts=["sink.latency_p50_ms"], **more)
    assert far.sentence.startswith("Best over the second half of the run: sink.latency_p50_ms 500")


@pytest.mark.parametrize(("other", "is_noise"), [(3.0, True), (3.1, False)])
def test_a_round_is_noise_in_a_latency(found, other, is_noise):
    figures = {1: sink(0, 2.0), 2: sink(0, other)}.get
    made = found({SINK: [1, 2]}, figures, texts=["sink.latency_p99_ms"])
    assert made.sentence.startswith("No measurable" if is_noise else "Best over")


def test_some_of_many_are_equal(found):
    rates = {1: (500, 10), 2: (1000, 90), 3: (999, 30), 4: (995, 30.2), 5: (700, 5)}
    made = found({SINK: list(rates)}, lambda key: sink(*rates[key]))
    assert order(made) == ["3", "4", "2", "5", "1"]
    assert made.sentence.startswith(
        "No measurable difference in sink.rate_in over the second half of the run between the best "
        "3 of 5 points: 995 to 1,000 records/s (up to 1 % is noise). Best of these by "
        "sink.latency_p99_ms over the same time: 30 ms at sink service_rate=3; worst: 90 ms at "
        "sink service_rate=2, 3 times as much. Worst: sink.rate_in 500 records/s at sink "
        "service_rate=1."
    )


def test_nothing_differs_at_all(found):
    made = found({SINK: [1, 2, 3]}, lambda _: sink(1000, 20))
    assert order(made) == ["1", "2", "3"]
    assert made.sentence.startswith(
        "No measurable difference in sink.rate_in over the second half of the run between all 3 "
        "points: 1,000 records/s (up to 1 % is noise). Nor is there one in sink.latency_p99_ms "
        "over the same time: 20 ms."
    )


def test_one_of_many_equals_is_named(found):
    rates = {1: (500, 10), 2: (1000, 30), 3: (1000, 30), 4: (1000, 30)}
    made = found({SINK: list(rates)}, lambda key: sink(*rates[key]))
    assert "over the same time: 30 ms, for instance at sink service_rate=2. Worst" in made.sentence
    alone = found({SINK: list(rates)}, lambda key: sink(rates[key][0], None))
    assert "is noise). One of them: sink service_rate=2. Worst: " in alone.sentence


def test_a_point_without_the_second_figure_comes_after_its_equals(found):
    figures = {1: sink(1000, None), 2: sink(1000, 30), 3: sink(1000, 20)}
    made = found({SINK: [1, 2, 3]}, figures.get)
    assert order(made) == ["3", "2", "1"]
    nobody = found({SINK: [1, 2, 3]}, lambda _: sink(1000, None))
    assert order(nobody) == ["1", "2", "3"]
    assert "latency" not in nobody.sentence


def test_between_equal_latencies_the_rate_decides(found):
    figures = {1: sink(1000, 20), 2: sink(4000, 20)}
    texts = ["sink.latency_p99_ms", "sink.rate_in"]
    made = found({SINK: [1, 2]}, figures.get, texts=texts)
    assert order(made) == ["2", "1"]
    assert "worst: 1,000 records/s at sink service_rate=1, 25 % of that." in made.sentence


def test_a_peak_counts_whenever_it_was(found):
    figures = {
        1: {"max_in_flight_records": 90, "max_in_flight_records_second_half": 10},
        2: {"max_in_flight_records": 50, "max_in_flight_records_second_half": 50},
    }
    made = found({SINK: [1, 2]}, figures.get, texts=["sink.max_in_flight_records"])
    assert order(made) == ["2", "1"]
    assert made.sentence.startswith("Best: sink.max_in_flight_records 50 records at")


def skew() -> dict[str, Any]:
    """Keys so uneven that one subtask is full; while its buffers fill, the others run ahead."""
    return {
        "schema": 1,
        "name": "skew",
        "duration_s": 8,
        "sample_interval_s": 0.4,
        "stages": [
            {"name": "source", "emit_rate": 80_000, "record_bytes": 100},
            {"name": "window", "parallelism": 6, "service_rate": 20_000, "record_bytes": 100},
            {"name": "sink"},
        ],
        "edges": [
            {
                "from": "source",
                "to": "window",
                "partitioner": "hash",
                "channel_weights": list(SHARES),
            },
            {"from": "window", "to": "sink", "partitioner": "rebalance"},
        ],
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "taskmanager.network.memory.max-buffers-per-channel": 100,
        },
    }


def test_a_real_sweep_over_buffers_says_the_same_everywhere(tmp_path):
    result = sweep(skew(), {BUFFERS: [100, 2]}, out=tmp_path / "out", processes=1)
    rows = result.table.to_pandas().query("stage == 'sink'").set_index("buffers_per_channel")
    whole, steady = rows["rate_in"], rows["rate_in_second_half"]
    assert whole[100] > 1.02 * whole[2]  # the hard case: the whole run flatters large buffers ...
    assert steady[100] == pytest.approx(steady[2], rel=0.005)  # ... which are no better
    p99 = rows["latency_p99_ms_second_half"]
    assert p99[100] > 8 * p99[2]
    made = overview(result.table, result.plan, result.metrics)
    assert order(made) == ["2", "100"]
    for words in (
        "No measurable difference in sink.rate_in over the second half of the run between "
        "buffers-per-channel=2 and buffers-per-channel=100",
        "Best of these by sink.latency_p99_ms over the same time: ",
        " times as much. ",
        "What limits, in points: window 2.",
    ):
        assert words in made.sentence
    assert result.sentence == made.sentence
    assert escape(made.sentence) in (tmp_path / "out" / "report.html").read_text()
    console = Console(file=io.StringIO(), width=1000)
    print_sweep(SweepResult(result.path, result.plan, result.metrics, result.table), console)
    assert made.sentence in console.file.getvalue()


def test_where_there_is_no_value_is_said(found):
    caught = {100: None, 200: 30.0, 300: 20.0}
    result = found(
        {SINK: [100, 200, 300]}, lambda rate: {"latency_max_ms": caught[rate]},
        texts=["sink.latency_max_ms"],
    )  # fmt: skip
    assert result.valued == 2
    assert " No sink.latency_max_ms at sink service_rate=100. What limits" in result.sentence


def test_of_many_points_without_a_value_the_number_is_said(found):
    values = {rate: 20.0 if rate == 500 else None for rate in range(100, 600, 100)}
    result = found(
        {SINK: list(values)}, lambda rate: {"latency_max_ms": values[rate]},
        texts=["sink.latency_max_ms"],
    )  # fmt: skip
    assert " No sink.latency_max_ms at 4 of 5 points. " in result.sentence
