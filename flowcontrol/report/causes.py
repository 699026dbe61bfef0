"""Why a run was slow, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from flowcontrol.analysis.causes.pools import PoolReading
from flowcontrol.report.markup import html_table
from flowcontrol.report.numbers import percent

TITLES: Final[Mapping[str, str]] = {
    "operator": "slow operator",
    "key_skew": "hot keys",
    "channel_skew": "uneven channels",
    "stall": "stalls",
    "cpu": "too few processors",
    "network": "network",
    "buffers": "too few buffers",
    "disk": "slow disk",
    "checkpoint": "checkpoints",
    "external": "waiting for something outside",
    "throttle": "throttle",
    "source": "slow source",
    "downstream": "held up by what follows",
    "none": "nothing",
}
"""What a cause is called."""

MOST_ROWS: Final = 200
"""Rows of the table of the pools."""

_HEADS: Final = ("Stage", "Subtasks", "In", "Out", "Floating", "Exclusive", "What it says")


def cause_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each cause of a run: what, where, how sure, and what helps.

    Nothing where nothing limits: the sentence says so.
    """
    for label, cause in _labelled(summary):
        yield f"{label}: {_headline(cause)}; {cause['advice']}."


def cause_section(summary: Mapping[str, Any]) -> str:
    """Return the causes of a run with their evidence, as markup; empty where nothing limits."""
    items = []
    for label, cause in _labelled(summary):
        evidence = "".join(f"<li>{escape(text)}</li>" for text in cause["evidence"])
        items.append(
            f'<li data-cause="{escape(cause["cause"])}"><details><summary>'
            f"{label}: <strong>{escape(_headline(cause))}</strong>; "
            f"{escape(cause['advice'])}.</summary>"
            f"<ul>{evidence}</ul><p>{percent(cause['confidence'])} sure: "
            f"{escape(cause['reason'])}.</p></details></li>"
        )
    return f'<ul class="causes">{"".join(items)}</ul>' if items else ""


def pool_section(readings: Sequence[PoolReading]) -> str:
    """Return what the pools of each subtask say, folded, as markup; empty without any.

    Neighbours of which the same is said share a row, with their means.
    """
    rows = [
        _row(list(alike))
        for _, alike in groupby(readings, key=lambda one: (one.stage, one.reading, one.channels))
    ]
    if not rows:
        return ""
    shown = [list(map(escape, row)) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        shown.append([f"{len(rows) - MOST_ROWS:,} more rows are left out."])
    return (
        '<details id="pool-readings"><summary>What the pools say</summary>'
        f'<div class="scroll">{html_table(_HEADS, shown)}</div>'
        '<p class="how">Means over the run; 75 % or more is high. Of input and output: both low is '
        "fine; output high is blocked by what follows or by the network; input high alone limits, "
        "if what is before it is full; both high passes the pressure on. Floating buffers go where "
        "backlog is, exclusive ones belong to a channel: floating high alone is some channels, "
        "both is most, neither beside a full output before it is the network.</p></details>"
    )


def _labelled(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the causes to show, with a number if there are several."""
    causes = [cause for cause in summary.get("causes", ()) if cause["cause"] != "none"]
    for index, cause in enumerate(causes, 1):
        yield f"Cause {index} of {len(causes)}" if len(causes) > 1 else "Cause", cause


def _headline(cause: Mapping[str, Any]) -> str:
    """Return what it is, where, and how sure."""
    where = cause["stage"]
    if cause["subtask"] is not None:
        where = f"subtask {cause['subtask']} of {where}"
    sure = percent(cause["confidence"])
    return f"{TITLES[cause['cause']]}, {where} ({sure} sure)"


def _row(alike: Sequence[PoolReading]) -> list[str]:
    first, last = alike[0], alike[-1]
    who = str(first.subtask) if first is last else f"{first.subtask} to {last.subtask}"
    usages = [
        sum(getattr(one, name) for one in alike) / len(alike)
        for name in ("into", "out", "floating", "exclusive")
    ]
    said = f"{first.reading}; {first.channels}" if first.channels else first.reading
    return [first.stage, who, *map(percent, usages), said]
