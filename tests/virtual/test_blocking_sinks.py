"""Sinks that block in a run: what they let through, when they store it, what comes again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.virtual.test_requests import grown, mean
from tests.virtual.test_requests import run_style as run


def busy(tables: Any) -> float:
    """Return the share of the time in which the sink is busy."""
    rows = tables["stages"][tables["stages"].stage == "sink"]
    return mean(rows, "busy_ms_per_s") / 1000


@pytest.mark.parametrize(
    ("batch", "latency_ms", "per_record_ms"), [(10, 40, 0), (100, 50, 0.5), (1, 5, 0), (7, 10, 3)]
)
def test_a_sink_that_blocks_stores_a_batch_a_round_trip(
    batch: int, latency_ms: float, per_record_ms: float
) -> None:
    """X = B / (l + w B); below that its thread is busy for the share rate / X."""
    expected = 1000 * batch / (latency_ms + per_record_ms * batch)
    own = {
        "style": "blocking", "batch_records": batch, "latency_ms": latency_ms,
        "per_record_ms": per_record_ms,
    }  # fmt: skip
    full = run(3 * expected, **own)
    assert grown(full["requests"], "records_acknowledged") == pytest.approx(expected, rel=0.01)
    assert full["requests"].in_flight.max() == 1
    assert busy(full) == pytest.approx(1, abs=0.01)
    source = full["stages"][full["stages"].stage == "src"]
    assert mean(source, "backpressured_ms_per_s") > 600
    part = run(expected * 0.6, 60, **own)
    assert grown(part["requests"], "records_acknowledged") == pytest.approx(
        0.6 * expected, rel=0.02
    )
    assert busy(part) == pytest.approx(0.6, abs=0.01)


def test_the_interval_of_a_sink_that_blocks_counts_from_the_end_of_a_flush() -> None:
    """Records at 100/s, a flush each second and 300 ms for it: 130 records in each."""
    rows = run(100, 40, like="jdbc-sql", batch_records=0, latency_ms=300)["requests"]
    assert mean(rows.dropna(subset=["batch_mean"]), "batch_mean") == pytest.approx(130, rel=0.01)
    assert grown(rows, "records_acknowledged", 10) == pytest.approx(100, rel=0.05)


def test_jdbc_sends_all_of_a_batch_again_and_counts_where_flink_gives_up() -> None:
    rows = run(
        400, 60, like="jdbc", batch_records=10, latency_ms=5, errors={"request": 0.5}
    )["requests"]  # fmt: skip
    last = rows[rows.t_s == rows.t_s.max()].iloc[0]
    assert last.records_retried == pytest.approx(last.records_sent / 2, rel=0.3)
    assert last.records_retried == 10 * last.requests_failed
    assert last.requests_exhausted > 0
    assert last.records_sent == last.records_acknowledged + last.records_retried + (
        last.in_flight_records
    )


@pytest.mark.parametrize("like", ["jdbc", "elasticsearch-7-sql"])
def test_all_is_stored_once_the_input_of_a_sink_that_blocks_is_over(like: str) -> None:
    tables = run(
        [{"at_s": 0, "rate": 600}, {"at_s": 10, "rate": 0}], 60, {"parallelism": 2}, like=like,
        batch_records=40, latency_ms=30, latency_distribution="exponential",
        errors={"request": 0.02, "record": 0.001},
        retry={"attempts": 8, "delay_ms": 50, "growth": "elasticsearch"},
    )  # fmt: skip
    rows = tables["requests"]
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    stages = tables["stages"]
    taken = stages[(stages.t_s == stages.t_s.max()) & (stages.stage == "sink")].records_in.sum()
    held = last.buffered_records if like == "jdbc" else 0  # It has no interval
    assert last.records_acknowledged == taken - held > 5900
    assert held < 80
    assert last.records_retried > 0


@pytest.mark.parametrize("subtasks", [1, 3])
def test_a_checkpoint_flushes_and_a_failure_loses_nothing(subtasks: int) -> None:
    """What is stored behind the checkpoint comes again, and nothing of it is in the state."""
    tables = run(
        [{"at_s": 0, "rate": 700}, {"at_s": 12, "rate": 0}], 40, {"parallelism": subtasks},
        {
            "options": {"execution.checkpointing.interval": "1s"},
            "failures": [{"at_s": at, "stage": "sink", "subtask": 0} for at in (4.7, 9.3)],
        },
        like="jdbc-sql", batch_records=150, latency_ms=170, errors={"request": 0.02},
        retry={"delay_ms": 50, "growth": "multiplied"}, buffer_s=0.4,
    )  # fmt: skip
    assert len(tables["restarts"]) == 2
    tasks = tables["checkpoint_tasks"]
    assert tasks[tasks.stage == "sink"].state_bytes.max() == 0
    done = tables["checkpoints"]
    assert 170 < done[done.status == "completed"].e2e_ms.median() < 500
    rows = tables["requests"]
    last = rows[rows.t_s == rows.t_s.max()].sum(numeric_only=True)
    assert last.in_flight == last.buffered_records == 0
    stages, again = tables["stages"], tables["restarts"].records_reprocessed.sum()
    emitted = stages[(stages.stage == "src") & (stages.t_s == stages.t_s.max())].records_out.sum()
    gone = last.records_sent - last.records_acknowledged - last.records_retried
    first = last.records_acknowledged - last.records_replayed
    assert last.records_replayed > 100
    assert emitted - again - gone <= first <= emitted - again


def test_a_checkpoint_waits_for_nothing_without_a_guarantee() -> None:
    options = {"options": {"execution.checkpointing.interval": "1s"}}
    own: dict[str, Any] = {"like": "elasticsearch-7", "latency_ms": 200}
    waits = run(190, 12, top=options, **own)["checkpoints"]
    goes_on = run(70, 12, top=options, flush_on_checkpoint=False, **own)["checkpoints"]
    assert waits.e2e_ms.mean() > 150
    assert goes_on.e2e_ms.median() < 5
