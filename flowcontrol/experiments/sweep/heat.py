"""Heat maps of a sweep: a metric over two keys, one map for each value of a third, what limits."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.sweep.axes import (
    PACKAGE,
    cells_axis,
    chart_layout,
    limit_traces,
    metric_chart,
    value_text,
)
from flowcontrol.experiments.sweep.metric import NOTHING, Metric
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.report.figures import GOOD_TO_BAD_FILLS, Chart, caption, numbered, scatter
from flowcontrol.report.markup import chart_texts
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pandas as pd

_MOST_FACETS: Final = 9
_FACET_TICKS: Final = 5
"""Ticks of an axis of one of several plots side by side."""

_MOST_TEXTS: Final = 120
"""Cells up to which each one carries its value."""


def _grid(frame: pd.DataFrame, down: Varied, across: Varied, column: str) -> list[list[Any]]:
    """Return a column as rows of cells; None if a variant is missing or has no value."""
    cells = frame.set_index([down.column, across.column])[column].to_dict()
    rows = [
        [cells.get((down.typed(y), across.typed(x))) for x in across.values] for y in down.values
    ]
    return [[None if cell != cell else cell for cell in row] for row in rows]


def _heat(frame: pd.DataFrame, down: Varied, across: Varied, *, has_texts: bool) -> dict[str, Any]:
    """Return a heat map of a metric."""
    parts = zip(*(frame[name] for name in ("mean", "error", "count", "bottleneck")), strict=True)
    drawn = frame.assign(
        hover=[_hover(*part) for part in parts], text=frame["mean"].map(number, na_action="ignore")
    )
    texts = [[cell or "" for cell in row] for row in _grid(drawn, down, across, "text")]
    return {
        "type": "heatmap",
        "x": list(cells_axis(across)[0].values()),
        "y": list(cells_axis(down)[0].values()),
        "z": _grid(frame, down, across, "mean"),
        "customdata": _grid(drawn, down, across, "hover"),
        "hovertemplate": "%{x}, %{y}<br>%{customdata}<extra></extra>",
        "coloraxis": "coloraxis",
        "xgap": int(has_texts),
        "ygap": int(has_texts),
        **({"text": texts, "texttemplate": "%{text}"} if has_texts else {}),
    }


def _hover(mean: float, error: float, count: int, limit: str) -> str:
    if mean != mean:
        return "no value"
    spread = f" ± {number(error)} ({count} replications)" if count > 1 else ""
    return f"{number(mean)}{spread}<br>{escape(limit or NOTHING)} limits"


def colour_axis(metric: Metric, good_to_bad: Sequence[str] = GOOD_TO_BAD_FILLS) -> dict[str, Any]:
    """Return the colours of a metric: blue at its good end, vermillion at its bad one."""
    colours = good_to_bad[::-1] if metric.is_higher_better else good_to_bad
    last = len(colours) - 1
    title = f"{escape(metric.unit)}, {metric.good_end}"
    return {
        "colorscale": [[place / last, colour] for place, colour in enumerate(colours)],
        "colorbar": {
            "title": {"text": title, "side": "right", "font": {"size": 13}},
            "tickformat": ",~r",
        },
    }


def heat_chart(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Chart:
    """Return a metric over two varied keys."""
    down, across = _down_and_across(dims)
    is_small = len(down.values) * len(across.values) <= _MOST_TEXTS
    heat = _heat(frame, down, across, has_texts=is_small)
    layout = _layout(dims, coloraxis=colour_axis(metric))
    return metric_chart("heat", metric, [heat], layout)


def scatter_chart(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Chart:
    """Return a metric at points drawn from the product of two varied keys."""
    valued = frame.dropna(subset=["mean"])
    x, y = _places(valued, dims)
    dots = scatter(
        "",
        x,
        y,
        mode="markers",
        marker={"size": 11, "color": list(valued["mean"]), "coloraxis": "coloraxis"},
        text=[number(value) for value in valued["mean"]],
        hovertemplate="%{x}, %{y}<br>%{text}<extra></extra>",
    )
    layout = _layout(dims, coloraxis=colour_axis(metric))
    return metric_chart("drawn", metric, [dots], layout)


def bottleneck_chart(frame: pd.DataFrame, dims: Sequence[Varied]) -> Chart:
    """Return what limits at each point of two varied keys."""
    size = 12 if max(len(varied.values) for varied in dims) <= 25 else 7  # room for neighbours
    traces = limit_traces(frame, *_places(frame, dims), size=size)
    figure = {"data": traces, "layout": _layout(dims, showlegend=True)}
    texts = chart_texts(PACKAGE)["bottleneck"]
    return Chart("bottleneck", texts["title"], texts["text"], figure)


def _layout(dims: Sequence[Varied], **more: Any) -> dict[str, Any]:
    down, across = _down_and_across(dims)
    axes = {"xaxis": cells_axis(across)[1], "yaxis": cells_axis(down)[1]}
    return chart_layout(_heat_height(down), **axes, **more)


def _places(frame: pd.DataFrame, dims: Sequence[Varied]) -> tuple[list[Any], list[Any]]:
    """Return the coordinates of the points."""
    down, across = _down_and_across(dims)
    x, y = (frame[key.column].map(cells_axis(key)[0]).tolist() for key in (across, down))
    return x, y


def _down_and_across(dims: Sequence[Varied]) -> tuple[Varied, Varied]:
    """Return the key with fewer values for the vertical axis, and the other."""
    down, across = sorted(dims, key=lambda varied: len(varied.values))
    return down, across


def _heat_height(down: Varied) -> int:
    return 140 + min(560, max(220, 34 * len(down.values)))


def facet_key(dims: Sequence[Varied]) -> Varied | None:
    """Return the key with a heat map per value; None if there would be too many."""
    fewest = min(dims, key=lambda varied: len(varied.values))
    return fewest if len(fewest.values) <= _MOST_FACETS else None


def facet_chart(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Chart:
    """Return a metric over three varied keys: a heat map for each value of one of them."""
    facet = facet_key(dims) or dims[0]
    down, across = _down_and_across([varied for varied in dims if varied is not facet])
    count = len(facet.values)
    columns = 2 if count in {2, 4} else min(3, count)
    rows = -(-count // columns)
    grid = {"rows": rows, "columns": columns, "pattern": "independent", "xgap": 0.08, "ygap": 0.3}
    height = 90 + rows * (_heat_height(down) - 40)
    layout = chart_layout(height, grid=grid, coloraxis=colour_axis(metric), annotations=[])
    traces = []
    for index, value in enumerate(facet.values):
        x, y = numbered("x", index), numbered("y", index)
        layout[x.replace("x", "xaxis")] = cells_axis(across, _FACET_TICKS)[1]
        layout[y.replace("y", "yaxis")] = cells_axis(down)[1] | (
            {"showticklabels": False, "title": {"text": ""}} if index % columns else {}
        )
        part = frame[frame[facet.column] == facet.typed(value)]
        traces.append(_heat(part, down, across, has_texts=False) | {"xaxis": x, "yaxis": y})
        layout["annotations"].append(caption(f"{facet.label} = {value_text(value)}", x, y))
    return metric_chart("facets", metric, traces, layout, facet=facet.label)
