"""The table on terminals of any width: no line too long, no number cut, every stage there."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.report.terminal import StageTable
from flowcontrol.run import emulate
from flowcontrol.topics.causes import cause_lines
from flowcontrol.topics.shown import print_summary
from modules import ROOT

EVERY_HEAD = [
    "Stage", "Pressure", "Subtasks", "In rec/s", "Out rec/s", "Busy", "Idle", "Blocked", "In pool",
    "Out pool", "Latency p50", "p99",
]  # fmt: skip
HEADS_OF_SEVERAL = [
    "Stage", "Pressure", "Subtasks", "In rec/s", "Out rec/s", "Busy/max", "Idle", "Blocked/max",
    "Skew", "In pool/max", "Out pool/max", "Latency p50", "p99",
]  # fmt: skip


def printed(summary: dict[str, Any], width: int, *, table_only: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    if table_only:
        console.print(StageTable(summary))
    else:
        print_summary(summary, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "heads"),
    [
        (60, ["Stage", "Pressure", "In rec/s", "Out rec/s", "Busy", "Blocked"]),
        (
            80,
            ["Stage", "Pressure", "In rec/s", "Out rec/s", "Busy", "Idle", "Blocked", "In pool",
             "Out pool"],
        ),
        (120, EVERY_HEAD),
    ],
)  # fmt: skip
def test_columns_are_chosen_by_the_width(experiment: Any, width: int, heads: list[str]) -> None:
    lines = printed(experiment.summary, width, table_only=True)
    assert re.split(r" {2,}", lines[0].strip()) == heads
    assert len(lines) == 3


@pytest.mark.parametrize("name", ["experiment", "fan", "large"])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_longer_than_the_console(
    name: str, width: int, request: pytest.FixtureRequest
) -> None:
    summary = request.getfixturevalue(name).summary
    lines = printed(summary, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for stage in summary["stages"]:
        assert stage in text
    ends = " ".join([summary["sentence"], *summary["details"], *cause_lines(summary)])
    assert " ".join(text.split()).endswith(ends)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_name_is_wrapped_and_its_numbers_are_not(experiment: Any, width: int) -> None:
    stages = experiment.summary["stages"]
    long = "a-consumer-with-a-name-that-is-very-long-indeed-0123456789"
    summary = {**experiment.summary, "stages": {long: stages["consumer"]}}
    lines = printed(summary, width, table_only=True)
    assert max(map(len, lines)) <= width
    first = lines[1]
    assert {"OK", "661", "85"} <= set(first.split())
    end = len(lines[0]) - len(lines[0].split("Pressure", 1)[1]) - len("Pressure")
    assert "".join(line[:end].strip() for line in lines[1:]) == long


@pytest.mark.parametrize("name", ["experiment", "fan", "large"])
def test_every_number_and_head_stays_whole_at_any_width(
    name: str, request: pytest.FixtureRequest
) -> None:
    summary = request.getfixturevalue(name).summary
    rates = [f"{stage['whole']['rate_out']:,.0f}" for stage in summary["stages"].values()]
    for width in range(45, 130):
        head, *body = printed(summary, width, table_only=True)
        assert max(map(len, body)) <= width
        heads = HEADS_OF_SEVERAL if name == "fan" else EVERY_HEAD
        assert set(re.split(r" {2,}", head.strip())) <= set(heads)
        assert len(body) == len(rates), width
        for line, rate in zip(body, rates, strict=True):
            assert rate in line.split(), (width, line)


def test_more_room_never_shows_less(fan: Any) -> None:
    shown = [
        len(re.split(r" {2,}", printed(fan.summary, width, table_only=True)[0].strip()))
        for width in range(40, 180)
    ]
    assert shown == sorted(shown)
    assert shown[-1] == len(HEADS_OF_SEVERAL)


def test_the_largest_of_several_subtasks_stands_beside_their_mean(experiment: Any) -> None:
    stages = experiment.summary["stages"]
    whole = stages["consumer"]["whole"]
    most = {**whole["max_over_subtasks"], "busy_ms_per_s": 990, "in_pool_usage": 1.2}
    hot = {"data_skew_percent": 28.4, "max_over_subtasks": most}
    consumer = {**stages["consumer"], "parallelism": 4, "whole": {**whole, **hot}}
    summary = {**experiment.summary, "stages": {**stages, "consumer": consumer}}
    head, first, second = printed(summary, 160, table_only=True)
    assert re.split(r" {2,}", head.strip()) == HEADS_OF_SEVERAL
    assert "85/99 %" in second
    assert "28 %" in second
    assert re.search(r"\d/120 %", second)
    assert "/" not in first


def test_latency_stands_at_sinks_only(experiment: Any) -> None:
    header, producer, consumer = printed(experiment.summary, 120, table_only=True)
    at = header.index("Latency p50")
    assert producer[at:].strip() == ""
    assert consumer[at:].split() == ["33.3", "ms", "4.51", "s"]


def test_markup_in_a_name_is_printed_as_it_is(experiment: Any) -> None:
    stages = {"[red]x[/red]": experiment.summary["stages"]["producer"]}
    summary = {**experiment.summary, "stages": stages, "sentence": "It was [bold]me[/bold]."}
    text = "\n".join(printed(summary, 120))
    assert "[red]x[/red]" in text
    assert "[bold]me[/bold]" in text


def test_statuses_are_coloured_on_a_terminal_and_plain_elsewhere(experiment: Any) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    console.print(StageTable(experiment.summary))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[33mLOW" in console.file.getvalue()
    assert "\x1b" not in "\n".join(printed(experiment.summary, 80))


def test_each_of_several_jobs_has_a_sentence(experiment: Any) -> None:
    def job(name: str, state: str, message: str | None = None) -> dict[str, Any]:
        times = {"start_at_s": 2.5, "stop_at_s": 7.0}
        return {"name": name, **times, "state": state, "message": message}

    jobs = [
        job("a", "finished"), job("b", "stopped"), job("c", "failed", "Too few [bold]buffers."),
        job("d", "stopped", "cancelled while it waited"),
    ]  # fmt: skip
    lines = printed({**experiment.summary, "jobs": jobs}, 120)
    assert [line for line in lines if line.startswith("Job ")] == [
        "Job a finished.",
        "Job b stopped at 7 s.",
        "Job c failed, submitted at 2.5 s: Too few [bold]buffers.",
        "Job d stopped at 7 s: cancelled while it waited",
    ]
    assert not any("Job " in line for line in printed(experiment.summary, 120))


def test_the_answer_comes_before_advice_and_page(tmp_path, capsys):
    def look(found):
        found.show_answer()
        met.append(("advice" in found.summary, found.report, found.sentence))

    met = []
    out, scenario = tmp_path / "run", ROOT / "conf" / "three-stages.yaml"
    made = emulate(scenario, clock="virtual", out=out, quiet=True, advice=True, answer=look)
    assert met == [(False, None, made.sentence)]
    answer = " ".join(capsys.readouterr().out.split())
    assert made.sentence.split(";")[0] in answer
    assert "What helps" not in answer
    assert made.report is not None
    made.show()
    whole = " ".join(capsys.readouterr().out.split())
    assert whole.startswith(answer)
    assert "What helps" in whole
