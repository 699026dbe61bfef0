"""report.html: one page that carries everything it needs and fetches nothing.

The page's own policy (a ``Content-Security-Policy`` of ``default-src 'none'``) forbids every
fetch, so that a browser enforces what a test checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from flowcontrol.diagnosis.pressure import Pressure
from flowcontrol.errors import RunError
from flowcontrol.report.charts import all_charts
from flowcontrol.report.colours import PRESSURE_COLOURS
from flowcontrol.report.figures import Chart
from flowcontrol.report.files import write_atomically
from flowcontrol.report.graph import job_graph
from flowcontrol.report.jobs import job_sentences
from flowcontrol.report.keyfigures import KeyFigure, key_figures, run_line
from flowcontrol.report.numbers import milliseconds, number, percent
from flowcontrol.report.partitions import partition_section
from flowcontrol.report.rundata import RunData

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.scenario import Scenario

__all__ = ["report_page", "write_report"]

_NOTHING = ("", "", "")


def write_report(
    path: Path,
    tables: Mapping[str, pa.Table],
    summary: Mapping[str, Any],
    scenario: Scenario,
) -> None:
    """Write the report page of a run.

    Parameters
    ----------
    path : Path
        The file; its folder must exist. It is replaced whole or not at all.
    tables : mapping of str to pyarrow.Table
        The result tables by name.
    summary : mapping
        From :func:`flowcontrol.diagnosis.summarise`.
    scenario : Scenario
        What was run.

    Raises
    ------
    RunError
        If plotly, whose script the page carries, is not installed.
    """
    write_atomically(path, report_page(tables, summary, scenario))


def report_page(
    tables: Mapping[str, pa.Table], summary: Mapping[str, Any], scenario: Scenario
) -> str:
    """Return the report page as text; parameters and errors as :func:`write_report`."""
    charts = all_charts(RunData.of(tables, scenario, summary["bottleneck"]))
    drawn = {chart.id: chart.figure for chart in charts if chart.figure["data"]}
    is_limited = summary["bottleneck"] or summary["bottleneck_detail"]["edge"]
    return Template(_asset("page.html")).substitute(
        title=escape(scenario.name),
        css=_asset("page.css"),
        run=escape(run_line(summary, scenario)),
        sentence=escape(summary["sentence"]),
        jobs="".join(f'<p class="run">{escape(text)}</p>' for text in job_sentences(summary)),
        headline_class=" limited" if is_limited else "",
        key_figures="".join(map(_key_figure, key_figures(summary, scenario))),
        graph=job_graph(summary, scenario),
        charts="".join(map(_chart, charts)),
        table=_stage_table(summary, scenario) + partition_section(summary),
        scenario=_scenario_section(scenario),
        figures=_json_for_script(drawn),
        plotly=_plotly_script(),
        script=_asset("page.js"),
    )


def _key_figure(figure: KeyFigure) -> str:
    """Return one of the large figures at the top."""
    return (
        f"<div><dt>{escape(figure.label)}</dt><dd>{escape(figure.value)}"
        f"<small>{escape(figure.note)}</small></dd></div>"
    )


def _chart(chart: Chart) -> str:
    """Return the section of one chart; its script fills the empty element."""
    if chart.figure["data"]:
        height = chart.figure["layout"]["height"]
        place = f'<div class="chart" id="{chart.id}" style="height:{height}px"></div>'
    else:
        place = f'<div class="chart empty" id="{chart.id}">Nothing was recorded.</div>'
    return (
        f'<section id="section-{chart.id}"><h2>{escape(chart.title)}</h2><figure>{place}'
        f"<figcaption>{escape(chart.explanation)}</figcaption></figure></section>\n"
    )


def _stage_table(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the table of the stages over the whole run."""
    heads = (
        "Stage", "Pressure", "Subtasks", "Records in", "In /s", "In pool", "Records out", "Out /s",
        "Out pool", "Busy", "Idle", "Blocked", "Latency p50", "p99", "max",
    )  # fmt: skip
    rows = [
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in _stage_cells(name, stage, scenario))}</tr>"
        for name, stage in summary["stages"].items()
    ]
    head = "".join(f'<th scope="col">{title}</th>' for title in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _stage_cells(name: str, stage: Mapping[str, Any], scenario: Scenario) -> Sequence[str]:
    """Return the cells of a stage's row as markup."""
    whole = stage["whole"]
    pressure = Pressure(stage["pressure"])
    colour = PRESSURE_COLOURS[pressure]
    latency = whole["latency"] or {}
    times = [
        milliseconds(latency[key]) if latency else "" for key in ("p50_ms", "p99_ms", "max_ms")
    ]
    shares = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
    inputs = [
        number(whole["records_in"]), number(whole["rate_in"]), percent(whole["in_pool_usage"])
    ]  # fmt: skip
    outputs = [
        number(whole["records_out"]), number(whole["rate_out"]), percent(whole["out_pool_usage"])
    ]  # fmt: skip
    return [
        escape(name),
        f'<span class="badge" style="background:{colour}">{pressure.value}</span>',
        number(stage["parallelism"]),
        *(inputs if scenario.inputs(name) else _NOTHING),
        *(outputs if scenario.outputs(name) else _NOTHING),
        *(percent(whole[key] / 1000) for key in shares),
        *times,
    ]


def _scenario_section(scenario: Scenario) -> str:
    """Return the scenario as it was run, folded."""
    return (
        '<section id="scenario"><details><summary>The scenario as it was run</summary>'
        f"<pre>{escape(scenario.to_yaml())}</pre></details></section>"
    )


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


def _asset(name: str) -> str:
    """Return a file that lies beside this module."""
    return resources.files(__package__ or "flowcontrol.report").joinpath(name).read_text("utf-8")
