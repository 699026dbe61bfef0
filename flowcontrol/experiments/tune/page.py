"""report.html of a search: one self-contained page with the front of what is best."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

import yaml

from flowcontrol.experiments.sweep.axes import value_text
from flowcontrol.experiments.tune.charts import PACKAGE, front_chart, progress_chart
from flowcontrol.experiments.tune.explore import Outcome
from flowcontrol.experiments.tune.wording import figure_text, limit_text
from flowcontrol.report.markup import chart_section, html_table, key_figure, page
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    from flowcontrol.experiments.tune.result import Tuning

_ROWS: Final = 12
"""Points in the table."""

_VALUES: Final = 12
"""Values of a key that are listed; the others are counted."""


def tuning_page(tuning: Tuning) -> str:
    """Return the page of a search."""
    charts = [front_chart(tuning), progress_chart(tuning)]
    verdict, goals = tuning.verdict, tuning.plan.goals
    has_front = len(goals.objectives) > 1 and verdict.best is not None
    title = "The front" if has_front else "The best points"
    return page(
        PACKAGE,
        charts,
        title=f"{tuning.name}: tuning",
        run=f"{len(verdict.ran):,} runs on the virtual clock, search with seed {tuning.plan.seed}",
        sentence=tuning.sentence,
        noscript="The charts need JavaScript; the tables do not.",
        key_figures="".join(_key_figures(tuning)),
        charts="".join(map(chart_section, charts)),
        leaders_title=title if verdict.best is not None else "The nearest point",
        leaders=_leaders(tuning),
        best_file="<code>best.yaml</code> is the chosen scenario." if verdict.best else "",
        goals=_goals(tuning),
        varied=_varied(tuning),
        scenario=escape(
            yaml.safe_dump(dict(tuning.plan.base.mapping), sort_keys=False, allow_unicode=True)
        ),
    )


def _key_figures(tuning: Tuning) -> Iterator[str]:
    """Yield the large figures at the top."""
    verdict, given = tuning.verdict, tuning.given
    shown = verdict.best or verdict.nearest
    for one in tuning.plan.goals.objectives:
        if shown is None:
            continue
        note = (
            ""
            if given is None
            else f"as given {figure_text(one.measure, given.value(one.measure))}"
        )
        yield key_figure(one.measure.name, figure_text(one.measure, shown.value(one.measure)), note)
    yield key_figure("Runs", number(len(verdict.ran)), f"of {tuning.plan.space.size:,} points")
    if tuning.plan.goals.constraints:
        note = "satisfy every constraint"
        yield key_figure("Feasible", number(len(verdict.feasible)), note)
    yield key_figure("On the front", number(len(verdict.front)), "no other is better in both")


def _leaders(tuning: Tuning) -> str:
    """Return the table of the best points, and the scenario as given."""
    heads = ["", *(varied.title for varied in tuning.plan.sweep.varied)]
    heads += [one.name for one in tuning.measures] + ["limits"]
    best = tuning.verdict.best
    rows = [_row(tuning, "chosen" if one is best else "", one) for one in tuning.leaders(_ROWS)]
    if not rows and tuning.verdict.nearest is not None:
        rows = [_row(tuning, "nearest", tuning.verdict.nearest)]
    if tuning.given is not None:
        rows.append(_row(tuning, "as given", tuning.given))
    return html_table(heads, rows)


def _row(tuning: Tuning, name: str, outcome: Outcome) -> list[str]:
    keys = [value_text(value) for value in outcome.point] or [""] * len(tuning.plan.sweep.varied)
    figures = [figure_text(one, outcome.value(one)) for one in tuning.measures]
    return list(map(escape, [name, *keys, *figures, outcome.bottleneck or "nothing"]))


def _goals(tuning: Tuning) -> str:
    goals = tuning.plan.goals
    rows = [
        [one.direction, one.measure.name, one.measure.unit, one.measure.column.meaning]
        for one in goals.objectives
    ]
    rows += [
        ["subject to", limit_text(one), one.measure.unit, one.measure.column.meaning]
        for one in goals.constraints
    ]
    return html_table(["Goal", "Figure", "Unit", "Meaning"], [list(map(escape, r)) for r in rows])


def _varied(tuning: Tuning) -> str:
    rows = []
    for varied in tuning.plan.sweep.varied:
        values = [value_text(value) for value in varied.values]
        shown = ", ".join(values[:_VALUES])
        if len(values) > _VALUES:
            shown += f" … {values[-1]} ({len(values):,} values)"
        rows.append(list(map(escape, [varied.key, varied.unit, shown])))
    return html_table(["Key", "Unit", "Values"], rows)
