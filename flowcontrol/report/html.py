"""report.html: one self-contained page.

Its ``Content-Security-Policy`` of ``default-src 'none'`` forbids every fetch, so a browser enforces
what a test checks.
"""

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

from flowcontrol.analysis.causes import pool_readings
from flowcontrol.analysis.frames import Tables
from flowcontrol.files import write_atomically
from flowcontrol.report.advice import advice_section
from flowcontrol.report.causes import cause_section, pool_section
from flowcontrol.report.charts import all_charts
from flowcontrol.report.checkpoint_charts import checkpoint_charts
from flowcontrol.report.checkpoints import checkpoint_section, checkpoint_sentences
from flowcontrol.report.deliveries import (
    delivery_charts,
    delivery_section,
    delivery_sentences,
    loss_sentences,
)
from flowcontrol.report.event_time import event_time_figures, event_time_section
from flowcontrol.report.event_time_charts import event_time_charts
from flowcontrol.report.graph import job_graphs
from flowcontrol.report.heat import heat_charts
from flowcontrol.report.keyfigures import (
    job_sentences,
    key_figures,
    lag_sentences,
    partition_section,
    run_line,
    says_nothing_of_the_job,
)
from flowcontrol.report.markup import chart_section, page
from flowcontrol.report.messages import message_section, message_sentences
from flowcontrol.report.restarts import restart_section, restart_sentences
from flowcontrol.report.rundata import RunData
from flowcontrol.report.sampling import sampling_charts, sampling_section, sampling_sentences
from flowcontrol.report.scaling import as_drawn, scaling_charts, scaling_section, scaling_sentences
from flowcontrol.report.stage_table import stage_table
from flowcontrol.report.timeline import player, player_note, step_note
from flowcontrol.scenario import Scenario

_SCRIPTS = ("stages.js", "player.js")


def write_report(
    path: Path, tables: Tables, summary: Mapping[str, Any], scenario: Scenario
) -> None:
    """Write the report page of a run.

    - ``path``: the file, which is replaced atomically; its folder must exist.
    - ``tables``: the result tables by name.
    """
    write_atomically(path, report_page(tables, summary, scenario))


def report_page(tables: Tables, summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the report page as text; parameters as :func:`write_report`."""
    drawn = as_drawn(scenario, tables)
    run = RunData.of(tables, drawn, summary["bottleneck"])
    charts = [*scaling_charts(run, tables), *all_charts(run), *heat_charts(run)]
    of_time = event_time_charts(run, tables)
    of_checkpoints = checkpoint_charts(run, tables)
    of_readers = delivery_charts(run, summary)
    of_sampling = sampling_charts(run, tables)
    detail = summary["bottleneck_detail"]
    is_limited = summary["bottleneck"] or detail["edge"] or "throttle" in detail
    return page(
        "flowcontrol.report",
        [*charts, *of_time, *of_checkpoints, *of_readers, *of_sampling],
        scripts=_SCRIPTS,
        title=scenario.name,
        run=run_line(summary, scenario),
        sentence=summary["sentence"],
        headline_class=" limited" if is_limited else "",
        below=_lines(
            ()
            if says_nothing_of_the_job(summary)
            else [*loss_sentences(summary), *summary.get("details", ())]
        )
        + cause_section(summary)
        + _lines(_sentences(summary)),
        noscript="The charts need JavaScript; the graph and the table above do not.",
        key_figures="".join([*key_figures(summary, drawn), *event_time_figures(summary)]),
        player=player(run),
        graph=job_graphs(summary, drawn),
        in_flight=f"{_counted(scenario)} in flight",
        player_note=player_note(run),
        step_note=step_note(run),
        charts="".join(map(chart_section, charts)),
        event_time=event_time_section(summary, scenario) + "".join(map(chart_section, of_time)),
        checkpoints=scaling_section(summary)
        + checkpoint_section(tables, summary)
        + "".join(map(chart_section, of_checkpoints))
        + restart_section(summary)
        + delivery_section(summary)
        + "".join(map(chart_section, of_readers))
        + sampling_section(summary)
        + "".join(map(chart_section, of_sampling)),
        table=stage_table(run, summary)
        + ("" if says_nothing_of_the_job(summary) else _pools(tables, scenario))
        + partition_section(summary)
        + message_section(summary),
        advice=advice_section(summary.get("advice")),
        scenario=_scenario_section(scenario),
    )


def _lines(sentences: Iterable[str]) -> str:
    """Return sentences below the first, a line each."""
    return "".join(f'<p class="run">{escape(text)}</p>' for text in sentences)


def _sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return the other sentences: on scalings, logs, checkpoints, failures, messages and jobs."""
    if says_nothing_of_the_job(summary):
        return []
    return [
        *scaling_sentences(summary),
        *lag_sentences(summary),
        *checkpoint_sentences(summary),
        *restart_sentences(summary),
        *delivery_sentences(summary),
        *message_sentences(summary),
        *sampling_sentences(summary),
        *job_sentences(summary),
    ]


def _pools(tables: Tables, scenario: Scenario) -> str:
    """Return what the pools of each subtask say; nothing where these change during the run."""
    return "" if scenario.scaling is not None else pool_section(pool_readings(tables, scenario))


def _counted(scenario: Scenario) -> str:
    return "records" if scenario.system.counts_records else "buffers"


def _scenario_section(scenario: Scenario) -> str:
    """Return the scenario as it was run, folded."""
    return (
        '<section id="scenario"><details><summary>The scenario as it was run</summary>'
        f"<pre>{escape(scenario.to_yaml())}</pre></details></section>"
    )
