"""experiment.yaml under every preset: what its rules make of it, and that the run agrees.

The consumer falls from 1200 to 300 records/s at 20 s, with 600/s offered, and again at 60 s, with
1000/s offered; in between it is quick for 20 s. A system's rules say between which two numbers
what is in flight stays while it holds the producer back (a band). All else follows:

- the producer goes on as before until the band's lower end is reached, which takes (lower end -
  what is there) / (offered - 300), and is held back once its upper end is: a system whose lower
  end is out of reach within the phase does not follow, and all that was not served has piled up;
- from then on its mean rate over any time is the consumer's, give or take the width of the band
  over that time: it follows within a tenth over 5 s only if the band is at most 150 records wide.

Systems that read batches from a log, or sleep, are in ``test_verdicts_of_sources.py``. Rounds are
10 ms long: ``experiment.py`` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest

from flowcontrol.analysis.producer_rates import TOLERANCE, TRANSIENT, Step, swing
from flowcontrol.analysis.run_view import RunView
from flowcontrol.scenario.system import PRESETS
from flowcontrol.systems.transports.rate_window import ITEM_OVERHEAD, next_window, rounded_up

ROUND_S: Final = 0.01
TRIP_S: Final = 2 * ROUND_S
SAMPLE_S: Final = 1.0

Run = Phase = Any
"""Of ``experiment.py``."""


@dataclass(frozen=True)
class Band:
    """Records in flight while the producer is held back.

    Attributes
    ----------
    least, most : float
        Between these.
    after_s : float
        Until that is so, on top of the time in which they pile up.
    first : float
        What must be in flight before the producer is held back for the first time; by default
        ``least``.
    place : str
        Where most of them are: the receiver's queue, or both pools, or the sockets.
    """

    least: float
    most: float
    place: str = "queue"
    after_s: float = 0.0
    first: float = 0.0


def pools(run: Run) -> tuple[float, float]:
    """Return the records in the buffers of a channel's two pools, and in one buffer.

    Both ends have 16 exclusive and 10 floating buffers.
    """
    options = run.scenario.options
    buffer = options.segment_bytes / run.record_bytes
    return 2 * (options.exclusive_buffers + options.floating_buffers) * buffer, buffer


# ---------------------------------------------------------------- bands


def credit(run: Run, phase: Phase) -> Band:
    """All buffers of both pools, but one that is filled, one on its way and one that is read."""
    held, buffer = pools(run)
    return Band(held - 3 * buffer, held, "pools")


def tcp(run: Run, phase: Phase) -> Band:
    """The pools, the two sockets, and what Netty holds until it stops writing."""
    held, buffer = pools(run)
    sockets = run.values["kernel_bytes"] / run.record_bytes
    pending = run.values["high_water_segments"] * buffer
    return Band(held + sockets - 3 * buffer, held + sockets + pending + buffer, "sockets")


def blocking(run: Run, phase: Phase) -> Band:
    """The queue is full: a slot that becomes free is taken a trip later."""
    return Band(run.values["slots"], run.values["slots"])


def half_return(run: Run, phase: Phase) -> Band:
    """Permits that lie with the receiver are not in flight: up to the share that goes back."""
    slots = run.values["slots"]
    return Band(slots - math.floor(run.values["share"] * slots), slots)


def lots(run: Run, phase: Phase) -> Band:
    """Likewise, up to a lot but one."""
    return Band(run.values["slots"] - run.values["lot"] + 1, run.values["slots"])


def cumulative(run: Run, phase: Phase) -> Band:
    """Credit is topped up when as little is left as the mark says."""
    return Band(run.values["mark"], run.values["credit"])


def window(run: Run, phase: Phase) -> Band:
    """Jet: period by period, what its rule makes of a sender and a receiver that flow evenly.

    A unit is 65,536 bytes, 256 of these records: 8.5 periods' work of 30, so a period sees one unit
    done or none, two if it is a little short, and the window goes half of the way to three times as
    many, truncated. It does not fall before the queue behind the receiver is full, and then from
    800 to so few in a second. What a period lets in, and what is taken until the next packet, are
    no part of the window: hence the two ends.
    """
    values = run.values
    multiplier, period_s = int(values["multiplier"]), values["period_ms"] / 1000
    unit = math.ceil(values["unit"] / (run.record_bytes + ITEM_OVERHEAD))
    rest = multiplier * (math.ceil(phase.served * period_s / unit) + 1) + 1
    size, limit, done = int(values["initial_units"]), math.inf, 0
    sent = taken = after_s = 0.0
    low, high = math.inf, 0.0
    for period in range(round((phase.end_s - phase.start_s) / period_s)):
        before, sent = taken, max(sent, min(limit, sent + phase.offered * period_s))
        taken = min(sent, taken + phase.served * period_s)
        if size <= rest:
            low, high = min(low, sent - taken), max(high, sent - before)
        else:
            after_s = (period + 2) * period_s  # the first packet only records what was done
        acked = min(sent, taken + values["queue_items"])
        now = int(acked // unit)
        counts = rounded_up(now, done, period)
        size = next_window(size, counts, done, 1, 1, multiplier, int(acked == sent))
        done = now
        limit = (done + size + 1) * unit
    return Band(low, high + phase.offered * TRIP_S, after_s=after_s)


def marks(run: Run, phase: Phase) -> Band:
    """JStorm 2.4: the queue between its marks, and twice what a stopped sender takes on.

    At its release there are the low mark and a full cache, which arrives at once: that is above the
    high mark, so the sender is stopped again and takes on a second cache. The least is when the
    sender is released: the queue at the low mark, and what came while it fell from the high one.
    """
    values = run.values
    cached = values["cache_bytes"] // run.record_bytes
    high, low = values["high"] * values["slots"], values["low"] * values["slots"]
    came = phase.offered * (high - low) / phase.served
    return Band(low + min(cached, came), low + 2 * cached + phase.offered * TRIP_S)


def overflow(run: Run, phase: Phase) -> Band:
    """Storm 2: the whole queue; the flag stands until the overflow is found empty."""
    slots, check_s = run.values["slots"], run.values["check_ms"] / 1000
    return Band(slots - phase.served * check_s, slots + phase.offered * TRIP_S)


def switch(run: Run, phase: Phase) -> Band:
    """Between the marks, and what comes or goes until somebody looks and the sources hear of it."""
    values = run.values
    if values["high_bytes"] > 0:
        high, low = (values[f"{name}_bytes"] / run.record_bytes for name in ("high", "low"))
    else:
        high, low = (int(values[name] * values["slots"]) for name in ("high", "low"))
    late_s = values["check_ms"] / 1000 + TRIP_S
    return Band(low - phase.served * late_s, high + phase.excess * late_s, first=high)


def pushed(run: Run, phase: Phase) -> Band:
    """Spark's reader reads until its quota is used up; before it the sockets, and the writer.

    The writer's places, of a row each at the least, and at the most of nine tenths of a buffer.
    """
    values = run.values
    row = run.record_bytes + values["header_bytes"]
    ahead = (values["reader_bytes"] + values["kernel_bytes"]) / row
    places = (values["writer_bytes"] - values["socket_bytes"]) // values["buffer_bytes"]
    rows = values["fill"] * values["buffer_bytes"] / run.record_bytes + 1
    return Band(ahead + places, ahead * row / run.record_bytes + places * rows)


def free(run: Run, phase: Phase) -> Band:
    """Nothing stops the producer."""
    return Band(math.inf, math.inf)


@dataclass(frozen=True)
class Row:
    """What a preset does in the two slow phases.

    Attributes
    ----------
    band : callable
        Its rules.
    verdicts : tuple of str
        Of each phase: "follows" within a tenth; "uneven": it follows, but in lumps that are more
        than a tenth of what 5 s bring; "never".
    is_narrow : bool
        Its window is too small for what is offered: 16 records in two rounds.
    """

    band: Callable[[Run, Phase], Band]
    verdicts: tuple[str, str]
    is_narrow: bool = False


EVEN, UNEVEN, NEVER = ("follows",) * 2, ("uneven",) * 2, ("never",) * 2

TABLE: Final[dict[str, Row]] = {
    "flink": Row(credit, EVEN),
    "flink-2": Row(credit, EVEN),
    "flink-1.4": Row(tcp, NEVER),  # 4 MiB hold 70 s of the excess of the first, 30 s of the second
    "storm-1": Row(switch, UNEVEN),
    "storm-2": Row(overflow, NEVER),  # 32,768 slots: 109 s of the first, 46 s of the second
    "jstorm-2.4": Row(marks, UNEVEN),
    "heron": Row(switch, NEVER),  # 100 MB are 524,288 records
    "hazelcast-jet": Row(window, UNEVEN),
    "pulsar": Row(half_return, UNEVEN),
    "rabbitmq": Row(cumulative, EVEN),
    "risingwave": Row(lots, UNEVEN),
    "arroyo": Row(
        blocking, ("never", "follows")
    ),  # 8192 are 27 s of the first; 2000 are still left
    "reactive-streams": Row(half_return, EVEN, is_narrow=True),
    "reactor": Row(half_return, UNEVEN),
    "spark-real-time": Row(pushed, NEVER),  # 32 MiB at the reader alone are 480 s of the first
    "unbounded": Row(free, NEVER),
}
"""Systems that act on what is in flight; the others read a log in batches, or sleep."""

AT_SOURCES: Final = {"spark-streaming", "structured-streaming", "kafka-streams", "jstorm-2.1"}


def test_every_preset_has_a_verdict(experiment: ModuleType) -> None:
    assert (experiment.ROUND_S, experiment.SAMPLE_S) == (ROUND_S, SAMPLE_S)
    assert TABLE.keys().isdisjoint(AT_SOURCES)
    assert {*TABLE, *AT_SOURCES} == set(PRESETS)


@dataclass(frozen=True)
class Case:
    """A preset in one of the slow phases."""

    name: str
    number: int
    run: Run

    @property
    def phase(self) -> Phase:
        return self.run.phases()[self.number]

    @property
    def band(self) -> Band:
        return TABLE[self.name].band(self.run, self.phase)

    @property
    def verdict(self) -> str:
        return TABLE[self.name].verdicts[self.number]

    def level(self) -> float:
        """Return by the rules what is in flight when the phase begins, records.

        What the phase before has left and the quick consumer has not made up for.
        """
        if self.number == 0:
            return 0.0
        before = Case(self.name, self.number - 1, self.run)
        at_end = before.level() + before.phase.excess * (before.phase.end_s - before.phase.start_s)
        gap_s = self.phase.start_s - before.phase.end_s
        quick = self.run.rate("consumer", before.phase.end_s) - self.phase.offered
        return max(0.0, min(before.band.most, at_end) - quick * gap_s)

    def held_from_s(self) -> tuple[float, float]:
        """Return between which times after the fall the producer is first held back, s."""
        phase, band, level = self.phase, self.band, self.level()
        return (
            max(0.0, max(band.least, band.first) - level - 2 * phase.slack) / phase.excess,
            max(0.0, band.most - level) / phase.excess + band.after_s + TRIP_S,
        )


@pytest.fixture
def case(request: pytest.FixtureRequest, experiment: ModuleType) -> Case:
    """Return a preset in a phase, and its run."""
    name, number = request.param
    return Case(name, number, experiment.ran(name))


def only(*verdicts: str, narrow: bool = True) -> Any:
    """Parametrise with the phases of these verdicts; ``narrow``: also of windows too small."""
    found = [
        (name, number)
        for name, row in TABLE.items()
        for number, verdict in enumerate(row.verdicts)
        if verdict in verdicts and (narrow or not row.is_narrow)
    ]
    ids = [f"{name}-{number}" for name, number in found]
    return pytest.mark.parametrize("case", found, ids=ids, indirect=True)


@only("follows", "uneven", "never")
def test_the_verdict_is_what_the_rules_say(case: Case) -> None:
    """The table's word, from the numbers alone; nothing is run but to read the file."""
    begins, ends = case.held_from_s()
    phase, width = case.phase, case.band.most - case.band.least
    if case.verdict == "never":
        assert begins > phase.end_s - phase.start_s
        return
    assert ends + RunView(case.run.scenario, {}).window_s < phase.end_s - phase.start_s
    is_even = width <= TOLERANCE * phase.served * RunView(case.run.scenario, {}).window_s
    assert is_even == (case.verdict == "follows")


