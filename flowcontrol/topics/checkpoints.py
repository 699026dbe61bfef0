"""Checkpoints: counts, the history, what would help, and charts of their durations and parts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoints import (
    COMPLETED,
    IN_PROGRESS,
    STATUSES,
    aside_sentence,
    checkpoint_frame,
    task_frame,
)
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Chart,
    axis,
    figure,
    scatter,
)
from flowcontrol.report.markup import (
    bytes_text,
    chart_of,
    html_table,
    key_figure,
    milliseconds,
    number,
    rate,
)
from flowcontrol.report.rundata import RunData
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Topic, sentences_of

if TYPE_CHECKING:
    import pandas as pd


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


MOST_BARS: Final = 24
"""Subtasks with a bar each; of more those that acknowledged last."""

MOST_POINTS: Final = 1000
"""Checkpoints with a point each; of more the longest and the last of each stretch of time."""

_TASKS: Final = "checkpoint-tasks"
_BAR_PX, _AROUND_PX = 26, 130

_POINTS: Final = {
    COMPLETED: (BLUE, "circle"),
    "expired": (VERMILLION, "x"),
    "declined": (PURPLE, "square"),
    "aborted": (ORANGE, "diamond"),
}
"""Colour and sign of a status; one that was in progress has no duration."""

_LOOKS: Final = {
    "start_delay_ms": ("start delay", SKY, ""),
    "alignment_ms": ("alignment", VERMILLION, "/"),
    "sync_ms": ("synchronous", PURPLE, "x"),
    "async_ms": ("asynchronous", GREEN, "."),
}
"""Name, colour and hatch of a part."""


def checkpoint_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return the charts of a run that took checkpoints; none of one that did not."""
    checkpoints = checkpoint_frame(tables)
    if checkpoints.empty:
        return []
    tasks = task_frame(tables)
    return [_durations_chart(run, checkpoints), *_tasks_chart(run, checkpoints, tasks)]


def _durations_chart(run: RunData, checkpoints: pd.DataFrame) -> Chart:
    """Return how long each checkpoint took, at its trigger."""
    ended = checkpoints[checkpoints["e2e_ms"].notna()]
    shown = _thinned(ended)
    traces = []
    for status, (colour, symbol) in _POINTS.items():
        rows = shown[shown["status"] == status]
        if len(rows):
            look = {"color": colour, "symbol": symbol, "size": 9}
            x, y = rows["triggered_s"].round(6).tolist(), rows["e2e_ms"].round(3).tolist()
            numbers = [f"checkpoint {number}" for number in rows["checkpoint_id"]]
            points = scatter(
                status, x, y, mode="markers", marker=look, text=numbers, showlegend=True
            )
            traces.append(points)
    own = run.scenario.checkpointing
    if own is not None and own.interval_us is not None and len(shown):
        interval, ends = own.interval_us / 1000, [0.0, run.until_s]
        if shown["e2e_ms"].max() > interval / 10:
            dotted = {"color": GREY, "dash": "dot", "width": 1.5}
            traces.append(scatter("interval", ends, [interval] * 2, mode="lines", line=dotted))
    drawn = figure(traces, [axis("end to end (ms)")], until_s=run.until_s, row_px=220)
    drawn["layout"]["hovermode"] = "closest"
    left = len(ended) - len(shown)
    note = f" Of {len(ended):,} checkpoints {len(shown):,} are drawn, the longest of each stretch."
    return chart_of("checkpoints", drawn, note if left else "")


