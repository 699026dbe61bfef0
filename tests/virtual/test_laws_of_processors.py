"""Laws of processors that tasks share: who gets what, and whom they do not limit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.task_memory import used_of
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate
from staged_runs import staged

pytestmark = pytest.mark.usefixtures("whole_kernel")

ROUND_MS, SECONDS = 1, 6
A_ROUND = ROUND_MS / 1000
"""A thread is ahead of its processor by a round at the most."""


def scenario(cores: float | None = None, cpu: float | None = None, **changes: Any) -> Scenario:
    """A source on task manager 0, workers on 1 that do 100 records/s each, if not told otherwise.

    A record fills a buffer, so that nothing waits for another. Changes are of the workers, but for
    ``cluster``, ``source`` and ``more``, stages behind them.
    """
    work = {"name": "work", "parallelism": 4, "service_rate": 100, **changes}
    cluster = {"task_managers": 3, **work.pop("cluster", {})}
    source = {"name": "source", "emit_rate": 5000, "placement": [0], **work.pop("source", {})}
    more = work.pop("more", [])
    work.setdefault("placement", [1] * work["parallelism"])
    if cores is not None:
        cluster["cores"] = cores
    if cpu is not None:
        work["cpu"] = cpu
    names = ["source", "work", *(stage["name"] for stage in more)]
    edges = [{"from": a, "to": b} for a, b in pairwise(names)]
    return parse_scenario(
        {
            "schema": 1, "name": "law", "duration_s": SECONDS, "round_ms": ROUND_MS,
            "cluster": cluster, "options": {"taskmanager.memory.segment-size": "4kb"},
            "stages": [{"record_bytes": 4096, **source}, work, *more], "edges": edges,
        }
    )  # fmt: skip


def tables(given: Scenario) -> dict[str, pa.Table]:
    return simulate(given, track=False).tables


def taken(found: dict[str, pa.Table], stage: str = "work") -> list[int]:
    """Records that each subtask has taken up in the end."""
    frame: pd.DataFrame = found["stages"].to_pandas()
    return list(frame[(frame.stage == stage) & (frame.t_s == SECONDS)].records_in)


def last(found: dict[str, pa.Table], manager: int) -> dict[str, Any]:
    rows = found["processes"].to_pylist()
    [row] = [one for one in rows if one["t_s"] == SECONDS and one["task_manager"] == manager]
    return row


@pytest.mark.parametrize(("tasks", "cores"), [(4, 2), (3, 2), (8, 1), (5, 1.5), (7, 0.3)])
def test_saturated_tasks_share_processors_equally(tasks: int, cores: float) -> None:
    found = tables(scenario(cores, parallelism=tasks))
    counts = taken(found)
    # the first records come after two rounds; the last is still in service
    expected = min(1, cores / tasks) * 100 * SECONDS
    assert all(abs(one - expected) <= 2 for one in counts)
    assert max(counts) - min(counts) <= 1
    assert last(found, 1)["load"] == pytest.approx(cores, rel=1e-9)
    assert last(found, 1)["cpu_share"] == pytest.approx(1, rel=1e-9)
    assert last(found, 0)["load"] == 0
    frame = found["stages"].to_pandas()
    assert set(frame[(frame.stage == "work") & (frame.t_s > 1)].busy_ms_per_s) == {1000}


@pytest.mark.parametrize(("cpu", "rate"), [(0.5, 100), (0.25, 400), (1 / 3, 90)])
def test_throughput_is_cores_over_the_processor_time_of_a_record(cpu: float, rate: int) -> None:
    found = tables(scenario(0.5, cpu, parallelism=6, service_rate=rate))
    expected = 0.5 / (cpu / rate) * SECONDS
    assert expected < 6 * rate * SECONDS
    # until each is behind by what it will be, they do a little more: at most a round each
    assert sum(taken(found)) == pytest.approx(expected, abs=6 * (2 + 3 * rate * A_ROUND / cpu))


@pytest.mark.parametrize(
    "change",
    [
        {"cores": 4},
        {"cores": 9.5},
        {"cores": 1, "cpu": 0.1, "parallelism": 8},
        {"cores": 0.81, "cpu": 0.1, "parallelism": 8},
        {"cores": 1e-3, "cpu": 0},
        {"cpu": 0.7},
        {"cores": 2, "source": {"cpu": 1, "emit_rate": 5000}, "parallelism": 2},
    ],
    ids=str,
)
def test_processors_beyond_what_is_asked_change_nothing(change: dict[str, Any]) -> None:
    limited = tables(scenario(**change))
    without = {k: v for k, v in change.items() if k not in {"cores", "cpu"}}
    without["source"] = {k: v for k, v in change.get("source", {}).items() if k != "cpu"}
    free = tables(scenario(**without))
    assert "processes" not in free
    for name, table in free.items():
        if name == "stages" and "source" in change:  # it is busy while it computes
            times = ["busy_ms_per_s", "idle_ms_per_s"]
            table, limited[name] = (one.drop_columns(times) for one in (table, limited[name]))
        assert table.equals(limited[name]), name


def test_another_task_manager_doubles_it() -> None:
    together = sum(taken(tables(scenario(1))))
    apart = sum(taken(tables(scenario(1, placement=[1, 1, 2, 2]))))
    assert apart == pytest.approx(2 * together, rel=0.02)


def test_a_stage_that_asks_for_little_gets_all_of_it() -> None:
    """Max-min: 0.2 of a processor are less than an even third, so the greedy share what is left."""
    light = {"name": "light", "service_rate": 500, "placement": [1]}
    found = tables(
        scenario(1, parallelism=2, selectivity=1, more=[light], source={"emit_rate": 5000})
    )
    through = sum(taken(found))
    # of a second: x records/s x (1/100 + 1/500) s = 1
    assert through == pytest.approx(SECONDS / (1 / 100 + 1 / 500), rel=0.02)
    assert sum(taken(found, "light")) >= through - 4


def test_a_chain_is_one_thread_and_its_parts_add_up() -> None:
    """Two stages of 5 ms, one of which computes: half of the chain's time needs a processor."""
    last_one = {"name": "last", "parallelism": 4, "service_rate": 200, "cpu": 0}
    given = scenario(1, service_rate=200, more=[last_one]).canonical()
    given["edges"][1] |= {"chain": True, "partitioner": "forward"}
    given["stages"][2].pop("placement")
    found = tables(parse_scenario(given))
    assert sum(taken(found)) == pytest.approx(1 / 0.005 * SECONDS, rel=0.02)


