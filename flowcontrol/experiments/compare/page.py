"""report.html of a comparison: one self-contained page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.producer_rates import TOLERANCE, TRANSIENT, WINDOW_SAMPLES, limit_steps
from flowcontrol.analysis.wording import seconds
from flowcontrol.experiments.compare.result import CompareColumn, shown_columns
from flowcontrol.experiments.compare.run import LEAST_SHARE, Compared
from flowcontrol.experiments.compare.wording import headline, starving_sentences, system_sentence
from flowcontrol.report.figures import (
    BLUE,
    GREY,
    LIMIT,
    VERMILLION,
    Chart,
    LineStyle,
    Series,
    axis,
    figure,
    line,
)
from flowcontrol.report.markup import html_table, page, percent
from flowcontrol.report.stage_table import CLOCKS
from flowcontrol.scenario.system import MEASURED, PRESETS

if TYPE_CHECKING:
    from flowcontrol.experiments.compare.limits import LimitPhase
    from flowcontrol.experiments.compare.run import Comparison, Outcome

DEFINED: Final = {
    "tolerance": percent(TOLERANCE),
    "transient": percent(TRANSIENT),
    "window_samples": str(WINDOW_SAMPLES),
    "least_share": percent(LEAST_SHARE),
}
"""Numbers in the definitions of the figures, which stand in ``page.html``."""


def compare_page(
    comparison: Comparison, outcomes: Sequence[Outcome], limits: Sequence[LimitPhase] | None
) -> str:
    """Return the page of a comparison."""
    ran = [outcome for outcome in outcomes if outcome.figures is not None]
    top = top_rate(ran, limits)
    charts = [system_chart(o, limits, comparison.scenario.duration_s, top) for o in ran]
    pairs = zip(ran, charts, strict=True)
    return page(
        "flowcontrol.experiments.compare",
        charts,
        title=f"{comparison.name}: systems compared",
        run=_run_line(comparison, ran),
        sentence=headline(outcomes),
        noscript="The charts and the sorting need JavaScript; the table and the sentences do not.",
        table=_figure_table(ran),
        beside=_beside(ran),
        starving=_starving(outcomes),
        cards="".join(_card(o, c.id, c.figure["layout"]["height"]) for o, c in pairs),
        refused=_refused(outcomes),
        scenario=escape(comparison.scenario.to_yaml()),
        **DEFINED,
    )


def _run_line(comparison: Comparison, ran: Sequence[Outcome]) -> str:
    length = seconds(comparison.scenario.duration_s)
    wall_s = sum(outcome.wall_s for outcome in ran)
    return (
        f"{CLOCKS[comparison.clock]} · {len(ran)} of {len(comparison.systems)} systems · "
        f"{length} s emulated each, {seconds(wall_s)} s in all"
    )


def _figure_table(ran: Sequence[Outcome]) -> str:
    """Return the table of the figures; a script sorts it by column."""
    columns = shown_columns(ran)
    heads = ["System", *(column.title for column in columns)]
    rows = []
    for outcome in ran:
        if outcome.figures is None:
            continue
        name = escape(outcome.system)
        first = f'<a href="#system-{name}" data-order="{name}">{name}</a>'
        rows.append([first, *(_cell(column, outcome.figures) for column in columns)])
    return html_table(heads, rows)


def _beside(ran: Sequence[Outcome]) -> str:
    """Say which systems were measured beside the real one, and which follow rules only."""
    texts = []
    names = [outcome.system for outcome in ran if outcome.system in PRESETS]
    measured = [f"{name} ({MEASURED[name]})" for name in names if name in MEASURED]
    if measured:
        texts.append(f"Measured beside the real system, in other jobs: {'; '.join(measured)}.")
    others = [name for name in names if name not in MEASURED]
    if others:
        texts.append(f"By the rules of their sources only: {', '.join(others)}.")
    return escape(" ".join(texts))


def _cell(column: CompareColumn, figures: Compared) -> str:
    order = column.order(figures)
    key = "" if order is None else f"{order:.9g}"
    return f'<span data-order="{key}">{escape(column.cell(figures))}</span>'


def _starving(outcomes: Sequence[Outcome]) -> str:
    texts = starving_sentences(outcomes)
    if not texts:
        return ""
    paragraphs = "".join(f'<p class="why">{escape(text)}</p>' for text in texts)
    return f'<section id="starving"><h2>Who starves, and why</h2>{paragraphs}</section>'


def _card(outcome: Outcome, chart: str, height: int) -> str:
    name = escape(outcome.system)
    preset = PRESETS.get(outcome.system)
    version = f" <small>{escape(preset.version)}</small>" if preset else ""
    how = f'<p class="how">How: {escape(preset.meaning)}.</p>' if preset else ""
    return (
        f'<article class="card" id="system-{name}"><h3>{name}{version}</h3>'
        f"{how}<p>{escape(system_sentence(outcome))}</p>"
        f'<div class="chart" id="{chart}" style="height:{height}px"></div></article>\n'
    )


def _refused(outcomes: Sequence[Outcome]) -> str:
    """Return the systems that were not run, or failed, each with its reason."""
    left = [outcome for outcome in outcomes if outcome.figures is None]
    if not left:
        return ""
    rows = [[escape(o.system), escape(o.state), escape(o.reason)] for o in left]
    return (
        '<section id="refused"><h2>Not run</h2><div class="scroll">'
        f"{html_table(['System', '', 'Reason'], rows)}</div></section>"
    )


_ROW_PX: Final = 132
_BELOW_PX: Final = 46
"""For the time axis and its title."""

_HEADROOM: Final = 1.08

_USUAL: Final = 0.98
"""Share of the samples that the common scale has room for."""


def top_rate(outcomes: Sequence[Outcome], limits: Sequence[LimitPhase] | None) -> float:
    """Return the rate at the upper end of all charts, records/s.

    A system that emits in batches has samples so high that all else would be flat beside them:
    of all samples of all systems the highest fiftieth part does not count.
    """
    limit = max((phase.produced for phase in limits or ()), default=0.0)
    rates = sorted(
        rate
        for outcome in outcomes
        if outcome.lines is not None
        for rate in (*outcome.lines.produced, *outcome.lines.consumed)
    )
    usual = rates[math.ceil(_USUAL * len(rates)) - 1] if rates else 0.0
    return _HEADROOM * max(limit, usual) or 1.0


def system_chart(
    outcome: Outcome, limits: Sequence[LimitPhase] | None, until_s: float, top: float
) -> Chart:
    """Return the rates of a system over time, the limit drawn in, and what was in flight."""
    traces: list[dict[str, Any]] = []
    steps = limit_steps(limits)
    if steps:
        x = [step.start_s for step in steps]
        limit = Series("limit", [*x, until_s], [*(s.limit for s in steps), steps[-1].limit])
        traces.append(_stroke(limit, LIMIT, "solid", 7.0, "hv") | {"opacity": 0.4})
    found = outcome.lines
    if found is not None:
        produced, consumed = (
            Series(name, [0.0, *found.t_s], [*values[:1], *values])
            for name, values in (("producers", found.produced), ("sinks", found.consumed))
        )
        traces.append(_stroke(produced, BLUE, "solid", 2.0, "vh"))
        traces.append(_stroke(consumed, VERMILLION, "dash", 1.5, "vh"))
        flight = Series("in flight", found.t_s, found.in_flight)
        traces.append(_stroke(flight, GREY, "solid", 1.5, "linear", row=1) | {"fill": "tozeroy"})
    axes = [axis("", range=[0, top], nticks=4), axis("", nticks=3)]
    drawn = figure(
        traces, axes, until_s=until_s, row_px=_ROW_PX, captions=["records/s", "records in flight"]
    )
    drawn["layout"] |= {
        "height": 2 * _ROW_PX + _BELOW_PX,
        "showlegend": False,
        "xaxis": {**drawn["layout"]["xaxis"], "nticks": 6},
        "margin": {"l": 44, "r": 8, "t": 22, "b": 40},
    }
    return Chart(f"rates-{outcome.system}", outcome.system, "", drawn)


def _stroke(
    series: Series, colour: str, dash: str, width: float, shape: str, row: int = 0
) -> dict[str, Any]:
    trace = line(series, LineStyle(colour, dash, "circle"), row=row, mode="lines")
    return trace | {"line": {"color": colour, "dash": dash, "width": width, "shape": shape}}
