"""Uploads that share a bandwidth: tables by hand, conservation, exactness over JSON."""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.checkpoints.snapshots import Uploads
from flowcontrol.spec.functions import restored_us

S = 1_000_000

# Bandwidth, starts (s, task, bytes), ends (us, tasks).
BY_HAND: list[tuple[Any, list[tuple[float, str, int]], list[tuple[int, str]]]] = [
    (100, [], []),
    (100, [(0, "a", 100)], [(S, "a")]),
    (100, [(3, "a", 100)], [(4 * S, "a")]),
    (100, [(0, "a", 0)], [(0, "a")]),
    (100, [(0, "a", 100), (0, "b", 100)], [(2 * S, "ab")]),
    (100, [(0, "b", 100), (0, "a", 100)], [(2 * S, "ba")]),  # in the order of their starts
    (100, [(0, "a", 100), (0, "b", 300)], [(2 * S, "a"), (4 * S, "b")]),
    (100, [(0, "a", 100), (0.5, "b", 100)], [(1_500_000, "a"), (2 * S, "b")]),
    # a is left with 50 when b begins, at half the bandwidth: 50 of b are done when a ends. c has
    # its 25 by 2 s, and b as many; the last 25 of b go at full bandwidth.
    (
        100,
        [(0, "a", 100), (0.5, "b", 100), (1.5, "c", 25)],
        [(1_500_000, "a"), (2 * S, "c"), (2_250_000, "b")],
    ),
    (100, [(0, "a", 100), (1, "b", 100)], [(S, "a"), (2 * S, "b")]),
    (100, [(0, "a", 300), (1, "b", 0)], [(S, "b"), (3 * S, "a")]),
    (3, [(0, "a", 1)], [(333_334, "a")]),
    # Thirds of a microsecond do not add up: the last ends at 3/3 s, not a microsecond later each.
    (3, [(0, "a", 1), (0, "b", 2)], [(666_667, "a"), (S, "b")]),
    (Fraction(1, 2), [(0, "a", 1)], [(2 * S, "a")]),
    (0.5, [(0, "a", 1)], [(2 * S, "a")]),
    (7, [(0, "a", 1), (0, "b", 1), (0, "c", 5)], [(428_572, "ab"), (S, "c")]),
]


def ends(uploads: Uploads) -> list[tuple[int, str]]:
    """Let all uploads end, each when it says so."""
    found = []
    while (when := uploads.next_end()) is not None:
        if done := uploads.tick(when):
            found.append((when, "".join(map(str, done))))
    return found


@pytest.mark.parametrize(("rate", "starts", "expected"), BY_HAND)
def test_by_hand(rate: Any, starts: list[Any], expected: list[tuple[int, str]]) -> None:
    uploads, found = Uploads(rate), []
    for seconds, task, nbytes in starts:
        now = round(seconds * S)
        while (when := uploads.next_end()) is not None and when <= now:
            found.append((when, "".join(map(str, uploads.tick(when)))))
        uploads.start(now, task, nbytes)
    assert found + ends(uploads) == expected
    assert not uploads.is_busy


def test_nothing_ends_a_microsecond_too_early() -> None:
    uploads = Uploads(3)
    uploads.start(0, "a", 1)
    assert (uploads.tick(333_333), uploads.is_busy) == ([], True)
    assert (uploads.tick(333_334), uploads.is_busy) == (["a"], False)


def test_a_call_that_comes_late_finds_all_in_order() -> None:
    uploads = Uploads(100)
    for task, nbytes in (("a", 300), ("b", 100), ("c", 200)):
        uploads.start(0, task, nbytes)
    assert uploads.tasks == ["a", "b", "c"]
    assert uploads.tick(60 * S) == ["b", "c", "a"]
    assert (uploads.tick(60 * S), uploads.next_end()) == ([], None)


def test_what_ends_unnoticed_is_returned_later() -> None:
    uploads = Uploads(100)
    uploads.start(0, "a", 100)
    uploads.start(2 * S, "b", 100)
    assert (uploads.next_end(), uploads.tasks) == (2 * S, ["b"])
    assert uploads.tick(2 * S) == ["a"]
    assert ends(uploads) == [(3 * S, "b")]


@pytest.mark.parametrize(
    ("ticked", "when", "end"), [(0, 0, 1_250_000), (0, S, 1_750_000), (S // 2, None, 1_500_000)]
)
def test_a_cancelled_upload_leaves_its_bandwidth_to_the_others(
    ticked: int, when: int | None, end: int
) -> None:
    """Until then each had 50 bytes a second; None: as of the last call."""
    uploads = Uploads(100)
    uploads.start(0, "a", 125)
    uploads.start(0, "b", 100)
    uploads.tick(ticked)
    assert uploads.cancel("b", when)
    assert ends(uploads) == [(end, "a")]


def test_cancelling_what_is_not_there() -> None:
    uploads = Uploads(100)
    assert not uploads.cancel("a")
    uploads.start(0, "a", 100)
    assert uploads.cancel("a", S)  # ended, and nobody was told
    assert (uploads.tick(S), uploads.next_end(), uploads.cancel("a")) == ([], None, False)
    uploads.start(S, "a", 100)
    assert ends(uploads) == [(2 * S, "a")]


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        ([("start", 0, "a", -1)], "uploads -1 bytes"),
        ([("start", 0, "a", 1), ("start", 0, "a", 1)], "'a' uploads already at 0 us"),
        ([("start", 0, "a", 1), ("start", 9 * S, "a", 1)], "let tick"),
        ([("tick", 5), ("tick", 4)], "now is 4 us: needs at least 5"),
        ([("tick", 5), ("start", 4, "a", 1)], "now is 4 us"),
        ([("tick", 5), ("cancel", "a", 4)], "now is 4 us"),
    ],
)
def test_bad_calls_are_refused(calls: list[Any], text: str) -> None:
    uploads = Uploads(100)
    for name, *arguments in calls[:-1]:
        getattr(uploads, name)(*arguments)
    before = uploads.state()
    name, *arguments = calls[-1]
    with pytest.raises(ValueError, match=text):
        getattr(uploads, name)(*arguments)
    assert uploads.state() == before or name == "start"  # time goes on, nothing begins
    assert uploads.tasks == [task for task in before["left"] if task not in uploads._ended]


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_bandwidth_of_nothing_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="needs more than 0"):
        Uploads(rate)


