"""report.html: one self-contained page.

Its ``Content-Security-Policy`` of ``default-src 'none'`` forbids every fetch, so a browser enforces
what a test checks.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.pressure import Pressure
from flowcontrol.files import write_atomically
from flowcontrol.report.charts import all_charts
from flowcontrol.report.colours import PRESSURE_COLOURS
from flowcontrol.report.graph import job_graph
from flowcontrol.report.keyfigures import (
    job_sentences,
    key_figures,
    lag_sentences,
    partition_section,
    run_line,
)
from flowcontrol.report.markup import chart_section, html_table, page
from flowcontrol.report.numbers import milliseconds, number, percent
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario import Scenario

_NOTHING = ("", "", "")


def write_report(
    path: Path, tables: Tables, summary: Mapping[str, Any], scenario: Scenario
) -> None:
    """Write the report page of a run.

    Parameters
    ----------
    path : Path
        The file, which is replaced atomically; its folder must exist.
    tables : mapping of str to pyarrow.Table
        The result tables by name.
    summary : mapping
        From :func:`flowcontrol.analysis.summarise`.
    scenario : Scenario
        The scenario that was run.

    Raises
    ------
    RunError
        If plotly, whose script the page carries, is not installed.
    """
    write_atomically(path, report_page(tables, summary, scenario))


def report_page(tables: Tables, summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the report page as text; parameters and errors as :func:`write_report`."""
    charts = all_charts(RunData.of(tables, scenario, summary["bottleneck"]))
    detail = summary["bottleneck_detail"]
    is_limited = summary["bottleneck"] or detail["edge"] or "throttle" in detail
    return page(
        "flowcontrol.report",
        charts,
        title=scenario.name,
        run=run_line(summary, scenario),
        sentence=summary["sentence"],
        headline_class=" limited" if is_limited else "",
        below="".join(f'<p class="run">{escape(text)}</p>' for text in _sentences(summary)),
        noscript="The charts need JavaScript; the graph and the table above do not.",
        key_figures="".join(key_figures(summary, scenario)),
        graph=job_graph(summary, scenario),
        charts="".join(map(chart_section, charts)),
        table=_stage_table(summary, scenario) + partition_section(summary),
        scenario=_scenario_section(scenario),
    )


def _sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what is said besides of sources that read logs, and of jobs."""
    return [*lag_sentences(summary), *job_sentences(summary)]


def _stage_table(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the table of the stages over the whole run."""
    held = ("Queued", "To send") if scenario.system.counts_records else ("In pool", "Out pool")
    heads = (
        "Stage", "Pressure", "Subtasks", "Records in", "In /s", held[0], "Records out", "Out /s",
        held[1], "Busy", "Idle", "Blocked", "Latency p50", "p99", "max",
    )  # fmt: skip
    rows = [_stage_cells(name, stage, scenario) for name, stage in summary["stages"].items()]
    return html_table(heads, rows)


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
    held = [percent(whole["in_pool_usage"]), percent(whole["out_pool_usage"])]
    if scenario.system.counts_records:
        held = [number(whole["input_queue_buffers"]), number(whole["output_queue_buffers"])]
    inputs = [number(whole["records_in"]), number(whole["rate_in"]), held[0]]
    outputs = [number(whole["records_out"]), number(whole["rate_out"]), held[1]]
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
