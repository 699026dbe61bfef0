"""The charts of event time: how far watermarks lag, pauses of sources, and what windows hold."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.event_time import time_frame
from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.analysis.watermarks import is_relative
from flowcontrol.report.colours import GREY, LineStyle, line_style
from flowcontrol.report.figures import Chart, axis, figure, line
from flowcontrol.report.markup import chart_texts
from flowcontrol.report.rundata import MOST_STAGES, RunData, left_out
from flowcontrol.report.series import Series, over_interval, thinned

if TYPE_CHECKING:
    import pandas as pd

Trace = dict[str, Any]

MOST_THIN: Final = 8
"""Subtasks of a stage that get a thin line; of a stage with more none does."""

_REPORT: Final = "flowcontrol.report"
_TIMES: Final = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_SIZES: Final = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
_PER_CENT: Final = 0.1
"""Per cent of a ms/s."""


def event_time_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return the charts of a job with event time or windows; none of one without."""
    if "time" not in tables:
        return []
    frame = time_frame(tables, run.scenario)
    return [*_lag_chart(run, frame), *_paused_chart(run, frame), *_windows_chart(run, frame)]


def _lag_chart(run: RunData, frame: pd.DataFrame) -> list[Chart]:
    """Return the lag of each stage; none if no watermark came anywhere."""
    lags = frame["lag_ms"].where(~frame["is_idle"])  # a line has a gap where nobody waits for it
    if lags.isna().all():
        return []
    factor, unit = _unit(float(lags.abs().max()) / 1000, _TIMES)
    known = frame.assign(lag=lags / 1000 / factor)
    traces: list[Trace] = []
    without = []
    for index, stage in enumerate(run.shown_stages()):
        rows = known[known["stage"] == stage.name]
        if rows["lag"].isna().all():
            without.append(stage.name)
            continue
        if 1 < stage.parallelism <= MOST_THIN:
            traces += _thin(stage.name, rows, "lag", line_style(index))
        series = Series(stage.name, *thinned(summed(rows, "lag", "max"), "lag"))
        traces.append(line(series, line_style(index)))
    delays, has_thin = _delays(run, factor), any("opacity" in trace for trace in traces)
    traces = [_with_gaps(trace) for trace in traces] + delays
    relative = any(is_relative(run.scenario, stage.name) for stage in run.scenario.stages)
    texts = chart_texts(_REPORT)["watermark-lag"]
    words = texts["sources"] if relative else texts["clock"]
    note = f" No watermark came to {', '.join(without)}." if without else ""
    title = f"lag ({unit} of event time)" if relative else f"lag ({unit})"
    drawn = _drawn(run, traces, [axis(title)], 300)
    text = texts["text"].format(
        lag=words,
        stages=texts[run.scenario.time_model],
        thin=texts["thin"] if has_thin else "",
        stands="" if relative else texts["stands"],  # the furthest source has no lag
        delays=texts["delays"] if delays else "",
    )
    text += note + left_out(run)
    return [Chart("watermark-lag", texts["title"], text, drawn)]


def _with_gaps(trace: Trace) -> Trace:
    """Return a trace whose line breaks where a value is missing, and begins with one."""
    x, y = trace["x"], trace["y"]
    begin = next((i for i, value in enumerate(y) if not isnan(value)), len(y))
    shown = [None if isnan(value) else value for value in y[begin:]]
    return trace | {"x": x[begin:], "y": shown}


def _thin(
    stage: str, rows: pd.DataFrame, column: str, style: LineStyle, shape: str = "linear"
) -> list[Trace]:
    """Return a thin line for each subtask, which the legend hides with its stage's."""
    traces = []
    for subtask, part in rows.groupby("subtask"):
        series = Series(f"{stage} {subtask}", *thinned(part, column))
        stroke = {"color": style.colour, "dash": style.dash, "width": 0.8, "shape": shape}
        more: Trace = {"mode": "lines", "line": stroke, "showlegend": False, "hoverinfo": "skip"}
        traces.append(line(series, style, **more) | {"legendgroup": stage, "opacity": 0.7})
    return traces


