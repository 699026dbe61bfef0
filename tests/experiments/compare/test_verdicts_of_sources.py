"""experiment.yaml and oscillation.yaml under systems that steer their sources.

What these rules say of the classic experiment, with a log in front of the source:

- *A batch at a time.* In the job is at most one batch, so the producer is never ahead of the
  consumer by more than that; everything else that is not served waits in the log.
- kafka-streams takes 1000 records a batch at most, spark-streaming no more than the consumer's best
  speed in an interval of 1 s. structured-streaming takes all that waits: while a batch is worked
  off at 300/s, more than a batch's records fall due, so the next one is offered/300 times as
  large, and the producer's rate does not settle.
- *Whole milliseconds.* jstorm-2.1 looks at the queue four times, 500 ms apart, and then its source
  sleeps as long as the consumer needs for a record, 3 ms, on top of its own time for one: slower
  than the consumer from the first step on, and a step slower every 2 s while the queue is long.
"""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flowcontrol.analysis.producer_rates import TOLERANCE, limit_steps, swing
from flowcontrol.analysis.run_view import RunView
from flowcontrol.experiments.compare.limits import job_limits
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate
from modules import load

experiment = load("tests/experiments/compare/experiment.py")

Run = Phase = Any
"""Of ``experiment.py``."""

BATCHES = ("spark-streaming", "structured-streaming", "kafka-streams")
of_batches = pytest.mark.parametrize("name", BATCHES)
of_phases = pytest.mark.parametrize("number", [0, 1])


def log(run: Run) -> Any:
    """Return the records that wait in the log at each sample."""
    return run.offered() - run.out


def largest_batch(run: Run) -> float:
    """Return the most records of a batch while the consumer is slow, by the rules."""
    values = run.values
    if run.scenario.system.throttle == "pid_rate":
        return run.rate("consumer", 0) * values["interval_ms"] / 1000
    return values["max_records"] or np.inf


def grown(run: Run, series: Any, phase: Phase) -> float:
    return run.at(series, phase.end_s) - run.at(series, phase.start_s)


@pytest.mark.holds("pid_rate", "virtual", "the classic experiment: what its rules make of it")
@pytest.mark.holds(
    "static_admission", "virtual", "the classic experiment: what its rules make of it"
)
@of_phases
@of_batches
def test_what_is_not_served_is_in_the_log_or_in_one_batch(name: str, number: int) -> None:
    run = experiment.ran(name)
    phase = run.phases()[number]
    length = phase.end_s - phase.start_s
    taken = grown(run, run.taken, phase)
    piled = grown(run, log(run) + run.flight, phase)
    assert piled == pytest.approx(phase.offered * length - taken, abs=1)
    # Whatever waits is no use to a consumer without a batch: it idles until the next one.
    assert taken <= phase.served * length + phase.slack
    assert piled >= phase.excess * length - phase.slack
    flight = run.within(run.flight, phase.start_s, phase.end_s)
    assert flight.max() <= largest_batch(run) + phase.slack
    in_log = grown(run, log(run), phase)
    assert in_log >= piled - largest_batch(run)


@of_phases
def test_kafka_streams_takes_a_poll_at_a_time(number: int) -> None:
    """The consumer idles from the end of a batch for a trip: the next poll follows at once.

    So it follows, in lumps of 1000; in front of it the log takes the rest.
    """
    run = experiment.ran("kafka-streams")
    phase, values = run.phases()[number], run.values
    most, pause_s = values["max_records"], experiment.TRIP_S + experiment.ROUND_S
    idle = pause_s / (most / phase.served)
    length = phase.end_s - phase.start_s
    # The batch that was begun before may be short, and one more such pause falls in the phase.
    least = phase.served * (length - pause_s) * (1 - idle)
    assert grown(run, run.taken, phase) >= least - phase.slack
    emitted = grown(run, run.out, phase)
    assert abs(emitted - phase.served * length) <= most + idle * phase.served * length
    assert run.figures.slowdown.how == "swings"  # 1000 are two thirds of 5 s at 300/s
    sizes = np.diff(run.out)[round(phase.start_s) + 5 : round(phase.end_s)]
    assert set(sizes) == {0.0, most}


@of_phases
def test_spark_streaming_falls_below_and_keeps_its_floor(number: int) -> None:
    """The batches formed before the first slow one is done wait for it; for each the rate falls.

    A delay of 5 intervals takes all of the rate (integral 0.2), but never below ``min_rate``.
    """
    run = experiment.ran("spark-streaming")
    phase, values = run.phases()[number], run.values
    interval_s = values["interval_ms"] / 1000
    batch_s = largest_batch(run) / phase.served
    rates = np.diff(run.out)[round(phase.start_s) : round(phase.end_s)]
    assert min(rates[rates > 0]) >= values["min_rate"] * interval_s
    assert min(rates[rates > 0]) < (1 - TOLERANCE) * phase.served
    # Nothing that is read later is larger than what the consumer does in an interval.
    last = rates[rates > 0][-3:]
    assert (last <= phase.served * interval_s).all()
    mean = grown(run, run.out, phase) / (phase.end_s - phase.start_s)
    assert mean <= phase.served + largest_batch(run) / (phase.end_s - phase.start_s)
    assert batch_s > interval_s


