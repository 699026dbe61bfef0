"""Standing still: cut out of the rates to the microsecond, and made up by nothing."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario import Phase, Schedule, Stage, parse_scenario
from flowcontrol.scenario.schedule import merged
from flowcontrol.scenario.stage_models import Stall

MOST = 10**7
"""Longest moment drawn, us: short enough that spans meet often."""

MOMENTS = st.integers(0, MOST)
SPANS = st.lists(
    st.tuples(MOMENTS, st.integers(1, MOST)).map(lambda span: (span[0], span[0] + span[1])),
    max_size=5,
)
RATES = st.one_of(st.just(Fraction(0)), st.fractions(0, 10**6, max_denominator=100))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    starts = [0, *sorted(draw(st.sets(st.integers(1, MOST), max_size=4)))]
    return Schedule(phases=tuple(Phase(at_us=at, rate=draw(RATES)) for at in starts))


def stage(schedule: Schedule | None, spans: list[tuple[int, int]], *, source: bool) -> Stage:
    """Return a stage of two subtasks of which the second stands still."""
    rates = None if schedule is None else (schedule, schedule)
    micro = Fraction(1, 1_000_000)
    stalls = (Stall(at_s=a * micro, for_s=(b - a) * micro, subtasks=(1,)) for a, b in spans)
    whole = Stage(name="s", parallelism=2, stalls=tuple(stalls))
    return whole.model_copy(update={"emit_rate" if source else "service_rate": rates})


@pytest.mark.parametrize(
    ("spans", "merge"),
    [
        ([], []),
        ([(5, 7)], [(5, 7)]),
        ([(5, 7), (7, 9)], [(5, 9)]),
        ([(5, 7), (8, 9)], [(5, 7), (8, 9)]),
        ([(8, 9), (5, 7)], [(5, 7), (8, 9)]),
        ([(0, 10), (2, 3), (9, 12)], [(0, 12)]),
        ([(0, 10), (2, 3), (4, 5), (20, 21)], [(0, 10), (20, 21)]),
        ([(5, 7), (5, 7), (5, 6)], [(5, 7)]),
    ],
)
def test_spans_that_meet_are_one(
    spans: list[tuple[int, int]], merge: list[tuple[int, int]]
) -> None:
    assert merged(spans) == tuple(merge)


@given(SPANS, MOMENTS)
def test_a_moment_is_in_the_merged_spans_if_it_is_in_one(
    spans: list[tuple[int, int]], us: int
) -> None:
    found = merged(spans)
    assert any(a <= us < b for a, b in found) == any(a <= us < b for a, b in spans)
    assert all(one[1] < other[0] for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("spans", "phases"),
    [
        ([], [(0, 5), (10, 8)]),
        ([(2, 4)], [(0, 5), (2, 0), (4, 5), (10, 8)]),
        ([(0, 4)], [(0, 0), (4, 5), (10, 8)]),
        ([(0, 10)], [(0, 0), (10, 8)]),
        ([(10, 12)], [(0, 5), (10, 0), (12, 8)]),
        ([(9, 11)], [(0, 5), (9, 0), (11, 8)]),
        ([(9, 10)], [(0, 5), (9, 0), (10, 8)]),
        ([(9, 11), (8, 10), (20, 21)], [(0, 5), (8, 0), (11, 8), (20, 0), (21, 8)]),
    ],
)
def test_stalls_are_cut_out(spans: list[tuple[int, int]], phases: list[tuple[int, int]]) -> None:
    schedule = Schedule(
        phases=(Phase(at_us=0, rate=Fraction(5)), Phase(at_us=10, rate=Fraction(8)))
    )
    found = stage(schedule, spans, source=False).rates(1)
    assert found is not None
    assert [(phase.at_us, int(phase.rate)) for phase in found.phases] == phases


@given(schedules(), SPANS, MOMENTS, st.booleans())
def test_a_rate_is_unchanged_but_in_stalls(
    schedule: Schedule, spans: list[tuple[int, int]], us: int, source: bool
) -> None:
    """The integral loses exactly what the stalls so far would have given."""
    given_stage = stage(schedule, spans, source=source)
    found, stalls = given_stage.rates(1), given_stage.stalled(1)
    assert found is not None
    lost = sum(
        (schedule.integral(min(us, b)) - schedule.integral(min(us, a)) for a, b in stalls),
        Fraction(0),
    )
    assert found.integral(us) == schedule.integral(us) - lost
    is_still = any(a <= us < b for a, b in stalls)
    assert found.rate_at(us) == (0 if is_still else schedule.rate_at(us))


@given(schedules(), SPANS)
def test_nothing_flows_in_a_stall(schedule: Schedule, spans: list[tuple[int, int]]) -> None:
    given_stage = stage(schedule, spans, source=False)
    found = given_stage.rates(1)
    assert found is not None
    for begin, end in given_stage.stalled(1):
        assert found.records_until(begin) == found.records_until(end)
        assert found.integral(begin) == found.integral(end)


@given(schedules(), SPANS)
def test_the_other_subtask_goes_on(schedule: Schedule, spans: list[tuple[int, int]]) -> None:
    given_stage = stage(schedule, spans, source=True)
    assert given_stage.rates(0) == schedule
    assert given_stage.stalled(0) == ()


def test_a_stage_without_a_rate_says_when_it_stands_still() -> None:
    given_stage = stage(None, [(5, 7), (6, 9)], source=False)
    assert given_stage.rates(1) is None
    assert given_stage.stalled(1) == ((5, 9),)


def test_stalls_of_a_file_reach_the_rates(changed: Any) -> None:
    stalls = [{"at_s": 1, "for_s": 2}, {"at_s": 2.5, "for_s": 1.000001, "subtasks": [1]}]
    sink = parse_scenario(changed(("stages/1/stalls", stalls))).stage("sink")
    assert sink.stalled(0) == sink.stalled(2) == ((1_000_000, 3_000_000),)
    assert sink.stalled(1) == ((1_000_000, 3_500_001),)
    second = sink.rates(1)
    assert second is not None
    assert second.changes() == (1_000_000, 3_500_001)
    assert second.records_until(4_000_000) == 50 + 24  # 0.499999 s x 50/s


@pytest.mark.parametrize("subtask", [-1, 2])
def test_there_is_no_such_subtask(subtask: int) -> None:
    for ask in (stage(None, [], source=False).rates, stage(None, [], source=False).stalled):
        with pytest.raises(IndexError, match="is not a subtask of 's': there are 2"):
            ask(subtask)
