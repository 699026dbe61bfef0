"""Connections on the live clock: a bandwidth, and channels that share one without credits.

Also partitions whose pools have no bound.

A row of the ledger says how a channel stood before its connection's turn of the round, which all
processes work out when every task has published the round. The result tables have it behind the
turn, as on the virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol import audit
from flowcontrol.errors import LedgerError
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

BANDWIDTH = "cluster/bandwidth_bytes_per_s"
BARRIERS = {"execution.checkpointing.interval": "300ms"}
UNALIGNED = {**BARRIERS, "execution.checkpointing.unaligned": True}


def with_bandwidth(case: dict[str, Any], bytes_per_s: int, **cluster: Any) -> dict[str, Any]:
    own = {**case["cluster"], "bandwidth_bytes_per_s": bytes_per_s, **cluster}
    return {**case, "cluster": own}


def with_options(case: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    return {**case, "options": {**case["options"], **options}}


CASES: dict[str, Callable[[ModuleType], dict[str, Any]]] = {
    "bandwidth": lambda c: with_bandwidth(c.STAGES, 120_000),
    "channels in turn": lambda c: with_bandwidth(c.SHUFFLE, 90_000),
    "latency": lambda c: with_bandwidth(c.STAGES, 120_000, network_latency_ms=250),
    "barriers on the wire": lambda c: with_options(with_bandwidth(c.FAN_IN, 90_000), UNALIGNED),
    "two inputs": lambda c: {**c.FAN_IN, "system": "flink-1.4"},
    "one slow receiver": lambda c: {
        **with_bandwidth(c.SHUFFLE, 400_000),
        "system": "flink-1.4",
        "duration_s": 1.8,
    },
    "no bound": lambda c: {
        **c.SHUFFLE,
        "edges": [{**edge, "partition_type": "pipelined"} for edge in c.SHUFFLE["edges"]],
    },
    "put aside": lambda c: with_options({**c.FAN_IN, "system": "flink-1.4"}, BARRIERS),
}


def assert_audited(case: dict[str, Any], root: Path) -> None:
    """Assert that the invariants of credits hold where there are some."""
    if case.get("system") != "flink-1.4":
        assert audit(root) is None
        return
    with pytest.raises(LedgerError, match="a transport without credits"):
        audit(root)


def assert_all_came(job: Any, root: Path, runs: ModuleType, ledgers: Any) -> None:
    """Assert that a sink behind sources has the rows that its channels count."""
    if any(not job.stage(link.edge.sender).is_source for link in job.links):
        return
    came = runs.rows_in_order(root / "output" / "sink")
    due = [
        (edge.split("->")[0], sender, number)
        for (edge, sender, _), numbers in runs.delivered(job, ledgers).items()
        for number in numbers
    ]
    assert sorted(came) == sorted(due)
    assert len(came) > 10


@pytest.mark.parametrize("name", list(CASES))
def test_connections_run_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    case = CASES[name](cases)
    job = runs.job_of(case)
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert_audited(case, tmp_path)
    assert_all_came(job, tmp_path, runs, ledgers)
    remote = [
        row for rows in ledgers.values() for row in rows
        if row["side"] == "sender" and not row["channel_state"]["local"]
    ]  # fmt: skip
    assert any(row["backlog"] > 0 for row in remote)  # something waits, for its turn or for credit


@pytest.mark.parametrize("name", ["channels in turn", "barriers on the wire", "one slow receiver"])
def test_a_driver_that_dies_goes_on_with_the_same_connections(name: str, tmp_path: Path) -> None:
    case = CASES[name](cases)
    job = runs.job_of(case)
    crashes = driver.dying_in({5, 9})
    killed, whole = driver.Driver(job, tmp_path / "killed", crashes), tmp_path / "whole"
    killed.run()
    runs.assert_is_virtual(job, tmp_path / "killed")
    driver.Driver(job, whole).run()
    runs.assert_same_rows(job, tmp_path / "killed", whole)
    assert_audited(case, tmp_path / "killed")
    assert killed.starts == len(crashes.places) + 1 > 20


@pytest.mark.parametrize("system", ["flink", "flink-1.4"])
def test_tasks_fail_beside_connections(system: str, tmp_path: Path) -> None:
    """What was on the wire of the attempt before reaches nobody."""
    case = with_bandwidth(failing.sinks_at(cases.FAN_IN, 300), 90_000)
    failed = [{"at_s": 1.2, "stage": "sink", "subtask": 0}]
    given = {**failing.failing(case, failed, 24), "system": system}
    job = runs.job_of(given)
    driver.Driver(job, tmp_path, driver.dying_in({13, 14}, every=3)).run()
    runs.assert_is_virtual(job, tmp_path)
    assert_audited(given, tmp_path)
    assert any(one.running >= 0 for one in failing.restarts_of(job).restarts)
