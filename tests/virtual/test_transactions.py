"""Sinks that send requests in transactions: readers see each record once, and none too early."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual import simulate
from modules import ROOT
from tests.virtual.test_requests import run_style

KAFKA: dict[str, Any] = {
    "like": "kafka", "latency_ms": 60, "latency_distribution": "exponential", "partitions": 3,
    "batch_bytes": 10_240, "buffered_bytes": 300_000, "errors": {"request": 0.05},
}  # fmt: skip
JDBC: dict[str, Any] = {
    "like": "jdbc-sql", "latency_ms": 30, "batch_records": 50, "retry": {"attempts": 0},
}  # fmt: skip
RATE, ENDS_S = 700, 12


def run(
    requests: dict[str, Any], subtasks: int = 1, fails_s: tuple[float, ...] = (), **sink: Any
) -> dict[str, pd.DataFrame]:
    """Run a source of 700 records/s for 12 s, and an exactly-once sink behind it."""
    failures = [{"at_s": at, "stage": "sink", "subtask": 0} for at in fails_s]
    tables: dict[str, pd.DataFrame] = run_style(
        [{"at_s": 0, "rate": RATE}, {"at_s": ENDS_S, "rate": 0}], 30,
        {"parallelism": subtasks, "guarantee": "exactly-once", **sink},
        {
            "sample_interval_s": 0.1, "failures": failures,
            "options": {"execution.checkpointing.interval": "1s"},
        },
        **requests,
    )  # fmt: skip
    return tables


def summed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sums over all subtasks, by the time of the sample."""
    return rows.groupby("t_s").sum(numeric_only=True)


@pytest.mark.parametrize("commit", [None, {"fixed_ms": 150}], ids=["at once", "commits"])
@pytest.mark.parametrize("subtasks", [1, 3])
@pytest.mark.parametrize("requests", [KAFKA, JDBC], ids=["kafka", "jdbc"])
def test_each_record_is_seen_once_and_none_before_its_checkpoint(
    requests: dict[str, Any], subtasks: int, commit: dict[str, Any] | None
) -> None:
    """Failures between two checkpoints, in a flush, and just behind a completion."""
    keys = {} if commit is None else {"commit": commit}
    tables = run(requests, subtasks, (2.7, 5.01, 9.3), **keys)
    stages, seen = tables["stages"], summed(tables["delivery"])
    sent = summed(tables["requests"])
    assert len(tables["restarts"]) == 3
    assert sent.records_replayed.iloc[-1] > 100
    again = tables["restarts"].records_reprocessed.sum()
    emitted = stages[(stages.stage == "src") & (stages.t_s == stages.t_s.max())].records_out.sum()
    assert seen.committed.iloc[-1] == emitted - again > 2000
    assert seen.visible_twice.max() == seen.lost.max() == 0
    answered = sent.records_sent - sent.records_retried - sent.in_flight_records
    assert (seen.committed <= answered - sent.records_replayed).all()
    done = tables["checkpoints"][tables["checkpoints"].status == "completed"]
    took_s = 0 if commit is None else 0.151
    times = sorted([*done.ended_s, *(done.ended_s + took_s), *tables["restarts"].restarted_s])
    for t_s in seen.index[seen.committed.diff() > 0]:
        assert any(t_s - 0.101 <= at <= t_s + 0.001 for at in times), t_s


