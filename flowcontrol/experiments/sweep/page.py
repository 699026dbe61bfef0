"""report.html of a sweep: one self-contained page.

A chart is a line for one varied key, a heat map for two, facets or ribbons for more. Keys with one
value are no dimension of a chart. Figures are plain dicts for plotly, as in
:mod:`flowcontrol.report.figures`; colours are those of Okabe and Ito, safe for the colour-blind,
and run from blue at the good end of a metric to vermillion at its bad one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.experiments.sweep.charts import (
    PACKAGE,
    bottleneck_chart,
    chart_layout,
    colour_axis,
    facet_chart,
    facet_key,
    heat_chart,
    key_axis,
    limit_traces,
    metric_chart,
    scatter_chart,
    value_text,
    values_text,
)
from flowcontrol.experiments.sweep.metric import Metric, points_frame
from flowcontrol.experiments.sweep.overview import Overview, overview
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.report.figures import (
    GOOD_TO_BAD,
    GREY,
    Chart,
    Figure,
    axis,
    line_style,
    numbered,
    scatter,
)
from flowcontrol.report.markup import (
    chart_section,
    chart_texts,
    html_table,
    key_figure,
    number,
    page,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


# --- Many varied keys at once: ribbons across a column a key, and the effect of each key by itself.
#
# Plotly's own kinds of such charts are in its whole bundle alone, which is four times the one that
# a page carries, so a ribbon is a line.


_MOST_RIBBONS: Final = 2_000
"""Points drawn; more are unreadable and slow."""

_MOST_CLASSES: Final = 12
"""Categories of a column; neighbouring values share one if a key has more values."""

_BANDS: Final = 5
"""Places in the column of the metric."""

_ROOM_PX: Final = 300
"""Height that the ribbons of a column share."""

_BEHIND: Final = 0.45
"""Room for the names of the last column, in distances of columns."""

_FILLED: Final = 0.84
"""Part of a place's height that its ribbons take."""


class _Column(NamedTuple):
    """A column: the names of its places from the bottom, and the place of each point."""

    names: list[str]
    places: list[int]


