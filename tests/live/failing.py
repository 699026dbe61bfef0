"""Small scenarios that fail and restart, and which rows their sinks must have."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flowcontrol.control.failures import FailureControl
from flowcontrol.layout.job import Job
from modules import load

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


def restarts_of(job: Job) -> FailureControl:
    """Return what fails in a job, and how it restarts."""
    recovery = load("tests/live/runs.py").virtual_run(job).recovery
    assert recovery is not None
    found: FailureControl = recovery.control
    return found


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
    restart of the one before off: while it restores, and before it has caught up. In ``several at
    once`` the sink takes two checkpoints in a round, and begins anew from the second.
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
    stalled = sinks_at(cases.SINGLE, 5000)
    stalled["stages"][1] = {**stalled["stages"][1], "stalls": [{"at_s": 0.75, "for_s": 0.4}]}
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
        "several at once": failing(
            {**stalled, "stages": [cases.source(rate=200), *stalled["stages"][1:]]},
            [{"at_s": 1.45, "stage": "sink", "subtask": 0}], 26,
            {**AT_LEAST_ONCE, f"{CHECKPOINTS}interval": "100ms",
             f"{CHECKPOINTS}max-concurrent-checkpoints": 5},
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