@settings(max_examples=max(4, settings.default.max_examples // 3), deadline=None)
@given(
    requests=st.sampled_from([KAFKA, JDBC]),
    latency_ms=st.integers(1, 120),
    subtasks=st.integers(1, 3),
    commit_ms=st.sampled_from([0, 80, 900]),
    is_shared=st.booleans(),
    unaligned=st.booleans(),
    fails_s=st.lists(st.floats(0.5, 9), max_size=3, unique=True),
)
@example(JDBC, 1, 1, 900, False, True, [])  # the last checkpoints come while it commits
@example(KAFKA, 1, 1, 80, True, False, [])  # its committer ends after the sink
def test_each_record_is_seen_once_whatever_happens(
    requests: dict[str, Any], latency_ms: int, subtasks: int, commit_ms: int, is_shared: bool,
    unaligned: bool, fails_s: list[float],
) -> None:  # fmt: skip
    """Of a log, so that it is known how many there are; commits may pile up."""
    failures = [
        {"at_s": round(at, 3), "stage": "sink", "subtask": index % subtasks}
        for index, at in enumerate(sorted(fails_s))
    ]
    commit = {"commit": {"fixed_ms": commit_ms, "shared": is_shared}} if commit_ms else {}
    options = {
        "execution.checkpointing.interval": "700ms",
        "execution.checkpointing.unaligned.enabled": unaligned,
    }
    written = [{"at_s": 0, "rate": 300}, {"at_s": 6, "rate": 0}]
    source = {"name": "src", "arrival_rate": written, "emit_rate": 2000, "record_bytes": 100}
    sink = {"name": "sink", "parallelism": subtasks, "guarantee": "exactly-once", **commit}
    sink["requests"] = {**requests, "latency_ms": latency_ms}
    scenario = {
        "schema": 1, "name": "transactions", "duration_s": 60, "round_ms": 1,
        "sample_interval_s": 0.5, "stages": [source, sink], "options": options,
        "edges": [{"from": "src", "to": "sink", "partitioner": "rebalance"}], "failures": failures,
    }  # fmt: skip
    run = simulate(parse_scenario(scenario))
    seen = summed(run.tables["delivery"].to_pandas())
    sent = summed(run.tables["requests"].to_pandas())
    assert seen.committed.iloc[-1] == 300 * 6
    assert seen.committed.is_monotonic_increasing
    assert seen.visible_twice.max() == seen.lost.max() == 0
    answered = sent.records_sent - sent.records_retried - sent.in_flight_records
    assert (seen.committed <= answered - sent.records_replayed).all()
    event(f"restarts: {len(run.tables['restarts'])}, sent again: {sent.records_replayed.max() > 0}")


def test_a_flush_is_part_of_the_checkpoint() -> None:
    """A barrier waits for the answers, so a row is visible that much later."""
    fast, slow = (run({**KAFKA, "latency_ms": ms, "errors": None}) for ms in (10, 150))
    for tables, least, most in ((fast, 1, 150), (slow, 60, 1200)):
        own = tables["checkpoints"][tables["checkpoints"].triggered_s < ENDS_S]
        assert least < own.e2e_ms.median() < most
    late = [one["delivery"].visibility_p50_ms.median() for one in (fast, slow)]
    assert late[1] > late[0] + 50


def test_a_transaction_that_is_too_old_is_lost() -> None:
    """Kafka aborts what is open for longer than the interval and the checkpoint take."""
    last = summed(
        run({"like": "kafka", "latency_ms": 20}, transaction_timeout_s=0.9)["delivery"]
    ).iloc[-1]
    assert last.lost == last.written - last.committed > 0.9 * RATE * ENDS_S


def test_an_empty_transaction_is_not_committed() -> None:
    tables = run_style(
        [{"at_s": 0, "rate": RATE}, {"at_s": 4.5, "rate": 0}, {"at_s": 8.5, "rate": RATE}], 11,
        {"guarantee": "exactly-once", "commit": {"fixed_ms": 20}},
        {"options": {"execution.checkpointing.interval": "1s"}}, **JDBC,
    )  # fmt: skip
    assert set(tables["commits"].checkpoint_id) == {1, 2, 3, 4, 5, 9, 10}
    assert len(tables["checkpoints"]) == 10


@pytest.mark.parametrize(
    ("changes", "middle_ms", "most_ms", "lost"),
    [
        ({}, 5060, 10_052, 0),
        ({"options.execution.checkpointing.interval": "2s"}, 1057, 2052, 0),
        ({"stages.sink.requests.latency_ms": 150}, 5199, 10_194, 0),
        ({"stages.sink.transaction_timeout_s": 8}, None, None, 66_002),
    ],
    ids=["as it is", "interval", "slow", "timeout"],
)
def test_what_conf_says(
    changes: dict[str, Any], middle_ms: float | None, most_ms: float | None, lost: int
) -> None:
    scenario = load_scenario(ROOT / "conf" / "kafka-transactions.yaml", overrides=changes)
    tables = {name: one.to_pandas() for name, one in simulate(scenario).tables.items()}
    seen = tables["delivery"]
    shown = seen[seen.visibility_p50_ms.notna() & (seen.t_s < 34)]
    if middle_ms is not None:
        assert shown.visibility_p50_ms.median() == pytest.approx(middle_ms, rel=0.02)
        assert shown.visibility_max_ms.max() == pytest.approx(most_ms, rel=0.02)
    assert seen.lost.iloc[-1] == lost
    assert seen.visible_twice.max() == 0
    assert tables["requests"].records_replayed.iloc[-1] > 1900
