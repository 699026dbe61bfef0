"""Operators that call a service in a run: what they let through, hold, and what time it takes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flowcontrol.layout.requests import lru_hits
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

SOME_S = 5
"""Time after which a run is in its course, s."""


def run(
    rate: Any, duration_s: float = 30, system: str = "flink", map_: Any = None, sink: Any = None,
    top: Any = None, **requests: Any,
) -> Any:  # fmt: skip
    """Run a source of a rate, an operator that calls a service, and a sink; return the tables."""
    scenario = {
        "schema": 1, "name": "calls", "duration_s": duration_s, "round_ms": 1, "system": system,
        "options": {"execution.buffer-timeout.interval": "0ms", **(top or {}).pop("options", {})},
        "stages": [
            {"name": "src", "emit_rate": rate},
            {"name": "map", "requests": {"style": "await", **requests}, **(map_ or {})},
            {"name": "sink", **(sink or {})},
        ],
        "edges": [{"from": "src", "to": "map"}, {"from": "map", "to": "sink"}],
        **(top or {}),
    }  # fmt: skip
    found = simulate(parse_scenario(scenario)).tables
    return {name: one.to_pandas() for name, one in found.items()}


def of(tables: Any, stage: str, column: str) -> float:
    """Return the mean of a column of the table of stages, in the course of the run."""
    rows = tables["stages"]
    return float(rows[(rows.stage == stage) & (rows.t_s > SOME_S)][column].mean())


def last(tables: Any, stage: str, column: str) -> int:
    rows = tables["stages"]
    return int(rows[(rows.stage == stage) & (rows.t_s == rows.t_s.max())][column].sum())


def mean(rows: pd.DataFrame, column: str) -> float:
    return float(rows[rows.t_s > SOME_S][column].mean())


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("capacity", "latency_ms"), [(10, 50), (1, 20), (100, 40)])
def test_throughput_is_the_capacity_over_the_latency(
    capacity: int, latency_ms: int, ordered: bool
) -> None:
    """Little's law holds for the calls; a task whose queue is full is busy, not idle."""
    expected = 1000 * capacity / latency_ms
    tables = run(3 * expected, in_flight=capacity, latency_ms=latency_ms, ordered=ordered)
    rows = tables["requests"]
    assert of(tables, "sink", "rate_in") == pytest.approx(expected, rel=0.01)
    assert mean(rows, "in_flight") == pytest.approx(capacity, rel=0.01)
    assert rows.in_flight.max() <= capacity
    assert of(tables, "map", "busy_ms_per_s") > 990
    assert mean(rows, "waited_ms_per_s") > 990
    assert of(tables, "src", "backpressured_ms_per_s") > 600


def times_in_order(capacity: int, latencies: np.ndarray) -> np.ndarray:
    """Return when each record leaves an ordered queue that is always full."""
    done = np.zeros(len(latencies) + capacity)
    for k, latency in enumerate(latencies):
        done[k + capacity] = max(done[k + capacity - 1], done[k] + latency)
    return done[capacity:]


@pytest.mark.parametrize("capacity", [2, 10])
def test_varying_latencies_cost_throughput_in_order_only(capacity: int) -> None:
    """Unordered c x mu; in order between c x mu / H(c) and that, as the recurrence says."""
    limit = 1000 * capacity / 25  # a round is added to a mean of 24.5, as times are rounded up
    found = {
        ordered: run(
            3 * limit, 200, in_flight=capacity, ordered=ordered, latency_ms=24.5,
            latency_distribution="exponential",
        )
        for ordered in (True, False)
    }  # fmt: skip
    rates = {ordered: of(one, "sink", "rate_in") for ordered, one in found.items()}
    assert rates[False] == pytest.approx(limit, rel=0.02)
    drawn = np.ceil(np.random.default_rng(1).exponential(24.5, 200_000))
    expected = 1000 * len(drawn) / times_in_order(capacity, drawn)[-1]
    assert rates[True] == pytest.approx(expected, rel=0.02)
    assert limit / sum(1 / k for k in range(1, capacity + 1)) < rates[True] < rates[False]
    assert mean(found[True]["requests"], "buffered_records") > 0.5


def test_an_operator_below_its_throughput_rests_while_calls_are_in_flight() -> None:
    tables = run(400, in_flight=50, latency_ms=60)
    rows, latency = tables["requests"], tables["latency"]
    assert of(tables, "map", "idle_ms_per_s") > 990
    assert mean(rows, "waited_ms_per_s") == 0
    assert mean(rows, "in_flight") == pytest.approx(400 * 0.06, rel=0.1)
    assert mean(latency, "mean_ms") == pytest.approx(60 + 2, abs=1)  # and a round over each edge


