"""The section on failures: what the page shows of the table ``restarts``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import emulate
from flowcontrol.topics.restarts import MOST_ROWS, RESTARTS, restart_section, restart_summary
from modules import load

CONF = Path(__file__).resolve().parents[2] / "conf"
restarts = load("tests/analysis/test_restarts.py").restarts
NEVER: dict[str, Any] = {"restarted_s": None, "running_s": None, "checkpoint_id": None,
                         "records_reprocessed": None, "caught_up_s": None}  # fmt: skip


def section(*rows: dict[str, Any]) -> str:
    return restart_section({"restarts": restart_summary(restarts(*rows), 100.0)})


def cells(markup: str) -> list[list[str]]:
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", markup)]


def test_a_row_has_what_failed_when_and_what_it_cost() -> None:
    summary = restart_summary(restarts({"cause": "<b>"}), 100.0, restarts_rates())
    *_, row = cells(restart_section({"restarts": summary}))
    assert row == [
        "1", "&lt;b&gt;", "34 s", "34 s", "36 s", "36 s", "3", "5", "1,200", "45 s", "9 s", "9 s"
    ]  # fmt: skip


def restarts_rates() -> Any:
    return load("tests/analysis/test_restarts.py").RATES


@pytest.mark.parametrize(
    ("row", "place", "text"),
    [
        ({"checkpoint_id": None}, 6, "none"),  # from the beginning
        (NEVER, 6, ""),  # it never ran again
        (NEVER, 8, ""),
        ({"caught_up_s": None}, 9, ""),
    ],
)
def test_what_there_is_not_is_left_empty(row: dict[str, Any], place: int, text: str) -> None:
    assert cells(section(row))[-1][place] == text


def test_of_many_failures_the_first_are_shown() -> None:
    assert f"The first {MOST_ROWS}" not in section(*[{}] * MOST_ROWS)
    markup = section(*[{}] * (MOST_ROWS + 1))
    assert f"The first {MOST_ROWS} of {MOST_ROWS + 1}." in markup
    assert len([row for row in cells(markup) if row]) == MOST_ROWS


def test_without_failures_there_is_no_section() -> None:
    assert section() == restart_section({}) == ""
    assert [*RESTARTS.sentences({})] == []


def test_the_page_has_it_behind_the_checkpoints_and_before_the_stages(tmp_path: Path) -> None:
    emulate(CONF / "recovery.yaml", clock="virtual", out=tmp_path / "run", quiet=True)
    page = (tmp_path / "run" / "report.html").read_text()
    ids = re.findall(r'<section[^>]* id="([a-z-]+)"', page)
    assert ids.index("checkpoint-history") < ids.index("restarts") < ids.index("stages")
    assert "Subtask 0 of map failed at 34 s; 2 s later 5 subtasks ran again" in page
    assert "was down for 2 s in all" in page
