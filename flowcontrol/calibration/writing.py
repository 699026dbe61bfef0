"""A calibration as text: the scenario's file with origins, and the lines of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml
from rich import box
from rich.table import Table

from flowcontrol.calibration.bodies import plain
from flowcontrol.calibration.draft import Draft
from flowcontrol.calibration.predict import Row

# --- A fitted scenario as a file: each figure with its origin beside it.


WIDTH: Final = 110
"""Longest line with a comment at its end; a longer comment stands above its key."""


def scenario_text(draft: Draft) -> str:
    """Return the text of ``scenario.yaml``."""
    comments = {figure.key: f"# {plain(figure.comment)}" for figure in draft.figures}
    assumed = sum(1 for _ in draft.assumptions)
    measured = len(draft.figures) - assumed
    are, those = ("is", "it") if assumed == 1 else ("are", "those")
    look = f": look at {those}, and change what you know better" if assumed else ""
    lines = [
        f"# Fitted by `flowcontrol calibrate` to {plain(draft.source)}.",
        f"# {measured} figures are measured, {assumed} {are} assumed{look}.",
        *(f"# {plain(note)}" for note in draft.notes),
    ]
    lines += _block(draft.mapping, "", "", comments)
    absent = [
        f"# {key}: {text.removeprefix('# ')}"
        for key, text in comments.items()  # what is left: figures whose key the file leaves out
    ]
    return "\n".join([*lines, *(["#", "# Left out:"] if absent else []), *absent]) + "\n"


def _block(
    mapping: Mapping[str, Any], path: str, indent: str, comments: dict[str, str]
) -> list[str]:
    lines: list[str] = []
    for key, value in mapping.items():
        own = f"{path}.{key}" if path else key
        comment = comments.pop(own, "")
        is_noted = any(key.startswith(f"{own}.") for key in comments)
        if isinstance(value, Mapping) and value and (is_noted or not _is_short(value)):
            lines += _commented(f"{indent}{_scalar(key)}:", comment, indent)
            lines += _block(value, own, indent + "  ", comments)
        elif _is_list_of_mappings(value):
            lines += _commented(f"{indent}{key}:", comment, indent)
            for item in value:
                lines += _item(item, own, indent + "  ", comments)
        else:
            lines += _commented(f"{indent}{_scalar(key)}: {_scalar(value)}", comment, indent)
    return lines


def _item(item: Mapping[str, Any], path: str, indent: str, comments: dict[str, str]) -> list[str]:
    """Return a stage or an edge; its figures are named by its name or its ends."""
    name = item.get("name") or f"{item.get('from')}->{item.get('to')}"
    lines = _block(item, f"{path}.{name}", indent + "  ", comments)
    first = next(n for n, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    # A list of figures by subtask: what is noted of one of them.
    inner = [key for key in comments if key.startswith(f"{path}.{name}.") and key.endswith("]")]
    return lines + [f"{indent}  {comments.pop(key)} ({key.rpartition('.')[2]})" for key in inner]


def _commented(line: str, comment: str, indent: str) -> list[str]:
    if not comment:
        return [line]
    if len(line) + 2 + len(comment) <= WIDTH:
        return [f"{line}  {comment}"]
    return [f"{indent}{comment}", line]


def _is_short(value: Mapping[str, Any]) -> bool:
    return all(not isinstance(one, Mapping | list) for one in value.values()) and len(value) <= 2


def _is_list_of_mappings(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and isinstance(value[0], Mapping)


def _scalar(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=2**20, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


# --- What a calibration says in a terminal: predicted beside observed, contradictions, assumptions.


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
