"""Many varied keys at once: parallel coordinates, and the effect of each key by itself.

Drawn from ordinary lines: plotly's own ``parcoords`` makes its shaders with ``eval``, which the
page's policy forbids.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.report.colours import GOOD_TO_BAD, GREY, line_style
from flowcontrol.report.figures import Figure, axis
from flowcontrol.report.numbers import number
from flowcontrol.sweeping.axes import key_axis, value_text
from flowcontrol.sweeping.metric import Metric
from flowcontrol.sweeping.varied import Varied

if TYPE_CHECKING:
    import pandas as pd

_CHIP: Final = {"bgcolor": "rgba(255, 255, 255, 0.8)", "font": {"color": "#1b1f24", "size": 12}}
"""Under a value that stands in the midst of lines."""

_MOST_LINES: Final = 2_000
"""Lines drawn; more would be a smear and a slow page."""

_MOST_TEXTS: Final = 8
"""Values up to which each one is written beside its axis."""


def parallel_figure(
    frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric
) -> tuple[Figure, int]:
    """Return the points of a sweep as lines across an axis a key.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`~flowcontrol.sweeping.metric.points_frame`.
    dims : sequence of Varied
        The keys, an axis each.
    metric : Metric
        The last axis, and the colours.

    Returns
    -------
    figure : dict
        ``data`` and ``layout``.
    left_out : int
        Points that are not drawn.
    """
    valued = frame.dropna(subset=["mean"]).sort_values("mean", kind="stable")
    step = max(1, -(-len(valued) // _MOST_LINES))
    drawn = valued.iloc[::step]
    low, high = (drawn["mean"].min(), drawn["mean"].max()) if len(drawn) else (0.0, 0.0)
    heights = [[_height(varied, value) for value in drawn[varied.column]] for varied in dims]
    heights.append([_share(value, low, high) for value in drawn["mean"]])
    layout = {
        "height": 420,
        "margin": {"l": 60, "r": 90, "t": 10, "b": 40},
        "hovermode": False,
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.04,
            "yanchor": "top",
            "title": {"text": escape(f"{metric.title}, {metric.good_end}: ", quote=False)},
        },
        "xaxis": {"visible": False, "range": [-0.15, len(dims) + 0.25]},
        "yaxis": {"visible": False, "range": [-0.06, 1.2]},
        "shapes": [_upright(place) for place in range(len(dims) + 1)],
        "annotations": _texts(dims, metric, low, high),
    }
    colours = GOOD_TO_BAD[::-1] if metric.is_higher_better else GOOD_TO_BAD
    data = _bands(heights, list(drawn["mean"]), low, high, colours)
    return {"data": data, "layout": layout}, len(valued) - len(drawn)


def _bands(
    heights: Sequence[Sequence[float]],
    means: Sequence[float],
    low: float,
    high: float,
    colours: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a trace a band of the metric, its lines cut by gaps; colours from low to high."""
    traces = []
    count = len(colours)
    for band, colour in enumerate(colours):
        picked = [
            row
            for row, mean in enumerate(means)
            if min(count - 1, int(_share(mean, low, high) * count)) == band
        ]
        if not picked:
            continue
        x: list[Any] = []
        y: list[Any] = []
        for row in picked:
            x += [*range(len(heights)), None]
            y += [*(column[row] for column in heights), None]
        begins, ends = (low + (high - low) * edge / count for edge in (band, band + 1))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"{number(begins)} to {number(ends)}" if high > low else number(low),
                "x": x,
                "y": y,
                "line": {"color": colour, "width": 1.6},
                "opacity": 0.75,
            }
        )
    return traces


def _height(varied: Varied, value: Any) -> float:
    """Return where a value stands on its axis, from 0 to 1."""
    if varied.is_numeric:
        return _share(value, min(varied.values), max(varied.values))
    places = [varied.typed(known) for known in varied.values]
    return _share(places.index(value), 0, len(places) - 1)


