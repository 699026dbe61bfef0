"""Batches keep their target: the budget against sinks of known speed, on a clock of its own."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Sequence

import pytest

from flowcontrol.link.batch_size import Budget
from flowcontrol.link.receiver import FIRST_BYTES

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


ROW_BYTES = 25.2
"""Of a link whose first batch of 512 KiB had 20,800 rows."""


def test_a_first_batch_begins_small_as_nobody_knows_the_sink() -> None:
    """A sink of 1 ms a row took 21 s for it, at a target of 3 s; now two batches find the size."""
    found = run(Budget(3.0, FIRST_BYTES), Sink(0.1, [1000 * ROW_BYTES]), 12)
    assert max(found) < 4
    assert statistics.median(found[1:]) > 2


@pytest.mark.parametrize("fixed_s", [0.05, 0.3])
@pytest.mark.parametrize("rate", [5 * MB, 50 * MB])
def test_a_sink_that_is_fast_has_its_size_soon(rate: float, fixed_s: float) -> None:
    """Whatever it begins with, a batch may be as large as its time allows, and eightfold at once:
    the small ones cost no more than two batches of the target together."""
    found = run(Budget(3.0, FIRST_BYTES), Sink(fixed_s, [rate]), 12)
    small = [seconds for seconds in found[:7] if seconds < 2]
    assert found[len(small)] > 2
    assert sum(small) < 2 * 3.0


def test_a_restarted_receiver_begins_with_the_size_that_it_had() -> None:
    before = Budget(3.0, FIRST_BYTES, 512 << 10)
    run(before, Sink(0.1, [5 * MB] * 2), 20)
    again, known = Budget(3.0, FIRST_BYTES, 512 << 10), before.to_json()
    again.restore(known["rates"], known["fixed_s"])
    [first] = run(again, Sink(0.1, [5 * MB] * 2), 1)
    assert first > 2


def test_a_channel_that_is_new_gets_more_than_a_first_batch() -> None:
    budget = Budget(3.0, FIRST_BYTES, 512 << 10)
    run(budget, Sink(0.1, [5 * MB]), 10)
    assert budget.allow({"0/0": 1 << 40, "0/1": 1 << 40})["0/1"] == 512 << 10


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
    budget.restore({"0/0": 10.0 * MB, "0/1": 10.0 * MB})
    for _ in range(5):  # a size doubles from batch to batch
        taken = budget.allow({"0/0": MB, "0/1": 1 << 40})
    assert taken["0/0"] == MB
    assert taken["0/1"] == pytest.approx(9 * MB, rel=0.05)


def test_a_batch_that_took_all_there_was_does_not_make_a_channel_slow() -> None:
    budget = Budget(1.0, MB)
    budget.restore({"0/0": 10.0 * MB})
    before = budget.allow({"0/0": 1 << 40})["0/0"]
    for _ in range(100):  # an idle night
        budget.observe({"0/0": 1000}, 0.2, is_limited=False)
    assert budget.rates["0/0"] == pytest.approx(10.0 * MB)
    assert budget.allow({"0/0": 1 << 40})["0/0"] >= before
    budget.observe({"0/0": 10 * MB}, 0.5, is_limited=False)
    assert budget.rates["0/0"] > 20 * MB  # 0.3 s of it for bytes


def test_a_batch_that_took_all_there_was_and_was_slow_makes_the_next_ones_smaller() -> None:
    budget = Budget(1.0, MB)
    budget.restore({"0/0": 10.0 * MB})
    for _ in range(3):
        budget.observe({"0/0": 8 * MB}, 8.0, is_limited=False)
    assert budget.allow({"0/0": 1 << 40})["0/0"] < 1.3 * MB


def test_a_batch_whose_cost_is_the_target_is_not_made_ever_smaller() -> None:
    """It took 2 s with 3,900 rows and with 250: fewer rows do not make it shorter."""
    budget, sink = Budget(2.0, MB // 16), Sink(2.0, [2 * MB] * 8)
    sizes = []
    for _ in range(80):
        taken = budget.allow({f"0/{c}": 1 << 40 for c in range(8)})
        sizes.append(sum(taken.values()))
        budget.observe(taken, sink.seconds(taken))
    assert min(sizes[40:]) > 120_000  # it went down to 60 kB


def throughput(budget: Budget, sink: Sink, first_s: float | None = None) -> tuple[float, float]:
    """Bytes a second, and the median time, of the batches 21 to 40 at an endless backlog."""
    sizes, took = [], []
    for number in range(40):
        taken = budget.allow({f"0/{c}": 1 << 40 for c in range(len(sink.rates))})
        is_first = number == 0 and first_s is not None
        took.append(first_s if is_first else sink.fixed_s + sum(taken.values()) / sink.rates[0])
        sizes.append(sum(taken.values()))
        budget.observe(taken, took[-1])
    return sum(sizes[20:]) / sum(took[20:]), statistics.median(took[20:])


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize(
    ("fixed_s", "first_s"), [(4.0, None), (4.0, 4.0), (4.0, 25.0), (4.8, None), (4.8, 25.0)]
)
def test_a_fixed_cost_near_the_target_does_not_starve_a_link(
    fixed_s: float, first_s: float | None, channels: int
) -> None:
    """A sink of 8 MB/s and a target of 5 s: it went down to a hundredth of what keeps it."""
    budget = Budget(5.0, (512 << 10) // channels)
    found, median_s = throughput(budget, Sink(fixed_s, [8e6] * channels), first_s)
    assert found > 0.9 * 8e6 * (1 - fixed_s / 5)
    assert median_s < 1.2 * 5
    assert budget.keeps_target
    assert budget.fixed_s == pytest.approx(fixed_s, rel=0.1)


@pytest.mark.parametrize("channels", [1, 8])
@pytest.mark.parametrize("fixed_s", [6.0, 15.0])
@pytest.mark.parametrize("first_s", [None, 40.0])
def test_a_target_below_the_fixed_cost_is_given_up_and_said(
    fixed_s: float, first_s: float | None, channels: int, caplog: pytest.LogCaptureFixture
) -> None:
    budget = Budget(5.0, (512 << 10) // channels)
    found, _ = throughput(budget, Sink(fixed_s, [8e6] * channels), first_s)
    assert found > 0.8 * 8e6
    assert not budget.keeps_target
    assert budget.to_json()["keeps_target"] is False
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert f"a batch takes {fixed_s:g} s without any rows, target_batch_s is 5" in said[0]


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("seed", range(8))
def test_batches_of_one_row_are_not_the_last_word(seed: int, channels: int) -> None:
    """A cold start left less than a row; with batches of one, 60 went by until more was tried."""
    chance, row, rows = random.Random(seed), 209, []
    budget = Budget(0.5, 16_384 // channels)
    for number in range(20):
        allowed = budget.allow({f"0/{c}": 30 * row for c in range(channels)})
        taken = {channel: nbytes // row * row for channel, nbytes in allowed.items()}
        if not any(taken.values()):  # as a receiver does
            taken = {"0/0": max(1, sum(allowed.values()) // row) * row + chance.randint(-4, 3)}
        rows.append(round(sum(taken.values()) / row))
        usual_s = (2.2 + 0.0001 * rows[-1]) * chance.lognormvariate(0, 0.25)
        took_s = {0: 12.1, 1: 4.75}.get(number, usual_s)
        budget.observe(taken, took_s, is_limited=taken != allowed)
    assert min(rows[1:4]) == 1
    assert rows[10:] == [30 * channels] * 10


def test_rows_that_each_take_longer_than_the_target_come_one_by_one() -> None:
    budget, row, rows = Budget(1.0, MB), MB, []
    for _ in range(40):
        allowed = budget.allow({"0/0": 100 * row})["0/0"]
        rows.append(max(1, allowed // row))
        budget.observe({"0/0": rows[-1] * row}, 0.05 + 3.0 * rows[-1])
    assert max(rows) <= 3
    assert rows.count(1) >= 36


def test_a_sink_that_could_take_far_more_is_given_it() -> None:
    """Batches went 2,632, 520, 464, 240, 72, 32, 24 rows, with 593,000 waiting."""
    budget, rows, waiting, batches = Budget(2.0, 512 << 10), 40_000, 593_000, 0
    while waiting:
        taken = budget.allow({"0/0": waiting * 200})["0/0"]
        waiting = max(0, waiting - max(1, taken // 200))
        budget.observe({"0/0": taken}, 1.9 + taken / 200 / rows)
        batches += 1
        assert batches < 60


def test_a_pause_of_one_batch_costs_one_small_batch() -> None:
    budget, sink = Budget(1.0, MB // 16), Sink(0.3, [50 * MB] * 8)
    run(budget, sink, 30)
    usual = budget.allow({f"0/{c}": 1 << 40 for c in range(8)})
    budget.observe(usual, 12.0)
    found = run(budget, sink, 4)
    assert found[0] < 0.5  # was it the sink?
    assert statistics.median(found[1:]) == pytest.approx(1.0, abs=0.2)


def test_a_pool_that_bounds_batches_is_no_fault() -> None:
    budget, sink = Budget(5.0, MB), Sink(1.0, [50 * MB] * 2)
    for _ in range(60):
        taken = budget.allow({"0/0": 3 * MB, "0/1": 3 * MB})
        budget.observe(taken, sink.seconds(taken), is_limited=False)
        assert taken == {"0/0": min(3 * MB, taken["0/0"]), "0/1": min(3 * MB, taken["0/1"])}
    assert taken == {"0/0": 3 * MB, "0/1": 3 * MB}
    assert budget.keeps_target


def test_what_is_in_the_ledger_is_taken_up_by_the_next_start() -> None:
    budget, sink = Budget(5.0, MB), Sink(4.0, [8 * MB] * 4)
    run(budget, sink, 40)
    state = json.loads(json.dumps(budget.to_json()))
    again = Budget(5.0, MB)
    again.restore(state["rates"], state["fixed_s"])
    assert again.fixed_s == pytest.approx(4.0, rel=0.15)
    found = run(again, sink, 6)
    assert max(found) < 8
    assert statistics.median(found) == pytest.approx(5.4, rel=0.15)


@pytest.mark.parametrize("fixed_s", [None, 0.0, 6.0])
@pytest.mark.parametrize("rates", [{}, {"0/0": 21.0}, {"0/0": 0.0}, {"0/0": float("inf")}])
def test_an_older_or_a_damaged_state_does_not_bind(
    rates: dict[str, float], fixed_s: float | None
) -> None:
    """Older states have rates only, and those of a receiver that was starved are too low."""
    budget = Budget(5.0, 512 << 10)
    budget.restore(rates, fixed_s)
    found, median_s = throughput(budget, Sink(4.0, [8e6]))
    assert found > 0.9 * 8e6 / 5
    assert median_s < 6


def test_a_new_channel_begins_as_an_equal_one_with_a_first_batch() -> None:
    budget = Budget(1.0, MB)
    run(budget, Sink(0.1, [20 * MB]), 10)
    taken = budget.allow({"0/0": 1 << 40, "0/1": 1 << 40})
    assert taken["0/1"] == MB
    assert taken["0/0"] > 8 * MB


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


@pytest.mark.parametrize("fixed_s", [0.1, 0.3, 0.6, 1.0])
def test_a_sink_that_had_little_to_do_and_becomes_slow_is_noticed_at_once(fixed_s):
    """Its batches took all there was, a small part of what they might have been."""
    budget, target_s = Budget(2.0, 1 << 18), 2.0
    now, taken, slow = 0.0, 0, list[float]()
    while now < 140:
        available = min(8 << 20, int(400e3 * now) - taken)
        if available <= 0:
            now += 0.1
            continue
        part = min(available, budget.allow({"c": available})["c"])
        seconds = fixed_s + part / (1600e3 if now < 60 else 100e3)
        budget.observe({"c": part}, seconds, is_limited=part < available)
        slow += [seconds] if now >= 60 else []
        now, taken = now + seconds, taken + part
    assert max(slow[1:]) < 1.5 * target_s


def test_where_no_channel_may_take_a_row_one_gets_the_time_of_all(make, dry, monkeypatch) -> None:
    pipeline = make(channels=4)
    sender = pipeline.sender("a", [dry.source_rows("a", 0, [0, 1, 2, 3] * 4, 100)])
    receiver = pipeline.receiver("main", target_batch_s=1)
    row = 150  # about: text, number, channel
    monkeypatch.setattr(Budget, "allow", lambda _, waiting: dict.fromkeys(waiting, row * 6 // 10))
    for _ in range(6):
        sender.advance()
        receiver.advance()
    taken = [table.column("channel").to_pylist() for table in receiver.sink.values()]
    assert [len(rows) for rows in taken][:3] == [2, 2, 2]
    assert all(len(set(rows)) == 1 for rows in taken)
