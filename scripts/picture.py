"""Draw the README's picture from a finished run: rates above, in flight below, as plain SVG.

``python scripts/picture.py RUN_FOLDER SCENARIO TARGET.svg``

Written by hand rather than with a plotting library, so that the picture needs nothing installed,
is small, and is the same file for the same run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from flowcontrol.records import RESULTS
from flowcontrol.report.figures import GREY, Series, line_style
from flowcontrol.report.rundata import RunData, edge_flights, stage_rates
from flowcontrol.scenario import load_scenario

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.scenario import Scenario

_WIDTH, _LEFT, _RIGHT = 880.0, 86.0, 16.0
_TOP, _BOTTOM, _BETWEEN = 20.0, 48.0, 18.0
_LEGEND_ROW, _LEGEND_LINE, _LETTER = 20.0, 30.0, 7.6
_PLOT_HEIGHTS = (230.0, 130.0)
_INK, _SOFT, _GRID, _PAPER = "#1b1f24", "#59616b", "#e6e8eb", "#ffffff"
_DASHES = {"solid": None, "dot": "2 4", "dash": "8 5"}
_FONT = "system-ui, 'DejaVu Sans', Arial, sans-serif"


_Value = str | float | None


def element(tag: str, *children: str, **attributes: _Value) -> str:
    """Return one element.

    Parameters
    ----------
    tag : str
        Name of the element.
    *children : str
        Markup of what is inside, escaped already (other elements, or :func:`text`).
    **attributes : str, float or None
        Attributes; ``_`` in a name becomes ``-``, a trailing one is dropped (``class_``).
        None leaves the attribute out.

    Returns
    -------
    str
        The markup.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if not children:
        return f"<{tag}{written}/>"
    return f"<{tag}{written}>{''.join(children)}</{tag}>"


def text(content: str) -> str:
    """Return plain text as markup."""
    return escape(content)


def coordinate(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _attribute(value: str | float) -> str:
    return escape(value, quote=True) if isinstance(value, str) else coordinate(value)


@dataclass(frozen=True)
class _Line:
    """One line of a plot; ``shape`` says where a step rises: ``vh`` before, ``hv`` after."""

    series: Series
    colour: str
    dash: str = "solid"
    shape: str = "vh"
    width: float = 2.0


@dataclass(frozen=True)
class _Plot:
    """One of the plots above each other."""

    title: str
    lines: Sequence[_Line]
    top: float
    height: float
    until_s: float
    peak: float = field(init=False)

    def __post_init__(self) -> None:
        values = [value for line in self.lines for value in line.series.y]
        object.__setattr__(self, "peak", 1.05 * max([*values, 1.0]))

    def x(self, t_s: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * t_s / max(self.until_s, 1e-9)

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.peak)


def picture(tables: Mapping[str, pa.Table], scenario: Scenario) -> str:
    """Return a picture of a run as an SVG document.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        The result tables by name.
    scenario : Scenario
        What was run.

    Returns
    -------
    str
        A document of its own with a white ground: rates over time with what each stage could do
        (dotted) and the changes of phase (vertical lines), and below it the buffers in flight on
        each edge with what its pools can hold (dotted), or the records where those are counted.
        Up to eight stages and edges are drawn.
    """
    run = RunData.of(tables, scenario)
    held = f"{'records' if scenario.system.counts_records else 'buffers'} in flight"
    contents = {"records per second": _rate_lines(run), held: _flight_lines(run)}
    plots: list[_Plot] = []
    height = _TOP
    for (title, lines), plot_height in zip(contents.items(), _PLOT_HEIGHTS, strict=True):
        top = height + _LEGEND_ROW * len(_legend_rows(lines))
        plots.append(_Plot(title, lines, top, plot_height, run.until_s))
        height = top + plot_height + _BETWEEN
    height += _BOTTOM - _BETWEEN
    body = [element("rect", width=_WIDTH, height=height, fill=_PAPER)]
    for plot in plots:
        body += [_grid(plot), *(_phase(plot, at) for at in run.changes), _frame(plot)]
        body += [_polyline(plot, line) for line in plot.lines]
        body.append(_legend(plot))
    body.append(_time_axis(plots[-1]))
    return element(
        "svg",
        element("title", text(f"{scenario.name}: rates and {held}")),
        *body,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {coordinate(_WIDTH)} {coordinate(height)}",
        width=_WIDTH,
        height=height,
        font_family=_FONT,
        font_size=13,
    )


def _rate_lines(run: RunData) -> list[_Line]:
    """Return what the stages did and could do; sources thick, so that none hides another."""
    lines = []
    for index, rate in enumerate(stage_rates(run)):
        colour = line_style(index).colour
        if rate.able is not None:
            lines.append(_Line(rate.able, colour, "dot", "hv", 1.8))
        lines.append(_Line(rate.done, colour, width=5.0 if rate.is_source else 2.2))
    return lines


def _flight_lines(run: RunData) -> list[_Line]:
    """Return the buffers in flight on each edge, and how many its pools can hold."""
    lines = []
    for index, flight in enumerate(edge_flights(run)):
        colour = line_style(index + 2).colour
        lines.append(_Line(flight.buffers, colour, shape="straight"))
        if flight.room is not None:
            lines.append(_Line(flight.room, colour, "dot", "hv", 1.8))
    return lines


def _polyline(plot: _Plot, line: _Line) -> str:
    """Return one line of a plot."""
    if not line.series.x:
        return ""
    corners: list[tuple[float, float]] = []
    for x, y in zip(line.series.x, line.series.y, strict=True):
        at = (plot.x(x), plot.y(y))
        if corners and line.shape == "vh":
            corners.append((corners[-1][0], at[1]))
        elif corners and line.shape == "hv":
            corners.append((at[0], corners[-1][1]))
        corners.append(at)
    return element(
        "polyline",
        points=points(corners),
        fill="none",
        stroke=line.colour,
        stroke_width=line.width,
        stroke_dasharray=_DASHES[line.dash],
        stroke_linejoin="round",
    )


def _grid(plot: _Plot) -> str:
    """Return the horizontal lines of a plot with their values."""
    parts = []
    for value in ticks(plot.peak, 5 if plot.height > 180 else 3):
        y = plot.y(value)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, stroke=_GRID))
        parts.append(
            element(
                "text", text(f"{value:,g}"), x=_LEFT - 8, y=y + 4, fill=_SOFT, text_anchor="end"
            )
        )
    return "".join(parts)


