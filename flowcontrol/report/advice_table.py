"""Advice on a terminal of any width: the changes that help most, and what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.report.advice import AS_IT_IS, ShownFigure, figure_texts, gain_text, shown_figures
from flowcontrol.report.terminal import plain_table, print_widest

MOST_ROWS: Final = 8
"""Changes on a terminal; the page has all."""

FEW_ROWS: Final = 3
"""Changes on a terminal where none helps."""

_NAME: Final = 36
"""Characters of the name of a change in a line; more go on in the next."""

_NARROW: Final = 72
"""Characters of a console below which names have half as many."""


def print_advice(found: Mapping[str, Any], console: Console) -> None:
    """Print the changes that help most, and those that save something."""
    ranked = sorted(shown_figures(found), key=lambda figure: figure.rank)
    width = _NAME if console.width >= _NARROW else _NAME // 2
    most = range(len(ranked), -1, -1)
    print_widest(console, (_table(found, ranked[:count], width) for count in most))
    left = len(found["proposals"]) - len(_first(found))
    if left > 0:
        console.print(Text(f"{left} more changes were run; the page has them all."))
    console.print(Text(found["sentence"]))
    for text in found["savings"]:
        console.print(Text(text))


def _table(found: Mapping[str, Any], ranked: Sequence[ShownFigure], width: int) -> Table:
    figures = [figure for figure in shown_figures(found) if figure in ranked]
    table = plain_table()
    table.add_column("Change", overflow="fold", min_width=width // 2, max_width=width)
    for head in (*(figure.head for figure in figures), "Better"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_row(AS_IT_IS, *figure_texts(found["before"], figures), "")
    for one in _first(found):
        table.add_row(Text(one["name"]), *figure_texts(one["figures"], figures), gain_text(one))
    return table


def _first(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the changes that help, at most so many; a few of the others where none does."""
    helping = [one for one in found["proposals"] if one["helps"]]
    return helping[:MOST_ROWS] or found["proposals"][:FEW_ROWS]
