"""Restart strategies: tables by hand of Flink's rules, and what holds for any failures."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.restarts import LONGEST, deviation, exponential_delay
from flowcontrol.spec.functions import RestartStrategy

# Each table: a strategy, its settings, and steps (now, counted, restarts, delay).
PLAIN: dict[str, Any] = {"jitter": 0}
SMALL: dict[str, Any] = {"initial": 10, "maximum": 40, "multiplier": 2.0, "reset": 100, "jitter": 0}
TABLES: dict[str, tuple[Any, dict[str, Any], list[tuple[int, bool, bool, int]]]] = {
    "none never restarts": ("none", {}, [(0, True, False, 0), (9, True, False, 0)]),
    "fixed restarts as often as it has attempts": (("fixed", 2, 1000), {},
     [(0, True, True, 1000), (0, True, True, 1000), (90_000, True, False, 1000)]),
    "fixed without attempts fails at once": (("fixed", 0, 5), {}, [(7, True, False, 5)]),
    "fixed never forgets": (("fixed", 1, 0), {}, [(0, True, True, 0), (10**12, True, False, 0)]),
    "a rate allows its number in an interval": (("rate", 1, 60_000, 1000), {},
     [(0, True, True, 1000), (60_000, True, False, 1000)]),
    "a rate allows one more when strictly more than an interval is over": (("rate", 1, 60_000,
      1000), {}, [(0, True, True, 1000), (60_001, True, True, 1000)]),
    "a rate of three keeps four times": (
        ("rate", 3, 100, 7),
        {},
        [
            (0, True, True, 7),
            (10, True, True, 7),
            (20, True, True, 7),
            (100, True, False, 7),  # the oldest of four is 100 ago
            (111, True, True, 7),  # the first is forgotten, the oldest 101 ago
            (120, True, False, 7),
            (121, True, False, 7),  # 21 ago
        ],
    ),
    "a rate that refused restarts later": (("rate", 1, 100, 0), {},
     [(0, True, True, 0), (50, True, False, 0), (151, True, True, 0)]),
    "exponential grows by half": (
        "exponential",
        PLAIN,
        [
            (0, True, True, 1000),
            (1001, True, True, 1500),
            (2502, True, True, 2250),
            (4753, True, True, 3375),
            (8129, True, True, 5062),  # 5062.5, cut off
        ],
    ),
    "exponential merges until the restart": (
        "exponential",
        PLAIN,
        [
            (5000, True, True, 1000),
            (5001, False, True, 999),
            (5999, False, True, 1),
            (6000, False, True, 0),  # at the restart: merged too
            (6001, True, True, 1500),
        ],
    ),
    "exponential stops at its maximum": ("exponential", SMALL,
     [(0, True, True, 10), (11, True, True, 20), (32, True, True, 40), (73, True, True, 40),
      (114, True, True, 40)]),
    "exponential resets exactly a reset after its restart": (
        "exponential",
        SMALL,
        [(0, True, True, 10), (11, True, True, 20), (131, True, True, 10)],  # 31 + 100
    ),
    "exponential does not reset a millisecond earlier": ("exponential", SMALL,
     [(0, True, True, 10), (11, True, True, 20), (130, True, True, 40)]),
    "a merged failure does not put the restart off": (
        "exponential",
        SMALL,
        [(0, True, True, 10), (9, False, True, 1), (110, True, True, 10)],  # 10 + 100
    ),
    "exponential has attempts": ("exponential", SMALL | {"attempts": 2},
     [(0, True, True, 10), (11, True, True, 20), (32, True, False, 40)]),
    "a merged failure takes no attempt": ("exponential", SMALL | {"attempts": 1},
     [(0, True, True, 10), (5, False, True, 5), (10, False, True, 0), (11, True, False, 20)]),
    "a reset gives the attempts back": ("exponential", SMALL | {"attempts": 1},
     [(0, True, True, 10), (110, True, True, 10), (121, True, False, 20)]),
    "a failure before 0 counts": ("exponential", SMALL, [(-50, True, True, 10)]),
    "equal bounds make a fixed delay without limit": ("exponential",
     SMALL | {"maximum": 10, "jitter": 1},
     [(0, True, True, 10), (11, True, True, 10), (22, True, True, 10)]),
    "a slow multiplier is cut off to whole milliseconds": ("exponential",
     SMALL | {"initial": 1, "multiplier": 1.2},
     [(0, True, True, 1), (2, True, True, 1), (4, True, True, 1), (6, True, True, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_by_hand(name: str) -> None:
    kind, settings, steps = TABLES[name]
    strategy = RestartStrategy(kind, **settings)
    found = [
        (now, strategy.fail(now), strategy.can_restart(now), strategy.delay(now))
        for now, *_ in steps
    ]
    assert found == steps


def test_a_slow_multiplier_goes_on_from_the_exact_delay() -> None:
    """1.2 ** 4 = 2.07: what was cut off is not lost for the next attempts."""
    delays = [exponential_delay(1, 40, 1.2, 0, attempt, 0, 0) for attempt in range(8)]
    assert delays == [1, 1, 1, 1, 2, 2, 2, 3]


def test_the_delay_of_flink_s_constant_does_not_run_down() -> None:
    for kind in (("fixed", 3, 1000), ("rate", 3, 100, 1000)):
        strategy = RestartStrategy(kind)
        assert strategy.delay(0) == 1000
        strategy.fail(0)
        assert strategy.delay(400) == 1000


def test_an_exponential_delay_runs_down_to_nothing() -> None:
    strategy = RestartStrategy(jitter=0)
    strategy.fail(100)
    assert [strategy.delay(now) for now in (100, 600, 1100, 9999)] == [1000, 500, 0, 0]


def test_an_exponential_delay_needs_a_failure() -> None:
    with pytest.raises(ValueError, match=r"call fail\(now\) first"):
        RestartStrategy().delay(0)


def test_the_deviation_is_within_the_jitter_and_reaches_both_ends() -> None:
    """100 with a jitter of 0.1: 90 to 110, each as often as the others."""
    settings = {"initial": 1, "maximum": 1000, "multiplier": 100.0, "jitter": 0.1}
    found = Counter(exponential_delay(*settings.values(), 1, seed, 0) for seed in range(2100))
    assert sorted(found) == list(range(90, 111))
    assert 60 < min(found.values()) <= max(found.values()) < 150


def test_the_jitter_belongs_to_the_delay_before_the_maximum() -> None:
    """8000 +- 800 is never below 1000."""
    found = {exponential_delay(1000, 1000, 2.0, 0.1, 3, seed, 0) for seed in range(50)}
    assert found == {1000}


def test_jitter_never_goes_below_the_initial_delay() -> None:
    found = {exponential_delay(1000, 60_000, 1.5, 0.1, 0, seed, 0) for seed in range(300)}
    assert min(found) == 1000
    assert 1090 < max(found) <= 1100


def test_a_delay_that_no_long_holds_is_the_maximum() -> None:
    for attempt in (150, 5000):  # beyond a long, and beyond a double
        assert exponential_delay(1000, 60_000, 1.5, 0.1, attempt, 0, 0) == 60_000
        assert exponential_delay(1, LONGEST, 2.0, 0, attempt, 0, 0) == LONGEST


def test_a_seed_gives_the_same_delays_again_and_another_one_others() -> None:
    def delays(seed: int) -> list[int]:
        strategy, now, found = RestartStrategy(jitter=0.5, maximum=10**6, seed=seed), 0, []
        for _ in range(12):
            strategy.fail(now)
            found.append(strategy.delay(now))
            now += found[-1] + 1
        return found

    assert delays(3) == delays(3) != delays(4)


def test_no_deviation_without_room() -> None:
    assert deviation(0, 5, 5) == 0


@pytest.mark.parametrize(
    ("kind", "settings", "text"),
    [
        ("linear", {}, "strategy is 'linear'"),
        ((), {}, "strategy is ''"),
        ("fixed", {}, "strategy fixed has 0 numbers"),
        (("fixed", 3), {}, "strategy fixed has 1 numbers"),
        (("none", 3), {}, "strategy none has 1 numbers"),
        (("rate", 1, 2), {}, r"needs \('rate', failures, interval, delay\)"),
        (("fixed", -1, 0), {}, "attempts of strategy fixed is -1"),
        (("fixed", 1, -1), {}, "delay of strategy fixed is -1"),
        (("rate", 0, 5, 5), {}, "failures of strategy rate is 0"),
        (("rate", 1, 0, 5), {}, "interval of strategy rate is 0"),
        (("rate", 1, 5, -1), {}, "delay of strategy rate is -1"),
        ("exponential", {"initial": 0}, "initial is 0 ms"),
        ("exponential", {"initial": 9, "maximum": 8}, "1 <= initial <= maximum"),
        ("exponential", {"multiplier": 1.0}, "multiplier is 1.0"),
        ("exponential", {"multiplier": float("nan")}, "multiplier is nan"),
        ("exponential", {"reset": 0}, "reset is 0 ms"),
        ("exponential", {"jitter": -0.1}, "jitter is -0.1"),
        ("exponential", {"jitter": 1.1}, "jitter is 1.1"),
        ("exponential", {"attempts": 0}, "attempts is 0"),
    ],
)
def test_what_flink_refuses_is_refused(kind: Any, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        RestartStrategy(kind, **settings)


# ---------------------------------------------------------------- any failures

KINDS = (
    st.just("none"),
    st.tuples(st.just("fixed"), st.integers(0, 4), st.integers(0, 50)),
    st.tuples(st.just("rate"), st.integers(1, 4), st.integers(1, 60), st.integers(0, 50)),
    st.just("exponential"),
)
GAPS = st.lists(st.integers(0, 40) | st.integers(0, 160), min_size=8, max_size=25)


def drawn(data: st.DataObject, kinds: st.SearchStrategy[Any]) -> tuple[RestartStrategy, list[int]]:
    """A strategy and the times of some failures."""
    low = data.draw(st.integers(1, 20))
    strategy = RestartStrategy(
        data.draw(kinds),
        initial=low,
        maximum=low + data.draw(st.integers(0, 60)),
        multiplier=data.draw(st.sampled_from([1.1, 1.5, 2.0, 10.0])),
        reset=data.draw(st.integers(1, 100)),
        jitter=data.draw(st.sampled_from([0, 0.1, 0.5, 1])),
        attempts=data.draw(st.none() | st.integers(1, 4)),
        seed=data.draw(st.integers(0, 9)),
    )
    times, now = [], 0
    for gap in data.draw(GAPS):
        now += gap
        times.append(now)
    return strategy, times


def outcomes(strategy: RestartStrategy, times: list[int]) -> list[tuple[bool, bool, int]]:
    return [(strategy.fail(t), strategy.can_restart(t), strategy.delay(t)) for t in times]


def check(strategy: RestartStrategy, times: list[int], met: Counter[str]) -> None:
    """A restart later than a merged failure; bounds; a rate's failures counted afresh."""
    found = outcomes(strategy, times)
    restart = None
    for number, (now, (is_counted, restarts, delay)) in enumerate(zip(times, found, strict=True)):
        if strategy.kind == "exponential":
            met["merged"] += not is_counted
            met["reset"] += restart is not None and now - restart >= strategy.reset
            assert is_counted == (restart is None or now > restart)
            if is_counted:
                assert strategy.initial <= delay <= strategy.maximum
                restart = now + delay
            assert now + delay == restart
        else:
            assert is_counted
        if strategy.kind[0] == "rate":
            most, interval = strategy.kind[1:3]
            lately = [t for t in times[: number + 1] if now - t <= interval]
            met["refused by rate"] += not restarts
            assert restarts == (len(lately) <= most)
        if strategy.kind[0] == "fixed":
            assert restarts == (number + 1 <= strategy.kind[1])


def test_any_failures(draw_until: Any) -> None:
    met: Counter[str] = Counter()

    @given(data=st.data())
    def look(data: st.DataObject) -> None:
        for kinds in KINDS:
            check(*drawn(data, kinds), met)

    hard = ("merged", "reset", "refused by rate")
    draw_until(look, lambda: min(met[name] for name in hard) > 5, 5)
    for name in hard:
        assert met[name] > 5, name


@given(data=st.data(), cut=st.integers(0, 25))
def test_a_strategy_goes_on_from_json_as_if_nothing_had_happened(
    data: st.DataObject, cut: int
) -> None:
    strategy, times = drawn(data, st.one_of(KINDS))
    whole = outcomes(strategy, times)
    first, second = (
        RestartStrategy(**{name: getattr(strategy, name) for name in SETTINGS}) for _ in range(2)
    )
    before = outcomes(first, times[:cut])
    second.restore(json.loads(json.dumps(first.state())))
    assert before + outcomes(second, times[cut:]) == whole


SETTINGS = (
    "kind", "initial", "maximum", "multiplier", "reset", "jitter", "attempts", "seed"
)  # fmt: skip
