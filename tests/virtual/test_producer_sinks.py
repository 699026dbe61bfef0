"""Kafka's producer under a sink in a run: what it lets through, and what its memory hides."""

from __future__ import annotations

from typing import Any

import pytest

from tests.virtual.test_requests import grown, mean
from tests.virtual.test_requests import run_style as run

EACH_2_S = {"options": {"execution.checkpointing.interval": "2s"}}
SLOW: dict[str, Any] = {
    "like": "kafka", "latency_ms": 100, "batch_bytes": 10_240, "buffered_bytes": 2_048_000,
    "in_flight": 4,
}  # fmt: skip
"""4 requests of 10 records in 100 ms: 400 records/s; memory for 2,000 records of 1 KiB."""


@pytest.mark.parametrize(
    ("partitions", "in_flight", "request_bytes"), [(1, 5, 10**6), (3, 2, 10**6), (8, 3, 31_000)]
)
def test_throughput_is_what_is_in_flight_over_the_latency(
    partitions: int, in_flight: int, request_bytes: int
) -> None:
    """X = in flight x min(partitions x batch, request) / l, of whole records in whole batches."""
    records = 10 * min(partitions, request_bytes // 10_240)
    expected = in_flight * records / 0.05
    tables = run(
        2 * expected, 20, like="kafka", latency_ms=50, batch_bytes=10_240, partitions=partitions,
        in_flight=in_flight, record_bytes_max=request_bytes, buffered_bytes="1mb",
    )  # fmt: skip
    rows = tables["requests"]
    assert grown(rows, "records_acknowledged") == pytest.approx(expected, rel=0.01)
    assert mean(rows, "in_flight") == pytest.approx(in_flight, rel=0.01)
    assert mean(rows, "batch_mean") == pytest.approx(records, rel=0.01)
    busy = tables["stages"][tables["stages"].stage == "sink"]
    assert mean(busy, "busy_ms_per_s") > 990


def test_the_memory_is_full_after_what_it_holds_over_what_is_too_much() -> None:
    """600 records/s come, 400 leave: 2,000 records after 10 s; until then nothing waits."""
    tables = run(600, 30, **SLOW)
    rows = tables["requests"]
    assert rows[rows.t_s < 9.4].waited_ms_per_s.max() == 0
    assert rows[rows.t_s > 11].waited_ms_per_s.min() > 300
    assert (rows.buffered_records + rows.in_flight_records).max() <= 2000
    source = tables["stages"][tables["stages"].stage == "src"]
    assert mean(source, "backpressured_ms_per_s", 12) > 250


def test_a_checkpoint_waits_for_all_that_is_queued() -> None:
    """It takes queued / X + l, unless nothing is guaranteed."""
    done = run(600, 11, top=EACH_2_S, **SLOW)["checkpoints"]
    first = done.e2e_ms.iloc[0]
    assert first == pytest.approx(1000 * 400 / 400 + 100, rel=0.1)
    none = run(600, 9, top=EACH_2_S, flush_on_checkpoint=False, **SLOW)["checkpoints"]
    assert none.e2e_ms.max() < 5


def test_a_batch_waits_for_its_linger_at_a_low_rate() -> None:
    """A record each 100 ms and a linger of 40: batches of one, acknowledged after 40 + 20."""
    tables = run(10, 20, like="kafka", latency_ms=20, buffer_s=0.04)
    latency = tables["latency"]
    own = latency[(latency.kind == "acknowledged") & (latency.t_s > 5)]
    assert own.mean_ms.mean() == pytest.approx(60, abs=2)
    assert mean(tables["requests"], "batch_mean") == 1


@pytest.mark.parametrize("subtasks", [1, 3])
def test_a_failure_loses_nothing(subtasks: int) -> None:
    tables = run(
        [{"at_s": 0, "rate": 700}, {"at_s": 12, "rate": 0}], 40, {"parallelism": subtasks},
        {
            "options": {"execution.checkpointing.interval": "1s"},
            "failures": [{"at_s": at, "stage": "sink", "subtask": 0} for at in (4.7, 9.3)],
        },
        like="kafka", latency_ms=60, latency_distribution="exponential", partitions=3,
        batch_bytes=10_240, buffered_bytes=300_000, errors={"request": 0.05, "record": 0.001},
    )  # fmt: skip
    assert len(tables["restarts"]) == 2
    rows = tables["requests"]
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    assert last.in_flight == last.buffered_records == last.requests_exhausted == 0
    assert 0 < last.requests_failed < last.records_retried
    stages, again = tables["stages"], tables["restarts"].records_reprocessed.sum()
    emitted = stages[(stages.stage == "src") & (stages.t_s == stages.t_s.max())].records_out.sum()
    gone = last.records_sent - last.records_acknowledged - last.records_retried
    first = last.records_acknowledged - last.records_replayed
    assert emitted - again - gone <= first <= emitted - again
    tasks = tables["checkpoint_tasks"]
    assert tasks[tasks.stage == "sink"].state_bytes.max() == 0


def test_a_write_that_waits_too_long_is_counted() -> None:
    rows = run(2000, 20, max_block_s=0.01, **SLOW)["requests"]
    assert grown(rows, "requests_exhausted") > 5
    assert rows.timeouts.max() == 0
