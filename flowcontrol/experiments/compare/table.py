"""The table at the end of a comparison, on a terminal of any width, and the figures of a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.experiments.compare.figures import Figures
from flowcontrol.experiments.compare.wording import (
    NOTHING,
    bounded_cell,
    change_cell,
    headline,
    starving_sentences,
)
from flowcontrol.report.fitting import plain_table, print_widest
from flowcontrol.report.numbers import bytes_text, number, percent

if TYPE_CHECKING:
    from flowcontrol.experiments.compare.outcome import CompareResult, Outcome


@dataclass(frozen=True)
class CompareColumn:
    """One figure of all systems.

    Attributes
    ----------
    title : str
        With its unit, for the page.
    head : str
        Short, in two lines, for the terminal.
    rank : int
        How telling it is, 1 the most: a narrow terminal shows the first few.
    cell : callable
        Returns its text.
    order : callable
        Returns the number by which a table is sorted; None sorts last.
    """

    title: str
    head: str
    rank: int
    cell: Callable[[Figures], str]
    order: Callable[[Figures], float | None]


def _time(name: str) -> Callable[[Figures], str]:
    def cell(figures: Figures) -> str:
        value = getattr(figures, name)
        if value is None:
            return NOTHING
        return f"{number(value / 1000)} s" if value >= 1000 else f"{number(value)} ms"

    return cell


def _share(name: str) -> Callable[[Figures], str]:
    def cell(figures: Figures) -> str:
        value = getattr(figures, name)
        return NOTHING if value is None else percent(value)

    return cell


def _order(name: str) -> Callable[[Figures], float | None]:
    return lambda figures: getattr(figures, name)


def _change(*, slowdown: bool) -> Callable[[Figures], str]:
    return lambda figures: change_cell(figures, slowdown=slowdown)


def _change_order(*, slowdown: bool) -> Callable[[Figures], float | None]:
    def order(figures: Figures) -> float | None:
        missed, longest = figures.after(slowdown=slowdown)
        return missed * 1e9 + (longest or 0.0) if figures.count(slowdown=slowdown) else None

    return order


def _control(figures: Figures) -> str:
    return NOTHING if figures.control_per_mb is None else number(figures.control_per_mb)


def _bounded_order(figures: Figures) -> float | None:
    return None if figures.is_bounded is None else float(not figures.is_bounded)


COLUMNS: Final = (
    CompareColumn("Of the limit", "of\nlimit", 1, _share("of_limit"), _order("of_limit")),
    CompareColumn("Latency p50", "lat.\np50", 7, _time("latency_p50_ms"), _order("latency_p50_ms")),
    CompareColumn("Latency p99", "lat.\np99", 4, _time("latency_p99_ms"), _order("latency_p99_ms")),
    CompareColumn(
        "Peak in flight, records", "peak\nrec.", 3,
        lambda f: number(f.peak_records), _order("peak_records"),
    ),
    CompareColumn(
        "Peak in flight, bytes", "peak\nbytes", 10,
        lambda f: bytes_text(f.peak_bytes), _order("peak_bytes"),
    ),
    CompareColumn("Swing", "\nswing", 2, _share("swing"), _order("swing")),
    CompareColumn(
        "Follows a slowdown in", "fol-\nlows", 5,
        _change(slowdown=True), _change_order(slowdown=True),
    ),
    CompareColumn(
        "Recovers after a release in", "is\nback", 6,
        _change(slowdown=False), _change_order(slowdown=False),
    ),
    CompareColumn("Control messages per MB", "ctl.\n/MB", 9, _control, _order("control_per_mb")),
    CompareColumn("Memory bounded", "mem.\nbound", 8, bounded_cell, _bounded_order),
)  # fmt: skip


def print_comparison(result: CompareResult, console: Console | None = None) -> None:
    """Print the table of a comparison and its conclusion.

    Parameters
    ----------
    result : CompareResult
        Of :func:`flowcontrol.experiments.compare.compare`.
    console : rich.console.Console, optional
        By default standard output; the table has as many columns as fit.
    """
    console = console or Console()
    ran = [outcome for outcome in result.outcomes if outcome.figures is not None]
    choices = [(count, gap) for count in range(len(COLUMNS), 0, -1) for gap in (2, 1)]
    print_widest(console, (_table(ran, count, gap) for count, gap in choices))
    console.print(Text(headline(result.outcomes)))
    for text in starving_sentences(result.outcomes):
        console.print(Text(text))
    for outcome in result.outcomes:
        if outcome.figures is None:
            console.print(Text(f"{outcome.system} {outcome.state}: {outcome.reason}"))


def _table(ran: Sequence[Outcome], count: int, gap: int) -> Table:
    """Return the table with the first ``count`` columns by rank, ``gap`` blanks apart."""
    columns = [column for column in COLUMNS if column.rank <= count]
    table = plain_table(gap)
    table.add_column("\nsystem", no_wrap=True, vertical="bottom")
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True, vertical="bottom")
    for outcome in ran:
        cells = [column.cell(outcome.figures) for column in columns if outcome.figures]
        table.add_row(Text(outcome.system), *map(Text, cells))
    return table
