"""What the page and the terminal show of what the readers of sinks saw."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from flowcontrol.report.colours import BLUE, GREEN, VERMILLION
from flowcontrol.report.figures import Chart, axis, figure, outage_bands, scatter
from flowcontrol.report.markup import chart_texts, html_table
from flowcontrol.report.numbers import milliseconds, number
from flowcontrol.report.rundata import RunData

_HEADS = (
    "Sink", "Guarantee", "Rows visible", "twice", "Records lost", "not committed", "Visible after",
    "at most", "by the closed form",
)  # fmt: skip
_COMPARED = ("Guarantee", *_HEADS[2:8])

_LOOKS: Final = {
    "at-most-once": (VERMILLION, "dash"),
    "at-least-once": (BLUE, "solid"),
    "exactly-once": (GREEN, "dot"),
}
"""Colour and dash of a guarantee."""


def delivery_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each sink that says more than that rows are visible at once.

    Sinks of which nothing is known come last.

    ``summary``: as in summary.json: its ``delivery``, if the run has any.
    """
    found = summary.get("delivery", {})
    names = _told(found.get("sinks", {}))
    pairs = zip(found.get("sinks", {}), found.get("sentences", ()), strict=True)
    known = [sentence for name, sentence in pairs if name in names]
    return [*known, *found.get("unaccounted", ())]


def loss_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each sink that lost records as its transactions expired.

    ``summary``: as in summary.json: its ``delivery``, if the run has any.
    """
    return list(summary.get("delivery", {}).get("losses", ()))


def _told(sinks: Mapping[str, Any]) -> set[str]:
    return {
        name
        for name, own in sinks.items()
        if own["guarantee"] != "at-least-once" or own["twice"] or own["lost"]
    }


def delivery_section(summary: Mapping[str, Any]) -> str:
    """Return the section of the page; empty where there is nothing to say."""
    found = summary.get("delivery", {})
    sinks = found.get("sinks", {})
    unknown = "".join(f"<p>{escape(text)}</p>" for text in found.get("unaccounted", ()))
    if not _told(sinks) and not unknown:
        return ""
    rows = [
        list(map(escape, [name, own["guarantee"], *_cells(own), _form(own)]))
        for name, own in sinks.items()
    ]
    return (
        '<section id="delivery"><h2>What readers see</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>{unknown}'
        '<p class="how">At the end of the run. Rows visible count a record that is there twice as '
        "two. Not committed: written in a transaction that no checkpoint has committed. Visible "
        "after: from when a row was written until readers saw it, the median. By the closed form: "
        "half an interval and a whole one, each with the checkpoint's duration and the "
        "notification.</p></section>\n"
    )


def delivery_charts(run: RunData, summary: Mapping[str, Any]) -> list[Chart]:
    """Return the picture that compares the guarantees; none without a comparison."""
    found = summary.get("delivery", {}).get("guarantees", ())
    if not found:
        return []
    samples = {one["guarantee"]: one["samples"] for one in found}
    # Under at-least-once every record that reaches the sink is visible, the first time it does.
    arrived = [rows - twice for _, rows, twice, _ in samples["at-least-once"]]
    traces = []
    for name, (colour, dash) in _LOOKS.items():
        behind = [rows - most for (_, rows, _, _), most in zip(samples[name], arrived, strict=True)]
        look = {"color": colour, "dash": dash, "width": 2.5}
        x = [t_s for t_s, *_ in samples[name]]
        traces.append(scatter(name, x, behind, mode="lines", line=look, showlegend=True))
    value_axis = axis("rows visible less records at the sink", zeroline=True)
    drawn = figure(traces, [value_axis], until_s=run.until_s, row_px=300)
    drawn["layout"]["shapes"] += outage_bands(_outages(summary, run.until_s))
    texts = chart_texts("flowcontrol.report")["guarantees"]
    cells = [list(map(escape, [one["guarantee"], *_cells(one)])) for one in found]
    table = f'<div class="scroll">{html_table(_COMPARED, cells)}</div>'
    return [Chart("guarantees", texts["title"], texts["text"], drawn, table)]


def _outages(summary: Mapping[str, Any], until_s: float) -> list[tuple[float, float]]:
    failures = summary.get("restarts", {}).get("failures", ())
    ends = [until_s if one["running_s"] is None else one["running_s"] for one in failures]
    return [(one["failed_s"], end) for one, end in zip(failures, ends, strict=True)]


def _cells(own: Mapping[str, Any]) -> list[str]:
    counts = [number(own[name]) for name in ("visible", "twice", "lost", "staged")]
    if own["guarantee"] != "exactly-once":
        return [*counts, "at once", "at once"]
    times = [own[f"visibility_{name}_ms"] for name in ("p50", "max")]
    return counts + ["never" if time is None else milliseconds(time) for time in times]


def _form(own: Mapping[str, Any]) -> str:
    if own["expected_max_ms"] is None:
        return ""
    half, whole = (milliseconds(own[f"expected_{name}_ms"]) for name in ("p50", "max"))
    return f"{half}, {whole}"
