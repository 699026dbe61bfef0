"""The table and the sentence at the end of a run, on a terminal of any width.

The table has the columns that fit the console, the most important first. Numbers are never
wrapped, long stage names are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.subtasks import HOT, SubtaskFigures, by_subtask, times_even
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import milliseconds, number, percent, score, share_of_time
from flowcontrol.scenario import Scenario

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


_STYLES = {"OK": "green", "LOW": "yellow", "HIGH": "bold red"}
_LEAST_NAME = 12
"""Characters of a stage's name that a narrow table keeps before it drops a column."""

_BETWEEN = 2
"""Spaces between two columns."""

_PERCENT = " %"


def _seconds(length_s: float) -> str:
    return f"{seconds(length_s)} s"


@dataclass(frozen=True)
class _Column:
    """One column: its head, its rank (1 is kept longest), the figure of a stage, and its text.

    ``counts``: which transports it is for, those that count buffers or those that count records.
    ``is_mean``: over the subtasks; where a stage has several, the largest of them stands beside it.
    ``of_several``: only for jobs in which a stage has several.
    ``is_optional``: it is left out where no stage has the figure.
    """

    head: str
    rank: float
    key: str
    text: Callable[[Any], str] = number
    counts: Literal["buffers", "records", "both"] = "both"
    is_mean: bool = False
    of_several: bool = False
    is_optional: bool = False

    def beside_largest(self) -> "_Column":
        """Return the column for a job in which a stage has several subtasks."""
        return replace(self, head=f"{self.head}/max", of_several=True) if self.is_mean else self

    def cell(self, stage: Mapping[str, Any]) -> str:
        """Return the cell of a stage; empty if no record was measured."""
        markers = stage["whole"].get("markers") or {}
        figures = {**stage, **stage["whole"], **(stage["whole"]["latency"] or {})}
        figures |= {f"markers_{name}": value for name, value in markers.items()}
        if self.key not in figures:
            return ""
        content = self.text(figures[self.key])
        if self.is_mean and self.of_several and stage["parallelism"] > 1:
            largest = self.text(figures["max_over_subtasks"][self.key])
            return f"{content.removesuffix(_PERCENT)}/{largest}"
        return content


_COLUMNS = (
    _Column("Pressure", 1, "pressure", str),
    _Column("Subtasks", 10, "parallelism"),
    _Column("In rec/s", 2, "rate_in"),
    _Column("Out rec/s", 3, "rate_out"),
    _Column("Busy", 4, "busy_ms_per_s", share_of_time, is_mean=True),
    _Column("Idle", 8, "idle_ms_per_s", share_of_time),
    _Column("Blocked", 5, "backpressured_ms_per_s", share_of_time, is_mean=True),
    _Column("Skew", 5.5, "data_skew_percent", score, of_several=True),
    _Column("In pool", 6, "in_pool_usage", percent, "buffers", is_mean=True),
    _Column("Out pool", 7, "out_pool_usage", percent, "buffers", is_mean=True),
    _Column("Queued", 6, "input_queue_buffers", number, "records"),
    _Column("Lag", 6, "lag_s", _seconds, is_optional=True),
    _Column("Latency p50", 9, "p50_ms", milliseconds),
    _Column("p99", 11, "p99_ms", milliseconds),
    _Column("Markers p50", 12, "markers_p50_ms", milliseconds, is_optional=True),
)


