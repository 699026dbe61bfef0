"""A pool that sizes itself: what it should hold, and a link that keeps to it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import LinkError
from flowcontrol.link import receiver as receiver_module
from flowcontrol.link import sender as sender_module
from flowcontrol.link.link import Link
from flowcontrol.link.members import Pace, PaceMeter, next_floating, wanted_bytes

MIB = 1 << 20


def paced(fixed_s, byte_s, sizes, noise=0.0, target_s=None, seed=1):
    """Return what a meter makes of batches of some sizes."""
    random = np.random.default_rng(seed)
    meter = PaceMeter(target_s)
    for size in sizes:
        meter.observe(size, (fixed_s + byte_s * size) * float(np.exp(random.normal(0, noise))))
    return meter.pace


@given(
    fixed_s=st.sampled_from([0.03, 0.13, 0.5]),
    rate=st.sampled_from([1e6, 3e7, 2e8]),
    noise=st.sampled_from([0.0, 0.05]),
    seed=st.integers(0, 9),
)
def test_a_batch_has_a_tenth_of_fixed_cost(fixed_s, rate, noise, seed):
    wanted = 9 * fixed_s * rate
    sizes = [int(wanted * part) for part in (0.1, 0.2, 0.05, 0.4, 0.3, 0.8, 0.6, 1.0, 0.2, 0.5)]
    pace = paced(fixed_s, 1 / rate, sizes, noise, seed=seed)
    assert pace.batch_bytes == pytest.approx(wanted, rel=0.05 if not noise else 0.6)
    assert 1 / pace.byte_s == pytest.approx(rate, rel=0.02 if not noise else 0.4)


def test_a_slower_sink_needs_less():
    meter = PaceMeter(None)
    for rate in (1e8, 1e6):
        for size in itertools.islice(itertools.cycle([2 * MIB, 8 * MIB, 4 * MIB]), 24):
            meter.observe(size, 0.13 + size / rate)
        assert meter.pace.batch_bytes == pytest.approx(9 * 0.13 * rate, rel=0.1)


def test_a_target_time_bounds_the_batch():
    sizes = [MIB, 4 * MIB, 2 * MIB, 8 * MIB]
    assert paced(0.1, 1e-8, sizes, target_s=0.5).batch_bytes == pytest.approx(4e7, rel=0.1)
    assert paced(0.1, 1e-8, sizes, target_s=0.05).batch_bytes == pytest.approx(0, abs=MIB)


def test_a_first_batch_says_how_much_is_enough_at_most():
    """Part of its time was a fixed cost: which, is open. What it needs is never overrated much."""
    assert 0 < paced(0.1, 1e-8, [4 * MIB]).batch_bytes < 2 * 9e7


def test_without_a_target_no_pool_grows_for_batches_that_take_ten_seconds():
    """A sink of 100 rows a second: whatever of the 13 s is a fixed cost, more rows take longer."""
    assert paced(0.0, 13 / 48_000, [48_000]).batch_bytes <= 48_000
    sizes = [12_000, 48_000, 24_000, 36_000, 48_000]
    assert paced(2.0, 1 / 4_000, sizes).batch_bytes == pytest.approx(8 * 4_000, rel=0.1)
    # A fixed cost of 8 s: a batch of twice that.
    assert paced(8.0, 1 / 4_000, sizes).batch_bytes == pytest.approx(8 * 4_000, rel=0.1)


def test_a_few_odd_batches_do_not_shrink_what_is_wanted():
    meter = PaceMeter(None)
    for size in (2, 8, 4, 16, 8, 16):
        meter.observe(size * MIB, 0.13 + size * MIB / 1e8)
    before = meter.pace.batch_bytes
    for seconds in (0.9, 0.15, 0.6):
        meter.observe(16 * MIB, seconds)
        assert meter.pace.batch_bytes >= 0.8 * before


def test_nothing_is_known_from_no_batch():
    meter = PaceMeter(None)
    for nbytes, seconds in ((0, 1.0), (5, 0.0), (0, 1.0), (0, 2.0)):
        meter.observe(nbytes, seconds)
    assert meter.pace == Pace()


# Receivers with the paces of their queries; how long the sender is away; bytes.
NEEDS = [
    ({}, 1.0, 0),
    ({"main": [Pace()]}, 1.0, 0),
    ({"main": [Pace(100, 0.01)]}, 0.0, 100),
    ({"main": [Pace(100, 0.01)]}, 2.0, 300),  # 100 bytes a second
    ({"main": [Pace(100, 0.01), Pace(50, 0.1)]}, 2.0, 370),  # both read at once
    ({"main": [Pace(100, 0.01)], "slow": [Pace(10, 1.0)]}, 2.0, 300),  # whoever needs most
]


@pytest.mark.parametrize(("paces", "away_s", "expected"), NEEDS)
def test_what_keeps_receivers_busy_by_hand(paces, away_s, expected):
    assert wanted_bytes(paces, away_s) == pytest.approx(expected)


# Floating buffers now, least, most, wanted, whether messages wait; those that it has next.
STEPS = [
    (8, 8, 48, 0, False, 8),
    (8, 8, 48, 30, False, 8),  # what suffices does not grow
    (8, 8, 480, 300, True, 65),  # by a factor of eight at most, and one
    (65, 8, 480, 300, True, 300),
    (8, 8, 48, 30, True, 30),
    (30, 8, 48, 35, True, 30),  # not worth it
    (30, 8, 48, 90, True, 48),
    (30, 8, 48, 26, True, 30),
    (30, 8, 48, 12, True, 12),  # a slower sink
    (30, 8, 48, -5, False, 8),
    (0, 0, 90, 50, True, 9),
    (0, 0, 0, 5, True, 0),
    (40, 8, 20, 39, False, 20),  # the bound was lowered
    (5, 8, 20, 5, False, 8),
]


@pytest.mark.parametrize(("now", "least", "most", "wanted", "is_short", "expected"), STEPS)
def test_the_next_size_by_hand(now, least, most, wanted, is_short, expected):
    assert next_floating(now, least, most, wanted, is_short=is_short) == expected


class Work:
    """A clock that goes on by what a sink takes for a batch."""

    def __init__(self):
        self.now_s, self.fixed_s, self.rate = 0.0, 0.1, 100_000.0

    def monotonic(self):
        return self.now_s

    def run(self, pipeline, receiver, most):
        """Run both ends until the receiver has had so many batches, or nothing moves."""
        idle = 0
        while receiver.done < most and idle < 20:
            done = receiver.done
            moved = sum(query.advance() for query in pipeline.queries)
            if receiver.done > done:
                nbytes = sum(
                    len(row["text"]) + 25 for row in receiver.sink[receiver.done].to_pylist()
                )
                self.now_s += self.fixed_s + nbytes / self.rate
            idle = 0 if moved else idle + 1


@pytest.fixture
def work(monkeypatch):
    made = Work()
    monkeypatch.setattr(receiver_module, "time", made)
    monkeypatch.setattr(sender_module, "time", made)
    return made


def sizes(verify, pipeline, side):
    """Pool sizes in the order in which a side committed them."""
    rows = [row for member, row in verify.ledger_rows(pipeline.storage) if member.startswith(side)]
    return [row["pool_size"] for row in rows]


def test_a_pool_grows_with_the_throughput_and_shrinks_with_it(make, dry, verify, work):
    pipeline = make(buffer_bytes=2048, floating_buffers=4, max_pool_bytes=200_000)
    pipeline.sender("a", dry.batches_of(40, rows=120, size=1000))
    receiver = pipeline.receiver("main")
    work.run(pipeline, receiver, 22)
    grown = sizes(verify, pipeline, "sender/"), sizes(verify, pipeline, "receiver/")
    wanted = 9 * work.fixed_s * work.rate / 2048
    assert grown[0][0] == 2 * 2 + 4  # where it began
    assert 0.6 * wanted < grown[0][-1] <= 200_000 // 2048
    assert grown[1][-1] > 20
    work.rate /= 20
    work.run(pipeline, receiver, receiver.done + 22)
    shrunk = sizes(verify, pipeline, "sender/")[-1], sizes(verify, pipeline, "receiver/")[-1]
    assert shrunk[0] < grown[0][-1] / 4, shrunk
    assert shrunk[1] < grown[1][-1] / 4, shrunk
    verify.check_pipeline(pipeline, is_all=False)


def test_a_pool_goes_on_where_it_was_when_both_ends_start_again(make, dry, verify, work):
    pipeline = make(buffer_bytes=2048, floating_buffers=4, max_pool_bytes=200_000)
    pipeline.sender("a", dry.batches_of(40, rows=120, size=1000))
    receiver = pipeline.receiver("main")
    work.run(pipeline, receiver, 22)
    before = sizes(verify, pipeline, "sender/")[-1]
    assert before > 20
    for query in pipeline.queries:
        query.kill()
    work.run(pipeline, receiver, receiver.done + 2)
    assert sizes(verify, pipeline, "sender/")[-1] >= 0.8 * before
    verify.check_pipeline(pipeline, is_all=False)


def test_stated_buffers_stay(make, dry, verify, work):
    pipeline = make(buffer_bytes=2048, floating_buffers=4)
    pipeline.sender("a", dry.batches_of(10, rows=120, size=1000))
    work.run(pipeline, pipeline.receiver("main"), 40)
    assert set(sizes(verify, pipeline, "sender/")) == {2 * 2 + 4}
    assert set(sizes(verify, pipeline, "receiver/")) == {4}


def test_the_bound_follows_an_alteration(make, dry, verify, work):
    pipeline = make(buffer_bytes=2048, floating_buffers=4, max_pool_bytes=200_000)
    pipeline.sender("a", dry.batches_of(40, rows=120, size=1000))
    receiver = pipeline.receiver("main")
    work.run(pipeline, receiver, 22)
    pipeline.link.alter(max_pool_bytes=40_000)
    work.run(pipeline, receiver, receiver.done + 8)
    assert sizes(verify, pipeline, "sender/")[-1] == 40_000 // 2048


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_pool_bytes": "1mb"}, r"max_pool_bytes is 1048576, but its 24 buffers \(8 channels"),
        ({"max_pool_bytes": 7}, "max_pool_bytes is 7: needs a whole number from 1024"),
        ({"max_pool_bytes": "many"}, "max_pool_bytes: "),
    ],
)
def test_a_bound_that_cannot_be_is_refused(tmp_path, given, text):
    with pytest.raises(LinkError, match=text):
        Link(tmp_path / "link", **given)
    assert not (tmp_path / "link").exists()


def test_the_default_bound_gives_way_to_the_buffers(tmp_path):
    settings = Link(tmp_path / "link", channels=64).settings
    assert (settings.floating_buffers, settings.most_floating) == (8, 8)
    settings = Link(tmp_path / "other", channels=8).settings
    assert (settings.floating_buffers, settings.most_floating) == (8, 48)
