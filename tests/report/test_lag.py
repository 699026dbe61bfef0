"""What a page and a terminal say of a source that reads a log."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.analysis import summarise
from flowcontrol.report.charts import all_charts
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.topics.shown import print_summary, report_page
from flowcontrol.virtual import simulate


def scenario(**source: Any) -> Scenario:
    """A source of 150 records/s; with a log that gets 100, it stands still from 2 to 5 s."""
    stalls = [{"at_s": 2, "for_s": 3}]
    return parse_scenario(
        {
            "schema": 1, "name": "pause", "duration_s": 20, "round_ms": 100,
            "stages": [{"name": "topic", "emit_rate": 150, "stalls": stalls, **source},
                       {"name": "sink", "service_rate": 1000}],
            "edges": [{"from": "topic", "to": "sink"}],
        }
    )  # fmt: skip


def run(**source: Any) -> tuple[Any, dict[str, Any], Scenario]:
    """Tables, summary and scenario of a run."""
    made = scenario(**source)
    tables = simulate(made).tables
    found = summarise(tables, made, clock="virtual", rounds=200, wall_s=1, round_ms=100)
    return tables, found, made


SENTENCE = "topic fell 300 records, 3 s behind its log and caught up after 6 s (from 5 s on)."


def test_the_terminal_says_whether_it_caught_up() -> None:
    _, summary, _ = run(arrival_rate=100)
    out = io.StringIO()
    print_summary(summary, Console(file=out, width=80))
    assert SENTENCE in " ".join(out.getvalue().split())
    [head, row, *_] = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    assert "Lag" in head
    assert "s" in row[-2:]
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_the_page_has_a_curve_and_the_sentence() -> None:
    tables, summary, made = run(arrival_rate=100, latency_from="arrival")
    page = report_page(tables, summary, made)
    assert SENTENCE in page
    assert "Behind the log" in page
    charts = {chart.id: chart for chart in all_charts(RunData.of(tables, made))}
    records, seconds = charts["lag"].figure["data"]
    assert max(records["y"]) == 300
    assert max(seconds["y"]) == pytest.approx(2.99)
    titles = [charts["lag"].figure["layout"][f"yaxis{n}"]["title"]["text"] for n in ("", "2")]
    assert titles == ["records", "s"]
    names = [trace["name"] for trace in charts["rates"].figure["data"]]
    assert "topic's log gets" in names
    assert "from when a record was written to the log of its source to the start" in (
        charts["latency"].explanation
    )


def test_a_generator_has_neither() -> None:
    tables, summary, made = run()
    assert "lags" not in summary
    assert "Behind the log" not in report_page(tables, summary, made)
    charts = {chart.id: chart for chart in all_charts(RunData.of(tables, made))}
    assert "lag" not in charts
    assert "dashed" not in charts["rates"].explanation
    assert "from a record's emission at its source to the start" in charts["latency"].explanation
    out = io.StringIO()
    print_summary(summary, Console(file=out, width=120))
    assert "Lag" not in out.getvalue()
