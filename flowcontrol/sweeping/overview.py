"""What a sweep comes to, in numbers and words: for the page and for the terminal alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.report.numbers import number
from flowcontrol.sweeping.axes import value_text
from flowcontrol.sweeping.metric import NOTHING, Metric, points_frame
from flowcontrol.sweeping.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Overview", "PointRow", "overview"]

_MOST_NAMED: Final = 3


@dataclass(frozen=True)
class PointRow:
    """One point of a sweep, as a row of a table.

    Attributes
    ----------
    values : tuple of str
        Of the varied keys.
    figures : tuple of str
        Of the metrics, each with its ± where there are replications.
    bottleneck : str
        What limits there.
    """

    values: tuple[str, ...]
    figures: tuple[str, ...]
    bottleneck: str


@dataclass(frozen=True)
class Overview:
    """What a sweep comes to.

    Attributes
    ----------
    variants, points : int
        In the table.
    sentence : str
        Best, worst, and what limits.
    limits : dict of str to int
        Points by what limits them, the most frequent first.
    simulated_s : float, s
        Time that all simulations took together.
    valued : int
        Points with a value of the first metric, which puts them in order.
    """

    variants: int
    points: int
    sentence: str
    limits: dict[str, int]
    simulated_s: float
    valued: int
    _row: Callable[[int], PointRow]

    def ends(self, count: int) -> list[PointRow | None]:
        """Return the best and the worst rows, best first; None stands for those between them."""
        if self.valued <= 2 * count:
            return [self._row(rank) for rank in range(self.valued)]
        best = [self._row(rank) for rank in range(count)]
        worst = [self._row(rank) for rank in range(self.valued - count, self.valued)]
        return [*best, None, *worst]


def overview(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> Overview:
    """Return what a sweep comes to.

    Parameters
    ----------
    table : pyarrow.Table
        Of the sweep; at least one row.
    plan : Plan
        What was varied.
    metrics : sequence of Metric
        The first one decides what is best.

    Returns
    -------
    Overview
        Points without a value of the first metric are at neither end.
    """
    frames = [points_frame(table, plan, metric) for metric in metrics]
    order = _best_first(frames[0], metrics[0])
    limits = Counter(name or NOTHING for name in frames[0]["bottleneck"])
    runs = table.select(["variant", "wall_s"]).to_pandas().drop_duplicates("variant")
    return Overview(
        variants=len(runs),
        points=len(frames[0]),
        sentence=_sentence(frames[0], order, plan, metrics[0], limits),
        limits=dict(limits.most_common()),
        simulated_s=float(runs["wall_s"].sum()),
        valued=len(order),
        _row=lambda rank: _row(frames, plan, order[rank]),
    )


def _best_first(frame: pd.DataFrame, metric: Metric) -> list[int]:
    valued = frame["mean"].dropna()
    ordered = valued.sort_values(ascending=not metric.is_higher_better, kind="stable")
    return [int(index) for index in ordered.index]


def _row(frames: Sequence[pd.DataFrame], plan: Plan, index: int) -> PointRow:
    first = frames[0]
    return PointRow(
        tuple(value_text(_plain(first[varied.column][index])) for varied in plan.varied),
        tuple(_with_error(frame["mean"][index], frame["error"][index]) for frame in frames),
        str(first["bottleneck"][index]) or NOTHING,
    )


def _plain(value: Any) -> Any:
    """Return a cell of a frame as a plain number or text."""
    plain = value.item() if hasattr(value, "item") else value
    return int(plain) if isinstance(plain, float) and plain.is_integer() else plain


def _with_error(mean: float, error: float) -> str:
    if mean != mean:
        return ""
    return f"{number(mean)} ± {number(error)}" if error else number(mean)


def _sentence(
    frame: pd.DataFrame,
    order: Sequence[int],
    plan: Plan,
    metric: Metric,
    limits: Counter[str],
) -> str:
    """Return one or two sentences on both ends of a sweep."""
    if not order:
        return f"No point has a value of {metric.name}."
    best, worst = order[0], order[-1]
    text = f"Best: {_end(frame, best, plan, metric)}"
    if frame["mean"][best] != frame["mean"][worst]:
        text += f"; worst: {_end(frame, worst, plan, metric)}"
    named = [f"{name} {count:,}" for name, count in limits.most_common(_MOST_NAMED)]
    left = len(limits) - len(named)
    return f"{text}. What limits, in points: {', '.join(named)}" + (
        f" and {left} more." if left else "."
    )


def _end(frame: pd.DataFrame, index: int, plan: Plan, metric: Metric) -> str:
    at = ", ".join(
        f"{varied.label}={value_text(_plain(frame[varied.column][index]))}"
        for varied in plan.varied
    )
    unit = metric.figure.column.unit
    return f"{metric.name} {number(frame['mean'][index])} {unit} at {at}"
