"""Random jobs that fail: the kernel's state is that of stages apart after every round."""

from __future__ import annotations

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
