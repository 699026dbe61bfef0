"""The table at the end of a sweep: its best points, its worst, and one or two sentences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowcontrol.sweeping.overview import Overview, overview

if TYPE_CHECKING:
    from flowcontrol.sweeping.sweep import SweepResult

_HEAD: Final = 12
"""Letters that a line in the head of a column is filled up to."""

_UNBOUNDED: Final = 10_000
"""Letters a line of a console that leaves every table room."""

_ENDS: Final = 5
"""Rows at each end of the table."""


def print_sweep(result: SweepResult, console: Console | None = None) -> None:
    """Print what a sweep comes to.

    Parameters
    ----------
    result : SweepResult
        Of :func:`~flowcontrol.sweeping.sweep`.
    console : rich.console.Console, optional
        Where to; by default standard output. It gets as many of the metrics as it has room for.
    """
    console = console or Console()
    found = overview(result.table, result.plan, result.metrics)
    tables = [_table(result, found, count) for count in range(len(found.metrics), 0, -1)]
    wide = console.options.update(width=_UNBOUNDED)
    fitting = [t for t in tables if Measurement.get(console, wide, t).maximum <= console.width]
    console.print(Padding((fitting or tables[-1:])[0], (1, 0)))
    console.print(Text(found.sentence))


def _table(result: SweepResult, found: Overview, metrics: int) -> Table:
    """Return the table with so many of the metrics."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for varied in result.plan.varied:
        table.add_column(_head(varied.label), justify="right", no_wrap=True, vertical="bottom")
    for metric in found.metrics[:metrics]:
        half = "second half" if metric.is_steady else ""
        unit = metric.figure.column.unit
        unit = "" if metric.short_name.endswith(f"_{unit}") else unit
        head = _head(metric.short_name.replace(".", " "), half, unit)
        table.add_column(head, justify="right", no_wrap=True, vertical="bottom")
    table.add_column("limits", no_wrap=True, vertical="bottom")
    for row in found.ends(_ENDS):
        cells = ["…"] * len(table.columns)
        if row is not None:
            cells = [*row.values, *row.figures[:metrics], row.bottleneck]
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _head(*phrases: str) -> Text:
    """Return the head of a column: phrases below each other, cut after blanks, - and _."""
    lines: list[str] = []
    for phrase in filter(None, phrases):
        lines.append("")
        for part in re.split(r"(?<=[ _-])", phrase):
            if lines[-1] and len(lines[-1]) + len(part.rstrip()) > _HEAD:
                lines.append("")
            lines[-1] += part
    return Text("\n".join(line.rstrip() for line in lines))
