"""Small scenarios that fail and restart, and what both clocks must agree on about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from flowcontrol.job import Job
from flowcontrol.job.alignment_control import alignment_control
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.checkpoint_tables import checkpoint_tables
from flowcontrol.job.delivery_control import DeliveryControl
from flowcontrol.job.delivery_table import delivery_table, has_delivery
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.job.reference import (
    Failures,
    checkpoint_control,
    failure_control,
    new_subtasks,
    run_rounds,
)
from flowcontrol.job.restart_table import restart_table
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.history import History
from flowcontrol.live.results import result_tables

CHECKPOINTS = "execution.checkpointing."
STRATEGY = "restart-strategy."
UNALIGNED = {f"{CHECKPOINTS}unaligned": True}
AT_LEAST_ONCE = {f"{CHECKPOINTS}mode": "AT_LEAST_ONCE"}
DEATHS = {"heartbeat.interval": "100ms", "heartbeat.timeout": "300ms"}


def failing(
    mapping: Mapping[str, Any],
    failures: list[dict[str, Any]],
    rounds: int,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Have a scenario checkpoint every 400 ms, fail, and restart 200 ms after each failure."""
    every = {
        f"{CHECKPOINTS}interval": "400ms",
        f"{STRATEGY}type": "fixed-delay",
        f"{STRATEGY}fixed-delay.attempts": 9,
        f"{STRATEGY}fixed-delay.delay": "200ms",
    }
    return {
        **mapping,
        "duration_s": rounds / 10,
        "options": {**mapping["options"], **every, **(options or {})},
        "failures": failures,
        **more,
    }


def sinks_at(mapping: Mapping[str, Any], rate: Any) -> dict[str, Any]:
    """Return a scenario whose last stage has a rate."""
    *others, last = mapping["stages"]
    return {**mapping, "stages": [*others, {**last, "service_rate": rate}]}


class Reference(NamedTuple):
    """What a reference run says of checkpoints and failures."""

    checkpoints: CheckpointControl | None
    failures: Failures
    delivery: DeliveryControl | None


def reference_of(job: Job) -> Reference:
    """Run a job in memory, to its end."""
    subtasks, checkpoints = new_subtasks(job), checkpoint_control(job)
    failures = failure_control(job, subtasks, checkpoints)
    assert failures is not None
    delivery = DeliveryControl(job) if has_delivery(job) else None
    for _ in run_rounds(
        job,
        subtasks,
        None,
        checkpoints=checkpoints,
        failures=failures,
        delivery=delivery,
        alignment=alignment_control(job),
    ):
        pass
    return Reference(checkpoints, failures, delivery)


def assert_tables_are_the_references(job: Job, root: Path) -> FailureControl:
    """Assert that a run's tables but for rates are those of the reference run; return restarts."""
    checkpoints, failures, delivery = reference_of(job)
    expected = {"restarts": restart_table(failures.control)}
    if delivery is not None:
        expected["delivery"] = delivery_table(delivery)
    if checkpoints is not None:
        expected |= checkpoint_tables(job, checkpoints.coordinator)
    found = result_tables(job, History.of_run(job, RunPaths(root)))
    for name, table in expected.items():
        assert found[name].to_pylist() == table.to_pylist(), name
    return failures.control


def rows_taken(
    runs: ModuleType, job: Job, ledgers: dict[str, list[dict[str, Any]]], sink: str
) -> list[tuple[str, int, int]]:
    """Rows that a sink behind sources has taken up, by the counts of its channels alone.

    A record of a channel is one of its source's rows, in all attempts the same.
    """
    found = []
    for link in (link for link in job.links if link.edge.receiver == sink):
        routed = {
            sender: runs.routes(job, link.name, sender, 4_000)
            for sender in range(job.stage(link.edge.sender).stage.parallelism)
        }
        numbers = {
            (sender, receiver): [n for n, target in enumerate(targets) if target == receiver]
            for sender, targets in routed.items()
            for receiver in range(job.stage(sink).stage.parallelism)
        }
        for row in (row for row in ledgers[link.name] if row["side"] == "receiver"):
            end = row["channel_state"]["channel"]["processed"]
            channel = row["sender"], row["receiver"]
            taken = numbers[channel][end - row["rows"] : end]
            found += [(link.edge.sender, row["sender"], number) for number in taken]
    return found