def test_a_source_computes_if_that_is_stated() -> None:
    """Two sources that take a processor all the time share one: half their rates, none made up."""
    source = {"parallelism": 2, "placement": [0, 0], "emit_rate": 1000, "cpu": 1}
    found = tables(scenario(1, service_rate=1000, cpu=0, source=source))
    frame = found["stages"].to_pandas()
    own = frame[(frame.stage == "source") & (frame.t_s == SECONDS)]
    assert own.records_out.tolist() == pytest.approx([500 * SECONDS] * 2, rel=0.01)
    assert last(found, 0)["load"] == pytest.approx(1, rel=1e-9)
    assert own.busy_ms_per_s.tolist() == pytest.approx([500, 500], rel=0.02)  # it waits


def test_a_stall_uses_no_processor() -> None:
    stall = {"at_s": 2, "for_s": 2, "subtasks": [0, 1, 2, 3]}
    found = tables(scenario(2, stalls=[stall]))
    rows = [one for one in found["processes"].to_pylist() if one["task_manager"] == 1]
    assert [one["gc_ms_per_s"] for one in rows] == [0, 0, 1000, 1000, 0, 0]
    loads = [one["load"] for one in rows]
    assert loads == pytest.approx([2, 2, 0, 0, 2, 2], rel=0.01)
    others = [one for one in found["processes"].to_pylist() if one["task_manager"] == 2]
    assert {one["gc_ms_per_s"] for one in others} == {0}


