"""The topics of a run in their order: in its summary, in the terminal, and on ``report.html``.

The page is self-contained. Its ``Content-Security-Policy`` of ``default-src 'none'`` forbids every
fetch, so a browser enforces what a test checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from flowcontrol.analysis.frames import Tables
from flowcontrol.files import write_atomically
from flowcontrol.report.advice import advice_section, advice_sentences
from flowcontrol.report.charts import all_charts
from flowcontrol.report.graph import job_graphs
from flowcontrol.report.heat import heat_charts
from flowcontrol.report.markup import chart_section, milliseconds, page
from flowcontrol.report.rundata import RunData, player, player_note, step_note
from flowcontrol.report.stage_table import (
    key_figures,
    run_line,
    says_nothing_of_the_job,
    stage_table,
)
from flowcontrol.report.terminal import StageTable
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario
from flowcontrol.topics.causes import CAUSES, HOT, JOBS, LAGS
from flowcontrol.topics.checkpoints import CHECKPOINTS
from flowcontrol.topics.commits import COMMITS
from flowcontrol.topics.delivery import DELIVERY
from flowcontrol.topics.event_time import EVENT_TIME
from flowcontrol.topics.memory import MEMORY
from flowcontrol.topics.messages import TRACE
from flowcontrol.topics.monitoring import MONITORING
from flowcontrol.topics.requests import REQUESTS
from flowcontrol.topics.restarts import RESTARTS
from flowcontrol.topics.scaling import SCALING
from flowcontrol.topics.topic import Finished, Summary, Topic

if TYPE_CHECKING:
    from rich.console import RenderableType

TOPICS: Final[tuple[Topic, ...]] = (
    CAUSES,
    SCALING,
    LAGS,
    HOT,
    REQUESTS,
    EVENT_TIME,
    MEMORY,
    CHECKPOINTS,
    RESTARTS,
    DELIVERY,
    COMMITS,
    TRACE,
    MONITORING,
    JOBS,
)
"""In the order in which they are shown."""

_SCRIPTS: Final = ("stages.js", "player.js")


def add_topics(run: Run, summary: dict[str, Any]) -> None:
    """Put the figures of each topic into the summary of a run that is over."""
    for topic in TOPICS:
        topic.add(run, summary)


def print_summary(
    summary: Summary, console: Console | None = None, table: RenderableType | None = None
) -> None:
    """Print the table, the bottleneck, the state of each job if there are several, and advice.

    If the length of the rounds limited the run, nothing but that follows the table.

    ``console``: where to; by default standard output.
    """
    print_answer(summary, console, table)
    print_advice(summary, console)


def print_answer(
    summary: Summary, console: Console | None = None, table: RenderableType | None = None
) -> None:
    """Print what is known as soon as the run is done: as :func:`print_summary`, without advice."""
    console = console or Console()
    console.print(Padding(table or StageTable(summary), (1, 0)))
    said = (text for topic in TOPICS for text in (*topic.lines(summary), *topic.sentences(summary)))
    rest = () if says_nothing_of_the_job(summary) else (*_first(summary), *said)
    for text in (summary["sentence"], *rest):
        console.print(Text(text))


def print_advice(summary: Summary, console: Console | None = None) -> None:
    """Print what would help, and how exact the figures are."""
    console = console or Console()
    if says_nothing_of_the_job(summary):
        return
    for sentence in advice_sentences(summary):
        console.print(Text(sentence))
    if "round_error_ms" in summary:
        origin = "chosen" if summary["round_is_chosen"] else "as stated"
        error, length = milliseconds(summary["round_error_ms"]), milliseconds(summary["round_ms"])
        console.print(Text(f"Rounds of {length} ({origin}) add up to {error} to a latency."))


def write_report(path: Path, tables: Tables, summary: Summary, scenario: Scenario) -> None:
    """Write the report page of a run.

    - ``path``: the file, which is replaced atomically; its folder must exist.
    - ``tables``: the result tables by name.
    """
    write_atomically(path, report_page(tables, summary, scenario))


def report_page(tables: Tables, summary: Summary, scenario: Scenario) -> str:
    """Return the report page as text; parameters as :func:`write_report`."""
    drawn = RunData.of(tables, scenario, summary["bottleneck"])
    run = Finished(tables, summary, scenario, drawn)
    charts = [list(topic.charts(run)) for topic in TOPICS]
    above = [chart for topic in TOPICS for chart in topic.first_charts(run)]
    above += [*all_charts(drawn), *heat_charts(drawn)]
    figures = key_figures(summary, drawn.scenario)
    figures += [figure for topic in TOPICS for figure in topic.figures(summary)]
    detail = summary["bottleneck_detail"]
    is_limited = summary["bottleneck"] or detail["edge"] or "throttle" in detail
    return page(
        "flowcontrol.report",
        [*above, *chain.from_iterable(charts)],
        scripts=_SCRIPTS,
        title=scenario.name,
        run=run_line(summary, scenario),
        sentence=summary["sentence"],
        headline_class=" limited" if is_limited else "",
        below=_head(summary),
        noscript="The charts need JavaScript; the graph and the table above do not.",
        key_figures="".join(figures),
        player=player(drawn),
        graph=job_graphs(summary, drawn.scenario),
        in_flight=f"{summary['counts']} in flight",
        player_note=player_note(drawn),
        step_note=step_note(drawn),
        charts="".join(map(chart_section, above)),
        topics="".join(
            topic.section(run) + "".join(map(chart_section, own))
            for topic, own in zip(TOPICS, charts, strict=True)
        ),
        table=stage_table(drawn, summary) + "".join(topic.below_stages(run) for topic in TOPICS),
        advice=advice_section(summary.get("advice")),
        scenario=_scenario_section(scenario),
    )


def _first(summary: Summary) -> list[str]:
    """Return what is said below the bottleneck, above all topics."""
    alarms = (text for topic in TOPICS for text in topic.alarms(summary))
    return [*alarms, *summary.get("details", ())]


def _head(summary: Summary) -> str:
    """Return what stands below the sentence of the page, as markup."""
    is_silent = says_nothing_of_the_job(summary)
    said = [] if is_silent else [text for topic in TOPICS for text in topic.sentences(summary)]
    first = [] if is_silent else _first(summary)
    return _lines(first) + "".join(topic.head(summary) for topic in TOPICS) + _lines(said)


def _lines(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="run">{escape(text)}</p>' for text in sentences)


def _scenario_section(scenario: Scenario) -> str:
    """Return the scenario as it was run, folded."""
    return (
        '<section id="scenario"><details><summary>The scenario as it was run</summary>'
        f"<pre>{escape(scenario.to_yaml())}</pre></details></section>"
    )