def every_case(cases: ModuleType) -> dict[str, dict[str, Any]]:
    """Return a scenario for each thing that a restart has to get right.

    ``everything`` has a log, state, data in flight, and three failures, of which each cuts the
    restart of the one before off: while it restores, and before it has caught up.
    """
    two = cases.scenario(
        "two-pipelines",
        [
            {"name": "log", "arrival_rate": 150, "emit_rate": 400, "record_bytes": 200},
            cases.sink(600, "archive"),
            cases.source("feed", [300, 200], parallelism=2, replayable=False),
            cases.sink(200, "table", parallelism=2),
        ],
        [cases.edge("log", "archive"), cases.edge("feed", "table")],
        task_managers=3,
    )
    log = sinks_at(cases.KILLED, 90)
    log["stages"][1] = {"name": "two", "arrival_rate": 60, "emit_rate": 200, "record_bytes": 200}
    log["stages"][2] = {**log["stages"][2], "state": {"bytes": 20_000, "sync_ms": 30}}
    return {
        "in flight": failing(
            sinks_at(cases.STAGES, 300), [{"at_s": 1.3, "stage": "sink", "subtask": 0}], 26,
            UNALIGNED,
        ),
        "from the beginning": failing(
            cases.COMPETE, [{"at_s": 0.5, "stage": "source", "subtask": 2}], 14,
            {f"{CHECKPOINTS}interval": "3s"},
        ),
        "at least once": failing(
            sinks_at(cases.FAN_IN, 900), [{"at_s": 1.2, "task_manager": 0}], 24, AT_LEAST_ONCE,
        ),
        "regions": failing(
            two,
            [
                {"at_s": 1.05, "stage": "feed", "subtask": 1},
                {"at_s": 1.35, "stage": "log", "subtask": 0},
                {"at_s": 1.9, "stage": "archive", "subtask": 0},
            ],
            30,
            UNALIGNED,
        ),
        "everything": failing(
            {**log, "cluster": {"task_managers": 4, "restore_bytes_per_s": 100_000}},
            [
                {"at_s": 1.25, "task_manager": 1},
                {"at_s": 1.7, "stage": "map", "subtask": 0},
                {"at_s": 2.55, "job_manager": True},
            ],
            38,
            {**UNALIGNED, **DEATHS},
        ),
        "finished": failing(
            cases.scenario(
                "finished",
                [
                    cases.source("short", [{"at_s": 0, "rate": 300}, {"at_s": 0.5, "rate": 0}]),
                    cases.source("long", 200),
                    cases.sink(900),
                ],
                [cases.edge("short", "sink"), cases.edge("long", "sink")],
            ),
            [
                {"at_s": 1.75, "stage": "long", "subtask": 0},
                {"at_s": 2.25, "stage": "short", "subtask": 0},
                {"at_s": 2.35, "stage": "sink", "subtask": 0},
            ],
            30,
        ),
        "queues": {
            **failing(
                sinks_at(cases.STAGES, 300), [{"at_s": 1.3, "stage": "map", "subtask": 0}], 24
            ),
            "system": {"transport": {"name": "blocking_queue", "slots": 60}},
        },
        "for good": failing(
            cases.LOCAL, [{"at_s": 0.85, "stage": "sink", "subtask": 0}], 14,
            {f"{STRATEGY}type": "none"},
        ),
        "too many checkpoints": failing(
            sinks_at(cases.SINGLE, 30), [], 22, {f"{CHECKPOINTS}timeout": "300ms"},
        ),
        "stop expires": {
            **failing(
                {**cases.SINGLE, "stages": [{**one, "state": {"bytes": 10_000}} for one in
                                            cases.SINGLE["stages"]]}, [], 22,
                {f"{CHECKPOINTS}interval": "1s", f"{CHECKPOINTS}timeout": "300ms"},
                savepoints=[{"at_s": 0.5, "stop": True}],
            ),
            "cluster": {**cases.SINGLE.get("cluster", {}), "upload_bytes_per_s": 1000},
        },
        "no checkpoints": {
            **failing(cases.HASH, [{"at_s": 0.6, "task_manager": 1}], 14, DEATHS),
            "options": {
                **cases.HASH["options"], **DEATHS, f"{STRATEGY}type": "fixed-delay",
                f"{STRATEGY}fixed-delay.delay": "200ms",
            },
        },
    }  # fmt: skip
