"""Reports of systems that count records: no buffers, no pools, no credits that do not exist."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.analysis import summarise
from flowcontrol.report.charts import all_charts
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario.system import PRESETS, preset_system
from flowcontrol.topics.shown import print_summary, report_page

COUNTING = [name for name in PRESETS if preset_system(name).counts_records]
OTHERS = [name for name in PRESETS if name not in COUNTING]


def as_system(run: Any, system: str) -> tuple[Any, Any, dict[str, Any]]:
    """A run's tables, its scenario under another system, and their summary."""
    scenario = run.scenario.model_copy(update={"system": preset_system(system)})
    summary = summarise(
        run.tables, scenario, clock="virtual", rounds=500, wall_s=1, round_ms=200
    )  # fmt: skip
    return run.tables, scenario, summary


def words(tables: Any, scenario: Any) -> dict[str, str]:
    """By chart, what it says: title, explanation and titles of the axes."""
    found = {}
    for chart in all_charts(RunData.of(tables, scenario)):
        layout = chart.figure["layout"]
        axes = [axis["title"]["text"] for key, axis in layout.items() if key.startswith("yaxis")]
        found[chart.id] = " | ".join([chart.title, chart.explanation, *axes])
    return found


@pytest.mark.parametrize(
    "system",
    # Many are of the same parts: the quick form has every third one.
    [
        pytest.param(name, marks=[pytest.mark.long] * (at % 3 > 0))
        for at, name in enumerate(COUNTING)
    ],
)
def test_no_chart_of_records_speaks_of_buffers(experiment: Any, drawing: Any, system: str) -> None:
    tables, scenario, summary = as_system(experiment, system)
    found = words(tables, scenario)
    assert "pools" not in found
    assert [name for name, said in found.items() if "buffer" in said or " pool" in said] == []
    assert ("channels" in found) == (scenario.system.transport != "unbounded")
    assert "credit (records)" in found.get("channels", "credit (records)")
    assert summary["counts"] == "records"
    assert "records in flight" in drawing.picture(tables, scenario)
    page = report_page(tables, summary, scenario)
    heads = page[page.index('<section id="stages">') : page.index('<section id="scenario">')]
    assert "In pool" not in heads
    assert ">Queued<" in heads


@pytest.mark.parametrize("system", OTHERS)
def test_charts_of_buffers_do(experiment: Any, drawing: Any, system: str) -> None:
    tables, scenario, summary = as_system(experiment, system)
    found = words(tables, scenario)
    assert "pools" in found
    assert "credit (buffers)" in found["channels"]
    assert ("tcp, has no credits" in found["channels"]) == (system == "flink-1.4")
    assert summary["counts"] == "buffers"
    assert "buffers in flight" in drawing.picture(tables, scenario)


@pytest.mark.parametrize("system", PRESETS)
def test_what_blocks_a_source_names_its_throttle(experiment: Any, system: str) -> None:
    tables, scenario, _ = as_system(experiment, system)
    said = words(tables, scenario)["shares"]
    throttle = scenario.system.throttle
    assert ("while the throttle" in said) == (throttle != "none")
    assert throttle == "none" or throttle in said


@pytest.mark.parametrize(("system", "shown", "hidden"), [
    ("pulsar", "Queued", "In pool"), ("flink", "In pool", "Queued"),
])  # fmt: skip
@pytest.mark.parametrize("width", [30, 70, 200])
def test_the_terminal_shows_queues_of_records(
    experiment: Any, system: str, shown: str, hidden: str, width: int
) -> None:
    *_, summary = as_system(experiment, system)
    console = Console(file=io.StringIO(), width=width)
    print_summary(summary, console)
    text = console.file.getvalue()
    assert hidden not in text
    assert (shown in text) == (width > 30)
    assert max(map(len, text.splitlines())) <= width
