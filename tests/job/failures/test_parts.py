"""Failures of parts of a job: what goes on beside them goes on."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario


def task(victim: str | dict[str, Any]) -> dict[str, Any]:
    """Return what fails, by the name of a stage or as a scenario has it."""
    return {"stage": victim, "subtask": 0} if isinstance(victim, str) else victim


def job_of(
    sources: dict[str, Any], edges: list[tuple[str, str]], failures: Any, **rest: Any
) -> Job:
    sinks = sorted({sink for _, sink in edges})
    mapping = {
        "schema": 1,
        "name": "parts",
        "duration_s": 2.4,
        "round_ms": 100,
        "sample_interval_s": 1,
        "options": {
            "execution.checkpointing.interval": "400ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 9,
            "restart-strategy.fixed-delay.delay": "200ms",
        },
        "failures": [{"at_s": at_s, **task(victim)} for at_s, victim in failures],
        "stages": [
            *({"name": name, "emit_rate": rate} for name, rate in sources.items()),
            *({"name": name, "service_rate": 900} for name in sinks),
        ],
        "edges": [{"from": one, "to": other, "partitioner": "rebalance"} for one, other in edges],
        **rest,
    }
    return build_physical_graph(parse_scenario(mapping))


def test_a_part_fails_in_the_moment_in_which_another_begins_anew(failing: ModuleType) -> None:
    """What its source sent in the round before arrives."""
    sources, edges = {"one": 150, "two": 150}, [("one", "first"), ("two", "second")]
    run = failing.FailingRun(job_of(sources, edges, [(0.85, "one"), (1.2, "two")]))
    rounds = run.run()
    assert [one.failed for one in run.control.restarts] == [9, 12]
    assert run.control.restarts[0].running == 12
    _, receiver = rounds[12].channel("two->second")
    sender, _ = rounds[11].channel("two->second")
    assert receiver.state.consumed == sender.state.sent > 0


def test_records_of_a_source_that_had_finished_do_not_come_again(failing: ModuleType) -> None:
    short = [{"at_s": 0, "rate": 300}, {"at_s": 0.5, "rate": 0}]
    sources, edges = {"short": short, "long": 200}, [("short", "sink"), ("long", "sink")]
    run = failing.FailingRun(job_of(sources, edges, [(1.75, "long")]))
    last = run.run()[17]
    assert last.task("short", 0).state.is_finished == 1
    [restart] = run.control.restarts
    assert restart.checkpoint > 1
    assert 0 < restart.reprocessed <= 200 * 0.5


def stopping_job() -> Job:
    """A part fails while a savepoint is under way with which all of the job stops."""
    sources, edges = {"one": 150, "two": 150}, [("one", "first"), ("two", "second")]
    return job_of(sources, edges, [(0.95, "first")], savepoints=[{"at_s": 0.85, "stop": True}])


def test_a_part_that_fails_while_the_job_stops_fails_the_others(failing: ModuleType) -> None:
    """Their sources, which wait for the savepoint, would never emit anything again."""
    run = failing.FailingRun(stopping_job())
    rounds = run.run()
    [restart] = run.control.restarts
    assert restart.tasks == [0, 1, 2, 3]
    assert restart.checkpoint == 1
    before, last = (rounds[n].task("two", 0).state.taken for n in (restart.running, -1))
    assert last - before == 15 * (len(rounds) - 1 - restart.running)


def expiring_job() -> Job:
    """A stop with savepoint at 0.8 s, which takes 10 s to write, expires after 0.3 s."""
    options = {
        "execution.checkpointing.interval": "10s",
        "execution.checkpointing.timeout": "300ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "200ms",
    }
    stages = [
        {"name": "one", "emit_rate": 150, "state": {"bytes": 10_000}},
        {"name": "first", "service_rate": 900},
    ]
    rest = {"savepoints": [{"at_s": 0.8, "stop": True}], "cluster": {"upload_bytes_per_s": 1000}}
    return job_of({}, [("one", "first")], [], options=options, stages=stages, **rest)


def test_a_stop_with_savepoint_that_expires_is_no_checkpoint_too_many(failing: ModuleType) -> None:
    run = failing.FailingRun(expiring_job())
    run.run()
    (restart,) = run.control.restarts
    assert restart.causes == ["the stop with savepoint"]
    assert (restart.failed, restart.running) == (11, 13)


def overlapping_job() -> Job:
    """Two pipelines on a task manager that dies; one of them fails again while it is restored."""
    options = {
        "execution.checkpointing.interval": "400ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 9,
        "restart-strategy.fixed-delay.delay": "100ms",
        "heartbeat.interval": "100ms",
        "heartbeat.timeout": "300ms",
    }
    stages = [
        {"name": "one", "emit_rate": 150, "state": {"bytes": 500_000}},
        {"name": "two", "emit_rate": 150},
        {"name": "first", "service_rate": 900},
        {"name": "second", "service_rate": 900},
    ]
    cluster = {"restore_bytes_per_s": 1_000_000, "slots": 4, "task_managers": 1}
    edges = [("one", "first"), ("two", "second")]
    rest = {"options": options, "stages": stages, "cluster": cluster, "duration_s": 4}
    return job_of({}, edges, [(0.85, {"task_manager": 0}), (1.45, "one")], **rest)


def test_what_another_failure_does_not_touch_restarts_all_the_same(failing: ModuleType) -> None:
    """A restart of two regions goes on with the one that does not fail again."""
    run = failing.FailingRun(overlapping_job())
    rounds = run.run()
    first, second = run.control.restarts
    assert first.restarted < second.detected <= first.running
    assert (first.tasks, second.tasks) == ([1, 3], [0, 2])
    last = {name: rounds[-1].task(name, 0).state.taken for name in ("first", "second")}
    assert last["second"] > last["first"] > 150
