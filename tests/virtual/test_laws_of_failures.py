"""What is processed again after a failure, and how long that takes, against age and rates."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from flowcontrol.layout.fault_tolerance import restart_rates, surviving_sources
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from flowcontrol.topics.restarts import restart_summary
from flowcontrol.virtual import run_job

MESSAGE_S = 0.01
"""A message takes a round."""


def run(
    failure: dict[str, Any], sink: dict[str, Any] | None = None, **source: Any
) -> dict[str, Any]:
    """Return the failure of a job of 3 x 90 records/s that checkpoints every 6 s and dies at 8 s.

    A process is given up 2 s after its last heartbeat, which is each second.
    """
    job = build_physical_graph(
        parse_scenario(
            {
                "schema": 1, "name": "again", "duration_s": 40, "round_ms": 10,
                "cluster": {"task_managers": 2},
                "options": {
                    "execution.checkpointing.interval": "6 s",
                    "heartbeat.interval": "1 s", "heartbeat.timeout": "2 s",
                    "heartbeat.rpc-failure-threshold": -1,
                    "restart-strategy.type": "fixed-delay",
                    "restart-strategy.fixed-delay.delay": "1 s",
                },
                "failures": [{"at_s": 8, **failure}],
                "stages": [{"name": "source", "parallelism": 3, **source},
                           {"name": "sink", "parallelism": 3, "service_rate": 180, **(sink or {})}],
                "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
            }
        ),
        round_us=10_000,
    )  # fmt: skip
    table = run_job(job).tables["restarts"]
    summary = restart_summary(table, 40.0, restart_rates(job), (), surviving_sources(job))
    [found] = summary["failures"]
    assert (found["failed_s"], found["checkpoint_id"]) == (8.0, 1)
    return dict(found)


LOG = {"emit_rate": 500, "arrival_rate": 90}
NO_LOG = {"emit_rate": 90}


@pytest.mark.parametrize("source", [NO_LOG, LOG], ids=["no log", "log"])
def test_tasks_run_on_until_they_are_cancelled(source: dict[str, Any]) -> None:
    """The JobManager dies at 8 s and is replaced at 10 s: (10 - 6) s x 270/s, not (8 - 6) s."""
    found = run({"job_manager": True}, **source)
    assert found["detected_s"] == 10.0
    assert found["records_reprocessed"] == pytest.approx(1080, abs=270 * MESSAGE_S)


@pytest.mark.parametrize("placement", [[0, 0, 0], [1, 0, 0], [1, 1, 1]])
def test_a_source_emits_until_it_fails_or_is_cancelled(placement: list[int]) -> None:
    """Task manager 0 dies at 8 s; sources on the other one read on until that is known.

    The sinks are on task manager 0 alone where it has no source: nobody reads from it, and only its
    heartbeats are missing, at 10 s.
    """
    sinks = {"placement": [0, 0, 0] if 0 not in placement else [0, 1, 1]}
    found = run({"task_manager": 0}, sinks, **LOG, placement=placement)
    assert found["detected_s"] == (10.0 if 0 not in placement else 8.0 + MESSAGE_S)
    ages = [(8.0 if at == 0 else found["detected_s"]) - 6 for at in placement]
    assert found["records_reprocessed"] == pytest.approx(90 * sum(ages), abs=270 * MESSAGE_S)


@pytest.mark.parametrize("failure", [{"job_manager": True}, {"stage": "source", "subtask": 1}])
def test_catching_up_takes_what_the_rates_say(failure: dict[str, Any]) -> None:
    """With a log: what came since the barrier of 6 s, over what the job can do more than comes."""
    found = run(failure, **LOG)
    behind = Fraction(270) * Fraction(str(found["running_s"] - 6))
    expected = float(behind / (540 - 270))
    assert found["catch_up_s"] == pytest.approx(expected, rel=0.02)
    assert found["expected_catch_up_s"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("failure", [{"job_manager": True}, {"stage": "source", "subtask": 1}])
def test_without_a_log_a_source_emits_again_what_it_had_emitted(failure: dict[str, Any]) -> None:
    found = run(failure, **NO_LOG)
    again_s = found["records_reprocessed"] / 270
    assert found["catch_up_s"] == pytest.approx(again_s, abs=0.05)
    assert found["expected_catch_up_s"] == pytest.approx(again_s, abs=0.05)
