"""Heat maps of a sweep: a metric over two keys, facets for a third, and what limits where."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.report.colours import GOOD_TO_BAD_FILLS, line_style
from flowcontrol.report.figures import Chart, Figure
from flowcontrol.report.numbers import number
from flowcontrol.sweeping.axes import cells_axis, chart_id, chart_layout, value_text
from flowcontrol.sweeping.metric import NOTHING, Metric
from flowcontrol.sweeping.varied import Varied

if TYPE_CHECKING:
    import pandas as pd

_MOST_FACETS: Final = 9
_FACET_TICKS: Final = 5
"""Ticks of an axis of one of several plots side by side."""

_MOST_TEXTS: Final = 120
"""Cells up to which each one carries its value."""


def _grid(frame: pd.DataFrame, down: Varied, across: Varied, column: str) -> list[list[Any]]:
    """Return a column as rows of cells; None where a variant is missing or has no value."""
    keys = zip(frame[down.column], frame[across.column], strict=True)
    found = dict(zip(keys, frame[column], strict=True))
    rows = []
    for y in down.values:
        cells = [found.get((down.typed(y), across.typed(x))) for x in across.values]
        rows.append([None if cell is None or cell != cell else cell for cell in cells])
    return rows


def _heat(frame: pd.DataFrame, down: Varied, across: Varied, *, has_texts: bool) -> dict[str, Any]:
    """Return a heat map of a metric."""
    z = _grid(frame, down, across, "mean")
    errors = _grid(frame, down, across, "error")
    counts = _grid(frame, down, across, "count")
    limits = _grid(frame, down, across, "bottleneck")
    shape = range(len(z))
    hover = [
        [_hover(z[i][j], errors[i][j], counts[i][j], limits[i][j]) for j in range(len(z[i]))]
        for i in shape
    ]
    texts = [["" if cell is None else number(cell) for cell in row] for row in z]
    return {
        "type": "heatmap",
        "x": cells_axis(across)[0],
        "y": cells_axis(down)[0],
        "z": z,
        "customdata": hover,
        "hovertemplate": "%{x}, %{y}<br>%{customdata}<extra></extra>",
        "coloraxis": "coloraxis",
        "xgap": 1 if has_texts else 0,
        "ygap": 1 if has_texts else 0,
        **({"text": texts, "texttemplate": "%{text}"} if has_texts else {}),
    }


def _hover(mean: Any, error: Any, count: Any, limit: Any) -> str:
    if mean is None:
        return "no value"
    spread = f" ± {number(error)} ({int(count)} replications)" if count and count > 1 else ""
    return f"{number(mean)}{spread}<br>{escape(limit or NOTHING)} limits"


def _colours(metric: Metric) -> dict[str, Any]:
    """Return the colours of a metric: blue at its good end, vermillion at its bad one."""
    colours = GOOD_TO_BAD_FILLS[::-1] if metric.is_higher_better else GOOD_TO_BAD_FILLS
    last = len(colours) - 1
    title = f"{escape(metric.figure.column.unit)}, {metric.good_end}"
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
    layout = chart_layout(
        _heat_height(down),
        xaxis=cells_axis(across)[1],
        yaxis=cells_axis(down)[1],
        coloraxis=_colours(metric),
    )
    is_small = len(down.values) * len(across.values) <= _MOST_TEXTS
    heat = _heat(frame, down, across, has_texts=is_small)
    figure: Figure = {"data": [heat], "layout": layout}
    explanation = (
        f"{metric.figure.column.meaning} Unit: {metric.figure.column.unit}. Each cell is the mean "
        "over the replications of one point; point at it for its confidence interval (95 %)."
    )
    return Chart(chart_id("heat", metric.name), metric.name, explanation, figure)


def scatter_chart(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Chart:
    """Return a metric at points drawn from the product of two varied keys."""
    down, across = _down_and_across(dims)
    (x, x_axis), (y, y_axis) = cells_axis(across), cells_axis(down)
    x_places = {across.typed(value): place for value, place in zip(across.values, x, strict=True)}
    y_places = {down.typed(value): place for value, place in zip(down.values, y, strict=True)}
    valued = frame.dropna(subset=["mean"])
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [x_places[value] for value in valued[across.column]],
        "y": [y_places[value] for value in valued[down.column]],
        "marker": {"size": 11, "color": list(valued["mean"]), "coloraxis": "coloraxis"},
        "text": [number(value) for value in valued["mean"]],
        "hovertemplate": "%{x}, %{y}<br>%{text}<extra></extra>",
    }
    layout = chart_layout(
        _heat_height(down), xaxis=x_axis, yaxis=y_axis, coloraxis=_colours(metric)
    )
    explanation = (
        f"{metric.figure.column.meaning} Unit: {metric.figure.column.unit}. Each dot is the mean "
        "over the replications of one of the points that were drawn."
    )
    figure: Figure = {"data": [trace], "layout": layout}
    return Chart(chart_id("drawn", metric.name), metric.name, explanation, figure)


def _down_and_across(dims: Sequence[Varied]) -> tuple[Varied, Varied]:
    """Return the key with fewer values for the vertical axis, and the other."""
    first, second = dims
    return (first, second) if len(first.values) <= len(second.values) else (second, first)


def _heat_height(down: Varied) -> int:
    return 140 + min(560, max(220, 34 * len(down.values)))


def bottleneck_chart(frame: pd.DataFrame, dims: Sequence[Varied]) -> Chart:
    """Return what limits at each point of two varied keys."""
    down, across = _down_and_across(dims)
    limits = _grid(frame, down, across, "bottleneck")
    present = [limit or NOTHING for row in limits for limit in row if limit is not None]
    x, x_axis = cells_axis(across)
    y, y_axis = cells_axis(down)
    traces = []
    for index, name in enumerate(dict.fromkeys(present)):
        cells = [
            (x[j], y[i])
            for i, row in enumerate(limits)
            for j, limit in enumerate(row)
            if limit is not None and (limit or NOTHING) == name
        ]
        style = line_style(index)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{escape(name, quote=False)} limits",
                "x": [cell[0] for cell in cells],
                "y": [cell[1] for cell in cells],
                "marker": {"color": style.colour, "symbol": style.marker, "size": _dot(dims)},
            }
        )
    layout = chart_layout(_heat_height(down), xaxis=x_axis, yaxis=y_axis, showlegend=True)
    explanation = (
        "The stage that limits the job at each point, or the exchange whose buffers are too few: "
        "the most frequent one of its replications."
    )
    return Chart("bottleneck", "What limits", explanation, {"data": traces, "layout": layout})


def _dot(dims: Sequence[Varied]) -> int:
    """Return the size of a dot that leaves room for its neighbours."""
    return 12 if max(len(varied.values) for varied in dims) <= 25 else 7


def facet_key(dims: Sequence[Varied]) -> Varied | None:
    """Return the key whose values get a heat map each; None if it would be too many."""
    fewest = min(dims, key=lambda varied: len(varied.values))
    return fewest if len(fewest.values) <= _MOST_FACETS else None


def facet_chart(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Chart:
    """Return a metric over three varied keys: a heat map for each value of one of them."""
    facet = facet_key(dims) or dims[0]
    down, across = _down_and_across([varied for varied in dims if varied is not facet])
    count = len(facet.values)
    columns = 2 if count in {2, 4} else min(3, count)
    rows = -(-count // columns)
    traces: list[dict[str, Any]] = []
    layout = chart_layout(
        90 + rows * (_heat_height(down) - 40),
        coloraxis=_colours(metric),
        annotations=[],
    )
    for index, value in enumerate(facet.values):
        row, column = divmod(index, columns)
        part = frame[frame[facet.column] == facet.typed(value)].reset_index(drop=True)
        suffix = str(index + 1) if index else ""
        box = _box(row, column, rows, columns)
        layout[f"xaxis{suffix}"] = cells_axis(across, _FACET_TICKS)[1] | {
            "domain": box[0],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = cells_axis(down)[1] | {"domain": box[1], "anchor": f"x{suffix}"}
        if column:
            layout[f"yaxis{suffix}"] |= {"showticklabels": False, "title": {"text": ""}}
        heat = _heat(part, down, across, has_texts=False) | {
            "xaxis": f"x{suffix}",
            "yaxis": f"y{suffix}",
        }
        traces.append(heat)
        layout["annotations"].append(_caption(f"{facet.label} = {value_text(value)}", box))
    explanation = (
        f"{metric.figure.column.meaning} Unit: {metric.figure.column.unit}. A heat map for each "
        f"value of {facet.label}, all in the same colours."
    )
    figure: Figure = {"data": traces, "layout": layout}
    return Chart(chart_id("facets", metric.name), metric.name, explanation, figure)


def _box(row: int, column: int, rows: int, columns: int) -> tuple[list[float], list[float]]:
    """Return the domains of one of several plots, from the top left."""
    gap_x, gap_y = 0.04, 0.3 / rows if rows > 1 else 0.0
    width = (1 - gap_x * (columns - 1)) / columns
    height = (1 - gap_y * (rows - 1)) / rows
    left, top = column * (width + gap_x), 1 - row * (height + gap_y)
    return [left, min(1.0, left + width)], [max(0.0, top - height), top]


def _caption(content: str, box: tuple[list[float], list[float]]) -> dict[str, Any]:
    return {
        "text": escape(content, quote=False),
        "xref": "paper",
        "yref": "paper",
        "x": box[0][0],
        "y": box[1][1],
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }
