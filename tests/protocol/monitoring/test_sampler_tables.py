"""Sampling by hand: what is asked, offered and answered, step by step (reference 5.1, item 9)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from flowcontrol.protocol.monitoring import BackPressureSampler, Stats


class Ask(NamedTuple):
    """A question at a moment, and what is answered: ratios, level and end, or None."""

    now_ms: int
    ratios: dict[int, float] | None = None
    level: str = ""
    end_ms: int = 0


class Offer(NamedTuple):
    """What a subtask does at a moment."""

    now_ms: int
    subtask: int
    blocked: bool


# Sets of 4 samples, 50 ms apart; results are fresh for 1,000 ms and forgotten after 5,000.
TABLE: list[Ask | Offer] = [
    Offer(0, 0, True),  # nobody asked: no set is under way
    Ask(10),  # none there: "deprecated", and a set begins: samples at 10, 60, 110, 160
    Offer(10, 0, True),  # the first at once
    Offer(30, 0, False),  # not due before 60
    Offer(60, 0, True),
    Offer(60, 0, False),  # that one has been taken
    Offer(70, 1, True),  # subtask 1 missed its first; this is its second
    Ask(100),  # the set is under way: still none
    Offer(110, 0, False),
    Offer(130, 1, False),
    Offer(160, 0, False),
    Ask(160),  # the set is over at 160; a later moment sees it
    Offer(160, 1, False),
    Ask(161, {0: 0.5, 1: 1 / 3}, "LOW", 160),
    Offer(210, 0, True),  # no set is under way
    Ask(1159, {0: 0.5, 1: 1 / 3}, "LOW", 160),  # 999 ms old: fresh
    Offer(1159, 0, True),
    Ask(1160, {0: 0.5, 1: 1 / 3}, "LOW", 160),  # 1,000 ms old: answered, and a set begins
    Offer(1160, 0, True),
    Offer(1210, 0, True),  # then this task ends: two samples are all
    Ask(1300, {0: 0.5, 1: 1 / 3}, "LOW", 160),  # under way, so no second set
    Ask(1311, {0: 1.0}, "HIGH", 1310),  # over at its time, though the task stopped before
    Ask(6310, {0: 1.0}, "HIGH", 1310),  # 4,999 ms after the last question: kept, and a set begins
    Ask(6461, {}, "OK", 6460),  # nobody could be sampled
    Ask(11461),  # 5,000 ms after the last question: forgotten; a set begins
    Offer(11461, 3, False),
    Ask(11700, {3: 0.0}, "OK", 11611),
    Ask(13000, {3: 0.0}, "OK", 11611),  # 1,389 ms old: a set begins, and its result comes at 13,150
    Offer(13000, 3, True),
    Ask(18149, {3: 1.0}, "HIGH", 13150),  # 4,999 ms after it came, 5,149 after the last question
    Offer(18149, 3, True),
    Ask(23299),  # 5,000 ms after the result came at 18,299: forgotten
]


def test_a_course_by_hand() -> None:
    assert len(TABLE) >= 20
    sampler = BackPressureSampler(samples=4, delay_ms=50, refresh_ms=1000, cleanup_ms=5000)
    for number, step in enumerate(TABLE):
        if isinstance(step, Offer):
            sampler.sample("b", step.subtask, step.blocked, step.now_ms)
            continue
        found = sampler.ask("b", step.now_ms)
        if step.ratios is None:
            assert found is None, (number, step)
        else:
            assert found == Stats(step.ratios, found.level, step.end_ms), (number, step)
            assert found.level == step.level, (number, step)


def test_flinks_own_settings() -> None:
    """100 samples of 50 ms take 4.95 s; the next set begins at 64.95 s under an open page."""
    sampler = BackPressureSampler()
    assert (sampler.samples, sampler.delay_ms, sampler.refresh_ms, sampler.cleanup_ms) == (
        100, 50, 60_000, 600_000,
    )  # fmt: skip
    ends = set()
    for now_ms in range(0, 140_000, 10):
        found = sampler.ask("b", now_ms)
        sampler.sample("b", 0, now_ms % 200 < 100, now_ms)
        if found is not None:
            ends.add(found.end_ms)
            assert found.ratios == {0: 0.5}
    assert ends == {4_950, 69_900, 134_850}


def test_vertices_do_not_know_each_other() -> None:
    sampler = BackPressureSampler(samples=1, delay_ms=50)
    sampler.ask("a", 0)
    sampler.sample("b", 0, True, 0)
    sampler.sample("a", 0, True, 0)
    assert sampler.ask("b", 1) is None
    found = sampler.ask("a", 1)
    assert found is not None
    assert found.ratios == {0: 1.0}


@pytest.mark.parametrize(
    ("waiting", "level"), [(0, "OK"), (10, "OK"), (11, "LOW"), (50, "LOW"), (51, "HIGH")]
)
def test_levels_of_a_hundred_samples(waiting: int, level: str) -> None:
    sampler = BackPressureSampler()
    sampler.ask("b", 0)
    for number in range(100):
        sampler.sample("b", 0, number < waiting, 50 * number)
        sampler.sample("b", 1, False, 50 * number)
    found = sampler.ask("b", 4951)
    assert found is not None
    assert (found.ratios, found.level) == ({0: waiting / 100, 1: 0.0}, level)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"samples": 0}, "at least 1 sample, not 0"),
        ({"delay_ms": -1}, "delay_ms is at least 0 ms, not -1"),
        ({"refresh_ms": -1}, "refresh_ms is at least 0 ms, not -1"),
        ({"cleanup_ms": -1}, "cleanup_ms is at least 0 ms, not -1"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        BackPressureSampler(**settings)
