"""Event time: how far watermarks lag and why, pauses of sources, and what windows hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.event_time import time_frame
from flowcontrol.analysis.event_time_wording import subtask_name, time_text
from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.analysis.watermarks import is_relative
from flowcontrol.report.figures import (
    GREY,
    Chart,
    LineStyle,
    Series,
    axis,
    figure,
    line,
    line_style,
    over_interval,
    steps,
    stroked,
    thinned,
)
from flowcontrol.report.markup import (
    bytes_text,
    chart_of,
    chart_texts,
    html_table,
    key_figure,
    number,
    percent,
    rate,
    share_of_time,
)
from flowcontrol.report.rundata import MOST_STAGES, RunData, left_out
from flowcontrol.scenario import Scenario
from flowcontrol.topics.topic import Topic

if TYPE_CHECKING:
    import pandas as pd


_PARTS: Final = (
    "Part of the lag", "Measured", "By the closed form", "In flight ahead", "Taken up",
)  # fmt: skip
_FORM: Final = 2
"""Where the closed form stands in these."""


def event_time_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the lines of the terminal: lag, windows, pauses; none without event time."""
    found = summary.get("event_time", {})
    stages, model = found.get("stages", {}), found.get("time_model", "flink")
    return [*_lag_line(summary), *_windows_lines(stages, model), *_paused_line(stages)]


def _furthest(stages: Mapping[str, Any]) -> tuple[str, Mapping[str, float]] | None:
    """Return the stage with the longest mean lag, of several the last one, and its lag."""
    lags = [(name, own["lag"]) for name, own in stages.items() if own["lag"] is not None]
    return max(reversed(lags), key=lambda one: float(one[1]["mean_ms"]), default=None)


def _lag_line(summary: Mapping[str, Any]) -> list[str]:
    found = summary.get("event_time")
    if found is None:
        return []
    if found["silent"] is not None:
        return [f"Watermarks: none has reached {found['silent']['stage']}."]
    furthest = _furthest(found["stages"])
    if furthest is None:
        return []
    name, lag = furthest
    mean, most, end = (time_text(lag[key]) for key in ("mean_ms", "max_ms", "end_ms"))
    return [f"Watermarks: {name} lags {mean} on average, {most} at most, {end} at the end."]


def _windows_lines(stages: Mapping[str, Any], model: str) -> list[str]:
    own = [one for one in stages.values() if _has_windows(one)]
    if not own:
        return []
    what = "groups" if model == "spark" else "records"
    late = sum(one["late_records"] for one in own)
    held = [
        f"{number(one['max_open_windows'])} in {name} ({bytes_text(one['max_window_state_bytes'])})"
        for name, one in stages.items()
        if one["max_open_windows"]
    ]
    lines = [f"Open windows at the samples: up to {', '.join(held)}."] if held else []
    fired = sum(one["fired"] for one in own)
    text = f"Windows: {number(fired)} result{'' if fired == 1 else 's'}"
    if late:
        return [*lines, f"{text}; {number(late)} {what} too late."]
    return [*lines, f"{text}; nothing too late."]


def _has_windows(own: Mapping[str, Any]) -> bool:
    return bool(own["max_open_windows"] or own["fired"] or own["late_records"])


def _paused_line(stages: Mapping[str, Any]) -> list[str]:
    paused = {name: one["most_paused_ms_per_s"] for name, one in stages.items()}
    texts = [f"{name} {share_of_time(share)}" for name, share in paused.items() if share > 0]
    return [f"Paused by alignment, the most of a subtask: {', '.join(texts)}."] if texts else []


def event_time_figures(summary: Mapping[str, Any]) -> list[str]:
    """Return the key figure of the page, as markup; none without a watermark."""
    stages = summary.get("event_time", {}).get("stages", {})
    furthest = _furthest(stages)
    if furthest is None:
        return []
    name, lag = furthest
    note = f"{name}, {time_text(lag['max_ms'])} at most"
    return [key_figure("Watermark lag", time_text(lag["mean_ms"]), note)]


