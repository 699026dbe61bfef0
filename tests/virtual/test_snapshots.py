"""Snapshots in the kernel: states of stages apart after every round, and the closed forms."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.results.tables import checkpoint_tables
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job, simulate
from modules import load

clocks = load("tests/virtual/clocks.py")

small = load("tests/job/checkpoints/small.py")
watched_runs: Any = load("tests/job/watched_runs.py")

EVERY = (1, 2, 10, 1000)


def with_states(made: Job, states: dict[str, dict[str, Any]], **cluster: Any) -> Job:
    """The same job, whose stages have states."""
    mapping = made.scenario.canonical()
    for stage in mapping["stages"]:
        if stage["name"] in states:
            stage["state"] = states[stage["name"]]
    mapping["cluster"] |= {"upload_bytes_per_s": 1_000_000, **cluster}
    return build_physical_graph(parse_scenario(mapping))


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "a blocked source": ({"source": 300, "sink": 100}, {"source": {"sync_ms": 250}}, {}),
    "an idle source": ({"source": 2, "sink": 100}, {"source": {"sync_ms": 350}}, {}),
    "a blocked server": ({"source": 300, "map": 200, "sink": 100},
     {"map": {"sync_ms": 730, "bytes": 200_000}}, {}),
    "a slow server": ({"source": 3, "sink": 2}, {"sink": {"sync_ms": 250}}, {}),
    "an idle server": ({"source": 5, "sink": 1000}, {"sink": {"sync_ms": 450}}, {}),
    "uploads that slow down": ({"source": 300, "map": 200, "sink": 100},
     {"map": {"bytes": 400_000}, "sink": {"bytes": 150_000}}, {"upload_slowdown": 0.3}),
    "uploads that stop all": ({"source": 300, "map": 200, "sink": 3}, {"sink": {"bytes": 150_000}},
     {"upload_slowdown": 1}),
}  # fmt: skip


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_does_what_stages_apart_do(name: str, stops: bool) -> None:
    """Whether it is stopped in every round, or as seldom as it likes."""
    rates, states, cluster = CASES[name]
    saved = [{"at_s": 2.3, "stop": True}] if stops else [{"at_s": 2.3}]
    made = with_states(small.chain(rates, savepoints=saved), states, **cluster)
    clocks.compare(made, every=EVERY)
    run = watched_runs.WatchedRun(made)
    run.run()
    found = run_job(made).tables
    for table, expected in checkpoint_tables(made, run.checkpoints.coordinator).items():
        assert found[table].to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("stage", ["source", "map", "sink"])
def test_tasks_that_work_in_no_time_stand_still_too(stage: str) -> None:
    """And sleep until their synchronous part is over, whatever arrives meanwhile."""
    stages = [
        {"name": "source", "emit_rate": 100, "arrival_rate": 90, "placement": [0]},
        {"name": "map", "placement": [1], "stalls": [{"at_s": 1.35, "for_s": 0.3}]},
        {"name": "sink", "placement": [2]},
    ]
    edges = [("source", "map", "rebalance"), ("map", "sink", "rebalance")]
    for sync_ms in (20, 100, 250, 990):
        made = with_states(small.job(stages, edges), {stage: {"sync_ms": sync_ms}})
        clocks.compare(made, every=EVERY)


@pytest.mark.parametrize("emit_rate", [3, 40, 1000])
def test_a_source_that_reads_a_log_stops_and_its_log_does_not(emit_rate: int) -> None:
    """What is being read when the job stops is not emitted, and waits with what comes later."""
    stages = [
        {"name": "source", "emit_rate": emit_rate, "arrival_rate": 37, "placement": [0]},
        {"name": "sink", "service_rate": 30, "placement": [1]},
    ]
    saved = [{"at_s": 1.45, "stop": True}]
    made = small.job(stages, [("source", "sink", "rebalance")], savepoints=saved)
    taken, lags, cuts = [], [], []

    def look(state: Any) -> None:
        source = state.task("source")
        cuts.extend(one.records for one in source.checkpoints.reports if one.kind == TAKEN)
        if source.state.open_inputs == 0:
            taken.append(source.state.taken)
        lags.append(source.log.end - source.log.position - source.log.reading)

    clocks.compare(made, every=EVERY, look=look)
    assert len(taken) > 25
    assert set(taken) == {cuts[-1]}
    assert lags[-1] == 37 * 5 - taken[0]
    [row] = [
        row for row in run_job(made).tables["checkpoints"].to_pylist() if row["kind"] == "savepoint"
    ]
    assert row["status"] == "completed"


# ---- closed forms, at short rounds


def chain(**state: Any) -> dict[str, Any]:
    """Source, map and sink on task managers of their own; the sink is the bottleneck."""
    return {
        "schema": 1,
        "name": "chain",
        "duration_s": 30,
        "round_ms": 1,
        "cluster": {"task_managers": 3, "upload_bytes_per_s": 1_000_000},
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "execution.checkpointing.interval": "10s",
        },
        "stages": [
            {"name": "source", "emit_rate": 2000, "record_bytes": 400, "placement": [0]},
            {"name": "map", "service_rate": 1500, "record_bytes": 400, "placement": [1]},
            {"name": "sink", "service_rate": 1000, "placement": [2], "state": state},
        ],
        "edges": [
            {"from": "source", "to": "map", "partitioner": "forward"},
            {"from": "map", "to": "sink", "partitioner": "forward"},
        ],
    }


def test_end_to_end_is_what_is_in_flight_over_the_drain_rate_and_the_snapshot() -> None:
    """End to end of a chain = sum of q / mu + sync + async, within a round a hop."""
    plain = simulate(parse_scenario(chain()))
    costly = simulate(parse_scenario(chain(bytes=300_000, sync_ms=200)))
    before, after = (run.tables["checkpoints"].to_pylist()[0]["e2e_ms"] for run in (plain, costly))
    assert after - before == pytest.approx(500, abs=2)
    at = [row for row in plain.tables["stages"].to_pylist() if row["t_s"] == 10.0]
    counts = {row["stage"]: row for row in at}
    in_flight = counts["source"]["records_out"] - counts["sink"]["records_in"]
    assert in_flight > 100
    # The sink drains one record a ms, whichever of the two queues it is in; a round a hop each way.
    assert before == pytest.approx(in_flight, abs=6)
    sink = costly.tables["checkpoint_tasks"].to_pylist()[2]
    assert (sink["stage"], sink["sync_ms"], sink["async_ms"]) == ("sink", 200, 300)
    assert after == pytest.approx(sink["start_delay_ms"] + 500, abs=3)


@pytest.mark.parametrize("sync_ms", [100, 400])
def test_throughput_under_backpressure_is_less_by_sync_over_period(sync_ms: int) -> None:
    """Lost capacity = sync / period: of each 10 s the sink works but for its snapshot."""
    scenario = chain(sync_ms=sync_ms)
    scenario["duration_s"] = 60
    found = simulate(parse_scenario(scenario))
    rows = [row for row in found.tables["stages"].to_pylist() if row["stage"] == "sink"]
    at = {row["t_s"]: row["records_in"] for row in rows}
    checkpoints = [
        row for row in found.tables["checkpoint_tasks"].to_pylist() if row["stage"] == "sink"
    ]
    assert len(checkpoints) >= 5
    # The bubble while the barrier blocks its subpartition is a few rounds.
    assert at[55.0] - at[15.0] == pytest.approx(40_000 - 4 * sync_ms, abs=60)
