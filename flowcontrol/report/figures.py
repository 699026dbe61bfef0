"""Plotly figures as plain dicts: traces, axes and the layout that all charts share.

Plain dicts are all that the page needs, and plotly takes a second to import. The page's script
adds what depends on the theme: colours of text and grid, and a transparent background.

The colours are the palette of Okabe and Ito, which people with any common colour blindness can
distinguish. Its yellow is left out: it is unreadable on white.

The series of a figure that covers intervals starts at 0 with the first value; draw it as steps that
rise at the *start* of an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.bottleneck import Pressure
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd


BLUE: Final = "#0072B2"
VERMILLION: Final = "#D55E00"
GREEN: Final = "#009E73"
ORANGE: Final = "#E69F00"
PURPLE: Final = "#CC79A7"
SKY: Final = "#56B4E9"
GREY: Final = "#8a8f98"
"""Reference lines and typical values; readable on white and on dark."""

PALETTE: Final = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
DASHES: Final = ("solid", "dash", "dot", "dashdot", "longdash")
MARKERS: Final = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")

PRESSURE_COLOURS: Final = {Pressure.OK: GREEN, Pressure.LOW: ORANGE, Pressure.HIGH: VERMILLION}
"""Fill of a stage in the job graph, for dark text; the status is written out too."""

GOOD_TO_BAD: Final = (BLUE, "#6ba3cc", "#9aa0a6", "#e0a060", VERMILLION)
"""From good to bad: blue, grey, vermillion, distinct for colour-blind people, readable on white and
on dark."""

GOOD_TO_BAD_FILLS: Final = (BLUE, "#7fb8db", "#eeeeee", "#eeb27a", VERMILLION)
"""The same for areas that carry numbers, with a light middle for dark text."""

BUSY: Final = BLUE
IDLE: Final = "#c3c8cf"
BLOCKED: Final = VERMILLION
LIMIT: Final = GREY


@dataclass(frozen=True)
class LineStyle:
    """How one series is drawn."""

    colour: str  # As ``#rrggbb``
    dash: str  # Plotly's name of a dash
    marker: str  # Plotly's name of a marker symbol


def line_style(index: int) -> LineStyle:
    """Return the style of a drawing's series number ``index``, from 0.

    Colour, dash and marker have different periods, so the first 210 series differ.
    """
    return LineStyle(
        PALETTE[index % len(PALETTE)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    )


MAX_POINTS = 600
"""Samples drawn of one series; longer ones are averaged over groups of neighbours."""

_US_PER_S = 1_000_000


@dataclass(frozen=True)
class Series:
    """One line of a drawing."""

    name: str  # For the legend
    x: list[float]  # Emulated time (s)
    y: list[float]  # As many values


def thinned(frame: pd.DataFrame, column: str) -> tuple[list[float], list[float]]:
    """Return times and values of a column, at most :data:`MAX_POINTS` of them.

    ``frame``: one row per sample, in order, with ``t_s`` and ``interval_s``.

    Returns times in seconds, and values; for a long run each is the mean of a group of neighbours,
    weighted by their intervals, at the time of the group's last sample.
    """
    times, values = frame["t_s"].tolist(), frame[column].astype("float64").tolist()
    size = -(-len(times) // MAX_POINTS)
    if size <= 1:
        return times, values
    lengths = frame["interval_s"].tolist()
    starts = range(0, len(times), size)
    return (
        [times[min(start + size, len(times)) - 1] for start in starts],
        [_mean(values[s : s + size], lengths[s : s + size]) for s in starts],
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean; the plain one when the weights are all 0."""
    total = sum(weights)
    if total <= 0:
        return sum(values) / len(values)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / total


def over_interval(name: str, frame: pd.DataFrame, column: str, factor: float = 1.0) -> Series:
    """Return the series of a figure that covers intervals, from time 0 on."""
    x, y = thinned(frame, column)
    y = [value * factor for value in y]
    return Series(name, [0.0, *x], [*y[:1], *y]) if x else Series(name, [], [])


