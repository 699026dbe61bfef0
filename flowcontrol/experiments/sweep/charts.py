"""The charts of a sweep: a line for one varied key, a heat map for two, facets or lines for more.

Keys with one value are no dimension of a chart. Figures are plain dicts for plotly, as in
:mod:`flowcontrol.report.figures`; colours are those of Okabe and Ito, safe for the colour-blind,
and run from blue at the good end of a metric to vermillion at its bad one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from flowcontrol.experiments.sweep.axes import chart_id, chart_layout, key_axis, value_text
from flowcontrol.experiments.sweep.heat import (
    bottleneck_chart,
    facet_chart,
    facet_key,
    heat_chart,
    scatter_chart,
)
from flowcontrol.experiments.sweep.keys import Varied
from flowcontrol.experiments.sweep.limits import limit_traces
from flowcontrol.experiments.sweep.metric import Metric, points_frame
from flowcontrol.experiments.sweep.parallel import effects_figure, parallel_figure
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.report.colours import GREY
from flowcontrol.report.figures import Chart, Figure, axis

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


_ERRORS: Final = (
    " Points are means over {count} replications; bars reach over the 95 % confidence interval of "
    "the mean (Student's t)."
)


def dimensions(plan: Plan) -> list[Varied]:
    """Return the varied keys with more than one value; the first key if none has."""
    return [varied for varied in plan.varied if len(varied.values) > 1] or [plan.varied[0]]


def sweep_charts(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> list[Chart]:
    """Return the charts of a sweep in their order.

    Parameters
    ----------
    table : pyarrow.Table
        Of the sweep; at least one row.
    plan : Plan
        The plan of the sweep.
    metrics : sequence of Metric
        The metrics to draw.

    Returns
    -------
    list of Chart
        One or two per metric, and for two keys one of the bottlenecks.
    """
    dims = dimensions(plan)
    frames = [points_frame(table, plan, metric) for metric in metrics]
    is_grid = plan.sample is None
    charts: list[Chart] = []
    for metric, frame in zip(metrics, frames, strict=True):
        if len(dims) == 1:
            charts.append(_line_chart(frame, dims[0], metric, plan))
        elif len(dims) == 2:
            draw = heat_chart if is_grid else scatter_chart
            charts.append(draw(frame, dims, metric))
        elif len(dims) == 3 and is_grid and facet_key(dims) is not None:
            charts.append(facet_chart(frame, dims, metric))
        else:
            charts += _many_charts(frame, dims, metric)
    if len(dims) == 2:
        charts.append(bottleneck_chart(frames[0], dims))
    return charts


def _line_chart(frame: pd.DataFrame, varied: Varied, metric: Metric, plan: Plan) -> Chart:
    """Return a metric over one varied key, each point marked by its limit."""
    x = [value_text(value) if not varied.is_numeric else value for value in frame[varied.column]]
    y = [None if value != value else value for value in frame["mean"]]
    connecting = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "line": {"color": GREY, "width": 1.5},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    errors = frame["error"].tolist() if plan.replications > 1 else None
    points = limit_traces(frame, x, y, size=9, errors=errors)
    traces = [connecting, *points] if varied.is_numeric else points
    value_axis = axis(metric.axis_title)
    layout = chart_layout(400, xaxis=key_axis(varied), yaxis=value_axis, showlegend=True)
    figure: Figure = {"data": traces, "layout": layout}
    explanation = (
        f"{metric.figure.column.meaning} Colour and shape of a point say what limits the job there."
        + (_ERRORS.format(count=plan.replications) if plan.replications > 1 else "")
    )
    return Chart(chart_id("line", metric.name), metric.name, explanation, figure)


def _many_charts(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> list[Chart]:
    """Return a metric over any number of varied keys."""
    figure, left_out = parallel_figure(frame, dims, metric)
    explanation = (
        f"{metric.figure.column.meaning} A ribbon is one point of the sweep, or several "
        f"alike: it passes its value of each key and ends at its {metric.name}, which is its "
        "colour, from blue, good, to vermillion, bad."
    )
    if left_out:
        explanation += f" {left_out:,} points are left out, evenly."
    effects = (
        f"Mean of {metric.name} over all points with one value of a key; bars reach from the "
        "lowest to the highest of them. A flat line is a key that does not matter here."
    )
    return [
        Chart(chart_id("lines", metric.name), metric.name, explanation, figure),
        Chart(
            chart_id("effects", metric.name),
            f"{metric.name} by key",
            effects,
            effects_figure(frame, dims, metric),
        ),
    ]
