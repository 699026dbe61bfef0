"""Each feature and each row of refusals.yaml, in a scenario that asks for it."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from flowcontrol.scenario import check_clock, clocks, parse_scenario, refusals
from flowcontrol.scenario.refusals import FEATURES, ROWS, Row
from modules import load

PAGE = load("scripts/emulated_page.py")
CLOCKS = ("virtual", "live")


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_runs_alone(feature: str, clock: str) -> None:
    """On the live clock unless its table says that it does not."""
    found = PAGE.problems(FEATURES[feature]["has"], clock)
    last = [row for row in ROWS if row.feature == feature and row.is_last]
    assert bool(found) == any(row.clock == clock for row in last)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_refused_where_it_says(
    row: Row, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By this row: without it that problem is not there. On the other clock it is not."""
    changes = {**FEATURES[row.feature]["has"], **row.changes}
    found = PAGE.problems(changes, clock)
    monkeypatch.setattr(refusals, "ROWS", tuple(one for one in ROWS if one != row))
    others = PAGE.problems(changes, clock)
    if row.clock in {clock, "any", "reading"}:
        [problem] = [one for one in found if one not in others]
        assert re.fullmatch(r"[\w.\[\]\"-]+", problem.place)
        assert len(problem.message) > 30
        assert ("--clock virtual" in problem.message) == (row.clock == "live" and not row.text)
        assert not {"{", "}"} & set(problem.message.replace("{schema", ""))
    else:
        assert found == others


def test_rows_have_names_of_their_own_and_say_something() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) > 80
    for row in ROWS:
        assert bool(row.text) != bool(row.what and row.instead), row.name
        assert (row.clock == "live") == bool(row.because), row.name
        assert row.changes or row.is_last, row.name


def test_every_finder_is_used() -> None:
    assert {row.each for row in ROWS} - {""} == set(clocks.FINDERS)


@pytest.mark.parametrize(("where", "other"), [("live", "virtual"), ("virtual", "live")])
def test_a_row_of_one_clock_is_not_the_others(
    changed: Any, where: Any, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = dataclasses.replace(
        ROWS[0], clock=where, each="", at="name", what="{name} is", instead="use it", terms=()
    )
    monkeypatch.setattr(refusals, "ROWS", (row,))
    scenario = parse_scenario(changed())
    assert check_clock(scenario, other) == []
    [problem] = check_clock(scenario, where)
    text = f"small is not emulated on the {where} clock yet: use it"
    assert problem.message == text + ", or use --clock virtual" * (where == "live")
