"""What the guarantees make of planted failures on the live clock, verified from the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.live.rows import marked
from modules import load

cases = load("tests/live/cases.py")
deliveries = load("tests/live/deliveries.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

UNALIGNED = {"execution.checkpointing.unaligned": True}
OFTEN = {"execution.checkpointing.interval": "200ms"}
NEVER = {"execution.checkpointing.interval": "60s"}


@pytest.mark.parametrize(
    ("options", "guarantee"),
    [
        pytest.param({}, "at-most-once", marks=pytest.mark.long, id="aligned"),
        pytest.param(NEVER, "at-most-once", marks=pytest.mark.long, id="from the beginning"),
        pytest.param(UNALIGNED, "at-least-once", id="at-least-once"),
    ],
)
def test_what_is_lost_and_what_is_there_twice(
    options: dict[str, Any], guarantee: str, tmp_path: Path
) -> None:
    made = deliveries.exactly_once(cases.FAN_IN, ends_s=1.2, service_rate=900, guarantee=guarantee)
    failed = [{"at_s": 0.75, "stage": "sink", "subtask": 0}]
    job = runs.job_of(failing.failing(made, failed, 24, options))
    driver.Driver(job, tmp_path).run()
    runs.assert_is_virtual(job, tmp_path)
    oracle = deliveries.Oracle.of(job)
    *_, (_, rows) = deliveries.versions(tmp_path / "output" / "sink", "run/sink")
    assert deliveries.committed(job, tmp_path)[-1] == rows.total()
    every = deliveries.numbers(oracle.furthest[-1])
    assert set(rows) <= every
    if guarantee == "at-least-once":
        assert deliveries.numbers(oracle.emitted) <= set(rows)
        assert rows.total() > len(rows)
    else:
        assert len(set(rows)) == rows.total() < len(every)


def test_what_waits_too_long_for_its_checkpoint_is_lost(tmp_path: Path) -> None:
    """A restart takes longer than the sink's transactions may be old."""
    made = deliveries.exactly_once(
        cases.FAN_IN, ends_s=1.2, service_rate=900, transaction_timeout_s=0.6
    )
    failed = [{"at_s": 0.75, "stage": "sink", "subtask": 0}]
    job = runs.job_of(failing.failing(made, failed, 24, OFTEN))
    driver.Driver(job, tmp_path).run()
    runs.assert_is_virtual(job, tmp_path)
    *_, (_, rows) = deliveries.versions(tmp_path / "output" / "sink", "run/sink")
    assert deliveries.committed(job, tmp_path)[-1] == rows.total() == len(rows)
    lost = len(deliveries.numbers(deliveries.Oracle.of(job).emitted) - set(rows))
    table = runs.live_results(job, tmp_path)["delivery"]
    assert lost == table.column("lost").to_pylist()[-1] > 0


def test_requests_in_transactions_are_those_of_the_virtual_clock(tmp_path: Path) -> None:
    """The sink flushes at barriers and commits; a failure aborts what its broker has by then."""
    requests = {"like": "kafka", "latency_ms": 60, "errors": {"request": 0.1}}
    made = deliveries.exactly_once(
        cases.FAN_IN, ends_s=2.8, service_rate=900, requests=requests, commit={"fixed_ms": 40}
    )
    for stage in made["stages"]:
        stage.pop("output", None)
        if "emit_rate" in stage:
            stage["emit_rate"][0]["rate"] = 200
    failed = [{"at_s": 1.9, "stage": "sink", "subtask": 0}]
    job = runs.job_of(failing.failing(made, failed, 40, {}))
    driver.Driver(job, tmp_path, driver.dying_in({5, 14})).run()
    runs.assert_is_virtual(job, tmp_path)
    tables = {name: one.to_pandas() for name, one in runs.live_results(job, tmp_path).items()}
    last, sent = tables["delivery"].iloc[-1], tables["requests"].iloc[-1]
    assert (last.visible_twice, last.lost) == (0, 0)
    assert last.committed > 300
    assert sent.records_replayed > 0
    assert len(tables["commits"]) >= 3


def test_what_is_lost_is_what_was_on_its_way(tmp_path: Path) -> None:
    """At most once: what a source had emitted by a restart, and the sink had not written.

    Through a stage in between, and with records in flight in what is restored.
    """
    # Slow at the checkpoint, which then holds much in flight, and quick until the failure.
    rate = [{"at_s": 0, "rate": 100}, {"at_s": 0.4, "rate": 900}, {"at_s": 0.6, "rate": 300}]
    made = deliveries.exactly_once(
        cases.KILLED, ends_s=2.4, service_rate=rate, guarantee="at-most-once"
    )
    failed = [{"at_s": 0.65, "stage": "map", "subtask": 0}]
    job = runs.job_of(failing.failing(made, failed, 26, UNALIGNED | OFTEN))
    oracle, control = deliveries.Oracle.of(job), failing.restarts_of(job)
    driver.Driver(job, tmp_path).run()
    found = list(deliveries.versions(tmp_path / "output" / "sink", "run/sink"))
    [restart] = control.restarts
    *_, written = [set(rows) for number, rows in found if number < restart.running]
    gone = deliveries.numbers(oracle.furthest[restart.running - 1]) - written
    taken = set(found[-1][1])
    assert found[-1][1].total() == len(taken)
    assert not gone & taken
    # All that came later has been written, but for what is on its way at the end.
    after = deliveries.numbers(oracle.furthest[-1]) - gone - taken
    assert not written - taken
    assert len(taken - written) > 20 < len(gone)
    assert all(row[2] >= min(row[2] for row in gone) for row in after)


@pytest.mark.parametrize("number", [0, 1, 41])
def test_a_mark_is_taken_off_again(number: int) -> None:
    assert marked(number) < 0
    assert marked(marked(number)) == number
