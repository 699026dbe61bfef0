"""Processors that tasks share: by hand, and what holds of any claims."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.tasks.processors import (
    UNLIMITED,
    WHOLE_ROUND,
    Processors,
    TaskProcessor,
    claim_processor,
    computes_until,
    cpu_at,
    fair_level,
    share_processors,
    waiting_us,
)

W = WHOLE_ROUND
claims = st.lists(st.integers(0, 2 * W) | st.integers(0, 9) | st.just(W), min_size=1, max_size=7)


def shared(claimed: list[int], most: int, left: int = 0) -> tuple[list[int], Processors]:
    """What each of some tasks gets of what it claims."""
    tasks, own = [TaskProcessor(claim=claim) for claim in claimed], Processors(most, left)
    share_processors(own, tasks)
    assert all(task.claim == 0 for task in tasks)
    return [claim - task.behind for claim, task in zip(claimed, tasks, strict=True)], own


@pytest.mark.parametrize(
    ("claimed", "most", "got"),
    [
        ([10, 10, 10, 10], 20, [5, 5, 5, 5]),
        ([10, 10, 10], 20, [6, 6, 6]),  # 2 are left
        ([3, 10, 10], 15, [3, 6, 6]),
        ([1, 2, 9, 9], 15, [1, 2, 6, 6]),
        ([5, 5], 10, [5, 5]),
        ([5, 0, 5], 11, [5, 0, 5]),
        ([7, 1], UNLIMITED, [7, 1]),
        ([2, 9], 1, [0, 0]),
    ],
)
def test_small_claims_are_met_and_large_ones_are_even(
    claimed: list[int], most: int, got: list[int]
) -> None:
    assert shared(claimed, most)[0] == got


def test_what_cannot_be_shared_evenly_is_there_in_the_next_round() -> None:
    got, own = shared([10, 10, 10], 20)
    assert (got, own.left) == ([6, 6, 6], 2)
    got, own = shared([10, 10, 10], 20, own.left)
    assert (got, own.left) == ([7, 7, 7], 1)


def test_what_nobody_claims_is_not_saved_up() -> None:
    _, own = shared([3, 3], 20, left=1)
    assert (own.left, own.used) == (0, 6)


@given(claims, st.integers(1, 5 * W))
def test_shares_are_max_min_fair_and_use_all(claimed: list[int], most: int) -> None:
    got, own = shared(claimed, most)
    assert all(0 <= one <= claim for one, claim in zip(got, claimed, strict=True))
    assert own.used == sum(got)
    short = [one for one, claim in zip(got, claimed, strict=True) if one < claim]
    if sum(claimed) <= most:
        assert (short, own.left) == ([], 0)
        return
    assert short
    assert sum(got) + own.left == most
    assert own.left < len(short)
    assert len(set(short)) == 1  # whoever gets less than it claims gets as much as anybody
    assert max(got) == short[0] == fair_level([TaskProcessor(claim=one) for one in claimed], most)


@given(
    st.integers(1, W),
    st.lists(st.tuples(st.integers(0, 10**15), st.just(0)), min_size=1, max_size=30),
    st.integers(1, 10**15),
)
def test_nothing_is_lost_to_rounding(cpu: int, works: list[tuple[int, int]], allowed: int) -> None:
    """After any number of rounds what was claimed is what all the work takes, rounded down."""
    state, done, claimed = TaskProcessor(), 0, 0
    for work, _ in works:
        work = min(work, allowed)
        claim_processor(state, cpu, work, allowed)
        done += work
        claimed += state.claim
        assert claimed == Fraction(done * cpu, allowed).__floor__()
        assert state.done < allowed


def test_work_is_put_off_by_what_a_task_is_behind() -> None:
    state = TaskProcessor(behind=W // 4)
    assert computes_until(state, 1000, 2000) == 1750
    assert waiting_us(state, 1000, 2000, 800) == 200
    claim_processor(state, W, 750, 1000)
    assert state.claim == W


def test_one_that_is_not_behind_does_all_that_its_rate_allows() -> None:
    assert computes_until(TaskProcessor(), 1000, 2000) == 2000
    assert waiting_us(TaskProcessor(), 1000, 2000, 800) == 0


def test_one_that_stands_still_asks_for_none() -> None:
    state = TaskProcessor(behind=W // 4, claim=7)
    assert (computes_until(state, 5, 5), waiting_us(state, 5, 5, 800)) == (5, 0)
    claim_processor(state, W, 0, 0)
    assert (state.claim, state.behind) == (0, W // 4)


@pytest.mark.parametrize(("us", "part"), [(0, 1), (9, 1), (10, 2), (19, 2), (20, 0), (99, 0)])
def test_the_part_in_force(us: int, part: int) -> None:
    assert cpu_at([[0, 1], [10, 2], [20, 0]], us) == part


@given(claims, st.integers(1, 3 * W))
def test_nobody_is_ahead_of_its_processor_by_more_than_a_round(parts: list[int], most: int) -> None:
    """Threads that always have work: over many rounds each gets its share, exactly."""
    count, own, allowed = len(parts), Processors(most), 1000
    tasks, done = [TaskProcessor() for _ in parts], [0] * len(parts)
    rounds = 40
    for _ in range(rounds):
        for number, task in enumerate(tasks):
            work = computes_until(task, 0, allowed)
            claim_processor(task, W, work, allowed)
            done[number] += work
            assert task.claim <= W
        share_processors(own, tasks)
        assert all(task.behind <= W for task in tasks)
    share = min(Fraction(most, W * count), Fraction(1)) * rounds * allowed
    assert all(share - 1 <= one <= share + allowed + 1 for one in done)
