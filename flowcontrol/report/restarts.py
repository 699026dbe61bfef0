"""What the page and the terminal show of failures."""

from collections.abc import Mapping
from html import escape
from typing import Any

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import html_table
from flowcontrol.report.numbers import number

_HEADS = (
    "", "Failed", "What", "Noticed", "Restore began", "Ran again", "Checkpoint", "Subtasks",
    "Processed again", "Caught up", "after", "by rates alone",
)  # fmt: skip
MOST_ROWS = 100
"""Failures in the table of the page; of more the first ones."""


def restart_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each failure.

    Parameters
    ----------
    summary : mapping
        As in summary.json: its ``restarts``, if the run has any.
    """
    return list(summary.get("restarts", {}).get("sentences", ()))


def restart_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty if nothing failed."""
    found = summary.get("restarts", {}).get("failures", ())
    if not found:
        return ""
    rows = [list(map(escape, _cells(one))) for one in found[:MOST_ROWS]]
    note = f"The first {MOST_ROWS} of {len(found)}. " if len(found) > MOST_ROWS else ""
    down = seconds(summary["restarts"]["downtime_s"])
    return (
        f'<h2 id="restarts">Failures</h2>{html_table(_HEADS, rows)}'
        f"<p>{note}The job, or a part of it, was down for {down} s in all. Caught up: no more "
        "records waited at the sources and in the channels than at the failure.</p>"
    )


def _cells(one: Mapping[str, Any]) -> list[str]:
    found = [str(one["number"]), _time(one["failed_s"]), one["cause"]]
    found += [_time(one[key]) for key in ("detected_s", "restarted_s", "running_s")]
    checkpoint = one["checkpoint_id"]
    restored = "none" if checkpoint is None else str(checkpoint)
    found.append("" if one["running_s"] is None else restored)
    again = one["records_reprocessed"]
    found += [number(one["tasks"]), "" if again is None else number(again)]
    return found + [_time(one[key]) for key in ("caught_up_s", "catch_up_s", "expected_catch_up_s")]


def _time(value: float | None) -> str:
    return "" if value is None else f"{seconds(value)} s"
