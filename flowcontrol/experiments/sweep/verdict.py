"""The conclusion of a sweep: the best point, or that the best differ by no more than noise."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.sweep.axes import value_text
from flowcontrol.experiments.sweep.ranking import Ranking, is_noise, noise_text
from flowcontrol.report.numbers import number, percent

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED: Final = 3


def plain(value: Any) -> Any:
    """Return a cell of a frame as a plain number or text."""
    found = value.item() if hasattr(value, "item") else value
    return int(found) if isinstance(found, float) and found.is_integer() else found


def verdict(ranking: Ranking, limits: Counter[str]) -> str:
    """Return the conclusion of a sweep.

    Parameters
    ----------
    ranking : Ranking
        Its points in order.
    limits : Counter of str
        Points by what limits them.

    Returns
    -------
    str
        A few sentences, each with figures and units.
    """
    if not ranking.order:
        return f"No point has a value of {ranking.metrics[0].name}."
    parts = _tied(ranking) if ranking.leaders > 1 else [_best(ranking)]
    named = [f"{name} {count:,}" for name, count in limits.most_common(_MOST_NAMED)]
    left = len(limits) - len(named)
    more = f" and {left} more" if left else ""
    return " ".join([*parts, f"What limits, in points: {', '.join(named)}{more}."])


def _best(ranking: Ranking) -> str:
    """Return the sentence on both ends of a sweep with one best point."""
    metric, best, worst = ranking.metrics[0], ranking.order[0], ranking.order[-1]
    name, over = metric.short_name, " over the second half of the run" if metric.is_steady else ""
    text = f"Best{over}: {name} {_figure(ranking, 0, best)} at {_at(ranking, best)}"
    if worst != best:
        text += f"; worst: {name} {_figure(ranking, 0, worst)} at {_at(ranking, worst)}"
    return f"{text}."


def _tied(ranking: Ranking) -> list[str]:
    """Return the sentences on a sweep whose best points are the same within noise."""
    metric, frame = ranking.metrics[0], ranking.frames[0]
    leaders = list(ranking.order[: ranking.leaders])
    over = " over the second half of the run" if metric.is_steady else ""
    parts = [
        f"No measurable difference in {metric.short_name}{over} between "
        f"{_whom(ranking)}: {_span(frame, leaders)} {metric.figure.column.unit} "
        f"({noise_text(frame)} is noise)."
    ]
    if ranking.has_decider:
        parts.append(_decided(ranking, leaders))
    elif 2 < ranking.leaders < len(ranking.order):
        parts.append(f"One of them: {_at(ranking, leaders[0])}.")
    if ranking.leaders < len(ranking.order):
        worst = ranking.order[-1]
        parts.append(
            f"Worst: {metric.short_name} {_figure(ranking, 0, worst)} at {_at(ranking, worst)}."
        )
    return parts


def _whom(ranking: Ranking) -> str:
    """Name the points that are the same: two by their values, more by their number."""
    count, points = ranking.leaders, len(ranking.order)
    if count == 2:
        return " and ".join(_at(ranking, row) for row in ranking.order[:2])
    if count == points:
        return f"all {count:,} points"
    return f"the best {count:,} of {points:,} points"


def _decided(ranking: Ranking, leaders: list[int]) -> str:
    """Return the sentence on the second metric of the best points."""
    metric, frame = ranking.metrics[1], ranking.frames[1]
    valued = [row for row in leaders if frame["mean"][row] == frame["mean"][row]]
    best, worst = valued[0], valued[-1]
    over = " over the same time" if metric.is_steady else ""
    if is_noise(frame, best, worst):
        unit = metric.figure.column.unit
        text = f"Nor is there one in {metric.short_name}{over}: {_span(frame, valued)} {unit}"
        is_named = len(leaders) == 2 or len(leaders) == len(ranking.order)
        return f"{text}." if is_named else f"{text}, for instance at {_at(ranking, best)}."
    means = float(frame["mean"][best]), float(frame["mean"][worst])
    ratio = means[1] / means[0] if means[0] else 0.0
    against = f", {number(ratio)} times as much" if ratio >= 2 else ""
    against = f", {percent(ratio)} of that" if 0 < ratio < 1 else against
    return (
        f"Best of these by {metric.short_name}{over}: {_figure(ranking, 1, best)} at "
        f"{_at(ranking, best)}; worst: {_figure(ranking, 1, worst)} at "
        f"{_at(ranking, worst)}{against}."
    )


def _span(frame: pd.DataFrame, rows: list[int]) -> str:
    """Return the lowest and the highest mean of some points; one number if they read alike."""
    means = [float(frame["mean"][row]) for row in rows]
    low, high = number(min(means)), number(max(means))
    return low if low == high else f"{low} to {high}"


def _figure(ranking: Ranking, place: int, row: int) -> str:
    unit = ranking.metrics[place].figure.column.unit
    return f"{number(float(ranking.frames[place]['mean'][row]))} {unit}"


def _at(ranking: Ranking, row: int) -> str:
    """Return a point by the values of its keys."""
    frame = ranking.frames[0]
    return ", ".join(
        f"{varied.label}={value_text(plain(frame[varied.column][row]))}"
        for varied in ranking.plan.varied
    )
