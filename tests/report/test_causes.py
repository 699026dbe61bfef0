"""Causes on the terminal and on the page, and what the pools say."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.analysis.causes import WORDS, Cause, PoolReading
from flowcontrol.topics.causes import TITLES, cause_lines, cause_section
from flowcontrol.topics.memory import MOST_ROWS, pool_section
from flowcontrol.topics.shown import print_summary, report_page

HOT = Cause(
    stage="<count>",
    subtask=3,
    cause="key_skew",
    evidence=("Subtask 3 of <count> took up 56 % of its records.",),
    confidence=0.95,
    reason="it has 2.2 times an even share",
    advice="spread the hot keys",
)
SLOW = Cause("bill", None, "operator", ("It was busy.",), 0.85, "no load", "make it quicker")
NONE = Cause(None, None, "none", ("Nothing was blocked.",), 0.9, "all keeps up")


def summary(*causes: Cause) -> dict[str, Any]:
    return {"causes": [one.document() for one in causes]}


def test_one_cause_is_a_line() -> None:
    assert list(cause_lines(summary(SLOW))) == [
        "Cause: slow operator, bill (85 % sure); make it quicker."
    ]


def test_several_are_numbered_the_strongest_first() -> None:
    assert list(cause_lines(summary(HOT, SLOW))) == [
        "Cause 1 of 2: hot keys, subtask 3 of <count> (95 % sure); spread the hot keys.",
        "Cause 2 of 2: slow operator, bill (85 % sure); make it quicker.",
    ]


def test_where_nothing_limits_the_sentence_says_enough() -> None:
    assert list(cause_lines(summary(NONE))) == []
    assert cause_section(summary(NONE)) == ""
    assert list(cause_lines({})) == []


def test_every_word_has_a_title() -> None:
    assert set(TITLES) == set(WORDS)


def test_the_section_has_evidence_and_reason_escaped() -> None:
    markup = cause_section(summary(HOT, SLOW))
    assert markup.count("<details>") == 2
    assert "<li>Subtask 3 of &lt;count&gt; took up 56 % of its records.</li>" in markup
    assert "95 % sure: it has 2.2 times an even share." in markup
    assert "<count>" not in markup


@pytest.mark.parametrize("width", [40, 80])
def test_the_terminal_wraps_them_below_the_sentence(experiment: Any, width: int) -> None:
    given = {**experiment.summary, **summary(HOT)}
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_summary(given, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    sentence = " ".join(experiment.summary["sentence"].split())
    assert f"{sentence} Cause: hot keys, subtask 3 of <count> (95 % sure)" in text


def test_the_page_has_the_causes_that_the_summary_has(experiment: Any) -> None:
    (cause,) = experiment.summary["causes"]
    assert cause["stage"] == experiment.summary["bottleneck"]
    page = report_page(experiment.tables, experiment.summary, experiment.scenario)
    assert f'<li data-cause="{cause["cause"]}">' in page
    assert '<details id="pool-readings">' in page


def reading(subtask: int, said: str, into: float = 0.5) -> PoolReading:
    return PoolReading("map", subtask, into, 0.1, 0.2, 0.3, said, "all channels flow")


def test_neighbours_of_which_the_same_is_said_share_a_row() -> None:
    markup = pool_section([reading(0, "fine", 0.2), reading(1, "fine", 0.4), reading(2, "limits")])
    assert "<td>0 to 1</td><td>30 %</td>" in markup
    assert "<td>2</td><td>50 %</td>" in markup
    assert "limits; all channels flow" in markup


def test_many_rows_are_left_out_and_counted() -> None:
    markup = pool_section([reading(i, f"reading {i}") for i in range(MOST_ROWS + 3)])
    assert "3 more rows are left out." in markup
    assert pool_section([]) == ""