# ---------------------------------------------------------------- any uploads

STARTS = st.lists(st.tuples(st.integers(0, 3 * S), st.integers(0, 30)), min_size=1, max_size=12)


def busy_until(starts: list[tuple[int, int]], rate: int) -> Fraction:
    """When the last upload ends: a server of the whole bandwidth, whoever has it."""
    free = Fraction(0)
    for now, nbytes in starts:
        free = max(free, Fraction(now)) + Fraction(nbytes * S, rate)
    return free


def run(uploads: Uploads, starts: list[tuple[int, int]], first: int = 0) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for number, (now, nbytes) in enumerate(starts, first):
        while (when := uploads.next_end()) is not None and when <= now:
            found += [(when, task) for task in uploads.tick(when)]
        uploads.start(now, ("task", number), nbytes)
    while (when := uploads.next_end()) is not None:
        found += [(when, task) for task in uploads.tick(when)]
    return found


def test_any_uploads(draw_until: Any) -> None:
    """Work is conserved to the microsecond, nobody is overtaken by a larger one of its time."""
    met: Counter[str] = Counter()

    @given(starts=STARTS, rate=st.sampled_from([3, 7, 10, 11]))
    def look(starts: list[tuple[int, int]], rate: int) -> None:
        starts = sorted(starts)
        found = run(Uploads(rate), starts)
        assert sorted(number for _, (_, number) in found) == list(range(len(starts)))
        assert found[-1][0] == -(-max(busy_until(starts, rate), Fraction(starts[-1][0])) // 1)
        end = {number: when for when, (_, number) in found}
        for number, (now, nbytes) in enumerate(starts):
            assert end[number] >= now + Fraction(nbytes * S, rate)
            for other, (later, more) in enumerate(starts):
                if now <= later and nbytes <= more:
                    assert end[number] <= end[other] or (now, nbytes) == (later, more)
        met["shared"] += any(
            end[a] > starts[b][0] for a in end for b in end if a < b and starts[a][1] > 0
        )
        met["odd"] += any(when % 1000 for when, _ in found)

    draw_until(look, lambda: min(met["shared"], met["odd"]) > 5, 5)
    assert min(met["shared"], met["odd"]) > 5


@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=8), rate=st.integers(1, 13))
def test_uploads_that_start_together_end_as_a_restore_does(sizes: list[int], rate: int) -> None:
    """Two ways to the same ends: event by event here, a closed form there."""
    expected = restored_us(0, {("task", i): (0, size) for i, size in enumerate(sizes)}, rate)
    found = run(Uploads(rate), [(0, size) for size in sizes])
    assert {task: when for when, task in found} == {t: last for t, (_, last) in expected.items()}


@given(starts=STARTS, cut=st.integers(0, 12), moment=st.integers(0, 4 * S))
def test_uploads_go_on_from_json_as_if_nothing_had_happened(
    starts: list[tuple[int, int]], cut: int, moment: int
) -> None:
    starts = sorted(starts)
    first, second, third = Uploads(7), Uploads(7), Uploads(7)
    for uploads in (first, second):
        for number, (now, nbytes) in enumerate(starts[:cut]):
            uploads.start(now, ("task", number), nbytes)
        uploads.cancel(("task", 1), max(moment, starts[min(cut, len(starts)) - 1][0]))
    third.restore(json.loads(json.dumps(second.state())))
    assert third.state() == second.state()
    after = [(moment + 4 * S + now, nbytes) for now, nbytes in starts]
    assert run(third, after, 100) == run(first, after, 100)


def test_fractions_stay_short_though_uploads_never_pause() -> None:
    """One upload outlives hundreds; each of those begins while others are under way."""
    uploads, drawn, number, longest = Uploads(7), random.Random(3), 0, 0
    uploads.start(0, "long", 10**6)
    now, started, ended = 0, 10**6, 0
    for _ in range(1500):
        now += drawn.randrange(1, 900_000)
        ended += len(uploads.tick(now))
        while len(uploads.tasks) < 2 + drawn.randrange(5):
            nbytes = drawn.randrange(1, 9)
            uploads.start(now, number, nbytes)
            number, started = number + 1, started + nbytes
        longest = max(longest, *(left.denominator.bit_length() for left in uploads._left.values()))
    left = sum(uploads._left.values(), Fraction(0))
    assert started - left == Fraction(7 * now, S)
    assert ended > 500
    assert 20 < longest < 100
