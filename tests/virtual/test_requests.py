"""Sinks with requests in flight in a run: what they let through, hold, and what time it takes."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from flowcontrol.results.requests import COUNTED
from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual import simulate
from modules import ROOT

BATCH = {"batch_records": 10, "in_flight": 4, "buffered": 100, "buffer_s": 1, "latency_ms": 50}


def run(
    rate: Any,
    duration_s: float = 30,
    sink: dict[str, Any] | None = None,
    top: dict[str, Any] | None = None,
    **requests: Any,
) -> Any:
    """Run a source of a rate and a sink with some of BATCH; return the tables as frames."""
    return run_style(rate, duration_s, sink, top, **{**BATCH, **requests})


def run_style(
    rate: Any,
    duration_s: float = 30,
    sink: dict[str, Any] | None = None,
    top: dict[str, Any] | None = None,
    **requests: Any,
) -> Any:
    """Run a source of a rate and a sink with requests; return the tables as frames."""
    scenario: dict[str, Any] = {
        "schema": 1, "name": "requests", "duration_s": duration_s, "round_ms": 1,
        "stages": [
            {"name": "src", "emit_rate": rate},
            {"name": "sink", "requests": requests, **(sink or {})},
        ],
        "edges": [{"from": "src", "to": "sink"}],
        **(top or {}),
    }  # fmt: skip
    options = scenario.setdefault("options", {})
    scenario["options"] = {"execution.buffer-timeout.interval": "0ms", **options}
    return {
        name: one.to_pandas() for name, one in simulate(parse_scenario(scenario)).tables.items()
    }


def grown(rows: pd.DataFrame, column: str, since_s: float = 5) -> float:
    """Return by how much a counter grows in a second, over all subtasks."""
    sums = rows[rows.t_s >= since_s].groupby("t_s")[column].sum()
    return float((sums.iloc[-1] - sums.iloc[0]) / (sums.index[-1] - sums.index[0]))


def mean(rows: pd.DataFrame, column: str, since_s: float = 5) -> float:
    return float(rows[rows.t_s >= since_s][column].mean())


@pytest.mark.parametrize(
    ("in_flight", "batch", "latency_ms"), [(4, 10, 50), (1, 25, 20), (7, 3, 9)]
)
def test_throughput_is_in_flight_times_batch_over_latency(
    in_flight: int, batch: int, latency_ms: int
) -> None:
    """Little's law holds for the records in flight; a subtask that waits is busy, not idle."""
    expected = 1000 * in_flight * batch / latency_ms
    tables = run(
        3 * expected, in_flight=in_flight, batch_records=batch, buffered=4 * batch,
        latency_ms=latency_ms, rate_limiting="none", buffer_s=100,
    )  # fmt: skip
    rows, stages = tables["requests"], tables["stages"]
    rate = grown(rows, "records_acknowledged")
    assert rate == pytest.approx(expected, rel=0.01)
    assert rate * latency_ms / 1000 == pytest.approx(mean(rows, "in_flight_records"), rel=0.02)
    assert mean(rows, "batch_mean") == pytest.approx(batch, rel=0.01)
    busy = stages[(stages.stage == "sink") & (stages.t_s > 5)]
    assert busy.busy_ms_per_s.mean() > 950
    assert mean(stages[stages.stage == "src"], "backpressured_ms_per_s") > 600


def test_a_sink_below_its_throughput_rests_while_requests_are_in_flight() -> None:
    tables = run(400, rate_limiting="none")
    rows, stages = tables["requests"], tables["stages"]
    assert mean(stages[stages.stage == "sink"], "idle_ms_per_s") > 990
    assert mean(rows, "waited_ms_per_s") == 0
    assert mean(rows, "in_flight_records") == pytest.approx(400 * 0.05, rel=0.1)


def test_a_record_counts_until_it_is_acknowledged() -> None:
    """It waits until ten are there at 100/s, less for each after the first, and then the answer."""
    latency = run(100, latency_ms=30)["latency"]
    own = {kind: latency[(latency.kind == kind) & (latency.t_s > 5)] for kind in set(latency.kind)}
    first, last = own["record"].mean_ms.mean(), own["acknowledged"].mean_ms.mean()
    assert last - first == pytest.approx(45 + 30, abs=2)


