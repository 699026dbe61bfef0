"""Random jobs that fail: the kernel's state is that of stages apart after every round."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12

EVENTS = {"gone", "part is gone", "restored", "runs again"}
"""What must have happened in some of the runs."""


def test_a_record_that_was_being_read_is_read_again() -> None:
    """A record takes ten rounds to read; its source fails in the fifth of them."""
    stages = [{"name": "log", "arrival_rate": 1, "emit_rate": 1}, {"name": "sink"}]
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "reading",
            "duration_s": 3,
            "round_ms": 100,
            "sample_interval_s": 1,
            "options": {"restart-strategy.type": "fixed-delay"},
            "failures": [{"at_s": 1.5, "stage": "log", "subtask": 0}],
            "stages": stages,
            "edges": [{"from": "log", "to": "sink", "partitioner": "forward"}],
        }
    )
    clocks.compare(build_physical_graph(scenario, round_us=100_000))


@pytest.mark.parametrize(
    "name", ["a_part_fails", "a_source_has_finished", "a_job_stops", "it_expires"]
)
def test_parts_of_a_job(name: str) -> None:
    parts = load("tests/job/failures/test_parts.py")
    short = [{"at_s": 0, "rate": 300}, {"at_s": 0.5, "rate": 0}]
    job = {
        "a_part_fails": lambda: parts.job_of(
            {"one": 150, "two": 150},
            [("one", "first"), ("two", "second")],
            [(0.85, "one"), (1.2, "two")],
        ),
        "a_source_has_finished": lambda: parts.job_of(
            {"short": short, "long": 200}, [("short", "sink"), ("long", "sink")], [(1.75, "long")]
        ),
        "a_job_stops": parts.stopping_job,
        "it_expires": parts.expiring_job,
    }[name]()
    clocks.compare(job)
    if name == "it_expires":
        causes = run_job(job).tables["restarts"]["cause"].to_pylist()
        assert causes == ["the stop with savepoint"]


def test_what_a_task_has_sent_arrives_though_it_fails_as_another_region_restarts() -> None:
    """The second source fails in the round in which the tasks of the first one begin anew."""
    options = {
        "execution.checkpointing.interval": "14ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 9,
        "restart-strategy.fixed-delay.delay": "0s",
        "taskmanager.memory.segment-size": "4kb",
    }
    stages = [
        {"name": "source", "emit_rate": 300, "placement": [0, 0]},
        {"name": "sink", "service_rate": 900, "placement": [1, 1]},
    ]
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "two-regions",
            "cluster": {"task_managers": 2},
            "duration_s": 0.28,
            "round_ms": 7,
            "sample_interval_s": 1,
            "options": options,
            "failures": [
                {"at_s": 0.140, "stage": "source", "subtask": 1},
                {"at_s": 0.161, "stage": "source", "subtask": 0},
            ],
            "stages": [{**stage, "parallelism": 2, "record_bytes": 4096} for stage in stages],
            "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
        }
    )
    clocks.compare(build_physical_graph(scenario, round_us=7_000))


def restarts_of(failed_s: float, **keys: Any) -> tuple[dict[str, Any], Any]:
    """A log of 300/s of which the job can do 500/s: its one restart, and its checkpoints."""
    options = {
        "execution.checkpointing.interval": "5s",
        "execution.buffer-timeout.interval": "100ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "2s",
    }
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "restarting",
            "duration_s": 30,
            "round_ms": 10,
            "sample_interval_s": 1,
            "options": options,
            "failures": [{"at_s": failed_s, "stage": "map", "subtask": 0}],
            "stages": [
                {"name": "source", "arrival_rate": 300, "emit_rate": 900, "record_bytes": 200},
                {"name": "map", "service_rate": 500, "state": {"bytes": 3_000_000}},
                {"name": "sink"},
            ],
            "edges": [
                {"from": "source", "to": "map", "partitioner": "rebalance"},
                {"from": "map", "to": "sink", "partitioner": "rebalance"},
            ],
            **keys,
        }
    )
    tables = run_job(build_physical_graph(scenario, round_us=10_000)).tables
    [restart] = tables["restarts"].to_pylist()
    return restart, tables["checkpoints"].to_pandas()


@pytest.mark.parametrize(("bytes_per_s", "after_s"), [(1_000_000, 5), (500_000, 10)])
def test_the_interval_counts_from_the_begin_of_the_restore(
    bytes_per_s: int, after_s: float
) -> None:
    """The job is RUNNING before its tasks are; what falls due while they restore is left out."""
    restart, found = restarts_of(12, cluster={"restore_bytes_per_s": bytes_per_s})
    assert restart["running_s"] - restart["restarted_s"] == pytest.approx(3e6 / bytes_per_s, 0.05)
    first_s = found["triggered_s"][found["triggered_s"] > 12].iloc[0]
    assert first_s == pytest.approx(restart["restarted_s"] + after_s, abs=0.02)
