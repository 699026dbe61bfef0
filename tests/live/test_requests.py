"""Rows that a sink with requests writes: when its destination has stored them, and as often.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.control.attempts import KernelAttempts
from flowcontrol.errors import ScenarioError
from flowcontrol.kernel import views as v
from flowcontrol.kernel.requests import kernel_requests
from flowcontrol.ledger import exchange
from flowcontrol.live.rows import row_schemas
from flowcontrol.run import RunResult
from modules import load

cases = load("tests/live/cases.py")
deliveries = load("tests/live/deliveries.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")

ROWS = 225
COLUMNS = ["source", "source_subtask", "number", "stored_s", "acknowledged_s", "attempts"]
EXAMPLES = settings.default.max_examples // 10
ASYNC: dict[str, Any] = {
    "latency_ms": 150, "latency_distribution": "exponential", "in_flight": 6, "batch_records": 7,
    "buffered": 40, "buffer_s": 0.3,
}  # fmt: skip
BLOCKING: dict[str, Any] = {
    "like": "jdbc-sql", "latency_ms": 30, "batch_records": 30, "retry": {"delay_ms": 100},
}  # fmt: skip
PRODUCER: dict[str, Any] = {
    "like": "kafka", "latency_ms": 50, "latency_distribution": "exponential", "partitions": 2,
    "batch_bytes": 2000, "buffered_bytes": 20000, "in_flight": 5,
}  # fmt: skip
ERRORS = {"errors": {"record": 0.01, "request": 0.1}}


def case_of(requests: dict[str, Any], rate: Any = None, **more: Any) -> dict[str, Any]:
    """Return a job whose source has 150 records/s for a while; the sink ends before the job."""
    log = {"arrival_rate": rate or [{"at_s": 0, "rate": 150}, {"at_s": 1.5, "rate": 0}]}
    sink = {"name": "sink", "requests": requests, **cases.OUTPUT, **more}
    found: dict[str, Any] = cases.scenario(
        "requests",
        [cases.source(rate=400, **log), sink],
        [cases.edge("source", "sink")],
        task_managers=3,
        rounds=40,
    )
    return found


def rows_of(job: Any, root: Path) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the rows of the sink in the order of commits, and the last row of ``requests``.

    The run is as it has to be; the second has all subtasks together.
    """
    runs.assert_is_virtual(job, root)
    assert audit(root) is None
    files = [rows for _, rows in runs.batches_of(root / "output" / "sink")]
    counts = runs.live_results(job, root)["requests"].to_pandas()
    now = counts[counts.t_s == counts.t_s.max()].sum(numeric_only=True)
    rows = pa.concat_tables(files).to_pandas()
    assert len(rows) == rows.number.nunique() + now.records_doubled + now.records_replayed
    assert rows.acknowledged_s.count() == now.records_acknowledged
    late = rows[rows.acknowledged_s.notna()]
    assert (late.acknowledged_s >= late.stored_s).all()
    return rows, now


THROTTLED: dict[str, Any] = {
    "latency_ms": 100, "in_flight": 2, "batch_records": 3, "buffered": 40, "buffer_s": 0.5,
    "rate_limiting": "none", "limit": {"records_per_s": 10, "burst_s": 0.4},
}  # fmt: skip
RESTORED: dict[str, Any] = {
    **ASYNC, **ERRORS, "latency_ms": 250, "buffer_s": 2, "batch_records": 30,
    "rate_limiting": "none",
}  # fmt: skip
FAILURE: dict[str, Any] = {
    "failures": [{"at_s": 1.45, "stage": "sink", "subtask": 0}],
    "rounds": 60,
    "options": {f"{failing.CHECKPOINTS}min-pause": "2s"},
}


STORED = [
    *((2, number, 1) for number in (0, 1, 2, 3)),
    *((3, 6, 1), (4, 7, 2), (5, 8, 3), (6, 10, 3), (7, 11, 3), (8, 4, 7), (9, 5, 8), (10, 9, 8)),
]
"""By hand, round of the answer, number, attempts: rows 0 to 11 come in round 1.

There are four tokens then, and one more in each later round. Requests of that round and of each
later one, with what passes in brackets: [0 1 2], [3] 4 5; [6] 7 8, 4 5 9; [7] 8 10, 4 5 9;
[8] 10 11, 4 5 9; [10] 11, as the input is over, and 4 5 9; [11], 4 5 9; [4] 5 9; [5] 9; [9].
"""


