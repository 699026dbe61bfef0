"""Plotly figures as plain dicts: traces, axes and the layout that all charts share.

Plain dicts are all that the page needs, and plotly takes a second to import. The page's script
adds what depends on the theme: colours of text and grid, and a transparent background.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from flowcontrol.report.figures import BLUE, GREY, VERMILLION, LineStyle, Series

Figure = dict[str, Any]

_MOST_MARKERS = 60
"""Samples up to which each gets a marker."""

_GAP = 0.14
"""Space above a plot, as a share of its height including that space."""

_CAPTION_PX = 34
"""The same in pixels if it holds a line of text."""

_BASE_PX = 118
"""Height of a chart without its plots: legend, title of the time axis, margins."""


@dataclass(frozen=True)
class Chart:
    """One chart of the page."""

    id: str  # Of its element; letters and hyphens
    title: str  # Above it
    explanation: str  # Plain text below it: how to read it, and what is left out
    figure: Figure  # ``data`` and ``layout`` for plotly; empty data when there is nothing to draw
    controls: str = ""  # Markup above the drawing, by which a reader changes it; none by default
    is_packed: bool = False  # Whether the page has the figure gzipped: one of very many numbers


def steps(series: Series, style: LineStyle, *, width: float = 2.0) -> dict[str, Any]:
    """Return the trace of a figure that covers intervals: it steps where an interval starts."""
    stroke = {"color": style.colour, "dash": style.dash, "width": width, "shape": "vh"}
    return line(series, style) | {"line": stroke, "mode": "lines"}


def line(series: Series, style: LineStyle, *, row: int = 0, **more: Any) -> dict[str, Any]:
    """Return a trace of a level, drawn from sample to sample.

    ``more``: further keys of the trace; they win.
    """
    has_markers = 0 < len(series.x) <= _MOST_MARKERS
    shown = {
        "mode": "lines+markers" if has_markers else "lines",
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"color": style.colour, "symbol": style.marker, "size": 6},
    }
    return _named(series, row, **shown | more)


def area(series: Series, colour: str, pattern: str, *, row: int, **more: Any) -> dict[str, Any]:
    """Return one layer of a stack that fills up to 100 %; ``pattern`` is plotly's hatch."""
    shown = {
        "mode": "lines",
        "line": {"width": 0.6, "color": colour, "shape": "vh"},
        "fillcolor": colour,
        "fillpattern": {"shape": pattern, "fgcolor": "#ffffff", "bgcolor": colour, "size": 7},
        "stackgroup": f"row{row}",
    }
    return _named(series, row, **shown | more)


def _named(series: Series, row: int, **more: Any) -> dict[str, Any]:
    """Return the trace of a series with its place in the legend and among the plots."""
    made = scatter(series.name, series.x, series.y, legendgroup=series.name, xaxis="x", **more)
    return made | {"yaxis": numbered("y", row)}


def scatter(name: str, x: Sequence[Any], y: Sequence[Any], **more: Any) -> dict[str, Any]:
    """Return a trace of points; the other keys are plotly's own."""
    return {"type": "scatter", "name": escape(name, quote=False), "x": x, "y": y, **more}


def axis(title: str, **more: Any) -> dict[str, Any]:
    """Return an axis of values that starts at 0; the title names the unit."""
    return {
        "title": {"text": title, "standoff": 8},
        "rangemode": "tozero",
        "automargin": True,
        **more,
    }


def figure(
    traces: list[dict[str, Any]],
    axes: Sequence[dict[str, Any]],
    *,
    until_s: float,
    changes: Sequence[float] = (),
    row_px: int = 240,
    captions: Sequence[str] = (),
) -> Figure:
    """Return a figure of one or more plots above each other that share the time axis.

    - ``traces``: from :func:`steps`, :func:`line` and :func:`area`.
    - ``axes``: the value axis of each plot, from the top.
    - ``until_s`` (s): end of the time axis.
    - ``changes`` (s): times marked by a vertical line through all plots.
    - ``captions``: a line of text above each plot; none by default.

    Returns ``data`` and ``layout``.
    """
    height = row_px * len(axes)
    legend_y = 1 + (_CAPTION_PX - 8 if captions else 4) / height
    layout: dict[str, Any] = {
        "height": _BASE_PX + height,
        "margin": {"l": 62, "r": 14, "t": 10, "b": 52},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "x": 0, "y": legend_y, "yanchor": "bottom"},
        "shapes": phase_lines(changes),
        "annotations": [],
        "grid": {
            "rows": len(axes),
            "columns": 1,
            "ygap": _CAPTION_PX / row_px if captions else _GAP,
        },
        "xaxis": {
            "title": {"text": "emulated time (s)", "standoff": 8},
            "range": [0, until_s],
            "anchor": numbered("y", len(axes) - 1),
        },
    }
    for row, value_axis in enumerate(axes):
        layout[numbered("yaxis", row)] = value_axis
    for row, content in enumerate(captions):
        layout["annotations"].append(caption(content, "x", numbered("y", row)))
    return {"data": traces, "layout": layout}


def phase_lines(changes: Sequence[float]) -> list[dict[str, Any]]:
    """Return a thin vertical line for each change of phase."""
    return [
        {
            "type": "line",
            "xref": "x",
            "yref": "paper",
            "x0": at,
            "x1": at,
            "y0": 0,
            "y1": 1,
            "line": {"color": GREY, "width": 1, "dash": "dot"},
        }
        for at in changes
    ]


def outage_bands(outages: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return a band for each time in which tasks were down, edged so that a short one is seen."""
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": start,
            "x1": end,
            "y0": 0,
            "y1": 1,
            "fillcolor": GREY,
            "opacity": 0.25,
            "layer": "below",
            "line": {"color": GREY, "width": 1.5},
        }
        for start, end in outages
    ]


def checkpoint_bands(
    completed: Sequence[tuple[float, float]], failed: Sequence[tuple[float, float]]
) -> list[dict[str, Any]]:
    """Return a band for each checkpoint; those of failed ones have a dashed edge as well."""
    looks = (
        (completed, "rgba(0,114,178,0.15)", BLUE, "solid", 0.5),
        (failed, "rgba(213,94,0,0.2)", VERMILLION, "dash", 1.5),
    )
    return [
        band | {"fillcolor": fill, "opacity": 1, "line": {"color": edge, "dash": dash, "width": px}}
        for spans, fill, edge, dash, px in looks
        for band in outage_bands(spans)
    ]


def caption(content: str, x: str, y: str) -> dict[str, Any]:
    """Return a line of text above the plot of two axes (``"x2"``, ``"y2"``)."""
    return {
        "text": escape(content, quote=False),
        "xref": f"{x} domain",
        "yref": f"{y} domain",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


def numbered(axis: str, index: int) -> str:
    """Return plotly's name of an axis, by its number from 0: ``x``, ``x2``, ``x3``."""
    return f"{axis}{index + 1}" if index else axis
