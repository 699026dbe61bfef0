"""The table at the end of a sweep: the best and the worst points, and a conclusion."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.experiments.sweep.overview import Overview, overview
from flowcontrol.report.fitting import plain_table, print_widest

if TYPE_CHECKING:
    from flowcontrol.experiments.sweep.sweep import SweepResult

_HEAD: Final = 12
"""Width of a column's head in characters."""

_ENDS: Final = 5
"""Rows at each end of the table."""


def print_sweep(result: SweepResult, console: Console | None = None) -> None:
    """Print the result of a sweep.

    Parameters
    ----------
    result : SweepResult
        Of :func:`~flowcontrol.experiments.sweep.sweep`.
    console : rich.console.Console, optional
        By default standard output; the table has as many metrics as fit.
    """
    console = console or Console()
    found = overview(result.table, result.plan, result.metrics)
    counts = range(len(found.metrics), 0, -1)
    print_widest(console, (_table(result, found, count) for count in counts))
    console.print(Text(found.sentence))


def _table(result: SweepResult, found: Overview, metrics: int) -> Table:
    """Return the table with the first metrics."""
    table = plain_table()
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
