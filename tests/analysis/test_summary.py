"""Every figure of summary.json against tables whose answers are known by hand."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis import summarise

RUN = {"clock": "live", "rounds": 50, "wall_s": 12.5, "round_ms": 200.0}


@pytest.fixture
def summary(builder: ModuleType) -> dict[str, Any]:
    """Return the summary of ten seconds in which two sinks share what one source emits."""
    job = builder.scenario(
        "pair", {"source": {"emit_rate": 150}, "sink": {"parallelism": 2}}, ["source->sink"]
    )
    results = (
        builder.Results([5.0, 10.0])
        .stage(
            "source",
            records_out=[1000, 1500],
            rate_out=[200, 100],
            idle_ms_per_s=[800, 100],
            backpressured_ms_per_s=[0, 800],
            busy_ms_per_s=[200, 100],
            out_pool_usage=[0.5, 1.25],
            output_queue_buffers=[4, 10],
            output_pool_size=12,
            output_pool_used=[6, 15],
        )
        .stage("sink", 0, records_in=[600, 700], busy_ms_per_s=[1000, 500], in_pool_usage=0.5)
        .stage("sink", 1, records_in=[300, 500], busy_ms_per_s=[100, 300], in_pool_usage=1.0)
        .channel(
            "source->sink", 0, 0,
            released=[20, 40], sent=[15, 30], consumed=[10, 38],
            credit=[0, 2], backlog=[5, 0], in_flight_records=[50, 10], in_flight_bytes=[500, 100],
        )
        .channel(
            "source->sink", 0, 1,
            released=[10, 20], sent=[10, 20], consumed=[9, 20],
            credit=[1, 1], backlog=[2, 0], in_flight_records=[5, 0], in_flight_bytes=[50, 0],
        )
        .latency("sink", 0, count=[600, 100], mean_ms=[10, 80], p50_ms=[9, 70], p90_ms=[15, 90],
                 p99_ms=[20, 95], max_ms=[30, 99])
        .latency("sink", 1, count=[300, 200], mean_ms=2, p50_ms=2, p90_ms=2, p99_ms=2, max_ms=2)
    )  # fmt: skip
    return summarise(results.tables(), job, **RUN)


def test_the_run_is_described(summary: dict[str, Any]) -> None:
    assert {key: summary[key] for key in ("name", *RUN)} == {"name": "pair", **RUN}
    assert summary["emulated_s"] == 10.0
    assert summary["windows"]["whole"] == {"from_s": 0.0, "until_s": 10.0}
    assert summary["windows"]["second_half"] == {"from_s": 5.0, "until_s": 10.0}


def test_records_and_rates_are_growth_over_the_window(summary: dict[str, Any]) -> None:
    source = summary["stages"]["source"]
    assert source["whole"]["records_out"] == 1500
    assert source["whole"]["rate_out"] == 150.0
    assert source["second_half"]["records_out"] == 500
    assert source["second_half"]["rate_out"] == 100.0
    assert source["whole"]["records_in"] == 0


def test_subtasks_add_up(summary: dict[str, Any]) -> None:
    sink = summary["stages"]["sink"]
    assert sink["parallelism"] == 2
    assert sink["whole"]["records_in"] == 1200
    assert sink["second_half"]["rate_in"] == 60.0


def test_shares_of_time_are_means_and_the_extreme_subtask_is_named(summary: dict[str, Any]) -> None:
    whole = summary["stages"]["sink"]["whole"]
    assert whole["busy_ms_per_s"] == 475.0
    assert whole["busiest_busy_ms_per_s"] == 750.0
    assert whole["busiest_subtask"] == 0
    assert summary["stages"]["source"]["whole"]["worst_backpressured_ms_per_s"] == 400.0


def test_pressure_is_given_per_stage_and_window(summary: dict[str, Any]) -> None:
    source = summary["stages"]["source"]
    assert source["pressure"] == source["whole"]["pressure"] == "LOW"
    assert source["second_half"]["pressure"] == "HIGH"
    assert summary["stages"]["sink"]["pressure"] == "OK"


def test_usages_are_means_and_may_pass_one(summary: dict[str, Any]) -> None:
    source = summary["stages"]["source"]
    assert source["whole"]["out_pool_usage"] == 0.875
    assert source["second_half"]["out_pool_usage"] == 1.25
    assert summary["stages"]["sink"]["whole"]["in_pool_usage"] == 0.75


def test_queues_and_pools_are_sums(summary: dict[str, Any]) -> None:
    source = summary["stages"]["source"]["whole"]
    assert source["output_queue_buffers"] == 7.0
    assert source["output_pool_size"] == 12.0
    assert source["output_pool_used"] == 10.5


def test_latency_of_sinks(summary: dict[str, Any]) -> None:
    latency = summary["stages"]["sink"]["whole"]["latency"]
    assert latency["count"] == 1200
    assert latency["mean_ms"] == pytest.approx((600 * 10 + 100 * 80 + 500 * 2) / 1200, abs=1e-6)
    assert latency["max_ms"] == 99.0
    assert latency["p50_ms"] == 9.0
    second = summary["stages"]["sink"]["second_half"]["latency"]
    assert (second["count"], second["p50_ms"], second["p90_ms"]) == (300, 2.0, 90.0)
    assert summary["stages"]["source"]["whole"]["latency"] is None


def test_edges_sum_their_channels(summary: dict[str, Any]) -> None:
    edge = summary["edges"]["source->sink"]
    assert edge["channels"] == 2
    whole = edge["whole"]
    assert whole["messages"] == 50
    assert edge["second_half"]["messages"] == 25
    assert whole["in_flight_buffers"] == ((10 + 1) + (2 + 0)) / 2
    assert whole["max_in_flight_buffers"] == 11
    assert whole["max_in_flight_records"] == 55
    assert whole["in_flight_bytes"] == 325.0
    assert whole["backlog"] == 3.5
    assert whole["credit"] == 2.0
    assert whole["waiting_for_credit"] == 0.25


def test_the_bottleneck_is_named_beside_its_sentence(summary: dict[str, Any]) -> None:
    assert summary["bottleneck"] is None or summary["bottleneck"] in summary["stages"]
    assert summary["sentence"].endswith(".")
    assert set(summary["bottleneck_detail"]) == {"edge", "subtasks", "limited_s", "share_of_run"}


def test_the_summary_is_plain_json(summary: dict[str, Any]) -> None:
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary


def test_a_run_that_ended_before_its_first_sample(builder: ModuleType) -> None:
    job = builder.scenario("short", {"source": {}, "sink": {}}, ["source->sink"])
    summary = summarise(builder.Results([]).tables(), job, **RUN)
    assert summary["emulated_s"] == 0.0
    assert summary["bottleneck"] is None
    assert summary["stages"]["sink"]["whole"]["rate_in"] == 0.0
    assert summary["stages"]["sink"]["whole"]["busiest_subtask"] is None
    assert summary["edges"]["source->sink"]["channels"] == 0
    json.dumps(summary, allow_nan=False)


def test_one_sample_is_both_windows(builder: ModuleType) -> None:
    job = builder.scenario("one", {"source": {}, "sink": {}}, ["source->sink"])
    tables = builder.Results([4.0]).stage("source", records_out=40, rate_out=10).tables()
    stage = summarise(tables, job, **RUN)["stages"]["source"]
    assert stage["whole"] == stage["second_half"]
    assert stage["whole"]["rate_out"] == 10.0


def test_uneven_intervals_weigh_by_their_length(builder: ModuleType) -> None:
    job = builder.scenario("uneven", {"source": {}, "sink": {}}, ["source->sink"])
    results = builder.Results([9.0, 10.0]).stage("source", idle_ms_per_s=[1000, 0])
    assert (
        summarise(results.tables(), job, **RUN)["stages"]["source"]["whole"]["idle_ms_per_s"]
        == 900.0
    )
