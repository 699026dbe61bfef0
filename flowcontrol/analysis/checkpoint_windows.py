"""What open windows add to checkpoints, and how much of that a watermark does that lags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

MOST: Final = 0.5
"""Share of a checkpoint's state from which windows make it large; of the time for which windows are
kept, from which the lag of the watermark does."""


def find_windows(
    done: pd.DataFrame, tables: Tables, scenario: Scenario
) -> dict[str, str | float] | None:
    """Return the windows that make checkpoints large because their watermark lags.

    Of a key as many windows are open as begin in their length, their lateness and the lag
    (section 6 of the reference).

    Returns ``stage``; ``window_bytes``, its open windows at the sample before each trigger, and
    ``state_bytes``, what checkpoints wrote of all state, means; ``lag_ms``, how far its watermark
    was behind the clock there; ``kept_ms``, how long a window is kept without a lag;
    ``without_bytes``, what would be open then. None if no windows are most of the state, or the lag
    is not most of the time for which they are kept.
    """
    frame = result_frame(tables, "time")
    if frame.empty or done.empty or done["state_bytes"].mean() <= 0:
        return None
    found = [
        each
        for stage in scenario.stages
        if (each := _of_stage(stage.name, frame, done, scenario)) is not None
    ]
    most = max(found, key=lambda each: float(each["window_bytes"]), default=None)
    if most is None or float(most["window_bytes"]) <= MOST * float(most["state_bytes"]):
        return None
    lag_ms, kept_ms = float(most["lag_ms"]), float(most["kept_ms"])
    return most if lag_ms > MOST * (lag_ms + kept_ms) else None


def _of_stage(
    name: str, frame: pd.DataFrame, done: pd.DataFrame, scenario: Scenario
) -> dict[str, str | float] | None:
    """Return the figures of a stage whose windows have a length and follow the watermark."""
    plan = scenario.window_of(name)
    if plan is None or not plan.is_event_time or plan.size_ms == 0:
        return None
    by_sample = frame[frame["stage"] == name].groupby("t_s")
    rows = by_sample.agg({"window_state_bytes": "sum", "watermark_lag_ms": "max"})
    places = rows.index.searchsorted(done["triggered_s"], side="right") - 1
    own = rows.iloc[places[places >= 0]]
    own = own[own["watermark_lag_ms"].notna()]
    if own.empty:
        return None
    nbytes, lag_ms = (float(own[column].mean()) for column in own)
    kept_ms = float(plan.size_ms + plan.lateness_ms)
    return {
        "stage": name,
        "window_bytes": nbytes,
        "state_bytes": float(done["state_bytes"].mean()),
        "lag_ms": lag_ms,
        "kept_ms": kept_ms,
        "without_bytes": nbytes * kept_ms / (kept_ms + max(0.0, lag_ms)),
    }
