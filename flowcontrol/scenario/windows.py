"""Windows of a job as the clocks work with them: whole milliseconds, numbers of keys."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from flowcontrol.scenario.event_time_models import in_ms
from flowcontrol.scenario.window_models import (
    OutputMode,
    Trigger,
    Window,
    WindowKind,
    split_aggregate,
)

TriggerKind = Literal["event_time", "processing_time", "count", "continuous"]


class Aggregation(NamedTuple):
    """A column of a result."""

    name: str  # Of the column
    function: str  # ``count``, ``sum``, ``min``, ``max`` or ``avg``
    column: str | None  # Of the rows; None for ``count``


@dataclass(frozen=True)
class WindowPlan:
    """What the window of a stage does."""

    kind: WindowKind  # Which records it puts together
    # Whether windows follow the watermark; False: the clock. A global window follows neither.
    is_event_time: bool
    # Of a tumbling window (which slides by its size) or a sliding one, ms; else 0.
    size_ms: int
    slide_ms: int
    gap_ms: int  # Of a session, ms; else 0
    offset_ms: int  # Shift of the starts, ms
    lateness_ms: int  # For how long a window is kept behind its end, ms
    trigger: TriggerKind  # When it fires
    every: int  # Records of ``count``, ms of ``continuous``; else 0
    is_accumulating: bool  # Whether a window that has fired keeps its contents
    output: OutputMode  # Spark's output mode; ``append`` in a job with Flink's time
    keys: int | None  # Keys of made records, 1 to 2**21; None: rows bring theirs
    # Column of replayed rows with their keys; None: all of one key, or made records.
    key_column: str | None
    bytes_per_key: int  # State of each key and open window, bytes
    aggregations: tuple[Aggregation, ...]  # Columns of a result


def window_plan(
    window: Window, *, has_event_time: bool, keys: int | None, key_column: str | None
) -> WindowPlan:
    """Return a window in milliseconds.

    - ``has_event_time``: whether the records that enter have an event time.
    - ``keys``: keys of made records; None: rows bring theirs.
    """
    trigger, every = _trigger(window.trigger)
    size_ms = 0 if window.size_s is None else in_ms(window.size_s)
    return WindowPlan(
        kind=window.kind,
        is_event_time=has_event_time
        and window.kind != "global"
        and window.trigger != "processing_time",
        size_ms=size_ms,
        slide_ms=size_ms if window.slide_s is None else in_ms(window.slide_s),
        gap_ms=0 if window.gap_s is None else in_ms(window.gap_s),
        offset_ms=in_ms(window.offset_s),
        lateness_ms=in_ms(window.allowed_lateness_s),
        trigger=trigger,
        every=every,
        is_accumulating=window.accumulate,
        output=window.output,
        keys=keys,
        key_column=key_column,
        bytes_per_key=window.bytes_per_key,
        aggregations=tuple(
            Aggregation(name, *split_aggregate(text)) for name, text in window.aggregate.items()
        ),
    )


def _trigger(trigger: str | Trigger) -> tuple[TriggerKind, int]:
    if isinstance(trigger, Trigger):
        if trigger.count is not None:
            return "count", trigger.count
        return "continuous", 0 if trigger.continuous_s is None else in_ms(trigger.continuous_s)
    return ("processing_time" if trigger == "processing_time" else "event_time"), 0