def event_time_section(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the section of the page: sentences, the stages, the parts of the longest lag.

    Returns markup; empty without event time.
    """
    found = summary.get("event_time")
    if found is None:
        return ""
    sentences = "".join(f"<p>{escape(text)}</p>" for text in found["sentences"])
    tables = _stages(found["stages"], scenario) + _parts(found["apart"], scenario)
    if not sentences and not tables:
        return ""
    return f'<section id="event-time"><h2>Event time</h2>{sentences}{tables}</section>\n'


_Cell = Callable[[Mapping[str, Any]], str]


def _lag_cell(key: str) -> _Cell:
    def cell(own: Mapping[str, Any]) -> str:
        lag = own["lag"]
        return "" if lag is None else time_text(lag[key])

    return cell


def _if_any(key: str, text: Callable[[float], str] = number) -> _Cell:
    return lambda own: text(own[key]) if own[key] else ""


_LAGS: Final = {"Lag, mean": "mean_ms", "at most": "max_ms", "at the end": "end_ms"}
_COLUMNS: Final[tuple[tuple[str, _Cell], ...]] = (
    *((head, _lag_cell(key)) for head, key in _LAGS.items()),
    ("Idle", _if_any("idle_share", percent)),
    ("Paused", _if_any("paused_ms_per_s", share_of_time)),
    ("Most of a subtask", _if_any("most_paused_ms_per_s", share_of_time)),
    ("Too late", _if_any("late_records")),
    ("Windows at most", _if_any("max_open_windows")),
    ("State at most", _if_any("max_window_state_bytes", bytes_text)),
    ("Results", _if_any("fired")),
)
"""Head and cell of a column; those without any figure are left out."""


_LATE: Final = {
    "flink": "Too late: records that were in no window any more.",
    "spark": "Too late: groups of a batch whose window had ended by the watermark of the batch "
    "before.",
}
_NOTES: Final = {
    "Lag, mean": "Lag: of the subtask that is furthest behind.",
    "Held back by": "Held back by: the input that this subtask waited for in the second half of "
    "the run.",
    "Paused": "Paused: share of the time for which alignment stopped a source.",
    "Too late": _LATE["flink"],
    "Windows at most": "Windows and their state: at a sample; each key's by itself.",
}
"""What a column means, by its head."""


def _stages(stages: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the table of the stages; empty if there is nothing to say of any."""
    columns = [
        (head, cells)
        for head, cell in _COLUMNS
        if any(cells := [cell(own) for own in stages.values()])
    ]
    if not columns:
        return ""
    place = sum(head in _LAGS for head, _ in columns)
    if scenario.time_model == "flink":  # Spark's watermark is one for the query
        columns[place:place] = _who(stages, scenario)
    rows = [
        [escape(name), *(escape(cells[index]) for _, cells in columns)]
        for index, name in enumerate(stages)
    ]
    heads = ["Stage", *(head for head, _ in columns)]
    texts = {**_NOTES, "Too late": _LATE[scenario.time_model]}
    notes = " ".join(text for head, text in texts.items() if head in heads)
    return f'<div class="scroll">{html_table(heads, rows)}</div><p class="how">{notes}</p>'


def _who(stages: Mapping[str, Any], scenario: Scenario) -> list[tuple[str, list[str]]]:
    """Return the columns that name subtasks: who is furthest behind, and who holds it back."""
    behind, held = [], []
    for name, own in stages.items():
        has_several = scenario.stage(name).parallelism > 1 and own["furthest_behind"] is not None
        behind.append(f"subtask {own['furthest_behind']}" if has_several else "")
        by = own["held_by"]
        held.append("" if by is None else subtask_name(scenario, by["stage"], by["subtask"]))
    found = (("Furthest behind", behind), ("Held back by", held))
    return [(head, cells) for head, cells in found if any(cells)]


_HOW_PARTS: Final = {
    "flink": "Means of the second half of the run. Measured: by how much the watermark is older at "
    "the receiver than at the sender. By the closed form: the records in flight on the channel "
    "over those taken off it; at the source half an interval of probes, and how long no record "
    "came that hardly lies behind. Where rates changed in that time, the two differ.",
    "spark": "Means of the second half of the run. The query has one watermark, at all stages: it "
    "is worked out at the end of a batch and holds for the next one.",
}
"""What the table of the parts of a lag shows."""


def _parts(apart: Mapping[str, Any] | None, scenario: Scenario) -> str:
    """Return the table of what the longest lag consists of; empty if it is not known."""
    if apart is None or apart["stands_since_s"] is not None:
        return ""
    source = subtask_name(scenario, apart["source"], apart["source_subtask"])
    delay, offset, rest = (apart[f"{name}_ms"] for name in ("delay", "offset", "at_source"))
    rows = [_part(f"Delay of {apart['source']}", delay, delay)] if delay else []
    rows += [_part(f"Offset of {source}", offset, offset)] if offset else []
    label = "Until the batch that uses it" if scenario.time_model == "spark" else f"At {source}"
    rows.append(_part(label, rest, apart["at_source_expected_ms"]))
    for hop in apart["hops"]:
        ends = f" [{hop['sender']} to {hop['receiver']}]" if _is_several(hop, scenario) else ""
        ahead = [f"{number(hop['in_flight_records'])} records", rate(hop["rate"])]
        rows.append(_part(f"{hop['edge']}{ends}", hop["wait_ms"], hop["expected_ms"], ahead))
    target = subtask_name(scenario, apart["stage"], apart["subtask"])
    rows.append(_part(f"Lag at {target}", apart["lag_ms"], apart["expected_ms"]))
    is_stated = {_FORM} if _is_formless(apart) else set[int]()
    shown = [i for i in range(len(_PARTS)) if i not in is_stated and any(row[i] for row in rows)]
    heads, *cells = ([one[i] for i in shown] for one in (_PARTS, *rows))
    note = _HOW_PARTS[scenario.time_model]
    return f'<div class="scroll">{html_table(heads, cells)}</div><p class="how">{note}</p>'


def _is_formless(apart: Mapping[str, Any]) -> bool:
    """Tell whether the closed form is known of no part of a lag but those that are stated."""
    hops = [hop["expected_ms"] for hop in apart["hops"]]
    return all(one is None for one in (apart["at_source_expected_ms"], apart["expected_ms"], *hops))


def _is_several(hop: Mapping[str, Any], scenario: Scenario) -> bool:
    edge = next(one for one in scenario.edges if one.name == hop["edge"])
    return any(scenario.stage(name).parallelism > 1 for name in (edge.sender, edge.receiver))


def _part(
    label: str, measured: float, expected: float | None, ahead: Sequence[str] = ("", "")
) -> list[str]:
    form = "" if expected is None else time_text(expected)
    return list(map(escape, [label, time_text(measured), form, *ahead]))


Trace = dict[str, Any]

MOST_THIN: Final = 8
"""Subtasks of a stage that get a thin line; of a stage with more none does."""

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
    texts = chart_texts()["watermark-lag"]
    note = f" No watermark came to {', '.join(without)}." if without else ""
    title = f"lag ({unit} of event time)" if relative else f"lag ({unit})"
    drawn = _drawn(run, traces, [axis(title)], 300)
    words = {
        "lag": texts["sources"] if relative else texts["clock"],
        "stages": texts[run.scenario.time_model],
        "thin": texts["thin"] if has_thin else "",
        "stands": "" if relative else texts["stands"],  # the furthest source has no lag
        "delays": texts["delays"] if delays else "",
    }
    return [chart_of("watermark-lag", drawn, note + left_out(run), words=words)]


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
        trace = stroked(series, style, width=0.8, shape=shape, showlegend=False, hoverinfo="skip")
        traces.append(trace | {"legendgroup": stage, "opacity": 0.7})
    return traces


def _delays(run: RunData, factor: float) -> list[Trace]:
    """Return a dotted line for each delay of a source that a lag cannot be below."""
    delays: dict[int, list[str]] = {}
    for source in run.scenario.sources:
        times, marks = source.event_time, source.watermark
        if times is not None and marks is not None and times.column is None:
            delays.setdefault(marks.delay_ms, []).append(source.name)
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
        traces.append(steps(series, line_style(index)) | {"showlegend": True})
    if not traces:
        return []
    axes = [axis("paused", range=[0, 100], ticksuffix=" %")]
    return [chart_of("paused", _drawn(run, traces, axes, 220))]


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
                made = steps(over_interval(name, shown, column), style, row=row)
            else:
                made = line(Series(name, *thinned(shown, column)), style, row=row)
            traces.append(made | {"showlegend": row == 0})
    texts = chart_texts()["windows"]
    late = texts["late_spark" if is_sparks else "late"] if "late_records" in rows else ""
    return [chart_of("windows", _drawn(run, traces, axes, 170), words={"late": late})]


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


def _drawn(run: RunData, traces: list[Trace], axes: list[Trace], row_px: int) -> Trace:
    return figure(traces, axes, until_s=run.until_s, changes=run.changes, row_px=row_px)


def _unit(most: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """Return the largest unit of which there are at least two, or the smallest."""
    return next((one for one in units if most >= 2 * one[0]), units[-1])


EVENT_TIME: Final = Topic(
    lines=event_time_lines,
    figures=event_time_figures,
    section=lambda run: event_time_section(run.summary, run.scenario),
    charts=lambda run: event_time_charts(run.drawn, run.tables),
)
