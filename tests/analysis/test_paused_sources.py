"""Whom a source waits for that alignment pauses, from tables made by hand."""

from __future__ import annotations

from types import ModuleType

from flowcontrol.analysis.event_time import event_time_summary

TIMES = [float(second) for second in range(1, 21)]


def test_a_paused_source_waits_for_who_was_behind_it_then(builder: ModuleType) -> None:
    """The other was behind it before it fell idle, and is level with it, or ahead, ever after."""
    group = {"delay_s": 0, "alignment": {"group": "g", "max_drift_s": 2}}
    stages = {name: {"event_time": {}, "watermark": group} for name in ("active", "quiet")} | {
        "sink": {}
    }
    job = builder.scenario("x", stages, ["active->sink", "quiet->sink"])
    made = builder.Results(TIMES).stage("active").stage("quiet").stage("sink")
    made.channel("active->sink").channel("quiet->sink").time(
        "sink", watermark_s=[t - 1 for t in TIMES]
    )
    stood = [t if t <= 3 or t > 8 else 3 for t in TIMES]
    is_idle = [6 <= t <= 8 for t in TIMES]
    made.time("quiet", watermark_s=[t + 0.5 * (t > 8) for t in stood], is_idle=is_idle)
    paused = [1000.0 * (5 <= t <= 6) for t in TIMES]  # at 6 s nobody but itself is left
    made.time("active", watermark_s=TIMES, paused_ms_per_s=paused)
    found = event_time_summary(made.tables(), job)
    assert found["stages"]["active"]["waits_for"] == {"stage": "quiet", "subtask": 0}
    assert found["matter"] == [
        "Alignment paused active 10 % of the time: its event time was ahead of that of quiet, the "
        "slowest of its group."
    ]


def test_a_slowest_source_that_was_paused_waits_for_nobody(builder: ModuleType) -> None:
    """Its drift is passed before the group has answered: it does not wait for itself."""
    group = {"delay_s": 0, "alignment": {"group": "g", "max_drift_s": 0.1}}
    job = builder.scenario(
        "x", {"only": {"event_time": {}, "watermark": group}, "sink": {}}, ["only->sink"]
    )
    made = builder.Results(TIMES).stage("only").stage("sink").channel("only->sink")
    made.time("sink", watermark_s=[t - 1 for t in TIMES])
    made.time("only", watermark_s=TIMES, paused_ms_per_s=[250.0] * len(TIMES))
    assert event_time_summary(made.tables(), job)["matter"] == [
        "Alignment paused only 25 % of the time, although no other source of its group was behind "
        "it."
    ]
