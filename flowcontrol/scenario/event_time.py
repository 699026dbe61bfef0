"""Event time of a job as the clocks work with it: whole milliseconds, numbers of groups.

Intervals of emulated time are microseconds, as everywhere; event time counts in milliseconds, as
Flink's timestamps do.
"""

from dataclasses import dataclass

from flowcontrol.scenario.event_time_models import Distribution, EventTime, Watermark, in_ms


@dataclass(frozen=True)
class AlignmentPlan:
    """How a source waits for the others of its group."""

    group: int  # Number of the group, from 0, in the order in which the file names groups
    # How far a subtask may be ahead of the slowest of the group, ms of event time, at least 1.
    max_drift_ms: int
    interval_us: int  # Between two reports, microseconds, a multiple of a millisecond


@dataclass(frozen=True)
class WatermarkPlan:
    """How the subtasks of a source tell how far their event time has come."""

    # How far the watermark stays behind the largest event time, ms; 0 if ``is_punctuated``.
    delay_ms: int
    interval_us: int  # Between two probes, microseconds, a multiple of a millisecond; 0: none
    is_punctuated: bool  # Whether a watermark follows each record that raises it
    # Without a record until a subtask is idle, microseconds, a multiple of a millisecond, at least
    # 1000; None: never.
    idle_after_us: int | None
    alignment: AlignmentPlan | None  # None: it waits for nobody


@dataclass(frozen=True)
class SourceTime:
    """Event time of a source."""

    # For each subtask, how far made records lie behind, ms, at least 0: the most, or the mean.
    out_of_orderness_ms: tuple[int, ...]
    distribution: Distribution  # Of how far each lies behind
    # For each subtask, what is added to the event time of made records, ms.
    offset_ms: tuple[int, ...]
    column: str | None  # Column of the input with the times; None: they are made
    watermark: WatermarkPlan | None  # None: no watermark leaves the source


def source_time(
    times: EventTime, watermark: Watermark | None, interval_us: int, groups: tuple[str, ...]
) -> SourceTime:
    """Return the event time of a source in milliseconds."""
    return SourceTime(
        tuple(map(in_ms, times.out_of_orderness_s)),
        times.distribution,
        tuple(map(in_ms, times.offset_s)),
        times.column,
        None if watermark is None else _watermark_plan(watermark, interval_us, groups),
    )


def _watermark_plan(
    watermark: Watermark, interval_us: int, groups: tuple[str, ...]
) -> WatermarkPlan:
    aligned, idle_after_s = watermark.alignment, watermark.idle_after_s
    alignment = None
    if aligned is not None:
        alignment = AlignmentPlan(
            groups.index(aligned.group),
            in_ms(aligned.max_drift_s),
            1000 * in_ms(aligned.interval_s),
        )
    return WatermarkPlan(
        in_ms(watermark.delay_s),
        interval_us,
        watermark.punctuated,
        None if idle_after_s is None else 1000 * in_ms(idle_after_s),
        alignment,
    )
