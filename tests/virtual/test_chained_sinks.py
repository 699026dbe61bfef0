"""Latencies of sinks that are chained behind other stages, which take their time first."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

Stage = dict[str, Any]


def chained(*names: str) -> list[Stage]:
    """Return the edges of stages in a row, all chained."""
    return [{"from": a, "to": b, "chain": True} for a, b in pairwise(names)]


TO_M: Stage = {"from": "s", "to": "m", "partitioner": "forward"}


def run(stages: list[Stage], edges: list[Stage], duration_s: float = 60, **keys: Any) -> Any:
    """Return the latencies of records, and the last sample of the stages by name."""
    scenario = {
        "schema": 1, "name": "chained", "duration_s": duration_s, "round_ms": 1,
        "options": {"execution.buffer-timeout.interval": "0ms"},
        "stages": stages, "edges": edges, **keys,
    }  # fmt: skip
    tables = simulate(parse_scenario(scenario)).tables
    latencies = tables["latency"].to_pandas()
    last = tables["stages"].to_pandas().groupby("stage").last()
    return latencies[latencies["kind"] == "record"], last


def of(latencies: pd.DataFrame, stage: str) -> pd.DataFrame:
    return latencies[latencies["stage"] == stage]


@pytest.mark.parametrize("head", [TO_M, *chained("s", "m")], ids=["behind an edge", "all chained"])
def test_a_sink_counts_its_own_records_from_when_it_begins_with_them(head: Stage) -> None:
    """One of ten records of m, which takes 500 ms for each."""
    stages = [
        {"name": "s", "emit_rate": 1},
        {"name": "m", "service_rate": 2, "selectivity": 0.1},
        {"name": "k", "service_rate": 2},
    ]
    latencies, last = run(stages, [head, *chained("m", "k")], 59.5)
    assert latencies["count"].sum() == last.records_in["k"] == 5
    assert latencies["max_ms"].min() >= 500
    assert latencies["max_ms"].max() <= 500 + 60


def test_a_sink_behind_a_window_counts_results() -> None:
    """Results of 10 s of one key; the window's own time is not before them."""
    stages = [
        {"name": "s", "emit_rate": 10, "event_time": {}, "watermark": {"delay_s": 0}},
        {"name": "m", "service_rate": 200, "window": {"kind": "tumbling", "size_s": 10}},
        {"name": "k", "service_rate": 200},
    ]
    keys = {"kind": "uniform", "keys": 1}
    to_m = {"from": "s", "to": "m", "partitioner": "hash", "key_distribution": keys}
    latencies, last = run(stages, [to_m, *chained("m", "k")])
    assert latencies["count"].sum() == last.records_in["k"] == last.records_out["m"] == 5
    assert last.records_in["m"] > 590


def test_each_of_two_sinks_has_its_own() -> None:
    """k takes every other record of m, whose 20 ms are before it; n is 20 + 10 ms behind m."""
    stages = [
        {"name": "s", "emit_rate": 4},
        {"name": "m", "service_rate": 50, "selectivity": 0.5},
        {"name": "k"},
        {"name": "n", "service_rate": 100, "selectivity": 0.5},
        {"name": "end"},
    ]
    edges = [TO_M, *chained("m", "k"), *chained("m", "n", "end")]
    latencies, last = run(stages, edges, 10)
    for stage, count, ms in (("k", 19, 20), ("end", 9, 30)):
        own = of(latencies, stage)
        assert own["count"].sum() == last.records_in[stage] == count
        assert own["p50_ms"].tolist() == [ms + 1] * len(own)  # and a round on the way to m
    assert set(latencies["stage"]) == {"k", "end"}


def test_its_own_time_is_not_before_it() -> None:
    stages = [
        {"name": "s", "emit_rate": 1},
        {"name": "m", "service_rate": 1000},
        {"name": "k", "service_rate": 2},
    ]
    latencies, _ = run(stages, [TO_M, *chained("m", "k")])
    assert latencies["max_ms"].max() <= 1 + 1


def test_stages_before_it_may_change_their_rate() -> None:
    rate = [{"at_s": 0, "rate": 100}, {"at_s": 30, "rate": 10}]
    stages = [{"name": "s", "emit_rate": 1}, {"name": "m", "service_rate": rate}, {"name": "k"}]
    latencies, _ = run(stages, [TO_M, *chained("m", "k")])
    early, late = latencies[latencies.t_s <= 30], latencies[latencies.t_s > 31]
    assert set(early.max_ms) == {1 + 10}
    assert set(late.max_ms) == {1 + 100}


def test_a_chain_without_rates_takes_no_time() -> None:
    stages = [{"name": "s", "emit_rate": 100}, {"name": "m"}, {"name": "k"}]
    latencies, last = run(stages, [TO_M, *chained("m", "k")], 5)
    assert set(latencies.max_ms) == {1}
    assert latencies["count"].sum() == last.records_in["k"] > 490
