"""Planted failures on the live clock: every ledger row, table and moved row is as it must be.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from flowcontrol import audit
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.ledger import exchange
from flowcontrol.records import CHECKPOINT_RESULTS, RESTARTS, RESULTS
from flowcontrol.run import RunResult
from flowcontrol.scenario import load_scenario
from flowcontrol.spark.crash_points import CrashPoint
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
dying = load("tests/live/dying.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

CONF = Path(__file__).resolve().parents[2] / "conf"

EVERY = [
    "in flight",
    "from the beginning",
    "at least once",
    "several at once",
    "regions",
    "everything",
    "finished",
    "queues",
    "for good",
    "too many checkpoints",
    "stop expires",
    "no checkpoints",
]
EDGE = {"from": "source", "to": "sink", "partitioner": "rebalance"}
QUICK = ["from the beginning", "several at once", "regions", "everything", "for good"]
RUN = EVERY if "FLOWCONTROL_LONG" in os.environ else QUICK
"""The quick form leaves out what the crashes and the random jobs below have as well."""


def test_every_case_is_named() -> None:
    assert list(failing.every_case(cases)) == EVERY


@pytest.mark.parametrize("name", RUN)
def test_a_failing_job_is_that_of_the_virtual_clock(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(failing.every_case(cases)[name])
    driver.Driver(job, tmp_path / "run").run()
    ledgers = runs.assert_is_virtual(job, tmp_path / "run")
    control = failing.restarts_of(job)
    assert control.restarts
    if name != "queues":  # the audit knows credits
        assert audit(tmp_path / "run") is None
    if name == "for good":
        assert control.failed_at > 0
    else:
        assert any(one.running >= 0 for one in control.restarts)
    for plan in job.stages:
        senders = [job.stage(link.edge.sender) for link in plan.inputs]
        if not plan.outputs and all(one.is_source and one.stage.replayable for one in senders):
            came = Counter(runs.rows_in_order(tmp_path / "run" / "output" / plan.name))
            assert came == Counter(failing.rows_taken(runs, job, ledgers, plan.name))


def test_the_rows_behind_the_checkpoint_come_twice(tmp_path: Path) -> None:
    """At-least-once, by the input alone: 200 rows/s, when the checkpoint was, and the failure."""
    case = cases.scenario("twice", [cases.source(rate=200), cases.sink(900)], [EDGE])
    failed = {"at_s": 1.3, "stage": "source", "subtask": 0}
    job = runs.job_of(failing.failing(case, [failed], 24))
    driver.Driver(job, tmp_path / "run").run()
    came = [number for _, _, number in runs.rows_in_order(tmp_path / "run" / "output" / "sink")]
    # Asked at 0.8 s, the source takes the second checkpoint a round later, behind its first 180
    # rows. All that it emits before it fails arrives before the sink is cancelled.
    assert came == [*range(260), *range(180, max(came) + 1)]
    assert max(came) > 260


def test_a_source_that_cannot_rewind_goes_on_where_it_was(tmp_path: Path) -> None:
    """What it has emitted since the checkpoint, and is not at the sink, never comes."""
    case = failing.sinks_at(cases.SINGLE, 700)
    stages = [{**case["stages"][0], "replayable": False}, case["stages"][1]]
    failed = {"at_s": 1.2, "stage": "source", "subtask": 0}
    job = runs.job_of(failing.failing({**case, "stages": stages}, [failed], 24))
    driver.Driver(job, tmp_path / "run").run()
    ledgers = runs.assert_is_virtual(job, tmp_path / "run")
    came = [number for _, _, number in runs.rows_in_order(tmp_path / "run" / "output" / "sink")]
    [own] = [
        row for row in ledgers["source->sink"] if row["side"] == "sender" and row["batch_id"] == 12
    ]
    stood_at = own["channel_state"]["routed"]
    lost = set(range(max(came) + 1)) - set(came)
    assert max(Counter(came).values()) == 1  # aligned: nothing was in flight
    assert lost == set(range(max(n for n in came if n < stood_at) + 1, stood_at))
    assert len(lost) > 20
    assert max(came) > stood_at + 100


def test_the_state_of_old_checkpoints_goes(tmp_path: Path) -> None:
    job = runs.job_of(failing.failing(failing.sinks_at(cases.SINGLE, 3000), [], 30))
    driver.Driver(job, tmp_path / "run").run()
    table = DeltaTable(str(tmp_path / "run" / "state"))
    rows = sorted(
        (row["checkpoint_id"], row["stage"], row["batch_id"])
        for row in table.to_pyarrow_table().to_pylist()
    )
    # The sixth was complete at 2.8 s: before that a restart would have begun from the fifth.
    assert rows == [(5, "sink", 23), (6, "sink", 27), (6, "source", 25), (7, "source", 29)]
    assert len(list((tmp_path / "run" / "state").glob("*.parquet"))) == len(rows)


WRONG = {
    ("sender", "written", -1): "written_grows",
    ("sender", "rows", 1): "sender_state",
    ("receiver", "consumed", 1): "consumed_were_taken",
    ("receiver", "rows", 1): "receiver_state",
}
"""By side, column and how much is added: the invariant that does not hold then."""


def test_the_audit_follows_each_attempt() -> None:
    """A wrong figure behind a restart is found, and nothing before it is held against it."""
    job = runs.job_of(failing.every_case(cases)["in flight"])
    [restart] = failing.restarts_of(job).restarts
    table = runs.virtual_tables(job)["map->sink"]
    assert audit(table) is None
    number = restart.running + 4
    for (side, column, by), invariant in WRONG.items():
        rows = table.to_pylist()
        [row] = [one for one in rows if (one["side"], one["batch_id"]) == (side, number)]
        row[column] += by
        found = audit(pa.Table.from_pylist(rows, schema=table.schema))
        assert found is not None
        assert (found.batch_id, found.invariant) == (number, invariant)


# ---------------------------------------------------------------------- with Spark

RECOVERY = (
    "duration_s=2.4",
    "round_ms=100",
    "sample_interval_s=0.5",
    'options."execution.checkpointing.interval"=400ms',
    'options."execution.checkpointing.unaligned.enabled"=true',
    'options."restart-strategy.fixed-delay.delay"=0ms',
    "stages.source.parallelism=1",
    "stages.source.placement=[0]",
    "stages.source.arrival_rate=80",
    "stages.map.service_rate=160",
    "failures=[{at_s: 1.3, stage: map, subtask: 0}]",
)
"""conf/recovery.yaml in so many rounds as the live clock does in seconds, with data in flight."""


@pytest.mark.spark
@pytest.mark.holds("credit", "live", "a failing job on both clocks: every ledger row and table")
def test_the_recovery_of_conf_runs_alike_on_both_clocks(
    run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    job = build_physical_graph(load_scenario(CONF / "recovery.yaml", overrides=RECOVERY))
    result = run_live(job.scenario, tmp_path / "run")
    runs.assert_is_virtual(job, result.path)
    [restart] = failing.restarts_of(job).restarts
    assert restart.checkpoint > 0
    assert restart.caught_up > restart.running > restart.restarted
    assert set(result.tables) >= {*RESULTS, *CHECKPOINT_RESULTS, RESTARTS.name}
    written = {name: one for name, one in result.tables.items() if name != "metrics"}
    runs.assert_same_tables(written, run_job(job).tables)
    for name, table in written.items():
        kept = DeltaTable(str(result.path / name)).to_pyarrow_table()
        assert kept.num_rows == table.num_rows > 0
    assert "Subtask 0 of map failed" in result.summary["restarts"]["sentences"][0]
    assert 'id="restarts"' in (result.path / "report.html").read_text()


# ---------------------------------------------------------------------- the driver dies

KILLS = 40
POINTS = {
    CrashPoint.BEFORE_EXCHANGE,
    CrashPoint.BEFORE_STATE,
    CrashPoint.BEFORE_LEDGER,
    CrashPoint.BETWEEN_LEDGERS,
    CrashPoint.AFTER_LEDGER,
}

MOMENTS = range(12, 18)
"""Rounds of failure, detection, cancellation, restore and run."""


def test_a_crash_around_every_commit_of_a_restart(tmp_path: Path) -> None:
    """With data in flight, and a second failure before the first one's restart is done."""
    failures = [
        {"at_s": 0.85, "stage": "sink", "subtask": 0},
        {"at_s": 1.15, "stage": "source", "subtask": 0},
    ]
    case = failing.sinks_at(cases.SINGLE, 300)
    options = {**failing.UNALIGNED, f"{failing.CHECKPOINTS}interval": "200ms"}
    job = runs.job_of(failing.failing(case, failures, 18, options))
    driver.die_everywhere(job, runs, tmp_path, MOMENTS)
    control = failing.restarts_of(job)
    assert [one.running >= 0 for one in control.restarts] == [False, True]
    last = control.restarts[1]
    moments = {last.failed, last.detected, last.restarted, last.running}
    assert len(moments) == 4
    assert moments < set(MOMENTS)
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "whole") != []


