"""What a calibration says in a terminal: predicted beside observed, contradictions, assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.table import Table

from flowcontrol.calibration.comparing import Row
from flowcontrol.calibration.draft import Draft

NARROW: Final = 72
"""Characters below which a terminal has no room for all columns."""


def conclusion(draft: Draft, rows: Sequence[Row], predicted: str | None) -> str:
    """Return how many figures the scenario predicts, and which stage limits."""
    within = sum(row.is_within for row in rows)
    text = f"{within} of {len(rows)} observed figures are predicted within their tolerances. "
    if predicted == draft.bottleneck:
        limit = "Nothing limits" if predicted is None else f"The bottleneck is {predicted}"
        return f"{text}{limit}, in the input and in the run."
    names = (draft.bottleneck or "nothing", predicted or "nothing")
    return (
        f"{text}By the input {names[0]} limits, by the run {names[1]}: the scenario is not the job."
    )


def figure_table(rows: Sequence[Row], width: int = 100) -> Table:
    """Return a row a figure; ``!`` marks those beyond their tolerances."""
    if width < NARROW:
        return _narrow_table(rows)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("place", overflow="fold")
    table.add_column("figure", no_wrap=True)
    for heading in ("observed", "predicted", "error", "allowed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    before = ""
    for row in rows:
        place = "" if row.place == before else row.place
        before = row.place
        figures = (row.observed, row.predicted)
        table.add_row(
            place,
            row.name,
            *(_number(value) for value in figures),
            f"{'+' if row.error >= 0 else '-'}{_number(abs(row.error), 2)}",
            _number(row.tolerance),
            "" if row.is_within else "!",
            style="" if row.is_within else "bold",
        )
    return table


def _narrow_table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure", overflow="fold")
    for heading in ("observed", "predicted"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    before = ""
    for row in rows:
        if row.place != before:
            table.add_row(f"{row.place}:")
        before = row.place
        figures = (_number(value) for value in (row.observed, row.predicted))
        mark, style = ("", "") if row.is_within else ("!", "bold")
        table.add_row(f" {row.name}", *figures, mark, style=style)
    return table


def contradiction_lines(draft: Draft) -> list[str]:
    """Return a line for each contradiction of the input."""
    if not draft.contradictions:
        return []
    count = len(draft.contradictions)
    head = f"{count} contradiction{'s' if count > 1 else ''} in the input:"
    return [head, *(f"  {one.place}: {one.sentence}." for one in draft.contradictions)]


def assumption_lines(draft: Draft) -> list[str]:
    """Return a line for each figure that the input does not say."""
    found = list(draft.assumptions)
    if not found:
        return []
    lines = [f"  {one.key}: {_value(one.value)} ({one.origin})" for one in found]
    return ["Assumed, as the input does not say it:", *lines]


def _value(value: object) -> str:
    return "left out" if value is None else str(value)


def _number(value: float, digits: int = 3) -> str:
    if abs(value) < 1e-6:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}" if abs(value) < 10 else f"{value:.1f}"