def capability(name: str, schedules: Iterable[Schedule], until_s: float) -> Series:
    """Return the rate that a stage's schedules allow over time, all subtasks together.

    - ``schedules``: one per subtask.
    - ``until_s`` (s): end of the line; later phases are left out. At 0 the series is empty.
    """
    subtasks = list(schedules)
    starts = {phase.at_us for schedule in subtasks for phase in schedule.phases}
    times = sorted(start for start in starts | {0} if start < until_s * _US_PER_S)
    rates = [float(sum(schedule.rate_at(at) for schedule in subtasks)) for at in times]
    corners = [at / _US_PER_S for at in times]
    return Series(name, [*corners, until_s], [*rates, rates[-1]]) if times else Series(name, [], [])


def phase_changes(scenario: Scenario, until_s: float) -> list[float]:
    """Return the times, in seconds, at which any subtask's rate changes before ``until_s``."""
    changes = {
        change / _US_PER_S
        for stage in scenario.stages
        for rates in (stage.emit_rate, stage.arrival_rate, stage.service_rate)
        for schedule in rates or ()
        for change in schedule.changes()
    }
    return sorted(change for change in changes if 0 < change < until_s)


def is_remote(edge: Edge, sender: int, receiver: int, scenario: Scenario) -> bool:
    """Return whether a channel crosses task managers, and so has credits and exclusive buffers."""
    at_sender = scenario.stage(edge.sender).placement[sender]
    return at_sender != scenario.stage(edge.receiver).placement[receiver]


def edge_capacity(
    edge: Edge, channels: pd.DataFrame, stages: pd.DataFrame, scenario: Scenario
) -> float | None:
    """Return how many buffers an edge can hold in flight with its pools full.

    Returns output pools, exclusive buffers of the remote channels and floating buffers of their
    gates; overdraft is not counted. None if a pool is shared with another edge, nothing was
    sampled, the transport has queues of records, or channels come and go (``scaling``): then the
    edge has no figure of its own.
    """
    shared = len(scenario.outputs(edge.sender)) > 1 or len(scenario.inputs(edge.receiver)) > 1
    rows = channels[channels["edge"] == edge.name]
    pools = stages[stages["stage"] == edge.sender]
    has_none = scenario.system.counts_records or scenario.scaling is not None
    if shared or rows.empty or pools.empty or has_none:
        return None
    pairs = set(zip(rows["sender"].tolist(), rows["receiver"].tolist(), strict=True))
    remote = [pair for pair in pairs if is_remote(edge, *pair, scenario)]
    gates = {receiver for _, receiver in remote}
    size = float(pools[pools["t_s"] == pools["t_s"].max()]["output_pool_size"].sum())
    exclusive = scenario.options.exclusive_buffers * len(remote)
    return size + exclusive + scenario.options.floating_buffers * len(gates)


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


def steps(series: Series, style: LineStyle, **more: Any) -> dict[str, Any]:
    """Return the trace of a figure that covers intervals: it steps where an interval starts."""
    return stroked(series, style, shape="vh", **more)


def stroked(
    series: Series, style: LineStyle, *, width: float = 2.0, shape: str = "linear", **more: Any
) -> dict[str, Any]:
    """Return a trace without markers; ``shape`` is plotly's, ``more`` as of :func:`line`."""
    stroke = {"color": style.colour, "dash": style.dash, "width": width, "shape": shape}
    return line(series, style, **{"mode": "lines", "line": stroke} | more)


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


def span(
    kind: str, x: tuple[float, float], y: tuple[float, float] = (0, 1), **more: Any
) -> dict[str, Any]:
    """Return a line or a ``rect`` over all plots, from one time to another; ``more`` wins."""
    found = {"type": kind, "xref": "x", "yref": "paper", "x0": x[0], "x1": x[1]}
    return found | {"y0": y[0], "y1": y[1]} | more


def phase_lines(changes: Sequence[float]) -> list[dict[str, Any]]:
    """Return a thin vertical line for each change of phase."""
    thin = {"color": GREY, "width": 1, "dash": "dot"}
    return [span("line", (at, at), line=thin) for at in changes]


def outage_bands(outages: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return a band for each time in which tasks were down, edged so that a short one is seen."""
    look: dict[str, Any] = {"fillcolor": GREY, "opacity": 0.25, "layer": "below"}
    return [span("rect", ends, **look, line={"color": GREY, "width": 1.5}) for ends in outages]


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
