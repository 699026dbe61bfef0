"""Chains on the live clock: every ledger row and table, and the rows of each sink in a task.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol import audit
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.ledger import exchange
from flowcontrol.results.windows import window_stages
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job
from modules import ROOT, load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
failing = load("tests/live/failing.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

held = load("tests/live/window_runs.py")

CHAINED = {"chain": True}
SINKS = ("copy", "log", "archive", "sink")


def two_chains(cases: ModuleType, **more: Any) -> dict[str, Any]:
    """Return a job of three tasks: a source with two stages, four stages, and a sink by itself.

    A sink is chained straight to the head of each chain, one behind two operators, and one more
    stage leaves the second chain from its middle.
    """
    options = {key: more.pop(key) for key in list(more) if "." in key}
    case = cases.scenario(
        "chains",
        [
            cases.source(rate=300),
            {"name": "flat", "selectivity": 1.5, "record_bytes": 200},
            {"name": "copy", **cases.OUTPUT},
            {"name": "work", "service_rate": cases.SLOW, "record_bytes": 200},
            {"name": "log", **cases.OUTPUT},
            {"name": "thin", "selectivity": 0.4, "service_rate": 2000, "record_bytes": 200},
            {"name": "flags", "selectivity": 2.5, "record_bytes": 200},
            {"name": "archive", **cases.OUTPUT},
            cases.sink(rate=150),
        ],
        [
            cases.edge("source", "flat", "forward", **CHAINED),
            cases.edge("source", "copy", "forward", **CHAINED),
            cases.edge("flat", "work"),
            cases.edge("work", "log", "forward", **CHAINED),
            cases.edge("work", "thin", "forward", **CHAINED),
            cases.edge("thin", "flags", "forward", **CHAINED),
            cases.edge("flags", "archive", "forward", **CHAINED),
            cases.edge("thin", "sink"),
        ],
        rounds=16,
    )
    return {**case, **more, "options": {**case["options"], **options}}


def rows(root: Path, sink: str, runs: ModuleType) -> list[tuple[str, int, int]]:
    found: list[tuple[str, int, int]] = runs.rows_in_order(root / "output" / sink)
    return found


def put_out(taken: list[Any], ratio: tuple[int, int]) -> list[Any]:
    """Return what an operator puts out: after n records n x ratio, rounded down."""
    over, under = ratio
    return [
        row
        for n, row in enumerate(taken)
        for _ in range((n + 1) * over // under - n * over // under)
    ]


def assert_rows(job: Any, root: Path, runs: ModuleType) -> None:
    """Assert that each sink has what its task took up, as the stages before it made it."""
    tables = run_job(job).tables["stages"].to_pandas().query(f"t_s == {job.rounds / 10}")
    took = dict(zip(tables.stage, tables.records_in, strict=True))
    emitted = [("source", 0, number) for number in range(int(took["flat"]))]
    logged = put_out(emitted, (3, 2))[: int(took["work"])]
    thinned = put_out(logged, (2, 5))
    assert rows(root, "copy", runs) == emitted
    assert rows(root, "log", runs) == logged
    assert rows(root, "archive", runs) == put_out(thinned, (5, 2))
    assert rows(root, "sink", runs) == thinned[: int(took["sink"])]
    assert all(len(rows(root, sink, runs)) > 30 for sink in SINKS)


@pytest.mark.parametrize("latency_ms", [100, 300])
def test_chains_run_alike_on_both_clocks(
    latency_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a batch holds three rounds; the exchange logs are trimmed in every one."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    cluster = {"task_managers": 3, "network_latency_ms": latency_ms}
    case = two_chains(cases, cluster=cluster)
    job = runs.job_of(case)
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert {"waiting", "no credit", "blocked"} <= runs.saw(ledgers)
    assert audit(tmp_path) is None
    assert_rows(job, tmp_path, runs)


def test_a_driver_that_dies_goes_on_with_the_same_rows(tmp_path: Path) -> None:
    """Also between the commits of an exchange log and of the tables of two sinks in one task."""
    job = runs.job_of(two_chains(cases))
    crashes = driver.dying_in({6, 7})
    killed = driver.Driver(job, tmp_path, crashes)
    killed.run()
    runs.assert_is_virtual(job, tmp_path)
    assert_rows(job, tmp_path, runs)
    assert killed.starts == len(crashes.places) + 1
    places = {str(place[1]) for place in crashes.places if place[0] == "after"}
    assert all(any(f"output/{sink}" in place for place in places) for sink in SINKS)


@pytest.mark.parametrize("dies", [False, True])
def test_sinks_of_a_task_keep_what_they_guarantee(dies: bool, tmp_path: Path) -> None:
    """Two that write exactly once, one at the source; one at most once; and tasks that fail."""
    options = {
        "execution.checkpointing.interval": "300ms",
        "taskmanager.network.memory.buffers-per-channel": 2,
    }
    case = two_chains(cases, **options)
    guarantees = {"copy": "exactly-once", "log": "at-most-once", "archive": "exactly-once"}
    for stage in case["stages"]:
        if stage["name"] in guarantees:
            stage["guarantee"] = guarantees[stage["name"]]
        if stage["name"] == "source":
            stage["emit_rate"] = [{"at_s": 0, "rate": 300}, {"at_s": 1.6, "rate": 0}]
        if stage["name"] == "work":
            stage["service_rate"] = 900
        if stage["name"] == "sink":
            stage["service_rate"] = 500
    failed = [{"at_s": 1.05, "stage": "work", "subtask": 0}]
    job = runs.job_of(failing.failing(case, failed, 26, options))
    crashes = driver.dying_in({7, 13, 14}, every=2) if dies else None
    driver.Driver(job, tmp_path, crashes).run()
    runs.assert_is_virtual(job, tmp_path)
    assert audit(tmp_path) is None
    delivered = runs.live_results(job, tmp_path)["delivery"].to_pandas()
    last = delivered[delivered.t_s == delivered.t_s.max()].set_index("stage")
    for sink in SINKS:
        assert len(rows(tmp_path, sink, runs)) == last.committed[sink] > 50
    every = [("source", 0, number) for number in range(len(rows(tmp_path, "copy", runs)))]
    assert sorted(rows(tmp_path, "copy", runs)) == every
    thinned = put_out(put_out(every, (3, 2)), (2, 5))
    assert sorted(rows(tmp_path, "archive", runs)) == put_out(thinned, (5, 2))
    # The attempt before has emitted more: a source without a log ends before it is there again.
    further = put_out([("source", 0, number) for number in range(len(every) + 200)], (3, 2))
    assert set(thinned) <= set(rows(tmp_path, "sink", runs)) < set(put_out(further, (2, 5)))
    assert last.visible_twice["sink"] > 0
    logged = Counter(rows(tmp_path, "log", runs))
    assert logged < Counter(further)
    assert logged.total() > len(put_out(every, (3, 2)))


@pytest.mark.parametrize("dies", [False, True])
def test_results_of_windows_feed_a_chain(dies: bool, tmp_path: Path) -> None:
    """To a sink of all results, to one of each second result, and over an edge."""
    plain = cases.scenario(
        "results",
        [
            cases.source(rate=200, parallelism=2),
            {"name": "count", "parallelism": 2, "record_bytes": 200},
            {"name": "log", "parallelism": 2, **cases.OUTPUT},
            {"name": "thin", "selectivity": 0.5, "parallelism": 2, "record_bytes": 200},
            {"name": "archive", "parallelism": 2, **cases.OUTPUT},
            cases.sink(rate=90),
        ],
        [
            cases.edge("source", "count", "hash", key_weights={"a": 3, "b": 2, "c": 1}),
            cases.edge("count", "log", "forward", **CHAINED),
            cases.edge("count", "thin", "forward", **CHAINED),
            cases.edge("thin", "archive", "forward", **CHAINED),
            cases.edge("thin", "sink"),
        ],
    )
    given = timing.timed(plain, {"source": {"event_time": {}, "watermark": {"delay_s": 0}}})
    job = runs.job_of(timing.windowed(given, "count", {"kind": "tumbling", "size_s": 0.1}))
    crashes = driver.dying_in({7, 8}) if dies else None
    driver.Driver(job, tmp_path, crashes).run()
    held.assert_is_virtual(job, tmp_path, runs)
    assert window_stages(job) == ["count"]
    results = held.written(tmp_path, "count").drop(columns="emitted_s")
    assert held.written(tmp_path, "log").equals(results)
    every = Counter(results.itertuples(index=False, name=None))
    tables = [held.written(tmp_path, name) for name in ("archive", "sink")]
    archived, came = (Counter(one.itertuples(index=False, name=None)) for one in tables)
    assert came <= archived <= every
    assert every.total() // 2 - 1 <= archived.total() <= every.total() // 2
    assert came.total() > 5


def test_the_word_count_runs_alike_on_both_clocks(tmp_path: Path) -> None:
    """Operators that Flink's rules chain, four subtasks each; the sink has every row."""
    changes = {
        "duration_s": 3,
        "round_ms": 250,
        "operators.sink.output": {"format": "delta"},
        "operators.window.service_rate": 800,
    }
    job = build_physical_graph(load_scenario(ROOT / "conf" / "word-count.yaml", overrides=changes))
    assert [plan.name for plan in job.stages] == ["source", "window"]
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert runs.saw(ledgers) >= {"waiting", "no credit", "blocked"}
    [link] = job.links
    assert len(rows(tmp_path, "sink", runs)) == sum(runs.taken(ledgers, link.name).values()) > 1000
