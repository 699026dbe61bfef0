"""The table on the terminal, and the bar before it."""

from __future__ import annotations

import importlib
import io

import pytest
from rich.console import Console

from flowcontrol.experiments.sweep import SweepProgress, SweepResult, print_sweep
from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.scenario import parse_scenario

SINK = "stages.sink.service_rate"
MAP = "stages.map.service_rate"


@pytest.fixture
def printed(plan, chain, fakes, tmp_path):
    """A function that prints a sweep on a terminal of some width."""
    made_table = importlib.import_module("results").made_table

    def print_it(vary, *, width, **more):
        made = plan(vary, **more)
        metrics = read_metrics([], parse_scenario(chain))
        table = made_table(made, lambda *point: 1000.0 * point[0])
        console = Console(file=io.StringIO(), width=width)
        print_sweep(SweepResult(tmp_path, made, metrics, table), console)
        return console.file.getvalue()

    return print_it


def test_best_and_worst_are_printed_with_units(printed):
    text = printed({SINK: "1:30:30", MAP: [5]}, width=100)
    for word in ("30,000", "1,000", "records/s", "ms", "limits", "…", "Best over", "worst:"):
        assert word in text
    assert "15,000" not in text


def heads(text):
    lines = [" ".join(line.split()) for line in text.partition("3,000")[0].splitlines()]
    return [line for line in lines[:-1] if line]


def test_heads_say_that_a_figure_is_of_the_second_half(printed):
    text = printed({SINK: "1:3:3", MAP: [1]}, width=70)
    assert heads(text)[-3:] == ["sink rate_in latency_p99_", "sink map service_ second half ms",
                           "service_rate rate records/s second half limits"]  # fmt: skip
    assert "second_half" not in text


def test_heads_are_cut_only_where_there_is_no_room(printed):
    assert heads(printed({SINK: "1:3:3"}, width=80)) == [
        "sink rate_in",
        "second half sink latency_p99_ms",
        "sink service_rate records/s second half limits",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_number_is_cut(printed, width):
    lines = printed({SINK: "1:6:6", MAP: "1:2:2"}, width=width, replications=3).splitlines()
    rows = [line for line in lines if "±" in line]
    assert len(rows) == 10
    assert all("6,001 ± 2.48" in row for row in rows[:2])
    assert all(row.split()[-1] == "sink" for row in rows)
    assert max(map(len, lines)) <= width


def test_a_narrow_terminal_shows_fewer_metrics(printed):
    wide, narrow = (printed({SINK: "1:3:3", MAP: [1]}, width=w, replications=3) for w in (100, 50))
    assert "latency" in wide
    assert "latency" not in narrow.partition("Best over")[0]


class Clock:
    def __init__(self):
        self.at = 0.0

    def __call__(self):
        return self.at


def shown(updates, total=100, done=0, **more):
    clock = Clock()
    console = Console(file=io.StringIO(), width=100, **more)
    with SweepProgress(total, done, console=console, now=clock) as progress:
        for at, count, failed in updates:
            clock.at = at
            progress.update(count, failed)
    return console.file.getvalue()


def test_a_file_gets_a_line_every_tenth():
    lines = shown([(i, i, 0) for i in range(1, 101)]).splitlines()
    assert len(lines) == 10
    first, last = (" ".join(line.split()) for line in (lines[0], lines[-1]))
    assert first == "10 % 10 of 100 variants, 1/s, about 2 min left"
    assert last == "100 % 100 of 100 variants, 1/s"


def test_only_what_this_start_did_counts_for_the_rate():
    (line,) = shown([(10, 80, 0)], done=60).splitlines()
    assert line.strip() == "80 %  80 of 100 variants, 2/s, about 10 s left"


def test_what_failed_is_said_and_not_waited_for():
    (line,) = shown([(10, 90, 10)]).splitlines()
    assert line.strip() == "90 %  90 of 100 variants, 9/s, 10 failed"


@pytest.mark.parametrize(
    ("left", "text"), [(89, "89 s"), (90, "2 min"), (5399, "90 min"), (5400, "1.5 h")]
)
def test_the_time_left_is_told_as_people_do(left, text):
    lines = shown([(1, 1, 0)], total=1 + left).splitlines()
    assert lines == [] or f"about {text} left" in lines[0]
    lines = shown([(left, left, 0)], total=2 * left).splitlines()
    assert f"about {text} left" in lines[0]


def test_a_terminal_gets_a_bar():
    text = shown([(1, 50, 0), (2, 100, 0)], force_terminal=True)
    assert "100%" in text
    assert "100 of 100 variants" in text


def test_a_sweep_of_nothing_has_no_progress():
    with pytest.raises(ValueError, match="at least 1"):
        SweepProgress(0)
