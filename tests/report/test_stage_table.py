"""The table of the stages: it opens to the subtasks, and has the largest figure beside a mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.report import stage_table as made
from flowcontrol.report.rundata import RunData
from flowcontrol.report.stage_table import stage_table
from flowcontrol.scenario.system import preset_system
from modules import load

builder = load("tests/analysis/builder.py")


@dataclass
class Body:
    """One body of the table: its attributes, and its rows as texts of cells."""

    attributes: dict[str, str | None]
    rows: list[list[str]]


class Table(HTMLParser):
    """Reads heads, bodies and buttons of a table."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.heads: list[str] = []
        self.bodies: list[Body] = []
        self.buttons: list[dict[str, str | None]] = []
        self.cells: list[str] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tbody":
            self.bodies.append(Body(dict(attrs), []))
        elif tag == "tr" and self.bodies:
            self.cells = []
            self.bodies[-1].rows.append(self.cells)
        elif tag == "td":
            self.cells.append("")
        elif tag == "button":
            self.buttons.append(dict(attrs))
        elif tag == "small":
            self.cells[-1] += " "

    def handle_data(self, data: str) -> None:
        if self.bodies:
            self.cells[-1] += data
        else:
            self.heads.append(data)

    def named(self, body: int) -> list[dict[str, str]]:
        """Return the rows of a body by head."""
        return [dict(zip(self.heads, row, strict=True)) for row in self.bodies[body].rows]


def table_of(tables: Any, scenario: Any) -> Table:
    summary = summarise(
        tables, scenario, clock="virtual", rounds=10, wall_s=1.0, round_ms=1.0
    )  # fmt: skip
    return Table(stage_table(RunData.of(tables, scenario, summary["bottleneck"]), summary))


@pytest.fixture
def skewed() -> Table:
    """Return the table of a run in which the first of two subtasks gets most and limits."""
    stages = {"source": {}, "sink": {"parallelism": 2, "placement": [0, 1]}}
    job = builder.scenario("skewed", stages, ["source->sink"])
    run = builder.Results([10.0])
    run.stage("source", records_out=4000, rate_out=400, backpressured_ms_per_s=600)
    run.stage(
        "sink", 0, records_in=3000, busy_ms_per_s=1000, in_pool_usage=1, input_queue_buffers=8
    )
    run.stage("sink", 1, records_in=1000, busy_ms_per_s=200, idle_ms_per_s=800)
    run.channel("source->sink", 0, 0, released=50, in_flight_records=90, backlog=9)
    run.channel("source->sink", 0, 1, released=50)
    run.latency("sink", 0, count=3000, p50_ms=40, p90_ms=40, p99_ms=50, max_ms=60, mean_ms=40)
    run.latency("sink", 1, count=1000, p50_ms=2, p90_ms=2, p99_ms=2, max_ms=2, mean_ms=2)
    return table_of(run.tables(), job)


def test_a_stage_of_one_subtask_does_not_open(skewed: Table) -> None:
    (source,) = skewed.named(0)
    assert source["Stage"] == "source"
    assert source["Busy"] == "0 %"
    assert [button["aria-controls"] for button in skewed.buttons] == ["rows-of-stage-1"]


def test_a_stage_shows_the_largest_figure_beside_its_own(skewed: Table) -> None:
    (sink,) = skewed.named(1)
    assert sink["Stage"] == "sink most of a subtask"
    assert sink["Busy"] == "60 % 100 %"
    assert sink["In /s"] == "400 300"
    assert sink["In pool"] == "50 % 100 %"
    assert sink["Queued"] == "8 8"
    assert sink["Skew"] == "50 % 1.50x"
    assert sink["Records in"] == "4,000"


def test_the_rows_of_the_subtasks_are_closed_and_named(skewed: Table) -> None:
    (button,) = skewed.buttons
    assert button["aria-expanded"] == "false"
    assert button["type"] == "button"
    attributes = skewed.bodies[2].attributes
    assert attributes == {"id": button["aria-controls"], "class": "subtasks", "hidden": None}


def test_each_subtask_has_its_own_figures(skewed: Table) -> None:
    hot, cold = skewed.named(2)
    assert (hot["Stage"], hot["Subtasks"]) == ("subtask 0, limits", "on 0")
    assert (cold["Stage"], cold["Subtasks"]) == ("subtask 1", "on 1")
    assert (hot["Records in"], hot["In /s"], hot["Skew"]) == ("3,000", "300", "1.50x")
    assert (cold["Busy"], cold["Idle"], cold["Blocked"]) == ("20 %", "80 %", "0 %")
    assert (hot["Latency p50"], cold["Latency p50"]) == ("40 ms", "2 ms")
    assert (hot["Records out"], hot["Out pool"], hot["To send"]) == ("", "", "")


def test_of_very_many_subtasks_the_busiest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "MOST_ROWS", 2)
    job = builder.scenario("many", {"source": {}, "sink": {"parallelism": 4}}, ["source->sink"])
    run = builder.Results([10.0]).stage("source")
    for subtask, busy in enumerate([100, 900, 0, 500]):
        run.stage("sink", subtask, busy_ms_per_s=busy)
    rows = table_of(run.tables(), job).bodies[2].rows
    assert [row[0] for row in rows] == [
        "subtask 1",
        "subtask 3",
        "The 2 busiest of 4 subtasks; the others are left out.",
    ]


def test_without_samples_the_rows_say_so(fan: Any) -> None:
    table = table_of({name: part.slice(0, 0) for name, part in fan.tables.items()}, fan.scenario)
    assert all(body.rows == [["No sample was taken."]] for body in table.bodies[1::2])


@pytest.mark.parametrize("name", ["experiment", "fan", "large", "hostile", "empty"])
def test_every_row_has_all_columns(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    data = RunData.of(run.tables, run.scenario, run.summary["bottleneck"])
    table = Table(stage_table(data, run.summary))
    widths = {len(row) for body in table.bodies for row in body.rows}
    assert widths <= {len(table.heads), 1}


def test_records_are_counted_where_the_transport_counts_them(fan: Any) -> None:
    scenario = fan.scenario.model_copy(update={"system": preset_system("storm")})
    heads = table_of(fan.tables, scenario).heads
    assert "Queued" in heads
    assert "To send" in heads
    assert not {"In pool", "Out pool"} & set(heads)


def test_names_are_escaped(hostile: Any) -> None:
    data = RunData.of(hostile.tables, hostile.scenario)
    markup = stage_table(data, hostile.summary)
    assert "<script>" not in markup
    assert not re.search(r"<b>", markup)