def _delays(run: RunData, factor: float) -> list[Trace]:
    """Return a dotted line for each delay of a source that a lag cannot be below."""
    delays: dict[int, list[str]] = {}
    for source in run.scenario.sources:
        own = run.scenario.event_time_of(source.name)
        if own is not None and own.watermark is not None and own.column is None:
            delays.setdefault(own.watermark.delay_ms, []).append(source.name)
    return [
        line(
            Series(f"delay of {', '.join(names)}", [0.0, run.until_s], [ms / 1000 / factor] * 2),
            LineStyle(GREY, "dot", "circle"),
            mode="lines",
            line={"color": GREY, "dash": "dot", "width": 1.5},
        )
        for ms, names in delays.items()
        if ms
    ]


def _paused_chart(run: RunData, frame: pd.DataFrame) -> list[Chart]:
    """Return the share of time for which sources were paused; none if none was."""
    paused = frame[frame["paused_ms_per_s"] > 0]
    found, traces = set(paused["stage"]), list[Trace]()
    for index, stage in enumerate(run.shown_stages()):  # each in the colour that it has elsewhere
        if (name := stage.name) not in found:
            continue
        rows = frame[frame["stage"] == name].assign(
            share=lambda f: f["paused_ms_per_s"] * _PER_CENT
        )
        if 1 < stage.parallelism <= MOST_THIN:
            traces += _thin(name, rows, "share", line_style(index), "vh")
        series = over_interval(name, summed(rows, "share", "max"), "share")
        traces.append(_stepped(series, line_style(index)) | {"showlegend": True})
    if not traces:
        return []
    texts = chart_texts(_REPORT)["paused"]
    axes = [axis("paused", range=[0, 100], ticksuffix=" %")]
    return [Chart("paused", texts["title"], texts["text"], _drawn(run, traces, axes, 220))]


def _windows_chart(run: RunData, frame: pd.DataFrame) -> list[Chart]:
    """Return what windows held and sent on; none if there were no windows."""
    sums = {name: _sums(frame, name) for name in _with_windows(run, frame)}
    if not sums:
        return []
    most = max(float(own["window_state_bytes"].max()) for own in sums.values())
    factor, unit = _unit(most, _SIZES)
    is_sparks = run.scenario.time_model == "spark"
    rows = ["open_windows", "state", "results"]
    axes = [axis("open windows"), axis(f"state ({unit})"), axis("results/s")]
    if any(own["late_records"].max() > 0 for own in sums.values()):
        unit = "groups" if is_sparks else "records"
        rows, axes = [*rows, "late_records"], [*axes, axis(f"late ({unit})")]
    traces: list[Trace] = []
    for index, (name, own) in enumerate(sums.items()):
        style = line_style(index)
        shown = own.assign(state=own["window_state_bytes"] / factor)
        for row, column in enumerate(rows):
            if column == "results":
                made = _stepped(over_interval(name, shown, column), style, row=row)
            else:
                made = line(Series(name, *thinned(shown, column)), style, row=row)
            traces.append(made | {"showlegend": row == 0})
    texts = chart_texts(_REPORT)["windows"]
    late = texts["late_spark" if is_sparks else "late"] if "late_records" in rows else ""
    text = texts["text"].format(late=late)
    return [Chart("windows", texts["title"], text, _drawn(run, traces, axes, 170))]


def _with_windows(run: RunData, frame: pd.DataFrame) -> list[str]:
    """Return the stages with windows, as many as are drawn."""
    counted = frame[["open_windows", "fired", "late_records"]].sum(axis=1)
    found = set(frame[counted > 0]["stage"])
    return [stage.name for stage in run.scenario.stages if stage.name in found][:MOST_STAGES]


def _sums(frame: pd.DataFrame, stage: str) -> pd.DataFrame:
    """Return the levels and counters of a stage, and ``results``, those a second."""
    columns = ["open_windows", "window_state_bytes", "fired", "late_records"]
    found = summed(frame[frame["stage"] == stage], columns)
    fired = found["fired"].diff().fillna(found["fired"])
    return found.assign(results=(fired / found["interval_s"]).fillna(0.0))


def _stepped(series: Series, style: LineStyle, row: int = 0) -> Trace:
    """Return the trace of a figure that covers intervals."""
    stroke = {"color": style.colour, "dash": style.dash, "width": 2.0, "shape": "vh"}
    return line(series, style, row=row, mode="lines", line=stroke)


def _drawn(run: RunData, traces: list[Trace], axes: list[Trace], row_px: int) -> Trace:
    return figure(traces, axes, until_s=run.until_s, changes=run.changes, row_px=row_px)


def _unit(most: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest unit of which there are at least two, or the smallest."""
    return next((one for one in units if most >= 2 * one[0]), units[-1])
