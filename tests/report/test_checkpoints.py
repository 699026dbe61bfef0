"""What a page and a terminal show of checkpoints."""

from __future__ import annotations

import io
import re
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from flowcontrol.analysis import summarise
from flowcontrol.report.charts import rates_chart
from flowcontrol.report.rundata import RunData
from flowcontrol.topics.checkpoints import (
    MOST_BARS,
    MOST_POINTS,
    MOST_ROWS,
    checkpoint_charts,
    checkpoint_section,
)
from flowcontrol.topics.shown import print_summary, report_page
from modules import load

made = load("tests/analysis/checkpoint_tables.py")


def small() -> Any:
    """Return three completed checkpoints of 30, 20 and 25 ms, and one of each other end."""
    taken = made.Taken()
    for number, e2e in enumerate((30.0, 20.0, 25.0), start=1):
        taken.checkpoint(10.0 * number, "completed", e2e, persisted_bytes=2048)
        taken.all((1, 0, 0, 0), (5, 0, 1, 2), (6, 0, 0, 0), (number, e2e - 10, 1, 2))
    taken.checkpoint(40, "expired", 9000.0, acknowledged=1).task("source", 0, 1, 0, 0, 0)
    return taken.checkpoint(60, "aborted", 5.0).checkpoint(99, "aborted", None)


def summarised(tables: Any) -> Any:
    return summarise(tables, made.scenario(), clock="virtual", rounds=1, wall_s=1.0, round_ms=1.0)


def charts(taken: Any) -> Any:
    tables = made.samples() | taken.tables()
    return checkpoint_charts(RunData.of(tables, made.scenario()), tables)


def test_a_run_without_checkpoints_shows_nothing_of_them(experiment: Any) -> None:
    page = report_page(experiment.tables, experiment.summary, experiment.scenario)
    shown = re.sub(r"<(script|style)>.*?</\1>", "", page, flags=re.DOTALL)
    assert "checkpoint" not in shown.lower()
    assert checkpoint_section(experiment.tables, experiment.summary) == ""


def test_a_job_that_triggered_none_has_the_sentence_and_no_section() -> None:
    tables = made.samples() | made.Taken().tables()
    page = report_page(tables, summarised(tables), made.scenario())
    assert "No checkpoint was triggered." in page
    assert 'id="checkpoint-history"' not in page
    assert charts(made.Taken()) == []


def test_the_history_begins_with_the_latest_and_says_how_each_ended() -> None:
    tables = made.samples() | small().tables()
    section = checkpoint_section(tables, summarised(tables))
    rows = [
        re.findall(r"<td>(.*?)</td>", row)
        for row in re.findall(r"<tr>(.*?)</tr>", section.split("<tbody")[1])
    ]
    assert [row[0] for row in rows] == ["6", "5", "4", "3", "2", "1"]
    assert rows[0][2:6] == ["… in progress", "4/4", "99 s", ""]
    assert rows[2][2:6] == ["✗ expired", "1/4", "40 s", "9 s"]
    assert rows[5][2:] == ["✓ completed", "4/4", "10 s", "30 ms", "0 B", "0 B", "2 KiB"]
    assert "3 of 6" in section
    assert "1 expired, 1 aborted, 1 in progress" in section
    assert "25 ms median<small>minimum 20 ms, p99 30 ms, maximum 30 ms" in section


def test_a_long_history_is_cut_and_says_so() -> None:
    taken = made.Taken()
    for number in range(3 * MOST_POINTS):
        taken.checkpoint(number / 40, "expired" if number == 700 else "completed", number % 7 + 1.0)
    tables = made.samples() | taken.tables()
    section = checkpoint_section(tables, summarised(tables))
    assert section.count("<tr>") == MOST_ROWS + 1
    assert "The last 100 of 3,000." in section
    assert "<td>3000</td>" in section
    [durations] = charts(taken)
    drawn = [trace for trace in durations.figure["data"] if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in drawn) == MOST_POINTS
    assert [trace["name"] for trace in drawn] == ["completed", "expired"]  # not thinned away
    assert "Of 3,000 checkpoints 1,000 are drawn" in durations.explanation
    rates = rates_chart(RunData.of(tables, made.scenario()))
    bands = [shape for shape in rates.figure["layout"]["shapes"] if shape["type"] == "rect"]
    assert [shape["line"]["dash"] for shape in bands] == ["dash"]
    assert " 2,999 other checkpoints are too many to be drawn here." in rates.explanation


