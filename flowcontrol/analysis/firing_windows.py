"""Windows that fire into full outputs while checkpoints wait: no barrier passes meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

BLOCKED: Final = 500.0
"""Time from which a subtask that puts results out is held up by them, ms/s."""

MOST: Final = 0.5
"""Share of the time that barriers waited, from which a firing window is why."""


def advice_on(window: str) -> str:
    """Return what helps where barriers wait behind the timers of a window."""
    return (
        f"make the stage behind {window} faster, give it more subtasks, or spread the windows by "
        "offset; execution.checkpointing.unaligned.interruptible-timers.enabled (Flink 1.20, "
        "windows of Flink SQL) lets unaligned barriers pass between two timers"
    )


def timer_windows(scenario: Scenario) -> list[str]:
    """Return the stages with windows whose timers a watermark fires."""
    plans = {stage.name: scenario.window_of(stage.name) for stage in scenario.stages}
    return [name for name, plan in plans.items() if plan is not None and plan.is_event_time]


def firing_window(
    tables: Tables, scenario: Scenario, stage: str, spans: Collection[tuple[float, float]]
) -> str | None:
    """Return the window on the way to a stage that fired for most of the time of some checkpoints.

    Section 6 of the reference: all timers of a watermark fire between two records. A subtask that
    is blocked can only be so by results, and one that puts some out meanwhile is in the middle.

    - ``stage``: where the barriers were late; it may have the window.
    - ``spans``: from the trigger to the end of each checkpoint, s.

    Returns the stage whose timers held up barriers for longest, also such as overtake. None if none
    did, or mail interrupts timers.
    """
    own, frame = scenario.checkpointing, result_frame(tables, "time")
    if own is None or own.interrupts_timers or frame.empty or not spans:
        return None
    whole = sum(end - start for start, end in spans)
    on_way = {stage, *scenario.upstream(stage)}
    names = [name for name in timer_windows(scenario) if name in on_way]
    found = {name: _firing_s(name, tables, frame, spans) for name in names}
    longest = max(found, key=lambda name: found[name], default=None)
    return longest if longest is not None and found[longest] > MOST * whole else None


def _firing_s(
    name: str, tables: Tables, frame: pd.DataFrame, spans: Collection[tuple[float, float]]
) -> float:
    """Return for how long of some spans a subtask of a window was blocked and put results out."""
    own = frame[frame["stage"] == name].sort_values("t_s")
    fired = own["fired"].groupby(own["subtask"]).diff().fillna(own["fired"])
    samples = result_frame(tables, "stages")
    samples = samples[samples["stage"] == name]
    both = samples.merge(
        own.assign(fresh=fired)[["t_s", "subtask", "fresh"]], on=["t_s", "subtask"]
    )
    both = both[(both["fresh"] > 0) & (both["backpressured_ms_per_s"] >= BLOCKED)]
    lengths = both.groupby("t_s")["interval_s"].first()
    found = 0.0
    for t_s, length in zip(lengths.index.tolist(), lengths.tolist(), strict=True):
        found += sum(max(0.0, min(end, t_s) - max(start, t_s - length)) for start, end in spans)
    return found
