"""Failures in figures and sentences, on tables whose every moment is stated."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from flowcontrol.records import RESTARTS
from flowcontrol.topics.restarts import expected_catch_up_s, restart_summary

NEVER = {"running_s": None, "caught_up_s": None}
RATES = (Fraction(300), Fraction(500), True)


def restarts(*rows: dict[str, Any]) -> pa.Table:
    """Rows of the table, by default of a job that is down for 2 s and 9 s behind."""
    return pa.Table.from_pylist(
        [
            {
                "number": number, "failed_s": 34.0, "cause": "subtask 0 of map",
                "detected_s": 34.0, "restarted_s": 36.0, "running_s": 36.0, "checkpoint_id": 3,
                "tasks": 5, "records_reprocessed": 1200, "caught_up_s": 45.0, **row,
            }
            for number, row in enumerate(rows, 1)
        ],
        schema=RESTARTS.arrow_schema(),
    )  # fmt: skip


def sentences(*rows: dict[str, Any], rates: Any = RATES) -> list[str]:
    found: list[str] = restart_summary(restarts(*rows), 100.0, rates)["sentences"]
    return found


def test_a_sentence_has_what_it_cost_and_the_time_by_rates_alone() -> None:
    assert sentences({}) == [
        "Subtask 0 of map failed at 34 s; 2 s later 5 subtasks ran again from checkpoint 3, and "
        "1,200 records were processed again. What waited was worked off after another 9 s, where "
        "rates alone give 9 s."
    ]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"checkpoint_id": None}, "2 s later 5 subtasks ran again from the beginning, and"),
        ({"caught_up_s": None}, "processed again. What waited was not worked off."),
        (NEVER, "34 s; the job did not run again before the next failure or the end."),
    ],
)
def test_what_did_not_happen_is_said(row: dict[str, Any], text: str) -> None:
    (sentence,) = sentences(row)
    assert text in sentence


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("the JobManager and the JobManager", "The JobManager (2 times) failed at 34 s"),
        (
            "task manager 1 and the JobManager and task manager 1",
            "Task manager 1 (2 times) and the JobManager failed at 34 s",
        ),
    ],
)
def test_what_fails_again_before_the_restart_is_named_once(cause: str, words: str) -> None:
    (sentence,) = sentences({"cause": cause})
    assert sentence.startswith(words)


def test_without_rates_there_is_no_time_by_them() -> None:
    (sentence,) = sentences({}, rates=None)
    assert sentence.endswith("worked off after another 9 s.")


@pytest.mark.parametrize(("count", "texts"), [(5, 5), (6, 6), (7, 6), (200, 6)])
def test_of_many_failures_only_the_first_have_a_sentence(count: int, texts: int) -> None:
    found = sentences(*({"failed_s": 0.4 * n, "running_s": 0.4 * n + 0.1} for n in range(count)))
    assert len(found) == texts
    if count == 200:
        assert found[-1] == (
            "195 more failures followed, the last at 80 s; in all the job was down for 20 of 100 s "
            "and processed 240,000 records again."
        )
    elif count == 6:
        assert found[-1].startswith("1 more failure followed, the last at 2 s")


@pytest.mark.parametrize(
    ("cause", "planned", "missed"),
    [
        ("subtask 0 of map", [(34.0, "subtask 0 of map")], []),
        ("subtask 0 of map", [(34.0, "subtask 0 of map"), (35.0, "task manager 1")], [1]),
        ("task manager 1 and subtask 0 of map",
         [(34.0, "task manager 1"), (35.0, "subtask 0 of map")], []),
        ("the JobManager", [(34.0, "the JobManager"), (35.0, "the JobManager")], [1]),
        ("subtask 0 of map", [(33.0, "subtask 0 of map")], [0]),
        ("subtask 0 of map", [(36.1, "subtask 0 of map")], [0]),
        ("subtask 0 of map", [(34.0, "subtask 0 of ma")], [0]),
    ],
)  # fmt: skip
def test_a_failure_that_hit_nothing_is_named(
    cause: str, planned: list[tuple[float, str]], missed: list[int]
) -> None:
    found = restart_summary(restarts({"cause": cause}), 100.0, RATES, planned)["sentences"]
    expected = [
        f"{planned[index][1][0].upper()}{planned[index][1][1:]} was to fail at "
        f"{planned[index][0]:g} s, where nothing of the job ran: nothing happened."
        for index in missed
    ]
    assert found[1:] == expected


def test_time_down_counts_once_where_failures_overlap() -> None:
    found = restart_summary(restarts(NEVER, {"failed_s": 35.0, "running_s": 38.0}), 100.0)
    assert found["downtime_s"] == 4.0
    assert restart_summary(restarts(NEVER), 100.0)["downtime_s"] == 66.0
    assert restart_summary(restarts(), 100.0)["downtime_s"] == 0


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((300, 500, True), 9.0),
        ((500, 500, True), None),  # nothing to spare
        ((600, 500, True), None),
        ((300, 500, False), 4.0),  # no log: the source emits 1,200 records at its own rate
        ((600, 500, False), None),
        ((0, 500, False), None),
        ((0, 500, True), 2.4),
    ],
)
def test_the_time_by_rates_alone(rates: Any, expected: float | None) -> None:
    assert expected_catch_up_s(1200, 2.0, (Fraction(rates[0]), Fraction(rates[1]), rates[2])) == (
        None if expected is None else pytest.approx(expected)
    )