def test_bands_in_the_rates_go_from_trigger_to_end_and_failed_ones_look_different() -> None:
    tables = made.samples() | small().tables()
    rates = rates_chart(RunData.of(tables, made.scenario()))
    bands = {
        (shape["x0"], shape["x1"]): (shape["line"]["dash"], shape["fillcolor"])
        for shape in rates.figure["layout"]["shapes"]
        if shape["type"] == "rect"
    }
    good, bad = bands[10, 10.03], bands[40, 49]
    assert good[0] != bad[0]
    assert good[1] != bad[1]
    assert bands == {
        (10, 10.03): good, (20, 20.02): good, (30, 30.025): good, (99, 100): good,
        (40, 49): bad, (60, 60.005): bad,
    }  # fmt: skip
    assert "Blue bands: checkpoints" in rates.explanation
    assert "dashed edge" in rates.explanation


def test_points_have_a_sign_of_their_own_for_each_end() -> None:
    durations, _ = charts(small())
    points = [trace for trace in durations.figure["data"] if trace["mode"] == "markers"]
    signs = {trace["name"]: trace["marker"]["symbol"] for trace in points}
    assert signs == {"completed": "circle", "expired": "x", "aborted": "diamond"}
    assert "(ms)" in durations.figure["layout"]["yaxis"]["title"]["text"]
    assert "(s)" in durations.figure["layout"]["xaxis"]["title"]["text"]


def test_bars_of_the_longest_the_median_and_the_last_stack_the_parts() -> None:
    _, bars = charts(small())
    traces = bars.figure["data"]
    shown = {trace["meta"]: trace["visible"] for trace in traces}
    assert shown == {"longest": True, "median": False, "last": False}
    assert bars.controls.count("<input") == 3
    assert "the longest, 1" in bars.controls
    longest = [trace for trace in traces if trace["meta"] == "longest"]
    assert [trace["name"] for trace in longest] == [
        "start delay", "alignment", "synchronous", "asynchronous",
    ]  # fmt: skip
    assert longest[0]["y"] == ["source 0", "map 0", "map 1", "sink 0"]
    assert [trace["x"][3] for trace in longest] == [1, 20, 1, 2]
    looks = {(t["marker"]["color"], t["marker"]["pattern"]["shape"]) for t in longest}
    assert len({colour for colour, _ in looks}) == len({hatch for _, hatch in looks}) == 4
    assert "(ms)" in bars.figure["layout"]["xaxis"]["title"]["text"]


def test_of_a_wide_job_the_last_subtasks_have_bars_and_the_text_says_so() -> None:
    taken = made.Taken().checkpoint(10, "completed", 100.0)
    for subtask in range(MOST_BARS + 76):
        taken.task("map", subtask, float(subtask), 0, 0, 0)
    _, bars = charts(taken)
    assert bars.figure["data"][0]["y"] == [f"map {number}" for number in range(76, 100)]
    assert "Of 100 subtasks the 24 that acknowledged last." in bars.explanation


def test_the_page_escapes_names() -> None:
    tables = made.samples() | small().tables()
    evil = tables["checkpoint_tasks"].to_pandas()
    evil["stage"] = evil["stage"].replace("sink", "<b>sink</b>")
    schema = tables["checkpoint_tasks"].schema
    changed = tables | {"checkpoint_tasks": pa.Table.from_pandas(evil, schema=schema)}
    found = checkpoint_charts(RunData.of(changed, made.scenario()), changed)
    assert "&lt;b&gt;sink&lt;/b&gt; 0" in found[1].figure["data"][0]["y"]


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_has_the_sentences(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    print_summary(summarised(made.samples() | small().tables()), console)
    text = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert (
        "3 of 6 checkpoints completed, in 25 ms (median), 30 ms at most, with 2 KiB of data in "
        "flight persisted on average; 1 expired, 1 aborted, 1 still in progress at the end."
    ) in text
