"""Charts over varied keys: axes, heat maps, points coloured by what limits them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.sweep.metric import NOTHING, Metric
from flowcontrol.experiments.sweep.varied import Varied, show_value
from flowcontrol.report.figures import (
    GOOD_TO_BAD_FILLS,
    Chart,
    caption,
    line_style,
    numbered,
    scatter,
)
from flowcontrol.report.markup import chart_texts, number

if TYPE_CHECKING:
    import pandas as pd


# --- Axes for varied keys, numeric if evenly spaced, and points coloured by what limits them.


PACKAGE: Final = "flowcontrol.experiments.sweep"
_MOST_TICKS: Final = 12
"""Values up to which each one gets a tick."""

_TOLERANCE: Final = 1.05
"""Ratio of the widest to the narrowest step up to which steps are equal."""


def value_text(value: Any) -> str:
    """Return a value of a varied key as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return show_value(value)
    if isinstance(value, int):
        return f"{value:,}"
    return number(value) if abs(value) >= 0.1 else f"{value:.3g}"


def values_text(varied: Varied) -> str:
    """Return the values of a key; of many the first few, the last one and their number."""
    values = [value_text(value) for value in varied.values]
    shown = ", ".join(values[:_MOST_TICKS])
    if len(values) > _MOST_TICKS:
        shown += f" … {values[-1]} ({len(values):,} values)"
    return shown


def _equal_steps(steps: Sequence[float]) -> bool:
    return bool(steps) and min(steps) > 0 and max(steps) <= _TOLERANCE * min(steps)


def is_even(varied: Varied) -> bool:
    """Whether the values are numbers in rising, equal steps."""
    if not varied.is_numeric:
        return False
    pairs = zip(varied.values, varied.values[1:], strict=False)
    return _equal_steps([b - a for a, b in pairs])


def is_geometric(varied: Varied) -> bool:
    """Whether the values are positive numbers, three or more, each a multiple of the one before."""
    if not varied.is_numeric or len(varied.values) < 3 or min(varied.values) <= 0:
        return False
    pairs = zip(varied.values, varied.values[1:], strict=False)
    ratios = [b / a for a, b in pairs]
    return _equal_steps(ratios) and min(ratios) > _TOLERANCE


def _titled(varied: Varied) -> dict[str, Any]:
    title = {"text": escape(varied.title, quote=False), "standoff": 8}
    return {"title": title, "automargin": True}


def key_axis(varied: Varied) -> dict[str, Any]:
    """Return the axis of a line plot."""
    made = _titled(varied)
    if not varied.is_numeric:
        names = [value_text(value) for value in varied.values]
        return made | {"type": "category", "categoryorder": "array", "categoryarray": names}
    made["type"] = "log" if is_geometric(varied) else "linear"
    if len(varied.values) <= _MOST_TICKS:
        made["tickvals"] = list(varied.values)
        made["ticktext"] = [value_text(value) for value in varied.values]
    return made


def cells_axis(varied: Varied, ticks: int = _MOST_TICKS) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the place of each value on the axis of a heat map, and the axis.

    Many evenly spaced numbers get an axis of numbers; otherwise each value gets a place of equal
    width, and at most ``ticks`` of them a label.
    """
    made = _titled(varied) | {"tickangle": 0}
    if is_even(varied) and len(varied.values) > _MOST_TICKS:
        return {varied.typed(v): v for v in varied.values}, made | {
            "type": "linear",
            "nticks": ticks,
        }
    places = {varied.typed(value): place for place, value in enumerate(varied.values)}
    named = range(0, len(places), -(-len(places) // ticks))
    return places, made | {
        "type": "linear",
        "tickvals": list(named),
        "ticktext": [escape(value_text(varied.values[place]), quote=False) for place in named],
        "showgrid": False,
        "zeroline": False,
        "range": [-0.5, len(places) - 0.5],
    }


def metric_chart(
    kind: str, metric: Metric, data: list[dict[str, Any]], layout: dict[str, Any], **words: str
) -> Chart:
    """Return a chart of a metric; some words complete its text in ``charts.yaml``.

    The id of its element has only letters, digits and hyphens.
    """
    letters = "".join(letter if letter.isalnum() else "-" for letter in metric.name)
    texts = chart_texts(PACKAGE)[kind]
    title, text = (texts[name].format(metric=metric, **words) for name in ("title", "text"))
    return Chart(f"{kind}-{letters}", title, text, {"data": data, "layout": layout})


def chart_layout(height: int, **more: Any) -> dict[str, Any]:
    """Return the layout that all charts share, with further keys; they win."""
    return {
        "height": height,
        "margin": {"l": 70, "r": 20, "t": 34, "b": 60},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        **more,
    }


def limit_traces(
    frame: pd.DataFrame,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    size: int,
    errors: Sequence[float] | None = None,
) -> list[dict[str, Any]]:
    """Return a trace of points for each limit, in the order in which limits occur.

    - ``frame``: a row a point, with ``bottleneck``.
    - ``errors``: half the height of each point's error bar.
    """
    limits = [name or NOTHING for name in frame["bottleneck"]]
    traces = []
    for index, name in enumerate(dict.fromkeys(limits)):
        picked = [row for row, limit in enumerate(limits) if limit == name]
        style = line_style(index)
        trace = scatter(
            f"{name} limits",
            [x[row] for row in picked],
            [y[row] for row in picked],
            mode="markers",
            marker={"color": style.colour, "symbol": style.marker, "size": size},
        )
        if errors is not None:
            array = [errors[row] for row in picked]
            trace["error_y"] = {"type": "data", "array": array, "color": style.colour}
        traces.append(trace)
    return traces


# --- Heat maps of a sweep: a metric over two keys, one map for each value of a third, what limits.


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