def _frame(plot: _Plot) -> str:
    """Return the title at the side of a plot and the line under it."""
    middle, bottom = plot.top + plot.height / 2, plot.top + plot.height
    turn = f"rotate(-90 18 {coordinate(middle)})"
    title = element(
        "text", text(plot.title), x=18, y=middle, fill=_INK, text_anchor="middle", transform=turn
    )
    return title + element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=bottom, y2=bottom, stroke=_SOFT)


def _phase(plot: _Plot, at: float) -> str:
    """Return the vertical line of a change of phase."""
    x = plot.x(at)
    return element(
        "line",
        x1=x, x2=x, y1=plot.top, y2=plot.top + plot.height, stroke=GREY, stroke_dasharray="1 4",
    )  # fmt: skip


def _legend(plot: _Plot) -> str:
    """Return the names of a plot's lines, in as many rows above it as they take."""
    parts = []
    legend = _legend_rows(plot.lines)
    for row, entries in enumerate(legend):
        y = plot.top - 10 - _LEGEND_ROW * (len(legend) - 1 - row)
        for x, line in entries:
            parts.append(
                element(
                    "line", x1=x, x2=x + 24, y1=y - 4, y2=y - 4, stroke=line.colour,
                    stroke_width=line.width, stroke_dasharray=_DASHES[line.dash],
                )
            )  # fmt: skip
            parts.append(
                element("text", text(line.series.name), x=x + _LEGEND_LINE, y=y, fill=_INK)
            )
    return "".join(parts)


def _legend_rows(lines: Sequence[_Line]) -> list[list[tuple[float, _Line]]]:
    """Return where each line's entry starts, broken into rows that fit the picture."""
    legend: list[list[tuple[float, _Line]]] = [[]]
    x = _LEFT
    for line in lines:
        width = _LEGEND_LINE + _LETTER * len(line.series.name) + 16
        if legend[-1] and x + width > _WIDTH:
            legend.append([])
            x = _LEFT
        legend[-1].append((x, line))
        x += width
    return legend


def _time_axis(plot: _Plot) -> str:
    """Return the times under the lowest plot."""
    y = plot.top + plot.height
    parts = [
        element("text", text(f"{at:g}"), x=plot.x(at), y=y + 18, fill=_SOFT, text_anchor="middle")
        for at in ticks(plot.until_s, 10)
    ]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    title = element(
        "text", text("emulated time (s)"), x=middle, y=y + 38, fill=_INK, text_anchor="middle"
    )
    return "".join(parts) + title


def points(line: list[tuple[float, float]]) -> str:
    """Return points as the ``points`` attribute of a polyline."""
    return " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in line)


def ticks(peak: float, at_most: int) -> list[float]:
    """Return round values from 0 up to ``peak``.

    Parameters
    ----------
    peak : float
        End of the axis, above 0.
    at_most : int
        Steps wanted, at least 1; the step is 1, 2 or 5 times a power of ten.

    Returns
    -------
    list of float
        At most ``at_most + 1`` values, the first 0.
    """
    if peak <= 0:
        return [0.0]
    rough = peak / at_most
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    count = floor(peak / step + 1e-9)
    return [round(number * step, max(0, ceil(-log10(step)) + 1)) for number in range(count + 1)]


def main(run: str, scenario: str, target: str) -> None:
    """Read the result tables of a run and write the picture."""
    tables = {name: DeltaTable(f"{run}/{name}").to_pyarrow_table() for name in RESULTS}
    Path(target).write_text(picture(tables, load_scenario(scenario)))


if __name__ == "__main__":
    main(*sys.argv[1:])
