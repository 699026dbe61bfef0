"""Advice on the page and on a terminal of any width: changes, what they do, and their keys.

Advice is given as plain JSON, as in ``advice.json`` and in ``summary.json`` under ``advice``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from flowcontrol.report.markup import bytes_text, html_table, milliseconds, number, rate
from flowcontrol.report.terminal import plain_table, print_widest

AS_IT_IS: Final = "as it is"
"""Name of the run without a change."""

_NOTHING: Final = "-"


class ShownFigure(NamedTuple):
    """A figure of a run: its key, its head in a table, how it is written, and its rank.

    The rank says which is left out first where a line is too narrow.
    """

    key: str
    head: str
    text: Callable[[Any], str]
    rank: int


_FIGURES: Final = (
    ShownFigure("throughput", "Throughput", rate, 1),
    ShownFigure("latency_p99_ms", "Latency p99", milliseconds, 2),
    ShownFigure("in_flight_bytes", "In flight", bytes_text, 5),
    ShownFigure("checkpoint_ms", "Checkpoint", milliseconds, 4),
    ShownFigure("memory_bytes", "Memory", bytes_text, 3),
    ShownFigure("slots", "Slots", number, 6),
)


def advice_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return the sentence on what would help, if the run has advice.

    Empty also for a job that lacks nothing but a lower latency, if no change lowers it.
    """
    found = summary.get("advice")
    if found is None:
        return []
    lacks = found["goal"] != "latency" or any(one["helps"] for one in found["proposals"])
    return [found["sentence"]] if lacks else []


def advice_section(found: Mapping[str, Any] | None) -> str:
    """Return the section of the page; empty without advice."""
    if found is None:
        return ""
    figures = shown_figures(found)
    heads = ("Change", *(figure.head for figure in figures), "Better")
    rows = [[AS_IT_IS, *figure_texts(found["before"], figures), ""]]
    rows += [
        [_change(one), *map(escape, figure_texts(one["figures"], figures)), gain_text(one)]
        for one in found["proposals"]
    ]
    return (
        '<section id="advice"><h2>What would help</h2>'
        f"<p>{escape(found['sentence'])}</p>"
        f'<div class="scroll">{html_table(heads, rows)}</div>'
        f'<p class="how">{escape(how_found(found))}</p>{_keys(found)}{_not_run(found)}</section>\n'
    )


def how_found(found: Mapping[str, Any]) -> str:
    """Return what the rows mean."""
    return (
        f"Each row is a run of this scenario with that change. Better: how many times as good "
        f"{_GOALS[found['goal']]} is. The order is gain for cost, which is "
        "(times as good - 1) / (1 + share of slots more + share of network memory more). "
        "Throughput: what all sinks took up; in flight: mean on all edges; checkpoint: median end "
        "to end; memory: network memory that gates and result partitions are granted."
    )


_GOALS: Final = {
    "throughput": "throughput",
    "latency": "the p99 of latency",
    "checkpoints": "the time of a checkpoint",
    "memory": "network memory",
}


def shown_figures(found: Mapping[str, Any]) -> list[ShownFigure]:
    """Return the figures that some run has, in the order of a table."""
    runs = [found["before"], *(one["figures"] for one in found["proposals"])]
    return [f for f in _FIGURES if any(run[f.key] is not None for run in runs)]


def figure_texts(figures: Mapping[str, Any], shown: Sequence[ShownFigure]) -> list[str]:
    """Return the figures of a run as the cells of a table."""
    values = ((figures[one.key], one.text) for one in shown)
    return [_NOTHING if value is None else text(value) for value, text in values]


def gain_text(one: Mapping[str, Any]) -> str:
    """Return how many times as good a change makes what was to improve."""
    gain = one["gain"]
    return "from none" if gain is None else f"{1 + gain:.2f} x"


def _change(one: Mapping[str, Any]) -> str:
    return f'<div class="change">{escape(one["name"])}<small>{escape(_why(one))}</small></div>'


def _why(one: Mapping[str, Any]) -> str:
    text = f"{one['why']}."
    limits = f"Then {one['limits']} limits." if one["limits"] else ""
    return " ".join(filter(None, (text[:1].upper() + text[1:], one["caution"], limits)))


def _keys(found: Mapping[str, Any]) -> str:
    """Return the keys of every change, folded: what to write into the scenario."""
    lines = "\n".join(
        f"# {one['name']}\n"
        + "\n".join(f"--set '{key}={json.dumps(value)}'" for key, value in one["changes"].items())
        for one in found["proposals"]
    )
    if not lines:
        return ""
    return (
        "<details><summary>The keys of each change, as arguments of a command</summary>"
        f"<pre>{escape(lines)}</pre></details>"
    )


def _not_run(found: Mapping[str, Any]) -> str:
    """Return the changes that were not run, folded."""
    if not found["not_run"]:
        return ""
    items = "".join(
        f"<li>{escape(one['name'])}: {escape(one['why'])}</li>" for one in found["not_run"]
    )
    count = len(found["not_run"])
    noun = "change" if count == 1 else "changes"
    return f"<details><summary>{count} {noun} not run</summary><ul>{items}</ul></details>"


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
