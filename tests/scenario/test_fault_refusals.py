"""Checkpoints, restarts and failures that are refused, in Flink's words where Flink refuses."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.scenario.problems import key_path
from modules import load

REFUSALS = load("tests/scenario/test_refusals.py")
row, CUSTOM, NAN = REFUSALS.row, REFUSALS.CUSTOM, REFUSALS.NAN

CHECKPOINT = "options/execution.checkpointing."
RESTART = "options/restart-strategy."
BACKOFF = "options/restart-strategy.exponential-delay."


def option(change: tuple[str, Any] | list[tuple[str, Any]], *texts: str) -> Any:
    """A row whose place is the option that is changed last."""
    last = change if isinstance(change, tuple) else change[-1]
    return row(change, key_path(["options", last[0].removeprefix("options/")]), *texts)


CHECKPOINTS = [
    option((f"{CHECKPOINT}interval", "9ms"), "'9ms'", "at least 10 ms",
           "Checkpoint interval must be larger than or equal to 10 ms"),
    option((f"{CHECKPOINT}interval", 0), "0 is out of range", "at least 10 ms"),
    option((f"{CHECKPOINT}interval", -1), "-1 is out of range", "at least 10 ms"),
    option((f"{CHECKPOINT}interval", "1 fortnight"), "unknown unit 'fortnight'"),
    option((f"{CHECKPOINT}interval", "-10s"), "'-10s' is not a duration", "100ms, 1 s or 5 min"),
    option((f"{CHECKPOINT}timeout", 9), "9 is out of range", "at least 10 ms",
           "Checkpoint timeout must be larger than or equal to 10 ms"),
    option((f"{CHECKPOINT}timeout", "10500micros"), "'10500micros'", "whole milliseconds"),
    option((f"{CHECKPOINT}mode", True), "true is not one of exactly_once, at_least_once"),
    option((f"{CHECKPOINT}min-pause", "-1"), "'-1' is out of range", "at least 0 ms"),
    option((f"{CHECKPOINT}max-concurrent-checkpoints", 0), "0 is out of range",
           "The maximum number of concurrent attempts must be at least one."),
    option((f"{CHECKPOINT}tolerable-failed-checkpoints", -1), "-1 is out of range", "at least 0"),
    option((f"{CHECKPOINT}unaligned.enabled", "on"), "'on' is not a truth value"),
    option((f"{CHECKPOINT}unaligned", 1), "1 is not a truth value"),
    option((f"{CHECKPOINT}aligned-checkpoint-timeout", "x"), "'x' is not a duration"),
    option((f"{CHECKPOINT}checkpoints-after-tasks-finish", 0), "0 is not a truth value"),
    option([(f"{CHECKPOINT}unaligned.enabled", True), (f"{CHECKPOINT}unaligned", True)],
           "is the old name of", "keep one of them"),
    option([(f"{CHECKPOINT}unaligned", True), (f"{CHECKPOINT}max-concurrent-checkpoints", 2)],
           "2: maxConcurrentCheckpoints can't be > 1 if UnalignedCheckpoints enabled", "use 1"),
    row([CUSTOM, ("edges/0/channel_weights", [1, 1, 1]), (f"{CHECKPOINT}interval", "1s"),
         (f"{CHECKPOINT}unaligned", True)],
        'options."execution.checkpointing.unaligned.enabled"', "source->sink",
        "currently not supported for custom partitioners", "unaligned.forced"),
    row([("system", "flink-1.4"), (f"{CHECKPOINT}interval", "1s"),
         (f"{CHECKPOINT}unaligned", True)],
        'options."execution.checkpointing.unaligned.enabled"',
        "true: Flink has unaligned checkpoints since 1.11", "use false, or the system flink"),
    option(("options/task.checkpoint.alignment.max-size", 0), "must be positive or -1 (infinite)"),
    option(("options/task.checkpoint.alignment.max-size", -2), "-2 is out of range",
           "must be positive or -1 (infinite)"),
    option((f"{CHECKPOINT}intervall", 1), "not a known option of Flink", "checkpointing.interval'"),
    option((f"{RESTART}type", "sometimes"), "'sometimes'", "none, fixed-delay, failure-rate"),
    option(("options/restart-strategy", True), "true is not one of"),
    option([("options/restart-strategy.type", "none"), ("options/restart-strategy", "none")],
           "is the old name of", "keep one of them"),
    option((f"{RESTART}fixed-delay.attempts", -1), "-1 is out of range", "at least 0"),
    option((f"{RESTART}fixed-delay.delay", "soon"), "'soon' is not a duration"),
    option((f"{RESTART}failure-rate.max-failures-per-interval", 0), "0", "at least 1"),
    option((f"{RESTART}failure-rate.failure-rate-interval", 0), "0", "at least 1 ms"),
    option((f"{RESTART}failure-rate.delay", -5), "-5"),
    option((f"{BACKOFF}initial-backoff", 0), "0", "at least 1 ms"),
    option((f"{BACKOFF}initial-backoff", "2min"), "120000 ms",
           "Initial backoff cannot be higher than maximum backoff, 60000 ms", "raise"),
    option((f"{BACKOFF}max-backoff", 0), "0", "at least 1 ms"),
    option((f"{BACKOFF}backoff-multiplier", 1), "1 is out of range", "more than 1",
           "Backoff multiplier must be greater than 1."),
    option((f"{BACKOFF}backoff-multiplier", NAN), "nan is out of range"),
    option((f"{BACKOFF}backoff-multiplier", "fast"), "'fast' is out of range", "a number"),
    option((f"{BACKOFF}jitter-factor", 1.1), "1.1", "Jitter factor must be >= 0 and <= 1."),
    option((f"{BACKOFF}jitter-factor", -0.1), "-0.1", "at least 0 and at most 1"),
    option((f"{BACKOFF}reset-backoff-threshold", 0), "0", "at least 1 ms"),
    option((f"{BACKOFF}attempts-before-reset-backoff", 0), "0", "at least 1"),
    option(("options/heartbeat.interval", 0), "The heartbeat interval must be larger than 0."),
    option(("options/heartbeat.timeout", "9s"), "9000 ms: The heartbeat timeout should be larger",
           "10000 ms", "heartbeat.interval"),
    option(("options/heartbeat.rpc-failure-threshold", 0), "0: The number of failed heartbeat RPC"),
    option(("options/heartbeat.rpc-failure-threshold", -2), "-2 is out of range", "at least -1"),
]  # fmt: skip

STATE = "stages/1/state"
FAULTS = [
    *(row((STATE, {key: value}), f"stages[1].state.{key}", *texts)
      for key, value, *texts in [
          ("bytes", -1, "-1", "at least 0"),
          ("bytes", "200xb", "unknown unit 'xb'"),
          ("bytes", 1.5, "1.5", "whole bytes"),
          ("bytes", 2**53 + 1, "at most 9007199254740992"),
          ("bytes_per_key", -1, "-1", "at least 0"),
          ("bytes_per_key", 8, "8: no edge brings keys to 'sink'", "key_weights"),
          ("bytes_per_record", NAN, "nan is not a finite number"),
          ("incremental_share", 1.5, "1.5 is out of range", "at most 1"),
          ("incremental_share", -0.1, "-0.1", "at least 0"),
          ("sync_ms", -1, "-1", "at least 0"),
          ("sync_ms", "5ms", "'5ms' is not a number", "write a number alone, in this unit"),
          ("byte", 1, "unknown key 'byte'", "did you mean 'bytes'"),
      ]),
    row((STATE, 200), "stages[1].state", "200 is not a mapping"),
    row(("stages/1/guarantee", "twice"), "stages[1].guarantee", "'twice'", "exactly-once"),
    row(("stages/1/guarantee", True), "stages[1].guarantee", "true is not one of at-most-once"),
    *(row(("stages/0/guarantee", one), "stages[0].guarantee", f"'{one}'", "only a sink")
      for one in ("exactly-once", "at-least-once")),
    row(("stages/0/replayable", "no"), "stages[0].replayable", "'no' is not true or false"),
    row(("stages/1/replayable", False), "stages[1].replayable", "false: edges lead to 'sink'"),
    *(row((f"cluster/{key}", 0), f"cluster.{key}", "0 is out of range", "more than 0")
      for key in ("upload_bytes_per_s", "restore_bytes_per_s")),
    *(row((f"cluster/{key}", "100mb"), f"cluster.{key}", "'100mb' is not a number",
          "write a number alone, in this unit")
      for key in ("upload_bytes_per_s", "restore_bytes_per_s")),
    row(("cluster/upload_slowdown", "50%"), "cluster.upload_slowdown", "'50%' is not a number",
        "at least 0 and at most 1"),
    row(("cluster/upload_slowdown", 1.5), "cluster.upload_slowdown", "1.5", "at most 1"),
    row(("cluster/upload_slowdown", -0.5), "cluster.upload_slowdown", "-0.5", "at least 0"),
    row(("savepoints", 3), "savepoints", "3 is not a list"),
    *(row((key, None), key, "null is not a list") for key in ("savepoints", "failures")),
    row(("savepoints", [3]), "savepoints[0]", "3 is not a mapping"),
    row(("savepoints", [{}]), "savepoints[0].at_s", "is missing"),
    row(("savepoints", [{"at_s": -1}]), "savepoints[0].at_s", "-1", "at least 0"),
    row(("savepoints", [{"at_s": 1e-7}]), "savepoints[0].at_s", "1e-07", "whole microseconds"),
    row(("savepoints", [{"at_s": 1, "stop": 1}]), "savepoints[0].stop", "1 is not true or false"),
    row(("savepoints", [{"at_s": 1, "drain": True}]), "savepoints[0].drain", "unknown key 'drain'"),
    row(("savepoints", [{"at_s": 10}]), "savepoints[0].at_s", "10 is not before the end", "10"),
    row(("savepoints", [{"at_s": 2}, {"at_s": 1}]), "savepoints[1].at_s", "1 is before 2",
        "in order of time"),
    row(("savepoints", [{"at_s": 2}, {"at_s": 2}]), "savepoints[1].at_s",
        "2 is also the time of savepoints[0]", "keep one"),
    row(("savepoints", [{"at_s": 2, "stop": True}, {"at_s": 3}]), "savepoints[1]",
        "the savepoint at 2 s stops the job", "remove its stop"),
    row(("failures", {"at_s": 1}), "failures", "is not a list"),
    row(("failures", [{"task_manager": 0}]), "failures[0].at_s", "is missing"),
    row(("failures", [{"at_s": 1}]), "failures[0]", "nothing fails", "job_manager"),
    row(("failures", [{"at_s": "34s", "task_manager": 0}]), "failures[0].at_s",
        "'34s' is not a number", "a time in s", "write a number alone, in this unit"),
    row(("failures", [{"at_s": True, "task_manager": 0}]), "failures[0].at_s",
        "true is not a number"),
    row(("failures", [{"at_s": -1, "task_manager": 0}]), "failures[0].at_s", "-1", "at least 0"),
    *(row(("failures", [{"at_s": 1, "stage": "sink", "subtask": one}]), "failures[0].subtask",
          f"{one} is out of range", "a whole number, at least 0")
      for one in (-1, 0.5)),
    row(("failures", [{"at_s": 1, "job_manager": False}]), "failures[0]", "nothing fails"),
    row(("failures", [{"at_s": 1, "job_manager": 1}]), "failures[0].job_manager", "1 is not true"),
    row(("failures", [{"at_s": 1, "task_manager": 0, "job_manager": True}]),
        "failures[0].job_manager", "task_manager and job_manager are both stated", "keep one"),
    row(("failures", [{"at_s": 1, "task_manager": 0, "stage": "sink", "subtask": 0}]),
        "failures[0].stage", "task_manager and stage are both stated"),
    row(("failures", [{"at_s": 1, "task_manager": 2}]), "failures[0].task_manager",
        "2 is not a task manager: there are 2, from 0"),
    row(("failures", [{"at_s": 1, "task_manager": -1}]), "failures[0].task_manager", "at least 0"),
    row(("failures", [{"at_s": 1, "task_manager": 0, "subtask": 0}]), "failures[0].subtask",
        "0 without a stage"),
    row(("failures", [{"at_s": 1, "stage": "snk", "subtask": 0}]), "failures[0].stage",
        "unknown stage 'snk'", "did you mean 'sink'"),
    row(("failures", [{"at_s": 1, "stage": 3, "subtask": 0}]), "failures[0].stage",
        "3 is not text"),
    row(("failures", [{"at_s": 1, "stage": "sink"}]), "failures[0].subtask", "is missing",
        "'sink'"),
    row(("failures", [{"at_s": 1, "stage": "sink", "subtask": 3}]), "failures[0].subtask",
        "3 is not a subtask of 'sink': there are 3, from 0"),
    row(("failures", [{"at_s": 1, "machine": 0}]), "failures[0].machine", "unknown key 'machine'"),
    row(("failures", [{"at_s": 10, "task_manager": 0}]), "failures[0].at_s",
        "10 is not before the end of the run, 10", "raise duration_s"),
    row(("failures", [{"at_s": NAN, "task_manager": 0}]), "failures[0].at_s", "nan is not"),
    row(("failures", [{"at_s": 3, "task_manager": 0}, {"at_s": 2, "task_manager": 0}]),
        "failures[1].at_s", "2 is before 3", "in order of time"),
    row(("failures", [{"at_s": 3, "task_manager": 0}, {"at_s": 3, "task_manager": 1},
                      {"at_s": 3, "task_manager": 0}]),
        "failures[2]", "task manager 0 already fails at 3 s in failures[0]", "keep one"),
    row(("failures", [{"at_s": 3, "stage": "sink", "subtask": 1}] * 2), "failures[1]",
        "subtask 1 of sink already fails at 3 s in failures[0]"),
    row(("failures", [{"at_s": 3, "job_manager": True}] * 2), "failures[1]",
        "the JobManager already fails at 3 s"),
]  # fmt: skip

TABLE = [*CHECKPOINTS, *FAULTS]


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    REFUSALS.test_refused(changed, changes, place, texts)
