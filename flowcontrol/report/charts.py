"""The charts of the report: a figure with its explanation for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.latencies import combine_latencies
from flowcontrol.report.colours import BLOCKED, BUSY, GREY, IDLE, LIMIT, LineStyle, line_style
from flowcontrol.report.figures import Chart, Figure, area, axis, figure, line, steps
from flowcontrol.report.rundata import RunData, edge_flights, left_out, shown_channels, stage_rates
from flowcontrol.report.series import (
    Series,
    over_interval,
    summed,
    thinned,
)
from flowcontrol.scenario import SystemSpec

if TYPE_CHECKING:
    import pandas as pd

Trace = dict[str, Any]

_PERCENT_AXIS = {"ticksuffix": " %"}


def all_charts(run: RunData) -> list[Chart]:
    """Return the charts of the page in their order.

    Notes
    -----
    A transport without credits has no chart of credit and backlog, one without buffers none of
    pools.
    """
    system = run.scenario.system
    channels = [] if system.transport == "unbounded" else [channels_chart(run)]
    pools = [] if system.counts_records else [pools_chart(run)]
    return [
        rates_chart(run),
        *channels,
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
    return Chart(
        "rates",
        "Rates of producer and consumer",
        "Solid: records per second, the average since the sample before, all subtasks of a stage "
        "together; sources are drawn thick, so that what follows them stays visible. Dotted: what "
        "its schedule would allow it; vertical lines are changes of a schedule. A producer below "
        "its dotted line, at the rate of a consumer that touches its own, is being held back."
        + left_out(run),
        _drawn(run, traces, [axis("records/s")], 300),
    )


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
    unit = "records" if run.scenario.system.counts_records else "buffers"
    return Chart(
        "channels",
        "Credit and backlog per channel",
        _credit_explained(run.scenario.system) + note,
        _drawn(run, traces, [axis(f"credit ({unit})"), axis(f"backlog ({unit})")], 190),
    )


def _credit_explained(system: SystemSpec) -> str:
    """Return the explanation of credit and backlog in the terms of the transport."""
    if system.counts_records and system.transport != "hop_hysteresis":
        return (
            "Credit: records that the sender may still write, as the receivers of "
            f"{system.transport} grant them. Credit at 0 means that the receiver's queue or window "
            "is full, and a sender that has a record for it waits: this is back pressure at work. "
            "Backlog: records written that wait at the sender."
        )
    texts = {
        "tcp": "This transport, tcp, has no credits and shows 0: a receiver without a free buffer "
        "stops reading its connection. Backlog: buffers that wait at the sender.",
        "hop_hysteresis": "This transport, hop_hysteresis, has no credits and shows 0: a receiver "
        "stops its senders and lets them go on. Backlog: records that a stopped sender holds.",
    }
    return texts.get(
        system.transport,
        "Credit: buffers that the sender may still send. Backlog: buffers that wait at the sender. "
        "Credit at 0 with a backlog means that the receiver has no free buffer: this is "
        "back pressure at work. A local channel has no credits and shows 0.",
    )


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
    rows = (
        "Above: buffers released by the sender and not yet recycled by the receiver; dotted: how "
        "many the pools at both ends can hold, overdraft not counted. Below: records. In flight at "
        "its limit adds delay and nothing else."
        if of_buffers
        else "Records that wait add delay and nothing else; a line that only rises is a queue "
        "without a bound, or one that is not full yet."
    )
    return Chart(
        "in-flight",
        "In flight between the stages",
        "What a stage has emitted and the next one has not taken up, all channels of an edge "
        f"together. {rows}"
        + (f" The {len(flights)} fullest edges are drawn, {left} are left out." if left else ""),
        _drawn(run, traces, [axis(unit) for unit in ("buffers", "records")[not of_buffers :]], 190),
    )


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
    return Chart(
        "pools",
        "Pool usage",
        "Share of a stage's buffers in use, the mean of its subtasks. Output full and the next "
        "stage's input empty: the exchange between them is the limit. Input full and output empty: "
        "this stage is the limit. Both full: it is held up from further down. Output above 100 % "
        "is overdraft." + left_out(run),
        _drawn(
            run,
            traces,
            [axis(f"{side} pools", **_PERCENT_AXIS) for side in ("input", "output")],
            190,
        ),
    )


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
    return Chart(
        "shares",
        "How each stage spent its time",
        f"Busy: processing, or waiting for an external system. Blocked (hatched): {_stop(run)}. "
        "Idle: nothing to process, or a source waiting for its own rate. The limit is the first "
        "stage that is busy and not blocked after one that is blocked. Each share is the mean of "
        "the stage's subtasks since the sample before." + left_out(run),
        _drawn(run, traces, axes, 128, captions=[stage.name for stage in stages]),
    )


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
        for column, dash in percentiles:
            prefix = f"{sink} " if len(sinks) > 1 else ""
            series = over_interval(prefix + column.removesuffix("_ms"), frame, column)
            own = line_style(index if len(sinks) > 1 else len(traces))
            traces.append(steps(series, LineStyle(own.colour, dash, own.marker)))
    return Chart(
        "latency",
        "Latency",
        "Time from a record's emission at its source to the start of its processing at the sink. "
        "p50: half of the records since the sample before took at most this; p90 and p99: nine "
        "tenths, and all but a hundredth. Several subtasks are combined so that a percentile is "
        "never shown too low." + left_out(run),
        _drawn(run, traces, [axis("latency (ms)")], 240),
    )


def _latency_by_sample(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per sample with the percentiles of all subtasks of a sink."""
    import pandas as pd

    samples = [
        {"t_s": t_s, "interval_s": part["interval_s"].iloc[0]} | (combine_latencies(part) or {})
        for t_s, part in rows.groupby("t_s")
    ]
    return pd.DataFrame(samples)


def _drawn(
    run: RunData, traces: list[Trace], axes: Sequence[Trace], row_px: int, **more: Any
) -> Figure:
    """Return a figure over the whole run, the changes of its schedules marked."""
    return figure(traces, axes, until_s=run.until_s, changes=run.changes, row_px=row_px, **more)


def _limit(series: Series, *, colour: str = LIMIT, row: int = 0, **more: Any) -> dict[str, Any]:
    """Return a dotted line of what is possible."""
    style = LineStyle(colour, "dot", "circle")
    trace = line(series, style, row=row, mode="lines", **more)
    return trace | {"line": {"color": colour, "dash": "dot", "width": 1.5, "shape": "hv"}}