def test_a_slow_sink_blocks_the_results() -> None:
    """It is backpressured, not busy, while results wait for a buffer; calls are answered."""
    tables = run(1000, in_flight=20, latency_ms=10, sink={"service_rate": 300})
    assert of(tables, "sink", "rate_in") == pytest.approx(300, rel=0.01)
    assert of(tables, "map", "backpressured_ms_per_s") > 800
    assert of(tables, "src", "backpressured_ms_per_s") > 600


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("system", "subtasks"), [("flink", 1), ("flink", 3), ("pulsar", 2), ("flink-1.4", 2)]
)
def test_all_goes_on_once_the_input_is_over(system: str, subtasks: int, ordered: bool) -> None:
    """With calls that fail, are repeated, time out or exceed a limit: no record is lost."""
    tables = run(
        [{"at_s": 0, "rate": 600}, {"at_s": 10, "rate": 0}], 40, system, {"parallelism": subtasks},
        {"parallelism": 2}, latency_distribution="exponential", latency_ms=20, in_flight=7,
        ordered=ordered, errors={"request": 0.1}, timeout_s=0.2,
        retry={"attempts": 2, "delay_ms": 30, "multiplier": 2},
        limit={"requests_per_s": 200, "burst_s": 0.02},
    )  # fmt: skip
    rows = tables["requests"]
    end = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    count = last(tables, "src", "records_out")
    assert last(tables, "map", "records_in") == last(tables, "map", "records_out") == count > 1000
    assert last(tables, "sink", "records_in") == count
    assert end.in_flight == end.buffered_records == 0
    assert end.records_sent == end.records_acknowledged + end.records_retried > count
    assert end.requests_failed == end.records_retried
    assert min(end.records_throttled, end.timeouts) > 0
    assert rows.in_flight.max() <= 7


def test_a_call_without_a_result_ends_its_record() -> None:
    tables = run(
        [{"at_s": 0, "rate": 500}, {"at_s": 20, "rate": 0}], 25, latency_ms=10,
        errors={"empty": 0.2}, map_={"selectivity": 3},
    )  # fmt: skip
    count = last(tables, "map", "records_in")
    assert last(tables, "map", "records_out") == pytest.approx(3 * 0.8 * count, rel=0.02)
    assert tables["requests"].records_retried.max() == pytest.approx(0.2 * count, rel=0.1)


def test_a_record_that_waits_for_its_next_call_keeps_its_place() -> None:
    """Each call that fails adds its latency and the delay: here half as many records pass."""
    tables = run(
        2000, in_flight=10, latency_ms=20, timeout_s=5, errors={"request": 0.5}, ordered=False,
        retry={"attempts": 100, "delay_ms": 20},
    )  # fmt: skip
    assert of(tables, "sink", "rate_in") == pytest.approx(1000 * 10 / (20 + 20 + 20), rel=0.02)


@pytest.mark.parametrize("hit", [0, 0.5, 0.9])
def test_a_lookup_waits_for_each_answer(hit: float) -> None:
    """Its service time, and its latency unless the cache has the answer."""
    tables = run(
        5000, style="lookup", latency_ms=5, map_={"service_rate": 1000}, cache={"hit": hit}
    )
    expected = 1000 / (1 + (1 - hit) * 5)
    assert of(tables, "sink", "rate_in") == pytest.approx(expected, rel=0.02)
    assert of(tables, "map", "busy_ms_per_s") > 990
    assert tables["requests"].in_flight.max() <= 1


def test_a_cache_leaves_the_queue_to_what_it_has_not() -> None:
    tables = run(5000, latency_ms=50, in_flight=10, ordered=False, cache={"hit": 0.8})
    rows = tables["requests"]
    assert rows.requests.diff().mean() == pytest.approx(1000 * 10 / 50, rel=0.01)
    assert rows.requests.max() == pytest.approx(0.2 * last(tables, "map", "records_in"), rel=0.05)
    assert mean(rows, "in_flight") == pytest.approx(10, rel=0.02)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_checkpoint_holds_the_queue_and_waits_for_nothing(ordered: bool) -> None:
    """At 190/s calls of 300 ms are 57 in flight, of 1 KiB each; a barrier passes them by."""
    options = {"execution.checkpointing.interval": "2s"}
    tables = run(190, top={"options": options}, latency_ms=300, ordered=ordered)
    done, tasks = tables["checkpoints"], tables["checkpoint_tasks"]
    assert set(done.status) == {"completed"}
    assert done.e2e_ms.max() < 20
    sizes = tasks[tasks.stage == "map"].state_bytes
    assert (sizes % 1024 == 0).all()
    assert sizes.max() == pytest.approx(57 * 1024, rel=0.04)


