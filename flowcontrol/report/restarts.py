"""What the page and the terminal show of failures."""

from collections.abc import Mapping
from html import escape
from typing import Any

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import html_table
from flowcontrol.report.numbers import number

_HEADS = (
    "", "What failed", "at", "Noticed at", "Restore began", "Ran again", "From checkpoint",
    "Subtasks", "Processed again", "Caught up at", "after", "by rates alone",
)  # fmt: skip
MOST_ROWS = 100
"""Failures in the table of the page; of more the first ones."""


def restart_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each failure.

    ``summary``: as in summary.json: its ``restarts``, if the run has any.
    """
    return list(summary.get("restarts", {}).get("sentences", ()))


def restart_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty if nothing failed."""
    found = summary.get("restarts", {}).get("failures", ())
    if not found:
        return ""
    rows = [list(map(escape, _cells(one))) for one in found[:MOST_ROWS]]
    note = f" The first {MOST_ROWS} of {len(found):,}." if len(found) > MOST_ROWS else ""
    down = seconds(summary["restarts"]["downtime_s"])
    return (
        '<section id="restarts"><h2>Failures</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        f'<p class="how">The job, or a part of it, was down for {down} s in all. Noticed: until '
        "then the others went on as if nothing had happened. Processed again: records that the "
        "sources emitted once more. Caught up: no more records waited at the sources and in the "
        "channels than at the failure. By rates alone: what is processed again and what came "
        f"meanwhile, over what the job can do more than comes.{note}</p></section>\n"
    )


def _cells(one: Mapping[str, Any]) -> list[str]:
    found = [str(one["number"]), one["cause"], _time(one["failed_s"])]
    found += [_time(one[key]) for key in ("detected_s", "restarted_s", "running_s")]
    checkpoint = one["checkpoint_id"]
    restored = "none" if checkpoint is None else str(checkpoint)
    found.append("" if one["running_s"] is None else restored)
    again = one["records_reprocessed"]
    found += [number(one["tasks"]), "" if again is None else number(again)]
    return found + [_time(one[key]) for key in ("caught_up_s", "catch_up_s", "expected_catch_up_s")]


def _time(value: float | None) -> str:
    return "" if value is None else f"{seconds(value)} s"
