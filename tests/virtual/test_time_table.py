"""The table ``time``: what stages apart have at each sample, and the other tables beside it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.event_time import WATERMARK, time_of
from flowcontrol.records import TIME
from flowcontrol.results.running import step
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.virtual import run_job
from modules import load
from staged_runs import run_staged

small: Any = load("tests/job/small_windows.py")


def job(*, is_chained: bool) -> Job:
    """Two stages, perhaps a chain, before a slow sink; one of two sources falls silent."""
    quiet = [{"at_s": 0, "rate": 50}, {"at_s": 2, "rate": 0}, {"at_s": 5, "rate": 50}]
    scenario = {
        "schema": 1,
        "name": "table",
        "duration_s": 6,
        "round_ms": 50,
        "sample_interval_s": 0.3,
        "cluster": {"task_managers": 2},
        "options": {"taskmanager.memory.segment-size": "4kb"},
        "stages": [
            {
                "name": "source",
                "parallelism": 2,
                "emit_rate": [50, quiet],
                "record_bytes": 700,
                "event_time": {"out_of_orderness_s": 0.2},
                "watermark": {"delay_s": 0.2, "idle_after_s": 0.5},
                "placement": [0, 1],
            },
            {"name": "map", "parallelism": 2, "placement": [0, 1]},
            {"name": "sink", "service_rate": 40},
        ],
        "edges": [
            {"from": "source", "to": "map", "partitioner": "forward", "chain": is_chained},
            {"from": "map", "to": "sink"},
        ],
    }
    return build_physical_graph(parse_scenario(scenario))


def shown(t_s: float, stage: str, task: Any) -> dict[str, Any]:
    """The row of a stage of a task."""
    mark = task.time.watermark
    is_one = mark not in (MIN_TIME, MAX_TIME)
    row = dict.fromkeys(TIME.names, 0)
    return row | {
        "t_s": t_s,
        "stage": stage,
        "subtask": task.subtask,
        "watermark_s": mark / 1000 if is_one else None,
        "watermark_lag_ms": pytest.approx(1000 * t_s - mark) if is_one else None,
        "is_idle": task.time.is_idle,
    }


@pytest.mark.parametrize("is_chained", [False, True])
def test_it_says_what_the_reference_run_holds(is_chained: bool) -> None:
    made = job(is_chained=is_chained)
    states = [batch.state for batch in run_staged(made)]
    table = run_job(made).tables["time"]
    assert table.schema == TIME.arrow_schema()
    expected = []
    for t_s, _, last in made.samples(made.rounds):
        for plan in made.stages:
            for member in plan.members:
                for task in states[last].tasks:
                    if task.stage == plan.name:
                        expected.append(shown(t_s, member.stage.name, task))
    found = table.to_pylist()
    assert found == expected
    assert {row["stage"] for row in found} == {"source", "map", "sink"}
    for column in ("is_idle", "watermark_s"):
        assert len({row[column] for row in found}) > 1
    assert any(row["watermark_s"] is None for row in found)


def test_all_tables_are_the_live_clocks(references: ModuleType) -> None:
    made = job(is_chained=False)
    found, expected = run_job(made).tables, references.live_tables(made)
    assert found.keys() == expected.keys()
    for name, table in expected.items():
        assert found[name].equals(table), name
    assert len(expected["latency"]) > 0


def test_ages_that_nobody_asked_for_are_not_logged() -> None:
    assert len(run_job(job(is_chained=True), track=False).tables["latency"]) == 0


DEBLOAT = "taskmanager.network.memory.buffer-debloat.enabled"


@pytest.mark.parametrize(
    ("cluster", "options"),
    [
        ({"network_latency_ms": 230}, {}),
        ({"bandwidth_bytes_per_s": 60_000}, {}),
        ({"network_latency_ms": 120}, {DEBLOAT: True}),
    ],
    ids=["latency", "bandwidth", "debloating"],
)
def test_watermarks_come_through_what_this_clock_alone_does(
    cluster: dict[str, Any], options: dict[str, Any]
) -> None:
    """All arrive in order, the last one behind the last record, and nothing is late."""
    given = job(is_chained=True).scenario.canonical()
    given["cluster"] |= cluster
    given.setdefault("options", {}).update(options)
    given["stages"][0]["emit_rate"] = [{"at_s": 0, "rate": 50}, {"at_s": 3, "rate": 0}]
    given["stages"][0]["watermark"] = {"delay_s": 0.2}
    given["stages"][2]["service_rate"] = 120
    previous, ends = MIN_TIME, []
    for state in step(build_physical_graph(parse_scenario(given))):
        sink = state.task("sink")
        assert sink.time is not None
        for elements in sink.time.in_flight:
            marks = [value for kind, value in elements if kind == WATERMARK]
            assert marks == sorted(set(marks))
            times = [time_of(value) for kind, value in elements if kind == 0]
            assert all(time > sink.time.watermark for time in times)
        assert sink.time.watermark >= previous
        previous = sink.time.watermark
        ends.append((sink.state.taken, previous == MAX_TIME, sink.state.is_finished == 1))
    assert ends[-1] == (300, True, True)


def test_sparks_watermark_is_at_all_stages_of_its_query() -> None:
    """It moves at the ends of batches; late records are groups, and a late one holds no state."""
    window = {"kind": "tumbling", "size_s": 0.5, "keys": 3, "bytes_per_key": 10}
    given = small.scenario(window, time_model="spark", batch_s=0.25, sample_interval_s=0.05,
                           source={"watermark": {"delay_s": 0.05}})  # fmt: skip
    made = build_physical_graph(given, round_us=given.live_round_us)
    table = run_job(made).tables["time"].to_pandas()
    by_stage = {stage: rows.reset_index(drop=True) for stage, rows in table.groupby("stage")}
    count = by_stage["count"]
    for stage in ("source", "sink"):
        assert by_stage[stage].watermark_s.equals(count.watermark_s)
    moved = count.t_s[count.watermark_s.diff() > 0]
    assert len(moved) > 4
    assert all(round(t_s * 1000) % 250 in {50, 0} for t_s in moved)
    states = {(s.end_us, t.stage): t for s in step(made) for t in s.tasks}
    late = 0
    for row in count.itertuples():
        task = states[round(row.t_s * 1e6), "count"].window
        assert (row.late_records, row.open_windows) == (task.store.late, task.open_windows)
        assert row.window_state_bytes == 10 * row.open_windows
        late += task.held.batch.late
    assert late > 0