def _thinned(ended: pd.DataFrame) -> pd.DataFrame:
    """Return at most MOST_POINTS rows: of each stretch of neighbours the failed, or the longest."""
    if len(ended) <= MOST_POINTS:
        return ended
    stretch = -(-len(ended) // MOST_POINTS)
    ranked = ended.assign(
        stretch=[place // stretch for place in range(len(ended))],
        is_failed=ended["status"] != COMPLETED,
    ).sort_values(["stretch", "is_failed", "e2e_ms"], kind="stable")
    return ranked.drop_duplicates("stretch", keep="last")


def _tasks_chart(run: RunData, checkpoints: pd.DataFrame, tasks: pd.DataFrame) -> list[Chart]:
    """Return the subtasks of some checkpoints by their parts; none if no subtask reported."""
    picked = _picked(checkpoints[checkpoints["checkpoint_id"].isin(tasks["checkpoint_id"])])
    if not picked:
        return []
    order = {stage.name: index for index, stage in enumerate(run.scenario.topological())}
    traces: list[dict[str, Any]] = []
    notes, most = "", 0
    for name, checkpoint in picked.items():
        rows = tasks[tasks["checkpoint_id"] == checkpoint]
        if len(rows) > MOST_BARS:
            notes = f" Of {len(rows):,} subtasks the {MOST_BARS} that acknowledged last."
            rows = rows.sort_values("e2e_ms", kind="stable").tail(MOST_BARS)
        rows = rows.assign(order=rows["stage"].map(order)).sort_values(["order", "subtask"])
        traces += _bars(rows, name, is_visible=not traces)
        most = max(most, len(rows))
    drawn = {"data": traces, "layout": _bar_layout(most)}
    return [chart_of(_TASKS, drawn, notes, controls=_switch(picked))]


def _picked(checkpoints: pd.DataFrame) -> dict[str, int]:
    """Return which checkpoints have bars: the longest, the median and the last that completed.

    If none completed, the last one.
    """
    if checkpoints.empty:
        return {}
    done = checkpoints[checkpoints["status"] == COMPLETED]
    if done.empty:
        return {"last": int(checkpoints["checkpoint_id"].iloc[-1])}
    ordered = done.sort_values("e2e_ms", kind="stable")["checkpoint_id"]
    found = {"longest": ordered.iloc[-1], "median": ordered.iloc[(len(ordered) - 1) // 2]}
    found["last"] = done["checkpoint_id"].iloc[-1]
    return {name: int(number) for name, number in found.items()}


def _bars(rows: pd.DataFrame, name: str, *, is_visible: bool) -> list[dict[str, Any]]:
    labels = [
        escape(f"{stage} {subtask}", quote=False)
        for stage, subtask in zip(rows["stage"], rows["subtask"], strict=True)
    ]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "meta": name,
            "visible": is_visible,
            "name": label,
            "legendgroup": label,
            "y": labels,
            "x": rows[part].round(3).tolist(),
            "marker": {
                "color": colour,
                "pattern": {"shape": hatch, "fgcolor": "#ffffff", "bgcolor": colour, "size": 7},
            },
            "hovertemplate": f"{label}: %{{x:,}} ms<extra></extra>",
        }
        for part, (label, colour, hatch) in _LOOKS.items()
    ]


def _bar_layout(bars: int) -> dict[str, Any]:
    return {
        "height": _AROUND_PX + _BAR_PX * bars,
        "margin": {"l": 62, "r": 14, "t": 10, "b": 52},
        "barmode": "stack",
        "bargap": 0.3,
        "legend": {
            "orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal",
        },
        "xaxis": axis("time since the trigger (ms)"),
        "yaxis": {
            "title": {"text": ""}, "autorange": "reversed", "automargin": True, "type": "category",
        },
    }  # fmt: skip


def _switch(picked: dict[str, int]) -> str:
    """Return the buttons that choose a checkpoint, as markup."""
    choices = "".join(
        f'<label><input type="radio" name="checkpoint" value="{name}" autocomplete="off"'
        f"{'' if index else ' checked'}> the {name}, {number}</label>"
        for index, (name, number) in enumerate(picked.items())
    )
    legend = "<legend>Checkpoint</legend>"
    return f'<fieldset class="switch" data-chart="{_TASKS}">{legend}{choices}</fieldset>'


def _add(run: Run, summary: dict[str, Any]) -> None:
    """Put what was put aside behind barriers beside the checkpoints."""
    if run.put_aside:
        own = summary["checkpoints"]
        own["put_aside"] = run.put_aside
        own["sentences"] = [*own["sentences"], *filter(None, [aside_sentence(run.put_aside)])]


CHECKPOINTS: Final = Topic(
    add=_add,
    sentences=sentences_of("checkpoints"),
    section=lambda run: checkpoint_section(run.tables, run.summary),
    charts=lambda run: checkpoint_charts(run.drawn, run.tables),
)