def emissions(run: Run, phase: Phase) -> list[tuple[float, float]]:
    """Return the sample after each batch that a slow consumer takes more than two samples for."""
    sizes = np.diff(run.out)
    return [
        (t_s, size)
        for t_s, size in zip(run.t_s[1:], sizes, strict=True)
        if phase.start_s < t_s <= phase.end_s and size / phase.served > 2
    ]


@of_phases
def test_structured_streaming_takes_whatever_waits(number: int) -> None:
    """The log is empty when a batch begins; the next comes when that is done, and is larger."""
    run = experiment.ran("structured-streaming")
    phase = run.phases()[number]
    found = emissions(run, phase)
    waits = log(run)
    for t_s, size in found:
        assert run.at(waits, t_s) <= phase.offered * 1.0 + phase.slack  # since a sample at most
        assert run.at(run.flight, t_s) >= size - phase.served * 1.0 - phase.slack
    pairs = list(itertools.pairwise(found))
    assert pairs or number == 1  # in the second phase one batch lasts until its end
    for (at_s, size), (next_s, larger) in pairs:
        assert larger / size == pytest.approx(phase.offered / phase.served, rel=0.02)
        assert next_s - at_s == pytest.approx(size / phase.served, abs=1)
    at_s, size = found[-1]
    assert at_s + size / phase.served > phase.end_s - 1
    assert run.at(waits, phase.end_s) == pytest.approx(
        phase.offered * (phase.end_s - at_s), abs=phase.offered * 1.0 + phase.slack
    )
    change = run.figures.changes[2 * number]
    assert change.after_s is None
    assert change.lowest == 0  # nothing for 5 s, while a batch is worked off


# ---------------------------------------------------------------- jstorm-2.1


@pytest.mark.holds("stepwise_sleep", "virtual", "the classic experiment: what its rules make of it")
@of_phases
def test_jstorm_sleeps_whole_milliseconds(number: int) -> None:
    """It reacts when all four samples of a period were above 80 % of 1024, and then undershoots."""
    run = experiment.ran("jstorm-2.1")
    phase, values = run.phases()[number], run.values
    period_s = values["samples"] * values["interval_ms"] / 1000
    high = values["high"] * values["slots"]
    rates = np.diff(run.out)[round(phase.start_s) : round(phase.end_s)]
    first = int(np.argmax(rates < phase.offered - 1))
    begins = (high - phase.slack) / phase.excess + period_s - values["interval_ms"] / 1000
    ends = high / phase.excess + 2 * period_s
    assert np.floor(begins) <= first <= np.ceil(ends)
    least = high + phase.excess * (period_s - values["interval_ms"] / 1000) - 2 * phase.slack
    most = high + phase.excess * 2 * period_s + phase.slack
    flight = run.within(run.flight, phase.start_s, phase.end_s)
    assert least <= flight.max() <= most
    # A record takes the source its own time and whole ms of sleep: the consumer's 3, then more.
    own_ms, execute_ms = 1000 / phase.offered, int(1000 / phase.served)
    slept = [1000 / rate - own_ms for rate in rates[first:]]
    whole = np.round(slept)
    per_s = 1000 / (whole + own_ms)
    assert rates[first:] == pytest.approx(per_s, abs=1)
    assert whole[0] == execute_ms
    assert set(np.diff(whole)) <= {0.0, 1.0}
    while_long = flight[first:] > high
    assert len(set(whole[while_long[: len(whole)]])) >= 2  # a step every period
    change = run.figures.changes[2 * number]
    assert change.missed in {"below", "swings"}  # the first windows may begin before it reacts
    assert rates[first:].max() < (1 - TOLERANCE) * phase.served


# ---------------------------------------------------------------- oscillation.yaml


def swing_of(system: str, experiment: ModuleType) -> float:
    path = experiment.CONF / "oscillation.yaml"
    scenario = load_scenario(path, overrides=[f"system={system}"])
    run = simulate(scenario)
    found = swing(
        RunView(scenario, run.tables).produced,
        limit_steps(job_limits(build_physical_graph(scenario))),
    )
    assert found is not None
    return found


@pytest.mark.holds("credit", "virtual", "each other's swing on `conf/oscillation.yaml`")
@pytest.mark.holds("global_hysteresis", "virtual", "each other's swing on `conf/oscillation.yaml`")
@pytest.mark.holds("stepwise_sleep", "virtual", "each other's swing on `conf/oscillation.yaml`")
def test_a_switch_swings_most_and_credits_least() -> None:
    """A switch at least five times as much as credits, steps of sleep in between."""
    flink, jstorm, storm = (swing_of(s, experiment) for s in ("flink", "jstorm-2.1", "storm-1"))
    assert storm >= 5 * flink
    assert flink < jstorm < storm
    # A buffer of 10 records more or less in a sample of 200.
    assert flink <= 10 / 200
    # On or off at 400/s with a mean of 200: 1, but for samples in which it changes.
    assert 0.5 <= storm <= 1