def throttled() -> Any:
    """Return the job of that."""
    rate = [{"at_s": 0, "rate": 120}, {"at_s": 0.1, "rate": 0}]
    return runs.job_of({**case_of(THROTTLED, rate), "duration_s": 2})


def expected() -> pd.DataFrame:
    """Return the table that the sink of that job has to have."""
    rows = [
        ("source", 0, number, (answered + 1) * 0.1, (answered + 1) * 0.1, attempts)
        for answered, number, attempts in STORED
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def test_rows_are_in_the_order_in_which_they_are_stored(tmp_path: Path) -> None:
    driver.Driver(throttled(), tmp_path).run()
    rows, _ = rows_of(throttled(), tmp_path)
    pd.testing.assert_frame_equal(rows, expected())


@pytest.mark.spark
def test_what_spark_writes(run_live: Callable[..., RunResult], spark: Any, tmp_path: Path) -> None:
    """Throttled, by hand; and a sink that fails, as the stand-in for Spark has it."""
    restored = runs.job_of(failing.failing(case_of(RESTORED), **FAILURE))
    driver.Driver(restored, tmp_path / "stand-in").run()
    rows, _ = rows_of(restored, tmp_path / "stand-in")
    for name, job, wanted in (("a", throttled(), expected()), ("b", restored, rows)):
        result = run_live(job.scenario, tmp_path / name)
        runs.assert_is_virtual(job, result.path)
        found = spark.read.format("delta").load(str(result.path / "output" / "sink"))
        order = ["stored_s", "attempts", "number"]
        assert_df_equality(
            found.orderBy(order),
            spark.createDataFrame(wanted, found.schema).orderBy(order),
            ignore_metadata=True,
        )


@pytest.mark.parametrize(
    ("requests", "subtasks", "latency_ms"),
    [(ASYNC, 1, 100), (ASYNC, 2, 300), (BLOCKING, 1, 100), (PRODUCER, 1, 100)],
)
def test_rows_come_once_and_when_they_are_acknowledged(
    requests: dict[str, Any],
    subtasks: int,
    latency_ms: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a batch holds three rounds."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    case = case_of({**requests, **ERRORS}, parallelism=subtasks)
    case["cluster"]["network_latency_ms"] = latency_ms
    job = runs.job_of(case)
    driver.Driver(job, tmp_path).run()
    rows, now = rows_of(job, tmp_path)
    assert sorted(rows.number) == list(range(ROWS))
    assert (rows.attempts - 1).sum() == now.records_retried > 20
    files = [file.to_pandas() for _, file in runs.batches_of(tmp_path / "output" / "sink")]
    assert all(file.stored_s.is_monotonic_increasing for file in files)
    assert (rows.number.is_monotonic_increasing) == (requests is BLOCKING)  # all of it fails
    emitted = rows.number // 15 + 1
    latency = runs.live_results(job, tmp_path)["latency"].to_pandas()
    heard = latency[latency.kind == "acknowledged"]
    mean_ms = (heard["count"] * heard.mean_ms).sum() / ROWS
    assert (1000 * rows.acknowledged_s - 100 * emitted).mean() == pytest.approx(mean_ms)


def test_rows_of_a_request_that_timed_out_come_again(tmp_path: Path) -> None:
    job = runs.job_of(case_of({**ASYNC, "timeout_s": 0.3}))
    driver.Driver(job, tmp_path, driver.dying_in({6, 7, 13})).run()
    rows, now = rows_of(job, tmp_path)
    assert set(rows.number) == set(range(ROWS))
    assert rows.acknowledged_s.isna().sum() == now.records_doubled > 20
    assert rows[rows.acknowledged_s.notna()].number.nunique() == ROWS
    both = rows[rows.number.duplicated(keep=False)].sort_values(["number", "attempts"])
    assert both.groupby("number").acknowledged_s.agg(lambda own: own.isna().iloc[0]).all()


@st.composite
def failing_cases(draw: st.DrawFn) -> Any:
    """Return jobs whose sinks have rows in buffers and requests as they fail, once or twice."""
    requests = {**draw(st.sampled_from([ASYNC, ASYNC, ASYNC, BLOCKING, PRODUCER])), **ERRORS}
    if "buffered" in requests:
        requests["timeout_s"] = draw(st.sampled_from([0.3, 5]))
    case = case_of(requests, parallelism=draw(st.integers(1, 2)))
    victims = [{"stage": "sink", "subtask": 0}, {"task_manager": 0}, {"task_manager": 1}]
    times = draw(st.lists(st.sampled_from([0.45, 0.9, 1.25, 1.6, 2.1]), min_size=1, max_size=2))
    failures = [{"at_s": at_s, **draw(st.sampled_from(victims))} for at_s in sorted(set(times))]
    barriers = draw(st.sampled_from([{}, failing.UNALIGNED]))
    every = draw(st.sampled_from(["200ms", "400ms", "700ms"]))
    options = {**barriers, f"{failing.CHECKPOINTS}interval": every, **failing.DEATHS}
    return failing.failing(case, failures, 60, options)


SEEN = ("replayed", "stored unheard", "timed out", "kept")
"""What a restart must have met: the last one, rows of a buffer that a checkpoint has kept."""


def fail(case: dict[str, Any], root: Path, crashes: Any = None) -> set[str]:
    """Run a job that fails; every row comes, and as often as it has to. Return what it met."""
    job, kept = runs.job_of(case), list[int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "TRIM_EVERY", 1)
        real = KernelAttempts._put_requests

        def noted(attempts: KernelAttempts, task: int) -> None:
            row = v.task_row(attempts._memory.head, task)
            kept.append(kernel_requests(attempts._memory.head, row.requests).kept_count)
            real(attempts, task)

        patch.setattr(KernelAttempts, "_put_requests", noted)
        driver.Driver(job, root, crashes).run()
    rows, now = rows_of(job, root)
    assert set(rows.number) == set(range(ROWS))
    met = (
        now.records_replayed > 0,
        rows.acknowledged_s.isna().sum() > now.records_doubled,
        now.records_doubled > 0,
        any(kept),
    )
    return {name for name, is_met in zip(SEEN, met, strict=True) if is_met}


@pytest.mark.parametrize("dies", [False, True])
def test_rows_of_a_restored_buffer_come_again(dies: bool, tmp_path: Path) -> None:
    """Their files in the exchange log are long consumed; the driver dies around the restart."""
    crashes = driver.dying_in(set(range(14, 20)), every=3) if dies else None
    seen = fail(failing.failing(case_of(RESTORED), **FAILURE), tmp_path, crashes)
    assert seen == {"replayed", "stored unheard", "kept"}


@pytest.mark.long
def test_rows_of_tasks_that_fail_come_again(tmp_path: Path, draw_until: Any) -> None:
    seen, root = Counter[str](), tmp_path / "run"

    @settings(max_examples=EXAMPLES)
    @given(case=failing_cases())
    def look(case: dict[str, Any]) -> None:
        shutil.rmtree(root, ignore_errors=True)
        seen.update(fail(case, root))

    draw_until(look, lambda: seen.keys() >= set(SEEN), 30)
    print(dict(seen))
    assert seen.keys() == set(SEEN)


@pytest.mark.parametrize("requests", [PRODUCER, {**BLOCKING, "retry": {"attempts": 0}}])
def test_rows_of_transactions_are_there_once(requests: dict[str, Any], tmp_path: Path) -> None:
    """Each version of the table is a checkpoint; a sink fails, and the driver dies around it."""
    case = case_of({**requests, "errors": {"request": 0.1}}, guarantee="exactly-once")
    failures = [{"at_s": 1.35, "stage": "sink", "subtask": 0}]
    options = {f"{failing.CHECKPOINTS}interval": "200ms"}
    job = runs.job_of(failing.failing(case, failures, 60, options))
    driver.Driver(job, tmp_path, driver.dying_in(set(range(13, 19)), every=3)).run()
    runs.assert_is_virtual(job, tmp_path)
    oracle = deliveries.Oracle.of(job)
    found = list(deliveries.versions(tmp_path / "output" / "sink", "run/sink"))
    for checkpoint, rows in found:
        assert set(rows) == oracle.before(checkpoint)
        assert set(rows.values()) == {1}
    assert len(found) >= 3 and failing.restarts_of(job).restarts[0].checkpoint > 0
    assert deliveries.committed(job, tmp_path)[-1] == len(found[-1][1]) == ROWS
    last = DeltaTable(str(tmp_path / "output" / "sink")).to_pandas()
    assert list(last) == COLUMNS and last.acknowledged_s.notna().all()


def test_a_column_of_the_rows_may_not_have_the_name_of_one_of_the_table() -> None:
    job = runs.job_of(case_of(ASYNC))
    with pytest.raises(ScenarioError, match="Attempts") as error:
        row_schemas(job, {"source": pa.schema([("id", pa.int64()), ("Attempts", pa.int64())])})
    assert "stages.sink.output" in str(error.value)