def parallel_figure(
    frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric
) -> tuple[Figure, int]:
    """Return the points of a sweep as ribbons across a column a key.

    Returns ``figure``: ``data`` and ``layout``; no data where no point has a value. Returns
    ``left_out``: points that are not drawn.
    """
    valued = frame.dropna(subset=["mean"]).sort_values("mean", kind="stable")
    drawn = valued.iloc[:: max(1, -(-len(valued) // _MOST_RIBBONS))]
    columns = [_key_column(drawn, varied) for varied in dims] + [_metric_column(drawn)]
    titles = [*map(two_lines, dims), metric.title.replace(" (", "\n(")]
    colours = colour_axis(metric, GOOD_TO_BAD)
    layout = {
        "height": 440,
        "margin": {"l": 20, "r": 20, "t": 50, "b": 20},
        "showlegend": False,
        "coloraxis": colours,
        "xaxis": {"visible": False, "range": [-_BEHIND, len(dims) + _BEHIND], "fixedrange": True},
        "yaxis": {"visible": False, "range": [0, 1], "fixedrange": True},
        "shapes": [_bar(at, *ends) for at, one in enumerate(columns) for ends in _ends(one)],
        "annotations": [
            *(_title(text, at, len(dims)) for at, text in enumerate(titles)),
            *(note for at, column in enumerate(columns) for note in _names(at, column)),
        ],
    }
    if drawn.empty:
        return {"data": [], "layout": layout}, 0
    bands = columns[-1].places
    shades = [colour for _, colour in colours["colorscale"]]
    heights = [_heights(column) for column in columns]
    ribbons = [
        _ribbons([row for row, own in enumerate(bands) if own == band], heights, shades[band])
        for band in sorted(set(bands))
    ]
    ends = drawn["mean"].iloc[[0, -1]].tolist()
    look = {"color": ends, "coloraxis": "coloraxis", "opacity": 0}
    scale = scatter("", [0, 0], [0, 0], mode="markers", marker=look, hoverinfo="skip")
    return {"data": [*ribbons, scale], "layout": layout}, len(valued) - len(drawn)


def _key_column(drawn: pd.DataFrame, varied: Varied) -> _Column:
    """Return a column with a place for each value of a key, or for several neighbours."""
    size = -(-len(varied.values) // _MOST_CLASSES)
    classes = [varied.values[at : at + size] for at in range(0, len(varied.values), size)]
    place = {varied.typed(v): at for at, values in enumerate(classes) for v in values}
    names = [" to ".join(map(value_text, dict.fromkeys((v[0], v[-1])))) for v in classes]
    return _Column(names, drawn[varied.column].map(place).tolist())


def _metric_column(drawn: pd.DataFrame) -> _Column:
    """Return a column with bands of the metric."""
    low, high = (drawn["mean"].min(), drawn["mean"].max()) if len(drawn) else (0.0, 0.0)
    if low == high:
        return _Column([number(low)], [0] * len(drawn))
    ends = [low + (high - low) * band / _BANDS for band in range(_BANDS + 1)]
    bands = ((drawn["mean"] - low) / (high - low) * _BANDS).astype(int).clip(upper=_BANDS - 1)
    names = [f"{number(begin)} to {number(end)}" for begin, end in pairwise(ends)]
    return _Column(names, bands.tolist())


def _ends(column: _Column) -> list[tuple[float, float]]:
    """Return where each place of a column begins and ends, as shares of the height."""
    count, apart = len(column.names), (1 - _FILLED) / 2
    return [((at + apart) / count, (at + 1 - apart) / count) for at in range(count)]


def _heights(column: _Column) -> list[float]:
    """Return the height of each point in a column: those of a place one above the other."""
    counts, ends = Counter(column.places), _ends(column)
    below: Counter[int] = Counter()
    heights = []
    for place in column.places:
        low, high = ends[place]
        heights.append(round(low + (high - low) * (below[place] + 0.5) / counts[place], 4))
        below[place] += 1
    return heights


def _ribbons(
    rows: Sequence[int], heights: Sequence[Sequence[float]], colour: str
) -> dict[str, Any]:
    """Return some of the points as one trace with gaps, each a line through all columns."""
    width = min(8.0, max(1.0, _ROOM_PX / len(heights[0])))
    return scatter(
        "",
        [*range(len(heights)), None] * len(rows),
        [y for row in rows for y in (*(column[row] for column in heights), None)],
        mode="lines",
        line={"color": colour, "width": width},
        opacity=0.75,
        hoverinfo="skip",
    )


def _bar(at: int, low: float, high: float) -> dict[str, Any]:
    """Return the bar that marks a place of a column."""
    corners = {"x0": at - 0.015, "x1": at + 0.015, "y0": low, "y1": high}
    return {"type": "rect", **corners, "fillcolor": GREY, "line": {"width": 0}}


def _names(at: int, column: _Column) -> list[dict[str, Any]]:
    """Return the names of a column's places, to the right of their bars."""
    return [
        {
            "text": escape(name, quote=False),
            "x": at,
            "y": (low + high) / 2,
            "xanchor": "left",
            "xshift": 6,
            "font": {"size": 12, "shadow": "auto"},
            "showarrow": False,
        }
        for name, (low, high) in zip(column.names, _ends(column), strict=True)
    ]


def _title(content: str, at: int, last: int) -> dict[str, Any]:
    """Return the title above a column."""
    return {
        "text": _markup(content),
        "x": at,
        "y": 1,
        "yref": "paper",
        "xanchor": "left" if at == last else "center",  # to the right there is room
        "yanchor": "bottom",
        "xshift": -16 if at == last else 0,
        "yshift": 4,
        "showarrow": False,
    }


def _markup(content: str) -> str:
    return escape(content, quote=False).replace("\n", "<br>")


def two_lines(varied: Varied) -> str:
    """Return a key, and its unit in a second line."""
    return f"{varied.label}\n({varied.unit})" if varied.unit else varied.label


def effects_figure(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Figure:
    """Return the mean of a metric for each value of each key, plots side by side.

    ``metric``: the shared vertical axis.

    Returns ``data`` and ``layout``.
    """
    layout: dict[str, Any] = {
        "height": 340,
        "margin": {"l": 70, "r": 20, "t": 14, "b": 80},
        "showlegend": False,
        "grid": {"rows": 1, "columns": len(dims), "xgap": 0.1},
        "yaxis": axis(metric.axis_title),
    }
    traces = []
    for index, varied in enumerate(dims):
        title = {"text": _markup(two_lines(varied)), "standoff": 8}
        layout[numbered("xaxis", index)] = key_axis(varied) | {
            "title": title,
            "nticks": 4,
            "tickangle": 0,
        }
        traces.append(_effect(frame, varied, index) | {"xaxis": numbered("x", index)})
    return {"data": traces, "layout": layout}


def _effect(frame: pd.DataFrame, varied: Varied, index: int) -> dict[str, Any]:
    """Return the mean over all points with one value of a key, and their range."""
    found = frame.groupby(varied.column, sort=False)["mean"].agg(["mean", "min", "max"]).dropna()
    values = [value for value in varied.values if varied.typed(value) in found.index]
    rows = found.loc[[varied.typed(value) for value in values]]
    style = line_style(index)
    spread = {
        "type": "data",
        "symmetric": False,
        "array": (rows["max"] - rows["mean"]).tolist(),
        "arrayminus": (rows["mean"] - rows["min"]).tolist(),
        "thickness": 1,
    }
    return scatter(
        varied.label,
        values if varied.is_numeric else [value_text(value) for value in values],
        rows["mean"].tolist(),
        mode="lines+markers" if varied.is_numeric else "markers",
        error_y=spread,
        line={"color": style.colour},
        marker={"color": style.colour, "symbol": style.marker, "size": 7},
    )


_ENDS: Final = 10
"""Rows at each end of the table of points."""


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
        rows.append(
            list(map(escape, [varied.key, varied.column, varied.unit, values_text(varied)]))
        )
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
