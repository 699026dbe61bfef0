"""Tables on a terminal: plain ones, and the widest of several that fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table

_UNBOUNDED: Final = 10_000
"""Width of a console, in characters, on which every table fits."""


def plain_table(gap: int = 2) -> Table:
    """Return an empty table without lines, with ``gap`` blanks between columns."""
    return Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")


def print_widest(console: Console, tables: Iterable[Table]) -> None:
    """Print the first table that fits the console, or the last, between empty lines."""
    wide = console.options.update(width=_UNBOUNDED)
    for table in tables:
        if Measurement.get(console, wide, table).maximum <= console.width:
            break
    console.print(Padding(table, (1, 0)))
