"""Rounds as changes: nothing is lost, and other figures are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.stepview.shown import changes, leaves, packed, unpacked
from modules import load

jobs = load("tests/stepview/jobs.py")

VALUES = st.one_of(st.integers(), st.none(), st.text(), st.lists(st.integers(), max_size=3))
STATES = st.lists(
    st.tuples(st.integers(), VALUES).map(lambda own: {"round": own[0], "a": {"b": own[1]}}),
    min_size=1,
)


def rebuilt(found: dict[str, Any]) -> list[list[Any]]:
    """Return the figures of every round, as the page's script works them out."""
    now = list(found["first"])
    rounds = [list(now)]
    for change in found["rounds"]:
        for number, value in zip(change[::2], change[1::2], strict=True):
            now[number] = value
        rounds.append(list(now))
    return rounds


@given(STATES)
def test_changes_give_every_state_back(states: list[dict[str, Any]]) -> None:
    found = unpacked(packed(changes(states)))
    assert rebuilt(found) == [[value for _, value in leaves(state)] for state in states]


def test_a_run_comes_back_whole() -> None:
    states = jobs.film_of(jobs.job_of(jobs.FORWARD), 100, 400).states
    text = packed(changes(states))
    assert rebuilt(unpacked(text)) == [[value for _, value in leaves(one)] for one in states]
    assert len(text) < 60 * len(states) * len(states[0]["channels"])


def test_other_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="round 8 has other figures"):
        changes([{"round": 7, "a": {"b": 1}}, {"round": 8, "a": {"c": 1}}])
