"""What a batch costs: so much a row, and so much whatever its rows."""

from __future__ import annotations

from statistics import fmean, linear_regression
from typing import Final

from flowcontrol.analysis.wording import join_words
from flowcontrol.calibration import rates
from flowcontrol.calibration.batches import Batch
from flowcontrol.calibration.draft import Contradiction, Cost, Draft

DIFFERENT: Final = 1.2
"""How many times as many rows as the smallest batch the largest must have to tell both costs."""

OUTLIER: Final = 4.0
"""Batches whose time is so many mean deviations off the line are not its points: a pause."""


def cost_of(draft: Draft, batches: list[Batch], key: str) -> Cost:
    """Return what batches cost by a line through their times.

    addBatch over numInputRows, a + b n; the rest of triggerExecution is overhead as well.

    - ``batches``: with rows, of at least two sizes.
    - ``key``: of the service rate.
    """
    over = "system.throttle.overhead_ms"
    beside = fmean(one.took_ms - one.work_ms for one in batches)
    rows = [one.rows for one in batches]
    if max(rows) < DIFFERENT * min(rows):
        each = sum(one.work_ms for one in batches) / sum(rows)
        why = (
            f"all batches have about {rows[0]} rows, so what a batch costs beside them is not "
            "known but for what is outside addBatch: calibrate on batches of different sizes"
        )
        draft.assumed(key, rates.rounded(1000 / each), why)
        draft.assumed(over, rates.rounded(beside, 5), why)
        return Cost(each, beside)
    kept, (row_ms, base) = _line(batches)
    if row_ms <= 0:
        draft.assumed(key, None, "addBatch does not grow with numInputRows: rows cost nothing")
        row_ms, base = 0.0, fmean(one.work_ms for one in kept)
    elif base < 0:
        row_ms = linear_regression(*_points(kept), proportional=True).slope
        base = 0.0
    error = _error(kept, row_ms, base)
    if row_ms > 0:
        text = "1000 / slope of addBatch over numInputRows"
        draft.measured(key, rates.rounded(1000 / row_ms), text, error)
    text = "addBatch at 0 rows, and triggerExecution less addBatch"
    draft.measured(over, rates.rounded(base + beside, 5), text)
    if len(kept) < len(batches):
        off = [str(one.number) for one in batches if one not in kept]
        which = f"batch {off[0]} is" if len(off) == 1 else f"batches {join_words(off)} are"
        text = f"{which} far off the line of the others: a pause, or another load"
        draft.notes.append(text)
    for one in batches:
        if one.work_ms > one.took_ms + 1:
            text = (
                f"batch {one.number}: addBatch {one.work_ms:g} ms is more than the whole trigger's "
                f"{one.took_ms:g} ms"
            )
            draft.contradictions.append(Contradiction(key.split(".")[1], text))
    return Cost(row_ms, base + beside)


def _points(batches: list[Batch]) -> tuple[list[float], list[float]]:
    return [float(one.rows) for one in batches], [one.work_ms for one in batches]


def _line(batches: list[Batch]) -> tuple[list[Batch], tuple[float, float]]:
    """Return the batches that make the line, and its slope and intercept."""
    found = linear_regression(*_points(batches))
    off = [abs(one.work_ms - found.intercept - found.slope * one.rows) for one in batches]
    mean = fmean(off)
    kept = [one for one, gap in zip(batches, off, strict=True) if gap <= OUTLIER * mean]
    sizes = {one.rows for one in kept}
    if len(kept) < len(batches) and len(sizes) > 1:
        found = linear_regression(*_points(kept))
        return kept, (found.slope, found.intercept)
    return batches, (found.slope, found.intercept)


def _error(batches: list[Batch], row_ms: float, base: float) -> float:
    """Return the standard error of the slope, relative."""
    if row_ms <= 0 or len(batches) < 3:
        return 1.0
    mean = fmean(one.rows for one in batches)
    spread = sum((one.rows - mean) ** 2 for one in batches)
    left = sum((one.work_ms - base - row_ms * one.rows) ** 2 for one in batches)
    return float((left / (len(batches) - 2) / spread) ** 0.5 / row_ms) if spread else 1.0