def test_of_a_stall_alone_nobody_counts_processors() -> None:
    """Half a second of one subtask, in the middle of a sample's interval."""
    found = tables(scenario(stalls=[{"at_s": 1.25, "for_s": 0.5, "subtasks": [2]}]))
    rows = [one for one in found["processes"].to_pylist() if one["task_manager"] == 1]
    assert [one["gc_ms_per_s"] for one in rows] == [0, 500, 0, 0, 0, 0]
    assert {(one["load"], one["cpu_share"]) for one in found["processes"].to_pylist()} == {
        (None, None)
    }


def test_without_cores_the_load_is_counted_and_limits_nothing() -> None:
    found = tables(scenario(cpu=0.25))
    assert last(found, 1)["load"] == pytest.approx(1, rel=0.01)
    assert last(found, 1)["cpu_share"] is None


def test_samples_shorter_than_a_round_are_one_a_round() -> None:
    given = scenario(2).model_copy(update={"sample_interval_s": A_ROUND / 4, "duration_s": 0.05})
    rows = simulate(given, track=False).tables["processes"].to_pylist()
    loads = [one["load"] for one in rows if one["task_manager"] == 1]
    assert len(loads) == 50
    assert loads[0] == 0 < loads[1]
    assert loads[-2:] == [2, 2]


def laid_out(given: Scenario) -> Job:
    return build_physical_graph(given, round_us=1000 * ROUND_MS)


def test_what_is_used_is_that_of_a_run_stage_by_stage() -> None:
    """Parts of a round of each task manager, at each sample, to the last of them."""
    given = scenario(1.5, 0.7, placement=[1, 2, 1, 1])
    given = given.model_copy(update={"duration_s": 0.6, "sample_interval_s": 0.1})
    job, found = laid_out(given), tables(given)
    own, used = staged(job), list[list[int]]()
    for number in range(job.rounds):
        own.run()
        if (number + 1) % 100 == 0:
            used.append(used_of(own.memory))
    rows = found["processes"].to_pylist()
    loads = [[one["load"] for one in rows[n : n + 3]] for n in range(0, len(rows), 3)]
    before = [[0, 0, 0], *used]
    assert loads == [
        [(b - a) / (100 * 10**12) for a, b in zip(old, new, strict=True)]
        for old, new in zip(before, used, strict=False)
    ]


DEBLOATING = "taskmanager.network.memory.buffer-debloat.enabled"


@pytest.mark.parametrize(
    "change",
    [
        {"system": "flink-1.4"},
        {"system": "storm"},
        {"cluster": {"bandwidth_bytes_per_s": 1e8}},
        {"options": {DEBLOATING: True}},
        {"edges": [{"from": "source", "to": "work", "partition_type": "pipelined"}]},
    ],
    ids=str,
)
def test_whatever_carries_the_records_they_share_equally(change: dict[str, Any]) -> None:
    given = scenario(1).canonical()
    for key, value in change.items():
        is_part = isinstance(value, dict) and isinstance(given.get(key), dict)
        given[key] = {**given[key], **value} if is_part else value
    found = tables(parse_scenario(given))
    counts = taken(found)
    assert sum(counts) == pytest.approx(100 * SECONDS, rel=0.02)
    assert max(counts) - min(counts) <= 1
    assert last(found, 1)["load"] == pytest.approx(1, rel=1e-9)


def test_jobs_share_them_too_while_both_run() -> None:
    """The second one runs from 2 to 4 s: then each has half of the processor."""
    one = scenario(1, parallelism=1).canonical()
    parts = {key: one.pop(key) for key in ("stages", "edges")}
    other = {
        "stages": [{**own, "name": f"other-{own['name']}"} for own in parts["stages"]],
        "edges": [{"from": "other-source", "to": "other-work"}],
    }
    jobs = [
        {"name": "first", **parts},
        {"name": "second", "start_at_s": 2, "stop_at_s": 4, **other},
    ]
    found = tables(parse_scenario({**one, "jobs": jobs}))
    frame = found["stages"].to_pandas().pivot(index="t_s", columns="stage", values="records_in")
    work, second = frame["work"].diff(), frame["other-work"].diff()
    assert work[[2, 3, 4, 5, 6]].tolist() == pytest.approx([100, 50, 50, 100, 100], abs=3)
    assert second[[3, 4]].tolist() == pytest.approx([50, 50], abs=3)