@pytest.mark.parametrize("subtasks", [1, 3])
def test_all_is_acknowledged_once_the_input_is_over(subtasks: int) -> None:
    """With failures of both kinds, a limit and timeouts on the way."""
    tables = run(
        [{"at_s": 0, "rate": 600}, {"at_s": 10, "rate": 0}], 40, {"parallelism": subtasks},
        errors={"request": 0.05, "record": 0.02}, limit={"records_per_s": 500, "burst_s": 0.5},
        latency_distribution="exponential", timeout_s=0.2,
    )  # fmt: skip
    rows = tables["requests"]
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    stages = tables["stages"]
    last_stages = stages[stages.t_s == stages.t_s.max()].groupby("stage").sum(numeric_only=True)
    assert last.records_acknowledged == last_stages.records_in["sink"]
    assert last.records_acknowledged == last_stages.records_out["src"] > 3500
    assert last.in_flight == last.buffered_records == 0
    assert last.records_sent == last.records_acknowledged + last.records_retried
    assert min(last.records_throttled, last.timeouts, last.records_doubled) > 0
    assert last.timeouts < last.requests_failed < min(last.requests, last.records_retried)
    assert rows.in_flight.max() <= 4


def test_a_shared_limit_is_one_of_all_subtasks() -> None:
    limit: dict[str, Any] = {"records_per_s": 500, "burst_s": 0.1}
    for shared, expected in ((True, 500), (False, 1500)):
        rows = run(
            3000, sink={"parallelism": 3}, limit={**limit, "shared": shared}, in_flight=20,
            rate_limiting="none",
        )["requests"]  # fmt: skip
        assert grown(rows, "records_acknowledged") == pytest.approx(expected, rel=0.01)
        assert grown(rows, "records_throttled") > 0


@pytest.mark.parametrize("failing", [0.1, 0.3])
def test_the_mean_window_of_requests_that_fail(failing: float) -> None:
    """Additive increase of a, halved with probability p: a (1 - p) / (p (1 - d)) on average."""
    rows = run(
        [{"at_s": 0, "rate": 20_000}], 400, errors={"request": failing}, batch_records=1000,
        buffered=2000, in_flight=1, latency_ms=10, rate_limiting={"increase": 20},
    )["requests"]  # fmt: skip
    sent = grown(rows, "records_sent") / grown(rows, "requests")
    assert sent == pytest.approx(20 * (1 - failing) / (failing / 2), rel=0.02)


def test_a_token_bucket_sends_what_the_destination_takes() -> None:
    """Nothing is refused, where congestion control finds the limit by what is."""
    limit = {"records_per_s": 500}
    own, found = (
        run(2000, limit=limit, latency_ms=20, **limiting)["requests"]
        for limiting in ({"rate_limiting": {"records_per_s": 500}}, {})
    )
    assert grown(own, "records_acknowledged") == pytest.approx(500, rel=0.01)
    assert own.records_throttled.max() == 0 and own.window.isna().all()
    assert grown(found, "records_throttled") > 0


def test_a_latency_may_change() -> None:
    rows = run(
        2000, latency_ms=[{"at_s": 0, "ms": 20}, {"at_s": 15, "ms": 80}], rate_limiting="none"
    )["requests"]
    before, after = rows[rows.t_s < 14], rows[rows.t_s > 17]
    assert grown(before, "records_acknowledged") == pytest.approx(2000, rel=0.01)
    assert grown(after, "records_acknowledged") == pytest.approx(500, rel=0.01)
    assert before.latency_mean_ms.iloc[-1] == 20
    assert after.latency_mean_ms.iloc[-1] == 80


EACH_2_S = {"options": {"execution.checkpointing.interval": "2s"}}


def test_a_checkpoint_waits_for_the_answers() -> None:
    """At 190/s a request of ten leaves each 53 ms and is answered after 300: five in flight."""
    tables = run(190, top=EACH_2_S, latency_ms=300, in_flight=8, rate_limiting="none")
    done = tables["checkpoints"]
    assert set(done.status) == {"completed"}
    assert done.e2e_ms.between(250, 310).all()
    tasks = tables["checkpoint_tasks"]
    own = tasks[tasks.stage == "sink"]
    assert (own.state_bytes % 1024 == 0).all()
    assert own.state_bytes.max() <= 9 * 1024 < own.state_bytes.sum()
    assert (tables["requests"].waited_ms_per_s > 100).sum() >= 10


def test_a_channel_resumes_behind_the_last_answer() -> None:
    """Flink unblocks the channels of an alignment when the snapshot is taken, not before.

    ``AbstractAlignedBarrierHandlerState.triggerGlobalCheckpoint``; a real Flink 1.20.1 agrees.
    """
    top = {**EACH_2_S, "sample_interval_s": 0.05}
    tables = run(190, top=top, latency_ms=300, in_flight=8, rate_limiting="none")
    stages, done = tables["stages"].set_index("t_s"), tables["checkpoints"]
    sent, received = (
        stages[stages.stage == stage][f"{side}_queue_buffers"]
        for stage, side in (("src", "output"), ("sink", "input"))
    )
    for at, end in zip(done.triggered_s, done.ended_s, strict=True):
        waiting = slice(at + 0.05, end - 0.01)
        assert received[waiting].max() == 0 < sent[waiting].iloc[-1] == 2
        assert sent[end + 0.05 : end + 0.11].max() == 1


