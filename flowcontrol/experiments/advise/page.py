"""report.html of advice: one self-contained page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.wording import seconds
from flowcontrol.report.advice import AS_IT_IS, advice_section
from flowcontrol.report.figures import BLUE, GREY, VERMILLION, Chart, axis, scatter
from flowcontrol.report.keyfigures import CLOCKS
from flowcontrol.report.markup import chart_section, page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowcontrol.experiments.advise.gain import Proposal
    from flowcontrol.experiments.advise.result import Advice
    from flowcontrol.report.figures import Figure
    from flowcontrol.scenario import Scenario

_EXPLAINED: Final = (
    "Every change that was run: what all sinks took up, against the 99th percentile of latency. "
    "Right and low is best. Diamond: the scenario as it is; circles: changes that help; crosses: "
    "changes that do not. Point at one to see which it is."
)


def advice_page(found: Advice, scenario: Scenario) -> str:
    """Return the page of advice."""
    chart = Chart("trade", "Throughput against latency", _EXPLAINED, _trade(found))
    runs = len(found.proposals) + 1
    return page(
        "flowcontrol.experiments.advise",
        [chart],
        title=f"{found.name}: advice",
        run=f"{CLOCKS['virtual']} · {runs} runs of {seconds(scenario.duration_s)} s emulated each",
        sentence=found.finding,
        noscript="The chart needs JavaScript; the table does not.",
        advice=advice_section(found.summary),
        charts=chart_section(chart),
        scenario=escape(scenario.to_yaml()),
    )


def _trade(found: Advice) -> Figure:
    """Return the runs as points; none where no record came to a sink."""
    helping = [one for one in found.proposals if one.helps]
    others = [one for one in found.proposals if not one.helps]
    data = [
        _points("changes that help", helping, BLUE, "circle"),
        _points("changes that do not", others, GREY, "x-thin-open"),
    ]
    before = found.before
    if before.latency_p99_ms is not None:
        marker = {"color": VERMILLION, "symbol": "diamond", "size": 12}
        point = [before.throughput], [before.latency_p99_ms]
        data.append(scatter(AS_IT_IS, *point, mode="markers", marker=marker, text=[AS_IT_IS]))
    layout = {
        "height": 420,
        "margin": {"l": 70, "r": 20, "t": 40, "b": 60},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "xaxis": axis("throughput (records/s)"),
        "yaxis": axis("latency p99 (ms)"),
    }
    return {"data": [trace for trace in data if trace["x"]], "layout": layout}


def _points(name: str, shown: Sequence[Proposal], colour: str, symbol: str) -> Figure:
    drawn = [one for one in shown if one.figures.latency_p99_ms is not None]
    return scatter(
        name,
        [one.figures.throughput for one in drawn],
        [one.figures.latency_p99_ms for one in drawn],
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.5}},
        text=[one.change.name for one in drawn],
    )
