"""Batches keep their target: the budget against sinks of known speed, on a clock of its own."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

import pytest

from flowcontrol.link.budget import Budget

MB = 1 << 20


class Sink:
    """Takes so long for so many bytes of each channel, give or take a tenth."""

    def __init__(self, fixed_s: float, rates: Sequence[float], seed: int = 1) -> None:
        self.fixed_s, self.rates = fixed_s, list(rates)
        self._random = random.Random(seed)

    def seconds(self, taken: dict[str, int]) -> float:
        """How long a batch takes."""
        work = sum(taken[f"0/{c}"] / rate for c, rate in enumerate(self.rates) if f"0/{c}" in taken)
        return (self.fixed_s + work) * self._random.uniform(0.9, 1.1)


def run(budget: Budget, sink: Sink, batches: int, available: int = 1 << 40) -> list[float]:
    """Durations of so many batches when each channel has so many bytes waiting."""
    found = []
    for _ in range(batches):
        taken = budget.allow({f"0/{c}": available for c in range(len(sink.rates))})
        found.append(sink.seconds(taken))
        budget.observe(taken, found[-1])
    return found


@pytest.mark.parametrize("rate", [50 * MB, 5 * MB, MB / 10])
@pytest.mark.parametrize("fixed_s", [0.0, 0.3])
def test_batches_come_to_their_target_from_a_cold_start(rate: float, fixed_s: float) -> None:
    found = run(Budget(1.0, MB // 16), Sink(fixed_s, [rate] * 8), 40)
    assert statistics.median(found[20:]) == pytest.approx(1.0, abs=0.1)
    assert max(found[20:]) < 1.5


def test_a_sink_that_drops_to_a_tenth_has_one_long_batch() -> None:
    budget, sink = Budget(1.0, MB // 16), Sink(0.3, [50 * MB] * 8)
    run(budget, sink, 30)
    sink.rates = [5 * MB] * 8
    found = run(budget, sink, 20)
    assert found[0] > 5  # it was planned before
    assert max(found[1:]) < 1.5


def test_a_slow_channel_does_not_make_batches_long() -> None:
    found = run(Budget(1.0, MB // 16), Sink(0.1, [20 * MB] * 7 + [MB]), 60)
    assert statistics.median(found[20:]) == pytest.approx(1.0, abs=0.1)
    assert max(found[20:]) < 1.5


def test_a_slow_channel_is_found_out_where_batches_tell_it_apart() -> None:
    """Equal parts of the time, not of the rows."""
    budget, sink = Budget(1.0, MB // 16), Sink(0.1, [20 * MB] * 7 + [MB])
    for batch in range(60):
        own = [7] if batch // 10 % 2 else list(range(7))
        taken = budget.allow({f"0/{c}": 1 << 40 for c in own})
        budget.observe(taken, sink.seconds(taken))
    taken = budget.allow({f"0/{c}": 1 << 40 for c in range(8)})
    assert taken["0/7"] < min(taken[f"0/{c}"] for c in range(7)) / 4
    assert sink.seconds(taken) < 1.5


def test_what_one_channel_leaves_goes_to_the_others() -> None:
    budget = Budget(1.0, MB)
    budget.rates = {"0/0": 10.0 * MB, "0/1": 10.0 * MB}
    for _ in range(5):  # a size doubles from batch to batch
        taken = budget.allow({"0/0": MB, "0/1": 1 << 40})
    assert taken["0/0"] == MB
    assert taken["0/1"] == pytest.approx(9 * MB, rel=0.05)


def test_a_batch_that_took_all_there_was_does_not_make_a_channel_slow() -> None:
    budget = Budget(1.0, MB)
    budget.rates = {"0/0": 10.0 * MB}
    budget.observe({"0/0": 1000}, 0.2, is_limited=False)
    assert budget.rates["0/0"] == 10.0 * MB
    budget.observe({"0/0": 10 * MB}, 0.5, is_limited=False)
    assert budget.rates["0/0"] == pytest.approx(20.0 * MB, rel=0.2)


def test_a_batch_whose_cost_is_the_target_is_not_made_ever_smaller() -> None:
    """It took 2 s with 3,900 rows and with 250: fewer rows do not make it shorter."""
    budget, sink = Budget(2.0, MB // 16), Sink(2.0, [2 * MB] * 8)
    sizes = []
    for _ in range(80):
        taken = budget.allow({f"0/{c}": 1 << 40 for c in range(8)})
        sizes.append(sum(taken.values()))
        budget.observe(taken, sink.seconds(taken))
    assert min(sizes[40:]) > 120_000  # it went down to 60 kB


def test_nothing_is_learnt_from_nothing() -> None:
    budget = Budget(1.0, 100)
    budget.observe({}, 1.0)
    budget.observe({"0/0": 0}, 1.0)
    assert budget.rates == {}
    assert budget.allow({"0/0": 0}) == {}
    assert budget.allow({"0/0": 1000, "0/1": 50}) == {"0/0": 100, "0/1": 50}


@pytest.mark.parametrize("seed", range(5))
def test_waits_that_are_no_channels_fault_do_not_part_them(seed: int) -> None:
    """A stage in the middle of a chain: now and then its batch waits for the next link."""
    rng = random.Random(seed)
    budget, sink = Budget(1.0, MB // 16), Sink(0.2, [5 * MB] * 8, seed)
    backlog = [10.0 * MB] * 8
    for _ in range(200):
        taken = budget.allow({f"0/{c}": int(backlog[c]) for c in range(8)})
        wait = rng.choice([0.0, 0.0, 0.5, 3.0])
        is_limited = any(taken.get(f"0/{c}", 0) < int(backlog[c]) for c in range(8))
        budget.observe(taken, sink.seconds(taken) + wait, is_limited=is_limited)
        for c in range(8):
            backlog[c] += rng.choice([0, 0, MB / 2]) - taken.get(f"0/{c}", 0)
    assert max(budget.rates.values()) < 10 * min(budget.rates.values())