class StageTable:
    """The stages of a run as a table that fits the console on which it is printed."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self._stages: Mapping[str, Mapping[str, Any]] = summary["stages"]
        counts = {"both", summary.get("counts", "buffers")}
        columns = [
            column
            for column in _COLUMNS
            if column.counts in counts
            and not (column.is_optional and all(not column.cell(s) for s in self._stages.values()))
        ]
        if any(stage["parallelism"] > 1 for stage in self._stages.values()):
            self._columns = [column.beside_largest() for column in columns]
        else:
            self._columns = [column for column in columns if not column.of_several]

    def table(self, width: int) -> Table:
        """Return the table for a console of a width in characters."""
        columns = self._fitting(width)
        table = plain_table(_BETWEEN)
        table.add_column("Stage", overflow="fold", min_width=self._name_width(_LEAST_NAME))
        for column in columns:
            justify: JustifyMethod = "left" if column.head == "Pressure" else "right"
            table.add_column(column.head, justify=justify, no_wrap=True)
        for name, stage in self._stages.items():
            table.add_row(Text(name), *(_cell(column, stage) for column in columns))
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table that fits."""
        yield self.table(options.max_width)

    def _fitting(self, width: int) -> Sequence[_Column]:
        """Return the columns that fit, in the order of the table."""
        used, chosen = self._name_width(_LEAST_NAME), []
        for column in sorted(self._columns, key=lambda column: column.rank):
            used += _BETWEEN + self._width(column)
            if used > width:
                break
            chosen.append(column)
        return [column for column in self._columns if column in chosen]

    def _width(self, column: _Column) -> int:
        """Return the width of a column in characters."""
        return max(len(column.head), *(len(column.cell(s)) for s in self._stages.values()))

    def _name_width(self, at_most: int) -> int:
        """Return the length of the longest name, at most ``at_most`` characters."""
        return min(at_most, max(len(name) for name in [*self._stages, "Stage"]))


def _cell(column: _Column, stage: Mapping[str, Any]) -> Text:
    """Return one cell; the pressure is coloured as well as named."""
    content = column.cell(stage)
    return Text(content, style=_STYLES.get(content, "") if column.rank == 1 else "")


_MOST: Final = 16
"""Rows of a stage; of more subtasks these with the most records, of a source the longest lag."""

_HEADS: Final = ("Subtask", "In rec/s", "x even", "Out rec/s", "Busy", "Blocked", "In pool")


def subtask_table(tables: Tables, scenario: Scenario) -> Table:
    """Return a table with a row a subtask, each figure over the whole run.

    ``tables``: ``stages`` of a run.

    The table fits 80 columns if names of stages are short. ``x even`` is a subtask's records
    over an even share, bold where it is hot; ``Lag`` the mean of how far it was behind its log.
    """
    has_log = any(stage.reads_log for stage in scenario.stages)
    table = plain_table()
    table.add_column("Stage", overflow="fold")
    for head in (*_HEADS, *(("Lag",) if has_log else ())):
        table.add_column(head, justify="right", no_wrap=True)
    for stage, subtasks in by_subtask(tables, scenario).items():
        reads_log = scenario.stage(stage).reads_log
        for place, one in enumerate(_shown(subtasks)):
            cells = _cells(one, times_even(one, subtasks) if len(subtasks) > 1 else None)
            lag = [Text(f"{seconds(one.lag_s)} s" if reads_log else "")] if has_log else []
            table.add_row(Text(stage if place == 0 else ""), *cells, *lag)
        if len(subtasks) > _MOST:
            table.add_row(Text(""), Text(f"{len(subtasks) - _MOST:,} more"))
    return table


def _shown(subtasks: Sequence[SubtaskFigures]) -> list[SubtaskFigures]:
    """Return the subtasks to show, in the order of their indices."""
    first = sorted(subtasks, key=lambda one: (-one.records_in, -one.lag_s, one.subtask))[:_MOST]
    return sorted(first, key=lambda one: one.subtask)


def _cells(one: SubtaskFigures, of_even: float | None) -> list[Text]:
    is_hot = of_even is not None and of_even >= HOT
    even = "" if of_even is None else f"{of_even:.2f}"
    return [
        Text(str(one.subtask)),
        Text(number(one.rate_in)),
        Text(even, style="bold red" if is_hot else ""),
        Text(number(one.rate_out)),
        Text(share_of_time(one.busy_ms_per_s)),
        Text(share_of_time(one.backpressured_ms_per_s)),
        Text(percent(one.in_pool_usage)),
    ]
