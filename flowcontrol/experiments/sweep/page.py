"""report.html of a sweep: one self-contained page.

A chart is a line for one varied key, a heat map for two, facets or ribbons for more. Keys with one
value are no dimension of a chart. Figures are plain dicts for plotly, as in
:mod:`flowcontrol.report.figures`; colours are those of Okabe and Ito, safe for the colour-blind,
and run from blue at the good end of a metric to vermillion at its bad one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from flowcontrol.experiments.sweep.axes import (
    PACKAGE,
    chart_layout,
    key_axis,
    limit_traces,
    metric_chart,
    value_text,
)
from flowcontrol.experiments.sweep.heat import (
    bottleneck_chart,
    facet_chart,
    facet_key,
    heat_chart,
    scatter_chart,
)
from flowcontrol.experiments.sweep.metric import Metric, points_frame
from flowcontrol.experiments.sweep.overview import Overview, overview
from flowcontrol.experiments.sweep.parallel import effects_figure, parallel_figure
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.report.figures import GREY, Chart, axis, scatter
from flowcontrol.report.markup import chart_section, chart_texts, html_table, key_figure, page
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_ENDS: Final = 10
"""Rows at each end of the table of points."""

_VALUES: Final = 12
"""Values of a key that are listed; the others are counted."""


def sweep_page(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> str:
    """Return the page of a sweep.

    ``table``: of the sweep; at least one row.
    """
    charts = sweep_charts(table, plan, metrics)
    found = overview(table, plan, metrics)
    name = str(plan.base.mapping.get("name", "sweep"))
    return page(
        PACKAGE,
        charts,
        title=f"{name}: sweep",
        run=_run_line(found, plan),
        sentence=found.sentence,
        noscript="The charts need JavaScript; the tables do not.",
        key_figures="".join(_key_figures(found, plan)),
        charts="".join(map(chart_section, charts)),
        ends=_ends_table(found, plan),
        varied=_varied_table(plan),
        scenario=escape(_yaml(plan)),
    )


def _run_line(found: Overview, plan: Plan) -> str:
    how = "all combinations" if plan.sample is None else f"drawn with seed {plan.seed}"
    return (
        f"{found.variants:,} variants on the virtual clock: {found.points:,} points ({how}), "
        f"{plan.replications} replication{'s' if plan.replications > 1 else ''} of each"
    )


def _key_figures(found: Overview, plan: Plan) -> Iterable[str]:
    """Yield the large figures at the top."""
    yield key_figure("Variants", f"{found.variants:,}", f"{found.points:,} points")
    yield key_figure("Simulated", f"{number(found.simulated_s)} s", "all variants, added up")
    mean_ms = 1000 * found.simulated_s / max(1, found.variants)
    yield key_figure("A variant", f"{number(mean_ms)} ms", "mean time of the simulation")
    for name, count in list(found.limits.items())[:3]:
        share = f"{100 * count / max(1, found.points):.0f} %"
        yield key_figure(f"{name} limits", share, f"{count:,} of {found.points:,} points")


def _ends_table(found: Overview, plan: Plan) -> str:
    titles = [metric.title for metric in found.metrics]
    heads = [*(varied.title for varied in plan.varied), *titles, "limits"]
    rows = []
    for row in found.ends(_ENDS):
        if row is None:
            left = found.valued - 2 * _ENDS
            rows.append([f"… {left:,} points between …"])
        else:
            rows.append(list(map(escape, [*row.values, *row.figures, row.bottleneck])))
    return html_table(heads, rows)


def _varied_table(plan: Plan) -> str:
    rows = []
    for varied in plan.varied:
        values = [value_text(value) for value in varied.values]
        shown = ", ".join(values[:_VALUES])
        if len(values) > _VALUES:
            shown += f" … {values[-1]} ({len(values):,} values)"
        rows.append(list(map(escape, [varied.key, varied.column, varied.unit, shown])))
    return html_table(["Key", "Column", "Unit", "Values"], rows)


def _yaml(plan: Plan) -> str:
    import yaml

    return yaml.safe_dump(dict(plan.base.mapping), sort_keys=False, allow_unicode=True)


def dimensions(plan: Plan) -> list[Varied]:
    """Return the varied keys with more than one value; the first key if none has."""
    return [varied for varied in plan.varied if len(varied.values) > 1] or [plan.varied[0]]


def sweep_charts(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> list[Chart]:
    """Return the charts of a sweep in their order.

    ``table``: of the sweep; at least one row.

    Returns one or two per metric, and for two keys one of the bottlenecks.
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
    stroke = {"color": GREY, "width": 1.5}
    connecting = scatter("", x, y, mode="lines", line=stroke, showlegend=False, hoverinfo="skip")
    errors = frame["error"].tolist() if plan.replications > 1 else None
    points = limit_traces(frame, x, y, size=9, errors=errors)
    traces = [connecting, *points] if varied.is_numeric else points
    value_axis = axis(metric.axis_title)
    layout = chart_layout(400, xaxis=key_axis(varied), yaxis=value_axis, showlegend=True)
    count = plan.replications
    bars = f" {chart_texts(PACKAGE)['line']['errors'].format(count=count)}" if count > 1 else ""
    return metric_chart("line", metric, traces, layout, errors=bars)


def _many_charts(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> list[Chart]:
    """Return a metric over any number of varied keys."""
    figure, left_out = parallel_figure(frame, dims, metric)
    note = f" {left_out:,} points are left out, evenly." if left_out else ""
    drawn = effects_figure(frame, dims, metric)
    return [
        metric_chart("lines", metric, figure["data"], figure["layout"], left_out=note),
        metric_chart("effects", metric, drawn["data"], drawn["layout"]),
    ]
