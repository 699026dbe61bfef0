"""The charts of the report; their titles and explanations are in ``charts.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.frames import combine_latencies, summed
from flowcontrol.report.figures import (
    BLOCKED,
    BUSY,
    GREY,
    IDLE,
    LIMIT,
    Chart,
    LineStyle,
    Series,
    area,
    axis,
    checkpoint_bands,
    figure,
    line,
    line_style,
    outage_bands,
    over_interval,
    steps,
    stroked,
    thinned,
)
from flowcontrol.report.markup import chart_of, chart_texts
from flowcontrol.report.rundata import (
    MOST_STAGES,
    RunData,
    Spans,
    edge_flights,
    left_out,
    shown_channels,
    stage_rates,
)
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd

Trace = dict[str, Any]

_PERCENT_AXIS = {"ticksuffix": " %"}


def all_charts(run: RunData) -> list[Chart]:
    """Return the charts of the page in their order.

    A transport without credits has no chart of credit and backlog, one without buffers none of
    pools.
    """
    system = run.scenario.system
    channels = [] if system.transport == "unbounded" else [channels_chart(run)]
    pools = [] if system.counts_records else [pools_chart(run)]
    return [
        rates_chart(run),
        *channels,
        *([lag_chart(run)] if any(stage.reads_log for stage in run.scenario.stages) else []),
        in_flight_chart(run),
        *pools,
        shares_chart(run),
        latency_chart(run),
    ]


def rates_chart(run: RunData) -> Chart:
    """Return the rate of each stage over time, and the rate that its schedule allows."""
    traces: list[Trace] = []
    for index, rate in enumerate(stage_rates(run)):
        style = line_style(index)
        solid = LineStyle(style.colour, "solid", style.marker)
        done = replace(rate.done, name=f"{rate.name} {'emits' if rate.is_source else 'takes up'}")
        traces.append(steps(done, solid, width=4.5 if rate.is_source else 2.0))
        if rate.able is not None:
            traces.append(_limit(rate.able, colour=style.colour))
        if rate.arrives is not None:
            traces.append(_limit(rate.arrives, colour=style.colour, dash="dash"))
    has_log = any(stage.reads_log for stage in run.scenario.stages)
    arrivals = chart_texts()["rates"]["log"] if has_log else ""
    note = left_out(run)
    if run.outages:
        note += " Grey bands: from a failure until all tasks ran again."
    note += _about_checkpoints(run.checkpoints)
    chart = _chart(run, "rates", traces, [axis("records/s")], 300, note, arrivals=arrivals)
    shapes = chart.figure["layout"]["shapes"]
    shapes += checkpoint_bands(run.checkpoints.completed, run.checkpoints.failed)
    shapes += outage_bands(run.outages)
    return chart


def _about_checkpoints(spans: Spans) -> str:
    """Return what the bands of the checkpoints are, and whether some are left out."""
    text = ""
    if spans.completed:
        text += " Blue bands: checkpoints, from the trigger to the end."
    if spans.failed:
        text += " Orange bands with a dashed edge: checkpoints that expired or failed otherwise."
    if spans.left_out:
        others = "other " if spans.failed else ""
        text += f" {spans.left_out:,} {others}checkpoints are too many to be drawn here."
    return text


def channels_chart(run: RunData) -> Chart:
    """Return credit and backlog of the channels."""
    picked, typical = shown_channels(run)
    traces: list[Trace] = []
    for row, column in enumerate(("credit", "backlog")):
        for index, (name, rows) in enumerate(picked):
            x, y = thinned(rows, column)
            traces.append(line(Series(name, x, y), line_style(index), row=row, showlegend=row == 0))
        if typical:
            median = Series(
                "median of all", *thinned(summed(run.channels, column, "median"), column)
            )
            style = LineStyle(GREY, "dash", "circle")
            traces.append(line(median, style, row=row, showlegend=row == 0))
    note = (
        f" Of the {typical:,} channels the {len(picked)} with the largest backlog are drawn, and "
        "the median of all of them."
        if typical
        else ""
    )
    system = run.scenario.system
    unit = "records" if system.counts_records else "buffers"
    axes = [axis(f"credit ({unit})"), axis(f"backlog ({unit})")]
    texts = chart_texts()["channels"]
    credit = texts.get(system.transport, texts[unit]).format(transport=system.transport)
    return _chart(run, "channels", traces, axes, 190, note, credit=credit)


def lag_chart(run: RunData) -> Chart:
    """Return how far each source is behind its log, in records and in time."""
    traces: list[Trace] = []
    readers = [stage for stage in run.scenario.stages if stage.reads_log][:MOST_STAGES]
    for index, stage in enumerate(readers):
        for row, (column, how) in enumerate((("lag_records", "sum"), ("lag_s", "max"))):
            x, y = thinned(summed(run.stage_rows(stage.name), column, how), column)
            series = Series(stage.name, x, y)
            traces.append(line(series, line_style(index), row=row, showlegend=row == 0))
    return _chart(run, "lag", traces, [axis("records"), axis("s")], 190, "")


def in_flight_chart(run: RunData) -> Chart:
    """Return the data in flight on each edge, in buffers and in records."""
    traces: list[Trace] = []
    flights = edge_flights(run)
    of_buffers = not run.scenario.system.counts_records
    for index, flight in enumerate(flights):
        style = line_style(index)
        if of_buffers:
            traces.append(line(flight.buffers, style))
        traces.append(line(flight.records, style, row=int(of_buffers), showlegend=not of_buffers))
        if flight.room is not None:
            traces.append(_limit(flight.room, colour=style.colour))
    left = len(run.scenario.edges) - len(flights)
    note = f" The {len(flights)} fullest edges are drawn, {left} are left out." if left else ""
    units = ["buffers", "records"] if of_buffers else ["records"]
    rows = chart_texts()["in-flight"][units[0]]
    return _chart(run, "in-flight", traces, list(map(axis, units)), 190, note, rows=rows)


def pools_chart(run: RunData) -> Chart:
    """Return the usage of input and output pools."""
    traces: list[Trace] = []
    full = Series("full", [0.0, run.until_s], [100.0, 100.0])
    for index, stage in enumerate(run.shown_stages()):
        sides = (
            (0, "in_pool_usage", run.scenario.inputs(stage.name)),
            (1, "out_pool_usage", run.scenario.outputs(stage.name)),
        )
        is_named = False
        for row, column, edges in sides:
            if not edges:
                continue
            frame = summed(run.stage_rows(stage.name), column, "mean")
            x, y = thinned(frame, column)
            percents = Series(stage.name, x, [100 * value for value in y])
            traces.append(line(percents, line_style(index), row=row, showlegend=not is_named))
            is_named = True
    traces += [_limit(full, row=row, showlegend=row == 0) for row in (0, 1)]
    axes = [axis(name, **_PERCENT_AXIS) for name in ("input pools", "output pools")]
    return _chart(run, "pools", traces, axes, 190, left_out(run))


def shares_chart(run: RunData) -> Chart:
    """Return how each stage spent its time."""
    stages = run.shown_stages()
    layers = (
        ("busy", "busy_ms_per_s", BUSY, ""),
        ("blocked", "backpressured_ms_per_s", BLOCKED, "/"),
        ("idle", "idle_ms_per_s", IDLE, ""),
    )
    traces: list[Trace] = []
    for row, stage in enumerate(stages):
        rows = run.stage_rows(stage.name)
        for name, column, colour, pattern in layers:
            series = over_interval(name, summed(rows, column, "mean"), column, 0.1)
            traces.append(area(series, colour, pattern, row=row, showlegend=row == 0))
    axes = [axis("", range=[0, 100], nticks=3, **_PERCENT_AXIS) for _ in stages]
    names = [stage.name for stage in stages]
    stop = _stop(run)
    return _chart(run, "shares", traces, axes, 128, left_out(run), captions=names, stop=stop)


def _stop(run: RunData) -> str:
    """Return what blocks a stage."""
    system = run.scenario.system
    stop = "no output buffer to write to"
    if system.counts_records:
        stop = "the transport takes no more records"
    held = f"the throttle {system.throttle} holds records back"
    if system.transport == "unbounded":
        return "nothing, all is taken" if system.throttle == "none" else f"a source while {held}"
    return stop if system.throttle == "none" else f"{stop}; a source also while {held}"


def latency_chart(run: RunData) -> Chart:
    """Return the percentiles of latency at each sink."""
    sinks = [
        s.name for s in run.shown_stages() if not run.latency[run.latency["stage"] == s.name].empty
    ]
    percentiles = (("p50_ms", "solid"), ("p90_ms", "dash"), ("p99_ms", "dot"))
    traces: list[Trace] = []
    for index, sink in enumerate(sinks):
        frame = _latency_by_sample(run.latency[run.latency["stage"] == sink])
        prefix = f"{sink} " if len(sinks) > 1 else ""
        for column, dash in percentiles:
            series = over_interval(prefix + column.removesuffix("_ms"), frame, column)
            own = line_style(index if len(sinks) > 1 else len(traces))
            traces.append(steps(series, LineStyle(own.colour, dash, own.marker)))
        traces += _marker_trace(run, sink, prefix)
    texts = chart_texts()["latency"]
    start = texts[_latency_starts(run.scenario)]
    note = ("" if run.markers is None else f" {texts['markers']}") + left_out(run)
    return _chart(run, "latency", traces, [axis("latency (ms)")], 240, note, start=start)


def _marker_trace(run: RunData, sink: str, prefix: str) -> list[Trace]:
    """Return the median of the latency markers that a sink saw; none of a job without."""
    if run.markers is None or run.markers[run.markers["stage"] == sink].empty:
        return []
    frame = _latency_by_sample(run.markers[run.markers["stage"] == sink])
    series = over_interval(f"{prefix}markers p50", frame, "p50_ms")
    return [steps(series, LineStyle(GREY, "dash", "circle"))]


def _latency_starts(scenario: Scenario) -> str:
    """Return from when latencies count: the name of its text."""
    starts = {source.latency_from for source in scenario.sources}
    return starts.pop() if len(starts) == 1 else "both"


def _latency_by_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample with the percentiles of all subtasks of a sink."""
    import pandas as pd

    samples = [
        {"t_s": t_s, "interval_s": part["interval_s"].iloc[0]} | (combine_latencies(part) or {})
        for t_s, part in rows.groupby("t_s")
    ]
    return pd.DataFrame(samples)


def _chart(
    run: RunData,
    name: str,
    traces: list[Trace],
    axes: Sequence[Trace],
    row_px: int,
    note: str,
    captions: Sequence[str] = (),
    **words: str,
) -> Chart:
    """Return a chart over the whole run, with its text, which some words complete, and a note."""
    drawn = figure(
        traces, axes, until_s=run.until_s, changes=run.changes, row_px=row_px, captions=captions
    )
    return chart_of(name, drawn, note, words=words)


def _limit(
    series: Series, *, colour: str = LIMIT, row: int = 0, dash: str = "dot", **more: Any
) -> dict[str, Any]:
    """Return a dotted line of what is possible."""
    style = LineStyle(colour, dash, "circle")
    return stroked(series, style, width=1.5, shape="hv", row=row, **more)
