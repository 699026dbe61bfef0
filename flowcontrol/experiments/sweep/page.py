"""report.html of a sweep: one self-contained page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

from flowcontrol.experiments.sweep.axes import value_text
from flowcontrol.experiments.sweep.charts import sweep_charts
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.overview import Overview, overview
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.files import write_atomically
from flowcontrol.report.markup import chart_section, html_table, key_figure, page
from flowcontrol.report.numbers import number

if TYPE_CHECKING:
    import pyarrow as pa

_ENDS: Final = 10
"""Rows at each end of the table of points."""

_VALUES: Final = 12
"""Values of a key that are listed; the others are counted."""


def write_page(path: Path, table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> None:
    """Write the page of a sweep.

    Parameters
    ----------
    path : Path
        The file, which is replaced atomically.
    table : pyarrow.Table
        Of the sweep; at least one row.
    plan : Plan
        The plan of the sweep.
    metrics : sequence of Metric
        The metrics to draw.

    Raises
    ------
    RunError
        If plotly, whose script the page carries, is not installed.
    """
    write_atomically(path, sweep_page(table, plan, metrics))


def sweep_page(table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> str:
    """Return the page as text; parameters and errors as :func:`write_page`."""
    charts = sweep_charts(table, plan, metrics)
    found = overview(table, plan, metrics)
    name = str(plan.base.mapping.get("name", "sweep"))
    return page(
        "flowcontrol.experiments.sweep",
        charts,
        title=f"{name}: sweep",
        run=_run_line(found, plan),
        sentence=found.sentence,
        noscript="The charts need JavaScript; the tables do not.",
        key_figures="".join(_key_figures(found, plan)),
        charts="".join(map(chart_section, charts)),
        ends=_ends_table(found, plan),
        varied=_varied_table(plan),
        scenario=escape(_yaml(plan)),
    )


def _run_line(found: Overview, plan: Plan) -> str:
    how = "all combinations" if plan.sample is None else f"drawn with seed {plan.seed}"
    return (
        f"{found.variants:,} variants on the virtual clock: {found.points:,} points ({how}), "
        f"{plan.replications} replication{'s' if plan.replications > 1 else ''} of each"
    )


def _key_figures(found: Overview, plan: Plan) -> Iterable[str]:
    """Yield the large figures at the top."""
    yield key_figure("Variants", f"{found.variants:,}", f"{found.points:,} points")
    yield key_figure("Simulated", f"{number(found.simulated_s)} s", "all variants, added up")
    mean_ms = 1000 * found.simulated_s / max(1, found.variants)
    yield key_figure("A variant", f"{number(mean_ms)} ms", "mean time of the simulation")
    for name, count in list(found.limits.items())[:3]:
        share = f"{100 * count / max(1, found.points):.0f} %"
        yield key_figure(f"{name} limits", share, f"{count:,} of {found.points:,} points")


def _ends_table(found: Overview, plan: Plan) -> str:
    titles = [metric.title for metric in found.metrics]
    heads = [*(varied.title for varied in plan.varied), *titles, "limits"]
    rows = []
    for row in found.ends(_ENDS):
        if row is None:
            left = found.valued - 2 * _ENDS
            rows.append([f"… {left:,} points between …"])
        else:
            rows.append(list(map(escape, [*row.values, *row.figures, row.bottleneck])))
    return html_table(heads, rows)


def _varied_table(plan: Plan) -> str:
    rows = []
    for varied in plan.varied:
        values = [value_text(value) for value in varied.values]
        shown = ", ".join(values[:_VALUES])
        if len(values) > _VALUES:
            shown += f" … {values[-1]} ({len(values):,} values)"
        rows.append(list(map(escape, [varied.key, varied.column, varied.unit, shown])))
    return html_table(["Key", "Column", "Unit", "Values"], rows)


def _yaml(plan: Plan) -> str:
    import yaml

    return yaml.safe_dump(dict(plan.base.mapping), sort_keys=False, allow_unicode=True)
