"""What page and terminal show of sampling: levels beside the timers', and what it missed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.frames import Tables, summed
from flowcontrol.analysis.pressure import HIGH_ABOVE, LOW_ABOVE
from flowcontrol.analysis.wording import seconds
from flowcontrol.report.colours import BLUE, GREY, VERMILLION, LineStyle
from flowcontrol.report.figures import Chart, axis, figure, line
from flowcontrol.report.markup import chart_texts, html_table
from flowcontrol.report.numbers import number, percent
from flowcontrol.report.rundata import RunData, left_out
from flowcontrol.report.series import Series, over_interval

if TYPE_CHECKING:
    import pandas as pd

_REPORT: Final = "flowcontrol.report"
_TIMERS, _SHOWN = LineStyle(BLUE, "solid", "circle"), LineStyle(VERMILLION, "dash", "diamond")
_PER_CENT: Final = 0.1
"""Per cent of a ms/s."""

_HEADS: Final = (
    *("Stage", "Sets", "Last set", "Timers, then", "Shown differs for", "Shown less for"),
    *("Unseen", "The worst unseen"),
)


def sampling_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence on what sampling did not see; none without sampling.

    ``summary``: as in summary.json: its ``sampling``, if the run has it.
    """
    found = summary.get("sampling")
    if found is None:
        return []
    sets = max((len(own["sets"]) for own in found["stages"].values()), default=0)
    texts = [
        f"Sampling as up to Flink 1.12: {number(sets)} sets of {number(found['samples'])} samples, "
        f"{number(found['requests'])} requests to task managers and as many answers."
    ]
    worst = [
        (burst["level"] == "HIGH", burst["until_s"] - burst["from_s"], name, burst)
        for name, own in found["stages"].items()
        for burst in own["unseen"]
    ]
    if worst:
        _, _, name, burst = max(worst, key=lambda one: one[:2])
        texts.append(
            f"No sample fell into the back pressure of {name} {_span(burst)}: its page said "
            f"{burst['shown']}, the timers say {burst['level']}, "
            f"{percent(burst['most_blocked'])} blocked at most."
        )
    return [" ".join(texts)]


def _span(burst: Mapping[str, Any]) -> str:
    return f"from {seconds(burst['from_s'])} s to {seconds(burst['until_s'])} s"


def sampling_section(summary: Mapping[str, Any]) -> str:
    """Return the table of the page; empty without sampling."""
    found = summary.get("sampling")
    if found is None:
        return ""
    rows = [[escape(text) for text in _row(name, own)] for name, own in found["stages"].items()]
    how = (
        f"A set of every task is {number(found['requests_per_set'])} requests and takes "
        f"{found['set_s']:g} s; the next begins {seconds(found['refresh_s'])} s after its "
        "end, and until that is over a page shows the old result. Levels are those of a stage's "
        "worst subtask: OK up to 10 %, LOW up to 50 %, HIGH above. Unseen: times in which the "
        "timers say more than the page did, and into which no sample fell, at most 20."
    )
    return (
        '<section id="sampling"><h2>Back pressure by sampling</h2>'
        f'<div class="scroll">{html_table(_HEADS, rows)}</div>'
        f'<p class="how">{escape(how)} All of them stand in <code>summary.json</code>, the '
        "samples in the table <code>samples</code>.</p></section>\n"
    )


def _row(name: str, own: Mapping[str, Any]) -> list[str]:
    """Return the cells of a stage."""
    sets, unseen = own["sets"], own["unseen"]
    last = sets[-1] if sets else None
    worst = max(
        unseen,
        key=lambda one: (one["level"] == "HIGH", one["until_s"] - one["from_s"]),
        default=None,
    )
    return [
        name,
        number(len(sets)),
        "" if last is None else f"{last['level']}, {percent(last['ratio'])}",
        "" if last is None else f"{last['timer_level']}, {percent(last['timer_ratio'])}",
        f"{seconds(own['differs_s'])} s",
        f"{seconds(own['hidden_s'])} s",
        number(len(unseen)) if unseen else "",
        "" if worst is None else f"{worst['level']} {_span(worst)}",
    ]


def sampling_charts(run: RunData, tables: Tables) -> list[Chart]:
    """Return the chart of both figures over time, a plot for each stage; none without sampling."""
    if "samples" not in tables:
        return []
    samples, texts = tables["samples"].to_pandas(), chart_texts(_REPORT)["sampling"]
    stages = [stage for stage in run.shown_stages() if run.scenario.outputs(stage.name)]
    traces = []
    for row, stage in enumerate(stages):
        own = run.stages[run.stages["stage"] == stage.name]
        worst = summed(own, "backpressured_ms_per_s", "max")
        series = over_interval("by timers", worst, "backpressured_ms_per_s", _PER_CENT)
        stroke = {"color": _TIMERS.colour, "dash": _TIMERS.dash, "width": 2, "shape": "vh"}
        more: dict[str, Any] = {"mode": "lines", "line": stroke, "showlegend": row == 0}
        traces.append(line(series, _TIMERS, row=row, **more))
        shown = _on_the_page(samples[samples["stage"] == stage.name], run.until_s)
        stroke = {"color": _SHOWN.colour, "dash": _SHOWN.dash, "width": 2, "shape": "hv"}
        traces.append(
            line(shown, _SHOWN, row=row, mode="lines+markers", line=stroke, showlegend=row == 0)
        )
    axes = [axis("blocked", ticksuffix=" %", range=[0, 103]) for _ in stages]
    drawn = figure(
        traces, axes, until_s=run.until_s, row_px=170, captions=[stage.name for stage in stages]
    )
    for row in range(len(stages)):
        drawn["layout"]["shapes"] += [_threshold(row, 100 * at) for at in (LOW_ABOVE, HIGH_ABOVE)]
    return [Chart("sampling-chart", texts["title"], texts["text"] + left_out(run), drawn)]


def _on_the_page(samples: pd.DataFrame, until_s: float) -> Series:
    """Return what a page shows from the end of each set on, per cent."""
    worst = samples.groupby("t_s")["ratio"].max() * 100
    x, y = worst.index.tolist(), worst.tolist()
    return Series("on the page, by sampling", [*x, *[until_s] * bool(x)], [*y, *y[-1:]])


def _threshold(row: int, at: float) -> dict[str, Any]:
    """Return a dotted line at the level above which back pressure is LOW, or HIGH."""
    name = f"y{row + 1}" if row else "y"
    return {
        "type": "line",
        "xref": "paper",
        "yref": name,
        "x0": 0,
        "x1": 1,
        "y0": at,
        "y1": at,
        "line": {"color": GREY, "width": 1, "dash": "dot"},
    }