@pytest.mark.holds("tcp", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds("unbounded", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds("push_quota", "virtual", "the classic experiment: what its rules make of it")
@only("never")
def test_who_never_follows_keeps_everything(case: Case) -> None:
    run, phase = case.run, case.phase
    emitted = run.at(run.out, phase.end_s) - run.at(run.out, phase.start_s)
    assert emitted == pytest.approx(phase.offered * (phase.end_s - phase.start_s), abs=1)
    piled = phase.excess * (phase.end_s - phase.start_s)
    found = run.figures.piled_up[2 * case.number]
    assert found.edge == "producer->consumer"
    assert found.records == pytest.approx(piled, abs=phase.slack)
    assert not found.at_sender
    at_end = case.level() + piled
    flight, queued = run.at(run.flight, phase.end_s), run.at(run.queued, phase.end_s)
    assert flight == pytest.approx(at_end, abs=2 * phase.slack)
    if case.band.place == "queue":
        flusher_s = run.values.get("flush_ms", 0) / 1000  # records wait for that one, too
        assert flight - queued <= phase.slack + phase.offered * flusher_s
    else:  # the sockets: the receiver's pool is full or nearly, the sender's is empty
        held, buffer = pools(run)
        assert held / 2 - 2 * buffer < queued * buffer <= held / 2
        assert run.at(run.backlog, phase.end_s) <= 1
        assert flight - held / 2 >= at_end - held / 2 - 2 * phase.slack > 0


@only("never")
def test_who_never_follows_runs_ahead(case: Case) -> None:
    change = case.run.figures.changes[2 * case.number]
    assert (change.at_s, change.missed) == (case.phase.start_s, "above")
    assert (change.lowest, change.highest) == pytest.approx((case.phase.offered,) * 2)
    if case.verdict == TABLE[case.name].verdicts[1]:
        expected = case.run.phases()[1].offered / case.phase.served - 1
        assert case.run.figures.ahead == pytest.approx(expected)


@only("follows", "uneven", narrow=False)
def test_the_producer_is_held_back_when_the_band_is_full(case: Case) -> None:
    """Not sooner, for nothing is lost before; not later, for nothing more is let in."""
    run, phase = case.run, case.phase
    begins, ends = case.held_from_s()
    rates = np.diff(run.out)[(run.t_s[1:] > phase.start_s) & (run.t_s[1:] <= phase.end_s)]
    first = int(np.argmax(rates < phase.offered - 1))
    assert rates[first] < phase.offered - 1
    assert math.floor(begins) <= first <= math.floor(ends)


@pytest.mark.holds("credit", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds("blocking_queue", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds(
    "half_return_credit", "virtual", "the classic experiment: what its rules make of it"
)
@pytest.mark.holds("batched_credit", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds(
    "cumulative_credit", "virtual", "the classic experiment: what its rules make of it"
)
@pytest.mark.holds("rate_window", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds("hop_hysteresis", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds(
    "global_hysteresis", "virtual", "the classic experiment: what its rules make of it"
)
@only("follows", "uneven")
def test_what_is_in_flight_stays_in_the_band(case: Case) -> None:
    run, phase, band = case.run, case.phase, case.band
    _, ends = case.held_from_s()
    settled = run.within(run.flight, phase.start_s + ends, phase.end_s)
    assert len(settled) >= 5
    assert settled.max() <= band.most
    assert settled.min() >= band.least - phase.slack
    assert run.within(run.flight, phase.start_s, phase.end_s).max() <= band.most


@only("follows", "uneven")
def test_the_mean_rate_is_the_consumers(case: Case) -> None:
    run, phase = case.run, case.phase
    _, ends = case.held_from_s()
    length = RunView(run.scenario, {}).window_s
    width = case.band.most - case.band.least + phase.slack
    moments = run.within(run.t_s, phase.start_s + ends, phase.end_s - length)
    assert len(moments) >= 1
    for moment in moments:
        mean = run.emitted.mean_rate(moment, moment + length)
        assert abs(mean - phase.served) <= width / length + ROUND_S * phase.served


@only("follows")
def test_who_is_even_follows_in_time(case: Case) -> None:
    """The figure of the comparison: within a tenth, over 5 s, and it stays there."""
    _, ends = case.held_from_s()
    change = case.run.figures.changes[2 * case.number]
    assert change.at_s == case.phase.start_s
    assert change.after_s is not None
    assert change.after_s <= math.ceil(ends)


@only("follows", "uneven")
def test_the_swing_is_within_what_the_band_allows(case: Case) -> None:
    """A rate between two bounds deviates most if it is always at one of them.

    In a sample it differs from what is served by no more than the band's width over the sample, is
    never below 0 and never above what is offered. Its variance is at most (most - mean) times
    (mean - least).
    """
    run, phase = case.run, case.phase
    settled = Step(phase.start_s + case.held_from_s()[1], phase.end_s, phase.served)
    start_s = settled.start_s + TRANSIENT * (settled.end_s - settled.start_s)
    mean = run.emitted.mean_rate(start_s, phase.end_s)
    width = (case.band.most - case.band.least + phase.slack) / SAMPLE_S
    least, most = max(0.0, phase.served - width), min(phase.offered, phase.served + width)
    found = swing(run.emitted, [settled])
    assert found is not None
    assert least <= mean <= most
    assert found <= math.sqrt((most - mean) * (mean - least)) / mean


@pytest.mark.parametrize("number", [0, 1])
def test_a_switch_swings(number: int, experiment: ModuleType) -> None:
    """The sources stand still while the queue falls from mark to mark: 512 records, 1.7 s.

    It is so of a consumer that takes one after the other, as no batch counts until it is done.
    Such a time lies half in one sample at least, 0.85 s of its second: each cycle has a sample of
    at most 15 % of what is offered.
    """
    run = experiment.ran("storm-1", ("takes_all", 0))
    phase, values = run.phases()[number], run.values
    between = int(values["high"] * values["slots"]) - int(values["low"] * values["slots"])
    still_s, on_s = between / phase.served, between / phase.excess
    assert SAMPLE_S < still_s < 2 * SAMPLE_S
    start_s = phase.start_s + TRANSIENT * (phase.end_s - phase.start_s)
    late_s = values["check_ms"] / 1000 + TRIP_S
    cycles = math.floor((phase.end_s - start_s) / (still_s + on_s + 2 * late_s))
    mean = run.emitted.mean_rate(start_s, phase.end_s)
    low = phase.offered * (1 - still_s / 2 / SAMPLE_S)
    samples = (phase.end_s - start_s) / SAMPLE_S
    found = swing(run.emitted, [Step(phase.start_s, phase.end_s, phase.served)])
    assert found is not None
    assert found >= math.sqrt(cycles / samples) * (mean - low) / mean


def test_a_window_that_is_too_small(experiment: ModuleType) -> None:
    """16 records a trip of two rounds: 800/s, more than a tenth under the 1000 that are offered.

    So its producer recovers after no release, and the consumer idles.
    """
    run = experiment.ran("reactive-streams")
    most = run.values["slots"] / TRIP_S
    least = run.values["share"] * run.values["slots"] / (TRIP_S + ROUND_S)
    releases = [change for change in run.figures.changes if not change.is_slowdown]
    assert len(releases) == 2
    for change in releases:
        assert most < (1 - TOLERANCE) * change.after
        assert change.missed == "below"
        assert least <= change.lowest <= change.highest <= most


@pytest.mark.parametrize("name", [n for n in TABLE if not TABLE[n].is_narrow])
def test_all_others_recover_at_once(name: str, experiment: ModuleType) -> None:
    """Nothing is between them and the 1000/s that are offered but a trip, 20 records' time."""
    release = experiment.ran(name).figures.release
    assert (release.missed, release.longest_s) == (0, 0.0)
