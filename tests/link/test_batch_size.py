"""Any sink: the fixed cost of a batch and its speed are learnt, at rest and after each step."""

from __future__ import annotations

import os
import random
import statistics
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flowcontrol.link.batch_size import Budget

PHASE = 20


class Batch(NamedTuple):
    """A batch of the simulation: bytes, seconds on average, whether the target counted."""

    size: int
    seconds: float
    keeps_target: bool


class Sink(NamedTuple):
    """Seconds of a batch without any bytes, bytes a second."""

    fixed_s: float
    rate: float


def simulate(
    target_s: float, sinks: list[Sink], seed: int = 0, noise: float = 0.0, slow_s: tuple = ()
) -> list[list[Batch]]:
    """Feed a budget batches of one sink after the other; the first ones may be slow."""
    rng, budget, found = random.Random(seed), Budget(target_s, 512 << 10), []
    for fixed_s, rate in sinks:
        for _ in range(PHASE):
            size = budget.allow({"0/0": 1 << 60})["0/0"]
            batch = Batch(size, fixed_s + size / rate, budget.keeps_target)
            took_s = batch.seconds * rng.uniform(1 - noise, 1 + noise)
            took_s = max(took_s, *slow_s[len(found) : len(found) + 1], 0)
            budget.observe({"0/0": size}, took_s)
            found.append(batch)
    return [found[at : at + PHASE] for at in range(0, len(found), PHASE)]


def is_good(batch: Batch, target_s: float, sink: Sink, *, part: float, late: float) -> bool:
    """Whether a batch keeps the target and a part of what can be had, or has given it up and
    keeps 80 % of what endless batches would have."""
    throughput = batch.size / batch.seconds
    if not batch.keeps_target:
        return throughput >= 0.8 * sink.rate
    best = sink.rate * max(0.0, 1 - sink.fixed_s / target_s / 1.2)
    return batch.seconds <= late * target_s and throughput >= part * best > 0


def settled(phase: list[Batch], target_s: float, sink: Sink, *, part=0.7, late=1.2) -> bool:
    """Whether more than half of the last ten batches of a phase are good."""
    last = phase[-10:]
    return sum(is_good(b, target_s, sink, part=part, late=late) for b in last) >= 5


SHARES = st.one_of(st.just(0.0), st.floats(0, 1), st.floats(0, 3))
SINKS = st.lists(st.tuples(SHARES, st.floats(4, 8)), min_size=1, max_size=3)


@given(st.sampled_from([0.5, 1.0, 5.0, 30.0]), SINKS, st.lists(st.floats(0, 10), max_size=2))
@example(5.0, [(0.8, 6.9)], [0.8])
@example(5.0, [(0.8, 6.9)], [5.0])
@example(5.0, [(0.96, 6.9)], [])
@example(5.0, [(1.2, 6.9)], [])
@example(5.0, [(0.98, 6.2)], [6.6])
@example(5.0, [(1.06, 6.6)], [7.7])
@example(1.0, [(0.0, 8.0), (0.9, 4.0), (3.0, 4.0)], [10.0, 4.0])
@example(1.0, [(2.27, 7.35), (2.27, 5.5), (0.0, 4.5)], [])
def test_every_sink_gets_its_target_or_a_verdict(target_s, sinks, slow) -> None:
    """After 20 batches of each: 70 % of the best throughput within 1.2 times the target."""
    known = [Sink(share * target_s, 10**power) for share, power in sinks]
    phases = simulate(target_s, known, slow_s=tuple(times * target_s for times in slow))
    for phase, sink in zip(phases, known, strict=True):
        assert settled(phase, target_s, sink), [b.seconds / target_s for b in phase]
        if sink.fixed_s > 1.2 * target_s:
            assert not phase[-1].keeps_target
        if sink.fixed_s < 0.8 * target_s:
            assert phase[-1].keeps_target


def drawn(seed: int) -> tuple[float, list[Sink], tuple[float, ...]]:
    """A target, three sinks that come one after the other, and slow first batches."""
    rng = random.Random(seed)
    target_s = rng.choice([0.5, 1.0, 5.0, 30.0])
    sinks = [Sink(rng.uniform(0, 3) * target_s, 10 ** rng.uniform(4, 8))]
    for _ in range(2):
        fixed_s = rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 3)]) * target_s
        other = Sink(fixed_s, 10 ** rng.uniform(4, 8))
        kind = rng.randrange(3)
        last = sinks[-1]
        sinks.append((other, last._replace(rate=other.rate), Sink(fixed_s, last.rate))[kind])
    slow = tuple(rng.uniform(0, 10) * target_s for _ in range(rng.randrange(3)))
    return target_s, sinks, slow


SEEDS = 160 if "FLOWCONTROL_LONG" in os.environ else 35


def test_noise_of_a_third_leaves_nine_in_ten_where_they_should_be() -> None:
    """No controller knows a fixed cost to 5 % from 20 durations that are off by up to 30 %.

    So most runs must be where one without noise is, and all but one in forty within a wider
    band: 60 % of the best throughput and 1.4 times the target.
    """
    strict, wide, given_up = [], [], 0
    for seed in range(SEEDS):
        target_s, sinks, slow = drawn(seed)
        phases = simulate(target_s, sinks, seed, 0.3, slow)
        for phase, sink in zip(phases, sinks, strict=True):
            strict.append(settled(phase, target_s, sink))
            wide.append(settled(phase, target_s, sink, part=0.6, late=1.4))
            given_up += not phase[-1].keeps_target
    assert statistics.mean(strict) >= 0.93
    assert statistics.mean(wide) >= 0.975
    assert SEEDS / 2 < given_up < 2.5 * SEEDS  # both kinds were met


@pytest.mark.parametrize("seed", range(5))
def test_a_probing_batch_takes_at_most_twice_the_target(seed: int) -> None:
    """As long as the sink does not change, and does not vary."""
    rng = random.Random(seed)
    for _ in range(4):
        sink = Sink(rng.uniform(0, 0.9), 10 ** rng.uniform(6.5, 8))
        (phase, *_), longest = simulate(1.0, [sink] * 3, seed), 2 * 1.18
        assert max(batch.seconds for batch in phase) < longest


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.55, 0.6])
def test_probes_keep_to_the_target_once_the_costs_are_known(share: float) -> None:
    """A sink whose fixed cost is up to 0.6 of the target: after ten batches of 80."""
    late = []
    for seed in range(8):
        phases = simulate(2.0, [Sink(2.0 * share, 1e6 * (1 + seed))] * 4, seed, 0.05)
        batches = [batch for phase in phases for batch in phase][10:]
        late += [batch.seconds > 1.2 * 2.0 for batch in batches]
    assert statistics.mean(late) <= 0.03


@pytest.mark.parametrize("fixed_s", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("pause_s", [5.0, 50.0])
def test_a_pause_does_not_make_the_batches_after_it_small(fixed_s: float, pause_s: float) -> None:
    budget, sink, sizes = Budget(1.0, 512 << 10), Sink(fixed_s, 1e7), []
    for number in range(60):
        sizes.append(budget.allow({"0/0": 1 << 60})["0/0"])
        took_s = sink.fixed_s + sizes[-1] / sink.rate
        budget.observe({"0/0": sizes[-1]}, pause_s if number == 40 else took_s)
    assert statistics.median(sizes[42:48]) > 0.7 * statistics.median(sizes[30:40])
