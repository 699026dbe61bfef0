"""The result of a comparison: in its tables, on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from flowcontrol.analysis.figures import figures
from flowcontrol.analysis.producer_rates import Reaction
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.experiments.compare.run import Compared, Comparison, Outcome
from flowcontrol.experiments.compare.wording import (
    NOTHING,
    headline,
    reaction_cell,
    starving_sentences,
)
from flowcontrol.records import Table, read_tables
from flowcontrol.report.markup import bytes_text, milliseconds, number, percent
from flowcontrol.report.result import Result
from flowcontrol.report.terminal import plain_table, print_widest

if TYPE_CHECKING:
    import pyarrow as pa


# --- The figures of a comparison: in its tables, on its page, on the terminal.


_TABLES: Final = read_tables("flowcontrol.experiments.compare", "columns.yaml")
RATES: Final = _TABLES["rates"]


def results_table() -> Table:
    """Return the declaration of the table ``results``: a row a system."""
    own = _TABLES["results"]
    found = [one.at("compare") for one in figures("compare", of_job=True)]
    return replace(own, columns=(*own.columns[:3], *found, *own.columns[3:]))


def result_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a system in ``results``; figures that it has not are null."""
    row: dict[str, Any] = dict.fromkeys(results_table().names)
    row |= {"system": outcome.system, "state": outcome.state, "reason": outcome.reason}
    if outcome.figures is None:
        return row
    row |= outcome.figures.values
    row |= {name: getattr(outcome, name) for name in ("rounds", "round_ms", "wall_s")}
    bounded = outcome.figures.is_bounded
    return row | {"is_bounded": "" if bounded is None else yes_or_no(bounded)}


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


_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "ratio": percent,
    "ms": milliseconds,
    "bytes": bytes_text,
}
"""How a figure is written, by its unit."""


@dataclass(frozen=True)
class CompareColumn:
    """One figure of all systems."""

    figure: str  # Which attribute of :class:`~.figures.Compared`
    title: str  # With its unit, for the page
    head: str  # Short, in two lines, for the terminal
    rank: int  # How telling it is, 1 the most: a narrow terminal shows the first few
    is_optional: bool = False  # Left out where no system has the figure
    unit: str = ""

    def cell(self, figures: Compared) -> str:
        """Return the text of a system's figure."""
        value = getattr(figures, self.figure)
        if isinstance(value, Reaction):
            return reaction_cell(value)
        if value is None:
            return NOTHING
        return yes_or_no(value) if isinstance(value, bool) else _TEXTS.get(self.unit, number)(value)

    def order(self, figures: Compared) -> float | None:
        """Return the number by which a system is sorted; None sorts last.

        Of reactions the longest time; misses come last, none at all further.
        """
        value = getattr(figures, self.figure)
        if isinstance(value, Reaction):
            return value.missed * 1e9 + (value.longest_s or 0.0) if value.count else None
        return not value if isinstance(value, bool) else value


_FIRST: Final = (
    CompareColumn("of_limit", "Of the limit", "of\nlimit", 1),
    CompareColumn("latency_p50_ms", "Latency p50", "lat.\np50", 7),
    CompareColumn("latency_p99_ms", "Latency p99", "lat.\np99", 4),
    CompareColumn("peak_records", "Peak in flight, records", "peak\nrec.", 3),
    CompareColumn("peak_bytes", "Peak in flight, bytes", "peak\nbytes", 10),
    CompareColumn("lag_s", "Behind the log, s", "lag\ns", 2, is_optional=True),
    CompareColumn("lag_records", "Behind the log, records", "lag\nrec.", 9, is_optional=True),
    CompareColumn("lag_end_records", "Left in the log", "left\nin log", 10, is_optional=True),
    CompareColumn(
        "checkpoint_e2e_p50_ms", "Checkpoint end to end, p50", "ckpt\np50", 4, is_optional=True
    ),
    CompareColumn("checkpoints_failed", "Checkpoints failed", "ckpt\nfail", 5, is_optional=True),
    CompareColumn("swing", "Swing", "\nswing", 2),
    CompareColumn("slowdown", "Follows a slowdown in", "fol-\nlows", 5),
    CompareColumn("release", "Recovers after a release in", "is\nback", 6),
    CompareColumn("control_per_mb", "Control messages per MB", "ctl.\n/MB", 9),
    CompareColumn("is_bounded", "Memory bounded", "mem.\nbound", 8),
)
"""Figures with words of their own; the others follow under their names."""

_IN_SENTENCES: Final = frozenset(
    {"produced", "consumed", "ahead", "heap_exhausted_s", "slowdowns", "slowdowns_missed"}
    | {"follow_s", "releases", "releases_missed", "recovery_s"}
)
"""Figures that the table on the page does not show."""


def compare_columns() -> list[CompareColumn]:
    """Return the columns of page and terminal."""
    units = {one.at("compare").name: one.column.unit for one in figures("compare", of_job=True)}
    found = [replace(one, unit=units.pop(one.figure, "")) for one in _FIRST]
    for name, unit in units.items():
        if name not in _IN_SENTENCES:
            title = f"{name} ({unit})" if unit else name
            head = name.replace("_", "_\n")
            found.append(CompareColumn(name, title, head, 11, is_optional=True, unit=unit))
    return found


def shown_columns(outcomes: Sequence[Outcome]) -> list[CompareColumn]:
    """Return the columns of some systems: those about logs and checkpoints where there are some."""
    return [
        column
        for column in compare_columns()
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


# --- The result of a comparison: outcomes, tables, page.


@dataclass(frozen=True, repr=False)
class CompareResult(Result):
    """The result of a comparison.

    Attributes
    ----------
    path : Path
        Its folder: Delta tables ``results`` and ``rates``, and ``report.html``.
    comparison : Comparison
        The plan.
    outcomes : tuple of Outcome
        Of each system, in the order of the plan.
    limits : list of LimitPhase, or None
        The limit of the job.
    """

    kind = "comparison of systems on"

    path: Path
    comparison: Comparison
    outcomes: tuple[Outcome, ...]
    limits: list[LimitPhase] | None

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return self.comparison.name

    @cached_property
    def sentence(self) -> str:
        """Who brought most through, and at what price."""
        return headline(self.outcomes)

    @cached_property
    def summary(self) -> dict[str, Any]:
        """Scenario, clock, the conclusion, and the figures of each system by its name."""
        systems = {outcome.system: result_row(outcome) for outcome in self.outcomes}
        return {
            "scenario": self.name,
            "clock": self.comparison.clock,
            "sentence": self.sentence,
            "systems": systems,
        }

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """``results``, a row per system, and ``rates``, a row per system and sample."""
        import pyarrow as pa

        rates = [row for outcome in self.outcomes for row in rate_rows(outcome)]
        rows = ((results_table(), list(self.summary["systems"].values())), (RATES, rates))
        return {
            table.name: pa.Table.from_pylist(found, schema=table.arrow_schema())
            for table, found in rows
        }

    def show(self, console: Console | None = None) -> None:
        """Print the systems beside each other and what to conclude."""
        print_comparison(self, console)

    def failed(self) -> list[Outcome]:
        """Return the systems that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]
