"""The table ``metrics``: every figure against the tables that it is from, and who has it when."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.metrics import metrics_table, rows_of_metrics
from flowcontrol.records import METRICS, RESULTS
from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual.clock import run_job
from modules import load

CONF = Path(__file__).resolve().parents[2] / "conf"

Known = dict[tuple[float, str, str], float]


def metrics(tables: Any, scenario: Any) -> Known:
    table = metrics_table(tables, scenario)
    assert table.schema.equals(METRICS.arrow_schema())
    found = {(row["t_s"], row["scope"], row["name"]): row["value"] for row in table.to_pylist()}
    assert len(found) == len(table)  # none is there twice
    return found


def chained() -> Any:
    """A source with a log and a map in one task, then a sink that is too slow."""
    return parse_scenario(
        {
            "schema": 1,
            "name": "three in two",
            "duration_s": 21,
            "round_ms": 20,
            "stages": [
                {"name": "topic", "arrival_rate": 300, "emit_rate": 900, "record_bytes": 2000},
                {"name": "map", "selectivity": 0.5},
                {"name": "sink", "parallelism": 2, "service_rate": 50, "placement": [0, 1]},
            ],
            "edges": [{"from": "topic", "to": "map", "chain": True}, {"from": "map", "to": "sink"}],
        }
        | {"name": "three-in-two"}
    )


def test_figures_are_those_of_the_tables() -> None:
    scenario = chained()
    tables = run_job(build_physical_graph(scenario, round_us=20_000)).tables
    known = metrics(tables, scenario)
    rows = {(r["t_s"], r["stage"], r["subtask"]): r for r in tables["stages"].to_pylist()}
    task = "host_0.taskmanager.tm_0.three_in_two.Source__topic____map.0"
    sinks = [f"host_{i}.taskmanager.tm_{i}.three_in_two.sink.{i}" for i in (0, 1)]
    assert sorted({key[0] for key in known}) == [5.0, 10.0, 15.0, 20.0, 21.0]
    assert {key[1] for key in known} == {task, *sinks}
    for t_s in (5.0, 10.0, 21.0):
        topic, of_map, sink = (rows[t_s, name, 0] for name in ("topic", "map", "sink"))
        expected = {
            (task, "numRecordsIn"): 0,
            (task, "numRecordsOut"): of_map["records_out"],
            (task, "Source__topic.numRecordsIn"): topic["records_out"],
            (task, "Source__topic.numRecordsOut"): topic["records_out"],
            (task, "Source__topic.pendingRecords"): topic["lag_records"],
            (task, "map.numRecordsIn"): of_map["records_in"],
            (task, "map.numRecordsOut"): of_map["records_out"],
            (task, "Shuffle.Netty.Output.Buffers.outPoolUsage"): of_map["out_pool_usage"],
            (task, "Shuffle.Netty.Output.Buffers.outputQueueLength"): of_map[
                "output_queue_buffers"
            ],
            (sinks[0], "numRecordsIn"): sink["records_in"],
            (sinks[0], "numRecordsOut"): 0,
            (sinks[0], "Shuffle.Netty.Input.Buffers.inPoolUsage"): sink["in_pool_usage"],
            (sinks[0], "Shuffle.Netty.Input.Buffers.inputQueueLength"): sink["input_queue_buffers"],
        }
        assert {key: known[t_s, *key] for key in expected} == expected
        channels = [row for row in tables["channels"].to_pylist() if row["t_s"] == t_s]
        assert known[t_s, task, "numBuffersOut"] == sum(row["sent"] for row in channels)
        local, remote = (channels[i]["consumed"] for i in (0, 1))
        names = [f"Shuffle.Netty.Input.numBuffersIn{where}" for where in ("Local", "Remote")]
        assert [known[t_s, sinks[0], name] for name in names] == [local, 0]
        assert [known[t_s, sinks[1], name] for name in names] == [0, remote]
    taken = rows[20.0, "sink", 0]["records_in"]
    assert known[20.0, sinks[0], "numRecordsInPerSecond"] == taken / 60
    blocked = sum(rows[float(t), "topic", 0]["backpressured_ms_per_s"] for t in range(1, 21))
    assert blocked > 5000
    assert known[20.0, task, "accumulateBackPressuredTimeMs"] == pytest.approx(blocked, abs=1)
    assert known[20.0, task, "backPressuredTimeMsPerSecond"] == int(blocked // 20)


def test_those_of_checkpoints_and_restarts() -> None:
    scenario = load_scenario(CONF / "recovery.yaml")
    job = build_physical_graph(scenario, round_us=20_000)
    tables = run_job(job).tables
    known, own = metrics(tables, scenario), f"host_jobmanager.jobmanager.{scenario.name}"
    times = sorted({key[0] for key in known})
    checkpoints, done = tables["checkpoints"].to_pylist(), 0
    for t_s in times:
        over = [c for c in checkpoints if c["ended_s"] is not None and c["ended_s"] <= t_s]
        completed = [one for one in over if one["status"] == "completed"]
        last = completed[-1] if completed else None
        expected = {
            "numberOfCompletedCheckpoints": len(completed),
            "numberOfFailedCheckpoints": len(over) - len(completed),
            "totalNumberOfCheckpoints": sum(c["triggered_s"] <= t_s for c in checkpoints),
            "lastCheckpointDuration": -1 if last is None else last["e2e_ms"],
            "lastCheckpointSize": -1 if last is None else last["state_bytes"],
            "numRestarts": sum(r["running_s"] <= t_s for r in tables["restarts"].to_pylist()),
        }
        assert {name: known[t_s, own, name] for name in expected} == expected
        done = max(done, len(completed))
    assert done > 2
    assert known[times[-1], own, "numRestarts"] > 0
    delays = [v for key, v in known.items() if key[2] == "checkpointStartDelayNanos"]
    rows = tables["checkpoint_tasks"].to_pylist()
    assert {0.0} < set(delays) <= {0.0, *(1e6 * (row["start_delay_ms"] or 0) for row in rows)}


def test_a_job_that_flink_would_not_build_has_plain_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from flowcontrol.metrics import scopes

    expected = scopes.tasks_of(chained())

    def refuse(given: Any) -> None:
        raise ValueError("a hybrid result in streaming")

    monkeypatch.setattr(scopes, "stream_graph", refuse)
    assert scopes.tasks_of(chained()) == expected


def test_a_run_without_a_sample_has_none() -> None:
    tables = {name: table.arrow_schema().empty_table() for name, table in RESULTS.items()}
    assert metrics(tables, chained()) == {}


@pytest.mark.parametrize("name", ["two-jobs", "word-count", "skew"])
def test_every_subtask_has_them(name: str) -> None:
    scenario = load_scenario(CONF / f"{name}.yaml", overrides=("duration_s=6",) * (name == "skew"))
    tables = run_job(build_physical_graph(scenario, round_us=50_000)).tables
    known = metrics(tables, scenario)
    chained = {edge.receiver for edge in scenario.edges if edge.chain}
    tasks = sum(s.parallelism for s in scenario.stages if s.name not in chained)
    assert len({key[1] for key in known if key[2] == "numRecordsIn"}) == tasks
    assert 0.8 < rows_of_metrics(tables, scenario) / len(known) < 2


def test_both_clocks_have_the_same() -> None:
    references: ModuleType = load("tests/virtual/references.py")
    scenario = load_scenario(CONF / "skew.yaml", overrides=("duration_s=11",))
    job = build_physical_graph(scenario)
    live = references.live_tables(job)
    found = metrics_table(run_job(job).tables, scenario)
    assert found.num_rows > 300
    assert found.equals(metrics_table(live, scenario))
