"""The charts of checkpoints: how long each took, and of some of them each subtask by its parts."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoints import COMPLETED, checkpoint_frame, task_frame
from flowcontrol.analysis.frames import Tables
from flowcontrol.report.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from flowcontrol.report.figures import Chart, axis, figure, scatter
from flowcontrol.report.markup import chart_texts
from flowcontrol.report.rundata import RunData

if TYPE_CHECKING:
    import pandas as pd

MOST_BARS: Final = 24
"""Subtasks with a bar each; of more those that acknowledged last."""

MOST_POINTS: Final = 1000
"""Checkpoints with a point each; of more the longest and the last of each stretch of time."""

_TASKS: Final = "checkpoint-tasks"
_REPORT: Final = "flowcontrol.report"
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
    texts = chart_texts(_REPORT)["checkpoints"]
    left = len(ended) - len(shown)
    note = f" Of {len(ended):,} checkpoints {len(shown):,} are drawn, the longest of each stretch."
    return Chart("checkpoints", texts["title"], texts["text"] + (note if left else ""), drawn)


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
    for name, number in picked.items():
        rows = tasks[tasks["checkpoint_id"] == number]
        if len(rows) > MOST_BARS:
            notes = f" Of {len(rows):,} subtasks the {MOST_BARS} that acknowledged last."
            rows = rows.sort_values("e2e_ms", kind="stable").tail(MOST_BARS)
        rows = rows.assign(order=rows["stage"].map(order)).sort_values(["order", "subtask"])
        traces += _bars(rows, name, is_visible=not traces)
        most = max(most, len(rows))
    texts = chart_texts(_REPORT)[_TASKS]
    drawn = {"data": traces, "layout": _bar_layout(most)}
    return [Chart(_TASKS, texts["title"], texts["text"] + notes, drawn, _switch(picked))]


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
