"""report.html of a comparison: one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.analysis.wording import seconds
from flowcontrol.experiments.compare.charts import system_chart, top_rate
from flowcontrol.experiments.compare.definitions import DEFINITIONS
from flowcontrol.experiments.compare.figures import Figures
from flowcontrol.experiments.compare.table import COLUMNS, CompareColumn
from flowcontrol.experiments.compare.wording import headline, starving_sentences, system_sentence
from flowcontrol.files import write_atomically
from flowcontrol.report.keyfigures import CLOCKS
from flowcontrol.report.markup import html_table, page
from flowcontrol.scenario.presets import PRESETS

if TYPE_CHECKING:
    from flowcontrol.experiments.compare.limits import LimitPhase
    from flowcontrol.experiments.compare.outcome import Outcome
    from flowcontrol.experiments.compare.plan import Comparison


def write_page(
    path: Path,
    comparison: Comparison,
    outcomes: Sequence[Outcome],
    limits: Sequence[LimitPhase] | None,
) -> None:
    """Write the page of a comparison.

    Parameters
    ----------
    path : Path
        The file, which is replaced atomically.
    comparison : Comparison
        The plan.
    outcomes : sequence of Outcome
        Of each system.
    limits : sequence of LimitPhase, or None
        The limit of the job.

    Raises
    ------
    RunError
        If plotly, whose script the page carries, is not installed.
    """
    write_atomically(path, compare_page(comparison, outcomes, limits))


def compare_page(
    comparison: Comparison, outcomes: Sequence[Outcome], limits: Sequence[LimitPhase] | None
) -> str:
    """Return the page as text; parameters and errors as :func:`write_page`."""
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
        starving=_starving(outcomes),
        cards="".join(_card(o, c.id, c.figure["layout"]["height"]) for o, c in pairs),
        refused=_refused(outcomes),
        definitions=_definitions(),
        scenario=escape(comparison.scenario.to_yaml()),
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
    heads = ["System", *(column.title for column in COLUMNS)]
    rows = []
    for outcome in ran:
        if outcome.figures is None:
            continue
        name = escape(outcome.system)
        first = f'<a href="#system-{name}" data-order="{name}">{name}</a>'
        rows.append([first, *(_cell(column, outcome.figures) for column in COLUMNS)])
    return html_table(heads, rows)


def _cell(column: CompareColumn, figures: Figures) -> str:
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


def _definitions() -> str:
    items = "".join(f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in DEFINITIONS)
    return f"<dl>{items}</dl>"
