"""Sources that fall silent, from tables made by hand."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis.event_time import event_time_summary
from flowcontrol.scenario import Scenario
from modules import load

builder = load("tests/analysis/builder.py")

TIMES = [float(second) for second in range(1, 21)]
STAGES: dict[str, dict[str, Any]] = {
    "source": {
        "parallelism": 2,
        "event_time": {"out_of_orderness_s": 5},
        "watermark": {"delay_s": 5},
    },
    "sink": {},
}
STOOD = "The watermark of subtask 0 of source stood from 5 to 12 s, as it emitted nothing and"


def fell_silent(builder: ModuleType, **time: Any) -> Any:
    """Return a job whose first source emits nothing from 5 to 12 s; its watermark stands."""
    marks = [t - 5.5 if t <= 5 or t > 12 else -0.5 for t in TIMES]
    emitted = [int(100 * (t - max(0, min(t, 12) - 5))) for t in TIMES]
    made = builder.Results(TIMES)
    made.stage("source", 0, records_out=emitted)
    made.stage("source", 1, records_out=[int(100 * t) for t in TIMES])
    made.stage("sink", records_in=[int(200 * t) for t in TIMES])
    for sender in (0, 1):
        made.channel("source->sink", sender, 0, consumed=[int(t) for t in TIMES])
    made.time("source", 0, **{"watermark_s": marks, **time})
    made.time("source", 1, watermark_s=[t - 5 for t in TIMES])
    return made.time("sink", watermark_s=[mark - 0.1 for mark in marks])


def found_in_run(made: Any, job: Scenario) -> dict[str, Any]:
    return event_time_summary(made.tables(), job, 10.0)


def test_a_source_that_fell_silent_is_named() -> None:
    found = found_in_run(fell_silent(builder), builder.scenario("x", STAGES, ["source->sink"]))
    assert found["silence"] == {"stage": "source", "subtask": 0, "from_s": 5.0, "until_s": 12.0}
    text = f"{STOOD} was not idle; state watermark.idle_after_s, and nobody waits for it."
    assert text in found["sentences"]


@pytest.mark.parametrize(
    ("idle_after_s", "more"), [(4, "; it is idle only after 4 s."), (2, " was not idle.")]
)
def test_a_source_that_is_idle_late_is_named(idle_after_s: int, more: str) -> None:
    watermark = {"delay_s": 5, "idle_after_s": idle_after_s}
    stages = {**STAGES, "source": {**STAGES["source"], "watermark": watermark}}
    found = found_in_run(fell_silent(builder), builder.scenario("x", stages, ["source->sink"]))
    [text] = [text for text in found["sentences"] if text.startswith(STOOD)]
    assert text.endswith(more)


@pytest.mark.parametrize("why", ["is_idle", "paused_ms_per_s", "backpressured_ms_per_s"])
def test_a_source_that_is_idle_paused_or_blocked_is_not_silent(why: str) -> None:
    made = fell_silent(builder)
    for row in [*made.rows["time"], *made.rows["stages"]]:
        if why in row and row["stage"] == "source" and 5 < row["t_s"] <= 12:
            row[why] = True if why == "is_idle" else 900.0
    found = found_in_run(made, builder.scenario("x", STAGES, ["source->sink"]))
    assert found["silence"] is None
