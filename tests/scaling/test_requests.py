"""Sinks with requests and operators that call a service go on where the job stopped."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.run.jobs import job_for
from flowcontrol.scaling.runs.scaled import run_scaled
from flowcontrol.scenario import parse_scenario

ASYNC = {"style": "async", "in_flight": 2, "batch_records": 25, "buffered": 100, "buffer_s": 1,
         "rate_limiting": "none"}  # fmt: skip
SLOW = {**ASYNC, "latency_ms": [{"at_s": 0, "ms": 50}, {"at_s": 40, "ms": 100}]}
CHECKPOINTS = {"execution.checkpointing.interval": "5s"}


def scaled(stage: dict[str, Any], options: dict[str, Any], rate: float = 1200) -> Any:
    """Run a job that DS2 scales; return its tables as frames."""
    stages = [
        {"name": "src", "emit_rate": 4 * rate, "total_arrival_rate": rate, "record_bytes": 100,
         "latency_from": "arrival"},
        stage,
    ]  # fmt: skip
    if stage["name"] != "sink":
        stages.append({"name": "sink", "service_rate": 5000})
    names = [one["name"] for one in stages]
    scenario = {
        "schema": 1, "name": "scaled", "duration_s": 90, "round_ms": 10, "sample_interval_s": 1,
        "cluster": {"task_managers": 4}, "stages": stages,
        "scaling": {"policy": "ds2", "policy_interval": 10, "warm_up_time": 5, "redeploy_s": 3,
                    "scaling_factor": 0.3},
        "options": {"taskmanager.memory.segment-size": "4kb", **options},
        "edges": [{"from": a, "to": b, "partitioner": "rebalance"}
                  for a, b in pairwise(names)],
    }  # fmt: skip
    run = run_scaled(job_for(parse_scenario(scenario), "virtual"))
    return {name: one.to_pandas() for name, one in run.tables.items()}


def last(frame: Any, column: str, stage: str) -> int:
    """Return the sum of a counter over the subtasks of a stage at the end."""
    return int(frame[frame.stage == stage].groupby("subtask")[column].last().sum())


@pytest.mark.parametrize("options", [{}, CHECKPOINTS], ids=["savepoints", "checkpoints"])
@pytest.mark.parametrize(
    "requests",
    [
        SLOW,
        {"like": "jdbc-sql", "latency_ms": SLOW["latency_ms"], "batch_records": 40},
        {"like": "kafka", "latency_ms": 120, "batch_bytes": 2000, "buffered_bytes": 9000},
    ],
    ids=["async", "blocking", "producer"],
)
def test_every_record_is_acknowledged_or_held(
    requests: dict[str, Any], options: dict[str, Any]
) -> None:
    """What came in was acknowledged or is held, but for those that came again."""
    tables = scaled({"name": "sink", "requests": requests}, options)
    rows, stages = tables["requests"], tables["stages"]
    now = rows[rows.t_s == rows.t_s.max()]
    assert len(tables["scalings"]) > 0 and rows.subtask.nunique() > 1
    taken, again = last(stages, "records_in", "sink"), last(rows, "records_replayed", "sink")
    acknowledged = last(rows, "records_acknowledged", "sink")
    held = int(now.in_flight_records.sum() + now.buffered_records.sum())
    hands = len(now)  # One record of each subtask may wait for the buffer
    if options:
        # A source that rewinds sends again what was on its way to the sink, too.
        assert again > 0
        assert acknowledged <= taken <= acknowledged + held + hands + again
    else:
        assert 0 <= taken - (acknowledged - again) - held <= hands
    for _, own in rows.groupby("subtask"):
        assert own.records_acknowledged.is_monotonic_increasing


def test_calls_go_on_with_the_records_that_wait() -> None:
    calls = {"style": "await", "in_flight": 40, "latency_ms": 50, "ordered": False}
    tables = scaled({"name": "enrich", "requests": calls}, {})
    rows, stages = tables["requests"], tables["stages"]
    now = rows[rows.t_s == rows.t_s.max()]
    assert len(tables["scalings"]) > 0 and rows.subtask.nunique() > 1
    taken, out = (last(stages, column, "enrich") for column in ("records_in", "records_out"))
    held = int(now.in_flight_records.sum() + now.buffered_records.sum())
    # What is answered after the savepoint's barrier leaves the operator once more.
    assert -40 * len(tables["scalings"]) <= taken - out - held <= len(now)
    assert out == pytest.approx(last(stages, "records_in", "sink"), abs=200)


def test_a_latency_keeps_its_time_over_a_restart() -> None:
    rows = scaled({"name": "sink", "requests": SLOW}, {})["requests"]
    known = rows.dropna(subset=["latency_mean_ms"])
    assert known[known.t_s <= 40].latency_mean_ms.max() == pytest.approx(50)
    assert known[known.t_s > 42].latency_mean_ms.min() == pytest.approx(100)
    assert known.t_s.max() > 60
