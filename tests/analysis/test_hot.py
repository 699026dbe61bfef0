"""Who is hot: the subtask with the most records, whether or not it limits."""

from __future__ import annotations

import io
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.analysis import summarise
from flowcontrol.analysis.subtasks import find_hot
from flowcontrol.report.terminal import subtask_table
from flowcontrol.topics.shown import print_summary

TIMES = [10, 20]


def run(builder: ModuleType, records: list[int], busy: list[int]) -> tuple[Any, Any]:
    """Return a scenario and its tables: the sink's subtasks took up so many records."""
    results = builder.Results(TIMES).stage("source")
    for subtask, (count, share) in enumerate(zip(records, busy, strict=True)):
        rows = {"records_in": [count // 2, count], "busy_ms_per_s": share}
        results = results.stage("sink", subtask=subtask, **rows)
        results = results.channel("source->sink", receiver=subtask)
    stages = {"source": {}, "sink": {"parallelism": len(records)}}
    return builder.scenario("skewed", stages, ["source->sink"]), results.tables()


def test_the_hot_subtask_is_named_with_its_share_and_its_time(builder: ModuleType) -> None:
    scenario, tables = run(builder, [100, 600, 100, 200], [100, 900, 100, 300])
    [found] = find_hot(tables, scenario)
    assert (found.stage, found.subtask, found.share, found.of_even) == ("sink", 1, 0.6, 2.4)
    assert found.sentence == (
        "Hot: subtask 1 of sink got 60 % of its records, 2.40 times an even share, and was busy "
        "90 % of the time (mean of sink: 35 %)."
    )
    made = summarise(tables, scenario, clock="virtual", rounds=2, wall_s=1.0, round_ms=1.0)
    assert made["hot"] == [found.document()]
    console = Console(file=io.StringIO(), width=200)
    print_summary(made, console)
    assert found.sentence in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("records", [[100, 100, 100, 100], [124, 92, 92, 92], [1000], [0, 0]])
def test_nobody_is_hot_where_records_are_even(builder: ModuleType, records: list[int]) -> None:
    scenario, tables = run(builder, records, [500] * len(records))
    assert find_hot(tables, scenario) == []
    made = summarise(tables, scenario, clock="virtual", rounds=2, wall_s=1.0, round_ms=1.0)
    assert "hot" not in made


def shown(tables: Any, scenario: Any, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(subtask_table(tables, scenario))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_a_row_a_subtask(builder: ModuleType) -> None:
    scenario, tables = run(builder, [100, 600, 100, 200], [100, 900, 100, 300])
    head, source, *sink = [line.split() for line in shown(tables, scenario)]
    assert head[:3] == ["Stage", "Subtask", "In"]
    assert source[:2] == ["source", "0"]
    assert [row[:4] for row in sink] == [
        ["sink", "0", "5", "0.40"],
        ["1", "30", "2.40", "0"],
        ["2", "5", "0.40", "0"],
        ["3", "10", "0.80", "0"],
    ]
    assert all("Lag" not in line for line in head)


def test_of_many_subtasks_those_with_the_most_records_are_shown(builder: ModuleType) -> None:
    scenario, tables = run(builder, [*range(100, 140, 2), 900], [0] * 21)
    lines = [line.split() for line in shown(tables, scenario)]
    assert [line[0] for line in lines[3:18]] == [str(subtask) for subtask in range(6, 21)]
    assert lines[-1] == ["5", "more"]
