"""Operators that call a service on the live clock: every ledger row and table, and the rows.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import audit
from flowcontrol.kernel import waits
from flowcontrol.ledger import exchange
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
held = load("tests/live/window_runs.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

CALLS: dict[str, Any] = {
    "style": "await", "latency_ms": 250, "latency_distribution": "exponential", "in_flight": 40,
    "errors": {"request": 0.1}, "timeout_s": 1.2, "retry": {"attempts": 2, "delay_ms": 200},
}  # fmt: skip


RATE = [{"at_s": 0, "rate": 150}, {"at_s": 1.5, "rate": 0}]


def case_of(source: Any, latency_ms: int = 100, subtasks: int = 1, **changes: Any) -> Any:
    """Return a job whose source has 150 records/s up to 1.5 s."""
    return cases.scenario(
        "calls",
        [
            source,
            {
                "name": "enrich",
                "parallelism": subtasks,
                "record_bytes": 300,
                "requests": {**CALLS, **changes},
            },
            cases.sink(rate=2000),
        ],
        [cases.edge("source", "enrich"), cases.edge("enrich", "sink")],
        cluster={"task_managers": 3, "network_latency_ms": latency_ms},
        rounds=36,
    )


def calling(**changes: Any) -> Any:
    """Return a job with checkpoints whose source ends before it does, and so do all calls."""
    case = case_of(cases.source(rate=RATE), **changes)
    case["options"]["execution.checkpointing.interval"] = "700ms"
    return runs.job_of(case)


def rows(job: Any, root: Path) -> list[tuple[str, int, int]]:
    """Return the rows of the sink, in the order in which they came; the run is as it has to be."""
    runs.assert_is_virtual(job, root)
    assert audit(root) is None
    found: list[tuple[str, int, int]] = runs.rows_in_order(root / "output" / "sink")
    return found


@pytest.mark.parametrize(("latency_ms", "dies"), [(100, False), (300, False), (100, True)])
def test_rows_wait_for_their_answers_and_leave_in_order(
    latency_ms: int, dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a batch holds three rounds; the exchange logs are trimmed in every one."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = calling(latency_ms=latency_ms)
    crashes = driver.dying_in({6, 7, 13}) if dies else None
    driver.Driver(job, tmp_path, crashes).run()
    found = rows(job, tmp_path)
    assert found == [("source", 0, number) for number in range(len(found))]
    assert len(found) > 90


def test_rows_that_overtake_others_come_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose call has no result are left out."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = calling(subtasks=2, ordered=False, errors={"request": 0.1, "empty": 0.2})
    driver.Driver(job, tmp_path).run()
    found = rows(job, tmp_path)
    tables = runs.live_results(job, tmp_path)["stages"].to_pandas()
    last = tables[tables.t_s == tables.t_s.max()].groupby("stage").sum(numeric_only=True)
    assert set(Counter(found).values()) == {1}
    assert len(found) == last.records_in["sink"] == last.records_out["enrich"]
    assert 0.7 < len(found) / last.records_in["enrich"] < 0.9
    assert found != sorted(found)


@pytest.mark.parametrize(("ordered", "fails"), [(True, False), (False, False), (True, True)])
def test_windows_behind_calls_are_those_of_the_virtual_clock(
    ordered: bool, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watermarks wait in the queue on both clocks, also in a restored one; the driver dies."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    case = timing.every_window(cases)["again"]
    calls = {**CALLS, "latency_ms": 150, "in_flight": 30, "ordered": ordered}
    case["stages"][1] = {"name": "first", "record_bytes": 200, "requests": calls}
    case["stages"][2]["window"] = {"kind": "tumbling", "size_s": 0.2, "keys": 9}
    if fails:
        failures = [{"at_s": 1.1, "stage": "first", "subtask": 0}]
        case = failing.failing(case, failures, 36, failing.UNALIGNED)
    job = runs.job_of(case)
    driver.Driver(job, tmp_path / "run", driver.dying_in({5, 11})).run()
    held.assert_is_virtual(job, tmp_path / "run", runs)
    times = run_job(job).tables["time"].to_pandas()
    assert times.fired.max() >= 8
    waits = (
        times[times.stage == "first"].watermark_s
        - times[times.stage == "second"].watermark_s.to_numpy()
    )
    assert waits.max() > 0.1


@pytest.mark.parametrize("barriers", [{}, failing.UNALIGNED])
def test_rows_of_a_restored_queue_are_called_again(
    barriers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files in the exchange log are long consumed; some of the rows had gone on."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    kept, real = list[int](), waits.put_queue_back

    def noted(m: Any, held: Any, requests: Any) -> None:
        kept.append(held.kept_count)
        real(m, held, requests)

    monkeypatch.setattr(waits, "put_queue_back", noted)
    source = cases.source(rate=400, arrival_rate=RATE)
    case = case_of(source, subtasks=2, ordered=False, in_flight=60, errors=None)
    failures = [{"at_s": 1.5, "task_manager": 1}, {"at_s": 1.9, "stage": "enrich", "subtask": 0}]
    options = {**barriers, **failing.DEATHS, f"{failing.CHECKPOINTS}min-pause": "2s"}
    job = runs.job_of(failing.failing(case, failures, 60, options))
    driver.Driver(job, tmp_path).run()
    found = Counter(rows(job, tmp_path))
    assert sorted(found) == [("source", 0, number) for number in range(225)]
    assert max(found.values()) > 1 and max(kept) > 10