def test_a_barrier_waits_behind_a_blocked_write() -> None:
    """An unaligned one, too: the buffer of 400 empties first, at 50/s."""
    unaligned = {**EACH_2_S["options"], "execution.checkpointing.unaligned.enabled": True}
    tables = run(
        300, 60, top={"options": unaligned}, latency_ms=200, in_flight=1, buffered=400,
        rate_limiting="none",
    )  # fmt: skip
    done = tables["checkpoints"]
    assert done.e2e_ms.max() > 6000


@pytest.mark.parametrize(
    "top",
    [
        {"savepoints": [{"at_s": 2}]},
        {
            "options": {
                "execution.checkpointing.interval": "30s",
                "execution.checkpointing.checkpoints-after-tasks-finish": False,
            }
        },
    ],
    ids=["savepoint", "no final checkpoint"],
)
@pytest.mark.parametrize(
    "requests",
    [
        {**BATCH, "batch_records": 25, "buffer_s": 1000},
        {"like": "jdbc", "latency_ms": 20},
        {"like": "kafka", "latency_ms": 20, "buffer_s": 30},
    ],
    ids=["async", "blocking", "producer"],
)
def test_the_end_of_the_input_is_a_flush_without_a_final_checkpoint(
    requests: dict[str, Any], top: dict[str, Any]
) -> None:
    rate = [{"at_s": 0, "rate": 103}, {"at_s": 5, "rate": 0}]
    rows = run_style(rate, 10, None, top, **requests)["requests"]
    assert rows.records_acknowledged.max() == 515


@pytest.mark.parametrize("subtasks", [1, 3])
@pytest.mark.parametrize("mode", ["aligned", "unaligned"])
def test_nothing_is_lost_by_a_failure(subtasks: int, mode: str) -> None:
    """What was stored and comes again is known; the buffer comes from the checkpoint."""
    options = {
        "execution.checkpointing.interval": "1s",
        "execution.checkpointing.unaligned.enabled": mode == "unaligned",
    }
    failures = [
        {"at_s": at, "stage": "sink", "subtask": subtask}
        for at, subtask in ((4.7, 0), (9.3, subtasks - 1))
    ]
    tables = run(
        [{"at_s": 0, "rate": 700}, {"at_s": 12, "rate": 0}], 40, {"parallelism": subtasks},
        {"options": options, "failures": failures}, latency_ms=170,
        latency_distribution="exponential", errors={"record": 0.02, "request": 0.02},
        rate_limiting={"initial": 40},
    )  # fmt: skip
    assert len(tables["restarts"]) == 2
    rows = tables["requests"]
    for name in COUNTED:
        assert rows.groupby("subtask")[name].is_monotonic_increasing.all()
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    assert last.in_flight == last.buffered_records == 0
    assert last.records_replayed > 100
    stages, again = tables["stages"], tables["restarts"].records_reprocessed.sum()
    emitted = stages[(stages.stage == "src") & (stages.t_s == stages.t_s.max())].records_out.sum()
    gone = last.records_sent - last.records_acknowledged - last.records_retried
    assert gone > 0
    first = last.records_acknowledged - last.records_replayed
    assert emitted - again - gone <= first <= emitted - again


@pytest.mark.parametrize(
    ("changes", "rate", "again"),
    [
        ({}, 2000, 0.133),
        ({"in_flight": 2}, 2000, 0.011),
        ({"in_flight": 1}, 1250, 0),
        ({"rate_limiting": "none"}, 2000, 0.956),
    ],
)
def test_what_conf_says_of_a_throttled_sink(
    changes: dict[str, Any], rate: float, again: float
) -> None:
    """Two requests in flight are enough for 2,000/s; more of them are sent twice."""
    own = {f"stages.sink.requests.{key}": value for key, value in changes.items()}
    scenario = load_scenario(ROOT / "conf" / "dynamodb-throttled.yaml", overrides=own)
    rows = simulate(scenario).tables["requests"].to_pandas()
    assert grown(rows, "records_acknowledged", 25) == pytest.approx(rate, rel=0.01)
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    assert last.records_retried / last.records_sent == pytest.approx(again, abs=0.01)
