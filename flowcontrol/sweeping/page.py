"""report.html of a sweep: one page that carries everything it needs and fetches nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import RunError
from flowcontrol.report import write_atomically
from flowcontrol.report.figures import Chart
from flowcontrol.report.numbers import number
from flowcontrol.sweeping.axes import value_text
from flowcontrol.sweeping.charts import sweep_charts
from flowcontrol.sweeping.metric import Metric
from flowcontrol.sweeping.overview import Overview, overview
from flowcontrol.sweeping.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["sweep_page", "write_page"]

_ENDS: Final = 10
"""Rows at each end of the table of points."""

_VALUES: Final = 12
"""Values of a key that are listed before the rest is only counted."""


def write_page(path: Path, table: pa.Table, plan: Plan, metrics: Sequence[Metric]) -> None:
    """Write the page of a sweep.

    Parameters
    ----------
    path : Path
        The file; it is replaced whole or not at all.
    table : pyarrow.Table
        Of the sweep; at least one row.
    plan : Plan
        What was varied.
    metrics : sequence of Metric
        What to draw.

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
    return Template(_asset("flowcontrol.sweeping", "page.html")).substitute(
        title=escape(f"{name}: sweep"),
        css=_asset("flowcontrol.report", "page.css"),
        run=escape(_run_line(found, plan)),
        sentence=escape(found.sentence),
        key_figures="".join(_key_figures(found, plan)),
        charts="".join(map(_section, charts)),
        ends=_ends_table(found, plan, metrics),
        varied=_varied_table(plan),
        scenario=escape(_yaml(plan)),
        figures=_json_for_script({chart.id: chart.figure for chart in charts}),
        plotly=_plotly_script(),
        script=_asset("flowcontrol.report", "page.js"),
    )


def _run_line(found: Overview, plan: Plan) -> str:
    how = "all combinations" if plan.sample is None else f"drawn with seed {plan.seed}"
    return (
        f"{found.variants:,} variants on the virtual clock: {found.points:,} points ({how}), "
        f"{plan.replications} replication{'s' if plan.replications > 1 else ''} of each"
    )


def _key_figures(found: Overview, plan: Plan) -> Iterable[str]:
    """Yield the large figures at the top."""
    yield _figure("Variants", f"{found.variants:,}", f"{found.points:,} points")
    yield _figure("Simulated", f"{number(found.simulated_s)} s", "all variants, added up")
    mean_ms = 1000 * found.simulated_s / max(1, found.variants)
    yield _figure("A variant", f"{number(mean_ms)} ms", "mean time of the simulation")
    for name, count in list(found.limits.items())[:3]:
        share = f"{100 * count / max(1, found.points):.0f} %"
        yield _figure(f"{name} limits", share, f"{count:,} of {found.points:,} points")


def _figure(label: str, value: str, note: str) -> str:
    return (
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
    )


def _section(chart: Chart) -> str:
    """Return the section of one chart; the page's script fills the empty element."""
    height = chart.figure["layout"]["height"]
    return (
        f'<section id="section-{chart.id}"><h2>{escape(chart.title)}</h2><figure>'
        f'<div class="chart" id="{chart.id}" style="height:{height}px"></div>'
        f"<figcaption>{escape(chart.explanation)}</figcaption></figure></section>\n"
    )


def _ends_table(found: Overview, plan: Plan, metrics: Sequence[Metric]) -> str:
    heads = [*(varied.title for varied in plan.varied), *(m.title for m in metrics), "limits"]
    rows = []
    for row in found.ends(_ENDS):
        if row is None:
            left = found.valued - 2 * _ENDS
            rows.append(f'<tr><td colspan="{len(heads)}">… {left:,} points between …</td></tr>')
        else:
            rows.append(_cells([*row.values, *row.figures, row.bottleneck]))
    return _table(heads, rows)


def _varied_table(plan: Plan) -> str:
    rows = []
    for varied in plan.varied:
        values = [value_text(value) for value in varied.values]
        shown = ", ".join(values[:_VALUES])
        if len(values) > _VALUES:
            shown += f" … {values[-1]} ({len(values):,} values)"
        rows.append(_cells([varied.key, varied.column, varied.unit, shown]))
    return _table(["Key", "Column", "Unit", "Values"], rows)


def _cells(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _table(heads: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _yaml(plan: Plan) -> str:
    import yaml

    return yaml.safe_dump(dict(plan.base.mapping), sort_keys=False, allow_unicode=True)


def _json_for_script(value: Any) -> str:
    """Return JSON that cannot end the script element that carries it."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _plotly_script() -> str:
    """Return plotly's own script."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise RunError(
            "the report page needs plotly (extra 'report'); install it: pip install plotly"
        ) from error
    return str(get_plotlyjs())


def _asset(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text("utf-8")
