"""The subtasks of a run as a table for a terminal: who takes what, and how busy it is."""

from collections.abc import Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.per_subtask import SubtaskFigures
from flowcontrol.analysis.subtasks import HOT, by_subtask, times_even
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.numbers import number, percent, share_of_time
from flowcontrol.report.terminal import plain_table
from flowcontrol.scenario import Scenario

_MOST: Final = 16
"""Rows of a stage; of more subtasks these with the most records, of a source the longest lag."""

_HEADS: Final = ("Subtask", "In rec/s", "x even", "Out rec/s", "Busy", "Blocked", "In pool")


def subtask_table(tables: Tables, scenario: Scenario) -> Table:
    """Return a table with a row a subtask, each figure over the whole run.

    ``tables``: ``stages`` of a run.

    Returns fits 80 columns where names of stages are short. ``x even`` is what a subtask took up
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
