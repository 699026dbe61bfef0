"""The order of a sweep's points, best first.

Points are ranked by the second half of the run: records that fill buffers at the beginning raise a
rate over the whole run, the more, the larger the buffers are. Among points that differ from the
best one by no more than noise, a second figure decides.

Two means are the same within the largest of three tolerances: :data:`BAND` of the larger one, the
effect of filling and draining buffers in a run of ordinary length; the 95 % confidence interval of
their difference, if there are replications; and the least step of the figure, a round for a latency
and a record for a count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.figures import SECOND_HALF
from flowcontrol.experiments.sweep.columns import figure_named
from flowcontrol.experiments.sweep.metric import Metric, points_frame
from flowcontrol.experiments.sweep.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

BAND: Final = 0.01
"""Difference up to which two means are the same, as a share of the larger one."""

_DECIDES = f"latency_p99_ms{SECOND_HALF}"
"""Metric that breaks ties between equal rates if no other was requested."""


@dataclass(frozen=True)
class Ranking:
    """The points of a sweep in order."""

    plan: Plan  # The plan of the sweep
    # Metrics of the table: the one that ranks, then the one that breaks ties, then the other
    # requested ones.
    metrics: tuple[Metric, ...]
    frames: tuple[pd.DataFrame, ...]  # The points, for each of these metrics
    order: tuple[int, ...]  # Rows of the frames, best first; points without a value are left out
    leaders: int  # Number of points, from the first on, that are the same within noise
    has_decider: bool  # Whether the second metric orders the leaders


def rank(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> Ranking:
    """Return the points of a sweep in order.

    - ``table``: of the sweep; at least one row.
    - ``metrics``: the requested metrics. The first one ranks, by its second half (a peak by the
      whole run); the next other figure breaks ties.

    Returns points with equal figures stay in the order of the plan.
    """
    first = metrics[0].steady
    decider = next((m.steady for m in metrics[1:] if m.steady != first), _latency_of(first))
    shown = tuple(dict.fromkeys([first, *([decider] if decider else []), *metrics]))
    frames = tuple(points_frame(table, plan, metric) for metric in shown)
    order = _best_first(frames[0].dropna(subset="mean"), first)
    leaders = [row for row in order if is_noise(frames[0], order[0], row)]
    has_decider = decider is not None and bool(frames[1]["mean"][leaders].notna().any())
    if decider is not None and not has_decider and decider not in metrics:
        shown, frames = (shown[0], *shown[2:]), (frames[0], *frames[2:])
    if decider is not None and has_decider:
        leaders = _best_first(frames[1].loc[leaders], decider)
    rest = [row for row in order if row not in set(leaders)]
    return Ranking(plan, shown, frames, (*leaders, *rest), len(leaders), has_decider)


def _latency_of(metric: Metric) -> Metric | None:
    """Return the latency that decides between equal rates of a stage; None for other figures."""
    return Metric(metric.stage, figure_named(_DECIDES)) if metric.is_higher_better else None


def _best_first(frame: pd.DataFrame, metric: Metric) -> list[int]:
    """Return the rows of a frame in order, those without a value last."""
    ordered = frame["mean"].sort_values(ascending=not metric.is_higher_better, kind="stable")
    return [int(index) for index in ordered.index]


def is_noise(frame: pd.DataFrame, one: int, other: int) -> bool:
    """Tell whether two points of a sweep are the same in a metric.

    ``frame``: of :func:`~.metric.points_frame`: ``mean``, ``error``, ``step``.

    Returns True if they differ by no more than the tolerance.
    """
    means = [float(frame["mean"][row]) for row in (one, other)]
    errors = [float(frame["error"][row]) for row in (one, other)]
    steps = [float(frame["step"][row]) for row in (one, other)]
    band = BAND * max(map(abs, means))
    return abs(means[0] - means[1]) <= max(band, math.hypot(*errors), *steps)


def noise_text(frame: pd.DataFrame) -> str:
    """Return the tolerance for a sentence: ``up to 1 %``."""
    text = f"up to {100 * BAND:g} %"
    if (frame["error"] > 0).any():
        text += ", or as the replications scatter,"
    return text
