"""Short descriptions that are refused: each slip with its key, value, limit and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from modules import load

REFUSALS = load("tests/scenario/test_refusals.py")
row, MISSING, HASH = REFUSALS.row, REFUSALS.MISSING, REFUSALS.HASH
UNRATED = ("stages/1/service_rate", MISSING)
TOTAL = "stages/1/total_rate"

TOTALS = [
    row(
        ("stages/0/total_rate", 5),
        "stages[0].total_rate",
        "total_rate and emit_rate are given",
        "keep one",
    ),
    row((TOTAL, 5), "stages[1].total_rate", "total_rate and service_rate are given"),
    row(
        [UNRATED, (TOTAL, [1, 2, 3])],
        "stages[1].total_rate",
        "[1, 2, 3] is no rate of all subtasks together",
        "service_rate take",
    ),
    row([UNRATED, (TOTAL, [])], "stages[1].total_rate", "[] is no rate of all subtasks together"),
    row([UNRATED, (TOTAL, -1)], "stages[1].total_rate", "-1 is out of range", "at least 0"),
    row([UNRATED, (TOTAL, "5")], "stages[1].total_rate", "'5' is not a number", "without quotes"),
    row([UNRATED, (TOTAL, [{"at_s": 1, "rate": 2}])], "stages[1].total_rate[0].at_s", "1 is not 0"),
]

TABLE = TOTALS


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    REFUSALS.test_refused(changed, changes, place, texts)
