"""Many varied keys at once: ribbons across a column a key, and the effect of each key by itself.

Ribbons are plotly's parallel categories. Its parallel coordinates would need no classes of values,
but make their shaders with ``eval``, which the page's policy forbids.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.experiments.sweep.axes import key_axis, value_text
from flowcontrol.experiments.sweep.heat import colour_axis
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.report.colours import GOOD_TO_BAD, line_style
from flowcontrol.report.figures import Figure, axis, numbered, scatter
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pandas as pd

_MOST_RIBBONS: Final = 2_000
"""Points drawn; more are unreadable and slow."""

_MOST_CLASSES: Final = 12
"""Categories of a column; neighbouring values share one if a key has more values."""

_BANDS: Final = 5
"""Places in the column of the metric."""

_RIGHT: Final = 0.88
"""Right end of the columns, as a share of the width; room for the names of the last one."""


def parallel_figure(
    frame: pd.DataFrame, dims: Sequence[Varied], metric: Metric
) -> tuple[Figure, int]:
    """Return the points of a sweep as ribbons across a column a key.

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`~flowcontrol.experiments.sweep.metric.points_frame`.
    dims : sequence of Varied
        The keys, a column each.
    metric : Metric
        The last column, and the colours.

    Returns
    -------
    figure : dict
        ``data`` and ``layout``; no data where no point has a value.
    left_out : int
        Points that are not drawn.
    """
    valued = frame.dropna(subset=["mean"]).sort_values("mean", kind="stable")
    drawn = valued.iloc[:: max(1, -(-len(valued) // _MOST_RIBBONS))]
    columns = [_key_column(drawn, varied) for varied in dims] + [_metric_column(drawn)]
    titles = [*map(two_lines, dims), metric.title.replace(" (", "\n(")]
    ribbons = {
        "type": "parcats",
        "dimensions": columns,
        "domain": {"x": [0, _RIGHT]},
        "line": {"color": drawn["mean"].tolist(), "coloraxis": "coloraxis", "shape": "hspline"},
        "hoverinfo": "skip",
        "arrangement": "fixed",
        "tickfont": {"size": 12},
    }
    layout = {
        "height": 440,
        "margin": {"l": 100, "r": 20, "t": 50, "b": 20},
        "coloraxis": colour_axis(metric, GOOD_TO_BAD),
        "annotations": [_title(text, at / len(dims)) for at, text in enumerate(titles)],
    }
    data = [ribbons] if len(drawn) else []
    return {"data": data, "layout": layout}, len(valued) - len(drawn)


def _key_column(drawn: pd.DataFrame, varied: Varied) -> dict[str, Any]:
    """Return a column with a place for each value of a key, or for several neighbours."""
    size = -(-len(varied.values) // _MOST_CLASSES)
    classes = [varied.values[at : at + size] for at in range(0, len(varied.values), size)]
    place = {varied.typed(v): at for at, values in enumerate(classes) for v in values}
    names = [" to ".join(map(value_text, dict.fromkeys((v[0], v[-1])))) for v in classes]
    return _column(drawn[varied.column].map(place).tolist(), names)


def _metric_column(drawn: pd.DataFrame) -> dict[str, Any]:
    """Return a column with bands of the metric."""
    low, high = (drawn["mean"].min(), drawn["mean"].max()) if len(drawn) else (0.0, 0.0)
    if low == high:
        return _column([0] * len(drawn), [number(low)])
    ends = [low + (high - low) * band / _BANDS for band in range(_BANDS + 1)]
    bands = ((drawn["mean"] - low) / (high - low) * _BANDS).astype(int).clip(upper=_BANDS - 1)
    names = [f"{number(begin)} to {number(end)}" for begin, end in pairwise(ends)]
    return _column(bands.tolist(), names)


def _column(places: list[int], names: Sequence[str]) -> dict[str, Any]:
    """Return a column whose places have names, the first one at the bottom.

    A place without a point is left out: plotly fails on it, and the page ends there.
    """
    used = sorted(set(places), reverse=True)
    return {
        "label": "",
        "values": places,
        "categoryorder": "array",
        "categoryarray": used,
        "ticktext": [escape(names[place], quote=False) for place in used],
    }


def _title(content: str, share: float) -> dict[str, Any]:
    """Return the title above a column; plotly's own titles of columns have one line."""
    return {
        "text": _markup(content),
        "x": share * _RIGHT,
        "y": 1,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left" if share == 1 else "center",  # to the right there is room
        "yanchor": "bottom",
        "xshift": -16 if share == 1 else 0,
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

    Parameters
    ----------
    frame : pandas.DataFrame
        From :func:`~flowcontrol.experiments.sweep.metric.points_frame`.
    dims : sequence of Varied
        The keys, a plot each.
    metric : Metric
        The shared vertical axis.

    Returns
    -------
    dict
        ``data`` and ``layout``.
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
