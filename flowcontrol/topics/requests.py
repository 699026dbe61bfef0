"""Requests of sinks on the page and in the summary: what is in flight, what fails, what limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from flowcontrol.analysis.frames import Tables, result_frame, summed
from flowcontrol.analysis.requests import request_summary
from flowcontrol.analysis.summary import rounded
from flowcontrol.report.figures import (
    Chart,
    Series,
    axis,
    figure,
    line,
    line_style,
    over_interval,
    steps,
    thinned,
)
from flowcontrol.report.markup import chart_of, html_table, milliseconds, number, percent, rate
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.results.run import Run
from flowcontrol.topics.topic import Finished, Topic, sentences_of


def _add(run: Run, summary: dict[str, Any]) -> None:
    if "requests" in run.tables:
        summary["requests"] = rounded(request_summary(run.tables, run.job.scenario))


_HEADS: Final = (
    "Stage", "Acknowledged", "In flight", "Records a request", "Latency of a request",
    "Until acknowledged, p99", "Waited", "Sent again",
)  # fmt: skip


def _section(run: Finished) -> str:
    """Return the table of the page; empty without such sinks."""
    found = run.summary.get("requests")
    if found is None or not found["stages"]:
        return ""
    rows = [list(map(escape, _row(name, own))) for name, own in found["stages"].items()]
    return (
        '<section id="requests-of-sinks"><h2>Requests</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div><p class="how">In flight: requests '
        "of a subtask, mean over the run. Waited: share of the time in which the thread could not "
        "go on because the buffer was full or the sink blocks; it counts as busy. Sent again: "
        "share of the records sent.</p></section>\n"
    )


def _row(name: str, own: Mapping[str, Any]) -> Iterator[str]:
    yield name
    yield rate(own["rate"])
    yield number(own["in_flight"])
    yield "" if own["batch_mean"] is None else number(own["batch_mean"])
    yield "" if own["latency_ms"] is None else milliseconds(own["latency_ms"])
    yield "" if own["acknowledged"] is None else milliseconds(own["acknowledged"]["p99_ms"])
    yield percent(own["waited_share"])
    sent = own["records_sent"]
    yield percent(own["records_retried"] / sent) if sent and own["records_retried"] else ""


def request_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return records in flight and the window, and what is sent; nothing without such sinks."""
    if "requests" not in tables:
        return []
    frame = result_frame(tables, "requests")
    traces: list[dict[str, Any]] = []
    sinks = [stage for stage in run.shown_stages() if stage.requests is not None]
    for index, stage in enumerate(sinks):
        rows, style = frame[frame["stage"] == stage.name], line_style(index)
        flying = summed(rows, "in_flight_records")
        traces.append(
            line(Series(f"{stage.name} in flight", *thinned(flying, "in_flight_records")), style)
        )
        if rows["window"].notna().any():
            window = summed(rows, "window")
            dotted = {"color": style.colour, "dash": "dot", "width": 1.5}
            series = Series(f"{stage.name} window", *thinned(window, "window"))
            traces.append(line(series, style, line=dotted, mode="lines"))
        buffered = summed(rows, "buffered_records")
        series = Series(stage.name, *thinned(buffered, "buffered_records"))
        traces.append(line(series, style, row=1, showlegend=False))
        for column, dash in (("records_acknowledged", "solid"), ("records_retried", "dot")):
            grown = summed(rows, column)
            grown[column] = grown[column].diff().fillna(grown[column]) / grown["interval_s"]
            look = {"color": style.colour, "dash": dash, "width": 2}
            traces.append(
                steps(
                    over_interval(column, grown, column), style, row=2, showlegend=False, line=look
                )
            )
    axes = [axis("records in flight"), axis("records in the buffer"), axis("records/s")]
    drawn = figure(traces, axes, until_s=run.until_s, row_px=170, changes=run.changes)
    return [chart_of("requests", drawn, left_out(run))]


REQUESTS: Final = Topic(
    add=_add,
    sentences=sentences_of("requests"),
    section=_section,
    charts=lambda run: request_charts(run.drawn, run.tables),
)