@pytest.mark.parametrize("subtasks", [1, 2])
@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_what_was_in_the_queue_is_called_again_after_a_failure(mode: str, subtasks: int) -> None:
    """The sink commits every record once, whichever attempt has called for it."""
    options = {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.unaligned.enabled": mode == "unaligned",
    }
    failures = [
        {"at_s": at, "stage": "map", "subtask": subtask}
        for at, subtask in ((4.7, 0), (9.3, subtasks - 1))
    ]
    source = [{"at_s": 0, "rate": 300}, {"at_s": 12, "rate": 0}]
    top = {"options": options, "failures": failures}
    tables = run(
        source, 40, "flink", {"parallelism": subtasks}, {"guarantee": "exactly-once"}, top,
        latency_ms=170, latency_distribution="exponential", errors={"request": 0.05},
        ordered=mode == "aligned", timeout_s=3, retry={"attempts": 1, "delay_ms": 50},
    )  # fmt: skip
    assert len(tables["restarts"]) == 2
    rows, delivered = tables["requests"], tables["delivery"]
    end = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    assert end.in_flight == end.buffered_records == 0
    last_row = delivered[delivered.t_s == delivered.t_s.max()].sum(numeric_only=True)
    again = tables["restarts"].records_reprocessed.sum()
    emitted = last(tables, "src", "records_out")
    assert again > 0
    assert last_row.committed == emitted - again


class LeastRecentlyUsed:
    """A cache of some rows (``DefaultLookupCache`` with ``lookup.partial-cache.max-rows``)."""

    def __init__(self, rows: int) -> None:
        self.rows, self.keys = rows, OrderedDict[int, None]()

    def finds(self, key: int) -> bool:
        """Say whether it has a key; it has it from now on."""
        is_hit = key in self.keys
        self.keys[key] = None
        self.keys.move_to_end(key)
        if len(self.keys) > self.rows:
            self.keys.popitem(last=False)
        return is_hit


def test_the_eleventh_key_of_a_cache_of_ten_displaces_the_first() -> None:  # 59
    cache = LeastRecentlyUsed(10)
    assert not any(cache.finds(key) for key in range(11))
    assert cache.finds(1) and not cache.finds(0)


@pytest.mark.parametrize("rows", [30, 300])
@pytest.mark.parametrize("exponent", [0, 1, 1.5])
def test_the_share_of_hits_is_that_of_a_cache(exponent: float, rows: int) -> None:
    weights = [10**9 // (k + 1) ** exponent for k in range(1000)]
    shares = np.array(weights) / sum(weights)
    cache, drawn = LeastRecentlyUsed(rows), np.random.default_rng(2).choice(1000, 60_000, p=shares)
    hits = [cache.finds(int(key)) for key in drawn]
    found = lru_hits([int(weight) for weight in weights], rows)
    assert found == pytest.approx(np.mean(hits[10_000:]), abs=0.01)
    assert exponent > 0 or found == pytest.approx(rows / 1000, rel=1e-6)


def test_keys_of_the_edge_give_the_share_of_hits() -> None:
    keys = {"kind": "zipf", "keys": 1000, "exponent": 1}
    edges = [
        {"from": "src", "to": "map", "partitioner": "hash", "key_distribution": keys},
        {"from": "map", "to": "sink"},
    ]
    tables = run(500, top={"edges": edges}, latency_ms=20, cache={"rows": 100})
    expected = 1 - lru_hits([10**9 // k for k in range(1, 1001)], 100)
    calls = tables["requests"].requests.max() / last(tables, "map", "records_in")
    assert calls == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(("rate", "expected"), [(100, 100), (5000, 200)])
def test_a_thread_that_works_before_each_call(rate: float, expected: float, ordered: bool) -> None:
    """Either its rate limits it, or the room in its queue; all goes on in the end."""
    source = [{"at_s": 0, "rate": 400}, {"at_s": 20, "rate": 0}]
    own = {"service_rate": rate, "service_time": "exponential"}
    tables = run(source, 60, "flink", own, latency_ms=50, in_flight=10, ordered=ordered)
    rows, requests = tables["stages"], tables["requests"]
    during = rows[(rows.stage == "sink") & (rows.t_s > SOME_S) & (rows.t_s < 18)]
    assert during.rate_in.mean() == pytest.approx(expected, rel=0.05)
    assert last(tables, "sink", "records_in") == last(tables, "src", "records_out")
    waited = requests[(requests.t_s > SOME_S) & (requests.t_s < 18)].waited_ms_per_s.mean()
    assert waited > 900 if rate > expected else waited < 50
