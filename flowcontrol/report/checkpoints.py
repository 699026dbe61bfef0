"""What the page and the terminal show of checkpoints: sentences, counts and the history."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from flowcontrol.analysis.checkpoints import COMPLETED, IN_PROGRESS, STATUSES, checkpoint_frame
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.markup import html_table, key_figure
from flowcontrol.report.numbers import bytes_text, milliseconds, number, rate

MOST_ROWS: Final = 100
"""Checkpoints in the table of the page; of more the last ones, as on Flink's page."""

WORDS: Final = {"in_progress": "in progress"}
"""Statuses that read otherwise than they are written in the tables."""

_HEADS = (
    "ID", "Kind", "Status", "Acknowledged", "Triggered", "End to end", "State",
    "Processed in flight", "Persisted in flight",
)  # fmt: skip

_REMEDY_HEADS = (
    "Change", "Completed", "End to end, median", "maximum", "Persisted a checkpoint", "Sinks",
)  # fmt: skip


def checkpoint_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return the sentences about checkpoints.

    ``summary``: as in summary.json: its ``checkpoints``, if the run has any.
    """
    return list(summary.get("checkpoints", {}).get("sentences", ()))


def checkpoint_section(tables: Tables, summary: Mapping[str, Any]) -> str:
    """Return the section of the page: counts, durations and the history; empty without any."""
    found = summary.get("checkpoints")
    if found is None or not sum(found["counts"].values()):
        return ""
    frame = checkpoint_frame(tables)
    shown = frame.iloc[::-1].head(MOST_ROWS)
    rows = [list(map(escape, _cells(row))) for row in shown.itertuples()]
    note = f" The last {len(rows)} of {len(frame):,}." if len(rows) < len(frame) else ""
    return (
        '<section id="checkpoint-history"><h2>Checkpoint history</h2>'
        f'<dl class="figures">{"".join(_figures(found))}</dl>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        '<p class="how">The latest first. End to end: from the trigger to the last acknowledgement '
        "at the coordinator, of a failed one to its failure. State: what the tasks wrote, data in "
        "flight not included. Processed in flight: what they took up between the first and last "
        f"barrier; persisted: what was written with the checkpoint.{note}</p></section>\n"
        + _remedies(found.get("remedies", ()))
    )


def _remedies(remedies: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of what would help; empty if nothing was tried."""
    if not remedies:
        return ""
    rows = [list(map(escape, _remedy(one))) for one in remedies]
    changes = " ".join(_options(one) for one in remedies if one["changes"])
    return (
        '<section id="checkpoint-remedies"><h2>What would help the checkpoints</h2>'
        f'<div class="scroll">{html_table(_REMEDY_HEADS, rows)}</div>'
        '<p class="how">The scenario of this run with one change each, run on the virtual clock. '
        f"{escape(changes)} Sinks: what all of them took up. What barriers overtake is written "
        "with the checkpoint, and read back after a failure.</p></section>\n"
    )


def _remedy(one: Mapping[str, Any]) -> list[str]:
    e2e = one["e2e"]
    times = ["", ""] if e2e is None else [milliseconds(e2e[name]) for name in ("p50_ms", "max_ms")]
    done = f"{one['completed']:,} of {one['triggered']:,}"
    return [one["name"], done, *times, bytes_text(one["persisted_bytes"]), rate(one["rate_in"])]


def _options(one: Mapping[str, Any]) -> str:
    """Return which options a change sets."""
    stated = ", ".join(f"{key}: {json.dumps(value)}" for key, value in one["changes"].items())
    return f"{one['name'].capitalize()}: {stated}."


def _figures(found: Mapping[str, Any]) -> list[str]:
    """Return counts and durations as key figures."""
    counts, e2e = found["counts"], found["e2e"]
    failed = [
        f"{counts[status]:,} {WORDS.get(status, status)}"
        for status in STATUSES[1:]
        if counts[status]
    ]
    total = sum(counts.values())
    figures = [
        key_figure("Completed", f"{counts['completed']:,} of {total:,}", ", ".join(failed) or "all")
    ]
    if e2e is not None:
        low, middle, high, top = (
            milliseconds(e2e[f"{name}_ms"]) for name in ("min", "p50", "p99", "max")
        )
        note = f"minimum {low}, p99 {high}, maximum {top}"
        figures.append(key_figure("End to end", f"{middle} median", note))
    state, persisted = bytes_text(found["state_bytes"]), bytes_text(found["persisted_bytes"])
    figures += [
        key_figure("State", state, f"a checkpoint, {bytes_text(found['max_state_bytes'])} at most"),
        key_figure(
            "Persisted in flight",
            persisted,
            f"a checkpoint, {bytes_text(found['max_persisted_bytes'])} at most",
        ),
    ]
    if aside := found.get("put_aside", {}).values():
        total, most = sum(one["bytes_written"] for one in aside), max(o["max_bytes"] for o in aside)
        note = f"in files, {bytes_text(most)} of a subtask at a time"
        figures.append(key_figure("Put aside behind barriers", bytes_text(total), note))
    return figures


def _cells(row: Any) -> list[str]:
    status = str(row.status)
    mark = "…" if status == IN_PROGRESS else "✓" if status == COMPLETED else "✗"
    e2e = row.e2e_ms
    return [
        str(row.checkpoint_id),
        str(row.kind),
        f"{mark} {WORDS.get(status, status)}",
        f"{number(row.acknowledged)}/{number(row.subtasks)}",
        f"{seconds(row.triggered_s)} s",
        "" if e2e != e2e else milliseconds(e2e),
        bytes_text(row.state_bytes),
        bytes_text(row.processed_bytes),
        bytes_text(row.persisted_bytes),
    ]