def _share(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.5


def _upright(place: int) -> dict[str, Any]:
    line = {"color": GREY, "width": 1}
    return {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "line": line}


def _texts(dims: Sequence[Varied], metric: Metric, low: float, high: float) -> list[dict[str, Any]]:
    """Return the titles above the axes and the values beside them."""
    texts = []
    for place, varied in enumerate(dims):
        texts.append(_text(place, 1.05, _two_lines(varied), "center", "bottom"))
        shown = varied.values
        if len(shown) > _MOST_TEXTS:
            shown = (min(shown), max(shown)) if varied.is_numeric else (shown[0], shown[-1])
        texts += [
            _text(place, _height(varied, varied.typed(value)), value_text(value), "right", "middle")
            | _CHIP
            for value in shown
        ]
    last = len(dims)
    texts.append(_text(last, 1.05, metric.title.replace(" (", "\n("), "center", "bottom"))
    texts += [
        _text(last, _share(value, low, high), number(value), "left", "middle")
        for value in dict.fromkeys((low, high))
    ]
    return texts


def _text(x: float, y: float, content: str, xanchor: str, yanchor: str) -> dict[str, Any]:
    shift = {"right": -5, "left": 5}.get(xanchor, 0)
    return {
        "x": x,
        "y": y,
        "text": escape(content, quote=False).replace("\n", "<br>"),
        "xanchor": xanchor,
        "yanchor": yanchor,
        "xshift": shift,
        "showarrow": False,
    }


def _two_lines(varied: Varied) -> str:
    return f"{varied.label}\n({varied.unit})" if varied.unit else varied.label


def effects_figure(frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric) -> Figure:
    """Return the mean of a metric for each value of each key, plots side by side.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`~flowcontrol.sweeping.metric.points_frame`.
    dims : sequence of Varied
        The keys, a plot each.
    metric : Metric
        The shared vertical axis.

    Returns
    -------
    dict
        ``data`` and ``layout``.
    """
    gap = 0.03
    width = (1 - gap * (len(dims) - 1)) / len(dims)
    value_axis = axis(escape(metric.title, quote=False))
    layout: dict[str, Any] = {
        "height": 340,
        "margin": {"l": 70, "r": 20, "t": 14, "b": 80},
        "showlegend": False,
        "yaxis": value_axis,
    }
    traces = []
    for index, varied in enumerate(dims):
        suffix = str(index + 1) if index else ""
        left = index * (width + gap)
        domain = [left, min(1.0, left + width)]
        title = escape(_two_lines(varied), quote=False).replace("\n", "<br>")
        layout[f"xaxis{suffix}"] = key_axis(varied) | {
            "domain": domain,
            "anchor": "y",
            "title": {"text": title, "standoff": 8},
            "nticks": 4,
            "tickangle": 0,
        }
        traces.append(_effect(frame, varied, index) | {"xaxis": f"x{suffix}", "yaxis": "y"})
    return {"data": traces, "layout": layout}


def _effect(frame: pd.DataFrame, varied: Varied, index: int) -> dict[str, Any]:
    """Return the mean over all points with one value of a key, and their range."""
    found = frame.groupby(varied.column, sort=False)["mean"].agg(["mean", "min", "max"]).dropna()
    values = [value for value in varied.values if varied.typed(value) in found.index]
    rows = [found.loc[varied.typed(value)] for value in values]
    style = line_style(index)
    return {
        "type": "scatter",
        "mode": "lines+markers" if varied.is_numeric else "markers",
        "name": escape(varied.label, quote=False),
        "x": values if varied.is_numeric else [value_text(value) for value in values],
        "y": [float(row["mean"]) for row in rows],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [float(row["max"] - row["mean"]) for row in rows],
            "arrayminus": [float(row["mean"] - row["min"]) for row in rows],
            "thickness": 1,
        },
        "line": {"color": style.colour},
        "marker": {"color": style.colour, "symbol": style.marker, "size": 7},
    }
