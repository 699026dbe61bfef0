"""The figures of a comparison: in its tables (``columns.yaml``), on its page, on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import not_
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from flowcontrol.experiments.compare.figures import Figures, Reaction
from flowcontrol.experiments.compare.run import Outcome
from flowcontrol.experiments.compare.wording import (
    NOTHING,
    headline,
    reaction_cell,
    starving_sentences,
)
from flowcontrol.records import read_tables
from flowcontrol.report.numbers import bytes_text, milliseconds, number, percent
from flowcontrol.report.terminal import plain_table, print_widest

if TYPE_CHECKING:
    from flowcontrol.experiments.compare.result import CompareResult

_TABLES: Final = read_tables("flowcontrol.experiments.compare", "columns.yaml")
RESULTS: Final = _TABLES["results"]
RATES: Final = _TABLES["rates"]


def result_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a system in :data:`RESULTS`; figures that it has not are null."""
    row: dict[str, Any] = dict.fromkeys(RESULTS.names)
    row |= {"system": outcome.system, "state": outcome.state, "reason": outcome.reason}
    figures = outcome.figures
    if figures is None:
        return row
    row |= {name: getattr(figures, name) for name in RESULTS.names if hasattr(figures, name)}
    row |= {name: getattr(outcome, name) for name in ("rounds", "round_ms", "wall_s")}
    row["is_bounded"] = "" if figures.is_bounded is None else yes_or_no(figures.is_bounded)
    for reaction, count, longest in (
        (figures.slowdown, "slowdowns", "follow_s"),
        (figures.release, "releases", "recovery_s"),
    ):
        row |= {count: reaction.count, f"{count}_missed": reaction.missed}
        row[longest] = reaction.longest_s
    return row


def rate_rows(outcome: Outcome) -> list[dict[str, Any]]:
    """Return the rows of a system in :data:`RATES`."""
    lines = outcome.lines
    if lines is None:
        return []
    samples = zip(lines.t_s, lines.produced, lines.consumed, lines.in_flight, strict=True)
    return [dict(zip(RATES.names, (outcome.system, *sample), strict=True)) for sample in samples]


def yes_or_no(value: bool) -> str:
    """Return a fact as a word."""
    return "yes" if value else "no"


def _reaction_order(reaction: Reaction) -> float | None:
    """Return the longest time; misses come last, none at all further."""
    return reaction.missed * 1e9 + (reaction.longest_s or 0.0) if reaction.count else None


@dataclass(frozen=True)
class CompareColumn:
    """One figure of all systems."""

    title: str  # With its unit, for the page
    head: str  # Short, in two lines, for the terminal
    rank: int  # How telling it is, 1 the most: a narrow terminal shows the first few
    figure: str  # Which attribute of :class:`~.figures.Figures`
    text: Callable[[Any], str]  # Returns its text
    # Returns the number by which a table is sorted; None sorts last.
    number: Callable[[Any], float | None] = float
    is_optional: bool = False  # Left out where no system has the figure

    def cell(self, figures: Figures) -> str:
        """Return the text of a system's figure."""
        value = getattr(figures, self.figure)
        return NOTHING if value is None else self.text(value)

    def order(self, figures: Figures) -> float | None:
        """Return the number by which a system is sorted."""
        value = getattr(figures, self.figure)
        return None if value is None else self.number(value)


COLUMNS: Final = (
    CompareColumn("Of the limit", "of\nlimit", 1, "of_limit", percent),
    CompareColumn("Latency p50", "lat.\np50", 7, "latency_p50_ms", milliseconds),
    CompareColumn("Latency p99", "lat.\np99", 4, "latency_p99_ms", milliseconds),
    CompareColumn("Peak in flight, records", "peak\nrec.", 3, "peak_records", number),
    CompareColumn("Peak in flight, bytes", "peak\nbytes", 10, "peak_bytes", bytes_text),
    CompareColumn("Behind the log, s", "lag\ns", 2, "lag_s", number, is_optional=True),
    CompareColumn(
        "Behind the log, records", "lag\nrec.", 9, "lag_records", number, is_optional=True
    ),
    CompareColumn(
        "Left in the log", "left\nin log", 10, "lag_end_records", number, is_optional=True
    ),
    CompareColumn(
        "Checkpoint end to end, p50",
        "ckpt\np50",
        4,
        "checkpoint_e2e_p50_ms",
        milliseconds,
        is_optional=True,
    ),
    CompareColumn(
        "Checkpoints failed", "ckpt\nfail", 5, "checkpoints_failed", number, is_optional=True
    ),
    CompareColumn("Swing", "\nswing", 2, "swing", percent),
    CompareColumn(
        "Follows a slowdown in", "fol-\nlows", 5, "slowdown", reaction_cell, _reaction_order
    ),
    CompareColumn(
        "Recovers after a release in", "is\nback", 6, "release", reaction_cell, _reaction_order
    ),
    CompareColumn("Control messages per MB", "ctl.\n/MB", 9, "control_per_mb", number),
    CompareColumn("Memory bounded", "mem.\nbound", 8, "is_bounded", yes_or_no, not_),
)


def shown_columns(outcomes: Sequence[Outcome]) -> list[CompareColumn]:
    """Return the columns of some systems: those about logs and checkpoints where there are some."""
    return [
        column
        for column in COLUMNS
        if not column.is_optional
        or any(o.figures and getattr(o.figures, column.figure) is not None for o in outcomes)
    ]


def print_comparison(result: CompareResult, console: Console | None = None) -> None:
    """Print the table of a comparison and its conclusion.

    ``console``: by default standard output; the table has as many columns as fit.
    """
    console = console or Console()
    ran = [outcome for outcome in result.outcomes if outcome.figures is not None]
    choices = [(count, gap) for count in range(len(shown_columns(ran)), 0, -1) for gap in (2, 1)]
    print_widest(console, (_table(ran, count, gap) for count, gap in choices))
    console.print(Text(headline(result.outcomes)))
    for text in starving_sentences(result.outcomes):
        console.print(Text(text))
    for outcome in result.outcomes:
        if outcome.reason:
            state = "" if outcome.state == "ran" else f" {outcome.state}"
            console.print(Text(f"{outcome.system}{state}: {outcome.reason}"))


def _table(ran: Sequence[Outcome], count: int, gap: int) -> RichTable:
    """Return the table with the first ``count`` columns by rank, ``gap`` blanks apart."""
    found = shown_columns(ran)
    telling = sorted(found, key=lambda column: column.rank)[:count]
    columns = [column for column in found if column in telling]
    table = plain_table(gap)
    table.add_column("\nsystem", no_wrap=True, vertical="bottom")
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True, vertical="bottom")
    for outcome in ran:
        cells = [column.cell(outcome.figures) for column in columns if outcome.figures]
        table.add_row(Text(outcome.system), *map(Text, cells))
    return table
