"""Many varied keys at once: ribbons across a column a key, and the effect of each key by itself.

Plotly's own kinds of such charts are in its whole bundle alone, which is four times the one that a
page carries, so a ribbon is a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowcontrol.experiments.sweep.axes import key_axis, value_text
from flowcontrol.experiments.sweep.heat import colour_axis
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.report.figures import (
    GOOD_TO_BAD,
    GREY,
    Figure,
    axis,
    line_style,
    numbered,
    scatter,
)
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pandas as pd

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
