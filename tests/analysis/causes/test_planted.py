"""Causes that are planted in some sixty jobs are named, each of several, and nothing else is."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.analysis.causes import Cause, find_causes
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate
from modules import load

pytestmark = pytest.mark.usefixtures("whole_kernel")

JOBS: ModuleType = load("tests/analysis/causes/planted.py")
on_each = pytest.mark.parametrize("planted", JOBS.PLANTED, ids=lambda one: one.name)

HELD_OUT = range(1000, 1010)
"""Seeds that no threshold was ever looked at with."""


@dataclass(frozen=True)
class Verdict:
    """What was found of a job, and whether that is right."""

    found: list[Cause]
    is_named: bool
    place: str | None
    is_place: bool


def judge(planted: Any, seed: int) -> Verdict:
    given, wanted, places = planted.job(seed)
    scenario = parse_scenario(given)
    tables = simulate(scenario).tables
    bottleneck = find_bottleneck(tables, scenario)
    place = bottleneck.stage or bottleneck.edge or ("throttle" if bottleneck.throttle else None)
    found = find_causes(tables, scenario)
    named = len(found) == len(wanted) and all(any(fits(f, w) for w in wanted) for f in found)
    return Verdict(found, named, place, place in places)


def fits(found: Cause, wanted: tuple[str, str | None, int | None]) -> bool:
    cause, stage, subtask = wanted
    is_subtask = found.subtask == subtask or (subtask == JOBS.HOT and found.subtask is not None)
    is_stage = stage in {JOBS.WHICHEVER, found.stage}
    return found.cause == cause and is_stage and is_subtask


@on_each
def test_what_is_planted_is_named_and_nothing_else(planted: Any) -> None:
    verdict = judge(planted, seed=0)
    assert verdict.is_named, [(one.cause, one.stage, one.subtask) for one in verdict.found]
    assert verdict.is_place, verdict.place
    for one in verdict.found:
        assert 0 < one.confidence <= 1
        assert one.reason
        assert one.evidence
        assert all(text.endswith(".") for text in one.evidence)
    edges = {f"{edge['from']}->{edge['to']}": edge["to"] for edge in planted.job(0)[0]["edges"]}
    places = {place for one in verdict.found for place in (one.stage, *one.beside)}
    if verdict.place not in {None, "throttle"}:
        assert edges.get(verdict.place, verdict.place) in places
    times = [one.limited_s for one in verdict.found]
    assert times == sorted(times, reverse=True)


def test_the_table_is_what_it_should_be() -> None:
    planted = [one.job(0)[1] for one in JOBS.PLANTED]
    assert len(planted) >= 40
    assert sum(len(wanted) > 1 for wanted in planted) >= 8


@pytest.mark.long
def test_other_drawings_are_named_as_often() -> None:
    """Of 40, 38 must be named right, and no bottleneck may be wrong."""
    verdicts = [judge(planted, seed) for planted in JOBS.PLANTED for seed in HELD_OUT]
    wrong = [one for one in verdicts if not one.is_named]
    assert all(one.is_place for one in verdicts)
    assert len(wrong) <= len(verdicts) * 2 / 40, [
        [c.document() for c in one.found] for one in wrong
    ]