@pytest.mark.long
@pytest.mark.parametrize(("name", "at"), [("everything", range(12, 30)), ("regions", None)])
def test_a_crash_around_every_commit_of_several_restarts(
    name: str, at: range | None, tmp_path: Path
) -> None:
    job = runs.job_of(failing.every_case(cases)[name])
    driver.die_everywhere(job, runs, tmp_path, at)
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "whole") != []


@pytest.mark.long
def test_a_process_that_is_killed_in_the_rounds_of_restarts(tmp_path: Path) -> None:
    """kill -9 of a process that runs the stand-in; test_kill.py kills one that runs Spark."""
    case, kills = failing.every_case(cases)["everything"], 0
    job, zygote = runs.job_of(case), dying.Zygote()
    try:
        assert zygote.run(case, tmp_path / "whole") == 0
        places = [one for one in dying.places_of(tmp_path / "whole") if 8 <= one[1] < 34]
        every = len(places) // KILLS
        chosen = [
            place
            for number, place in enumerate(places)
            if number % every == 0 or place[2] == CrashPoint.BEFORE_STATE
        ]
        assert {CrashPoint(point) for _, _, point in chosen} == POINTS
        for place in chosen:
            assert zygote.run(case, tmp_path / "killed", place) == -signal.SIGKILL, place
            kills += 1
        assert kills >= KILLS
        assert zygote.run(case, tmp_path / "killed") == 0
    finally:
        zygote.end()
    runs.assert_same_rows(job, tmp_path / "killed", tmp_path / "whole")
    came, expected = (
        Counter(runs.rows_in_order(tmp_path / run / "output" / "sink"))
        for run in ("killed", "whole")
    )
    assert came == expected
    assert state_of(tmp_path / "killed") == state_of(tmp_path / "whole") != []


def state_of(root: Path) -> list[str]:
    """Return what is kept of a run's checkpoints."""
    return sorted(map(str, DeltaTable(str(root / "state")).to_pyarrow_table().to_pylist()))
