"""The whole search on a fluid, of which the answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.capacity import Probe, capacity, describe
from flowcontrol.experiments.capacity.result import describe_probe
from flowcontrol.scenario import Scenario, parse_scenario

Make = Callable[..., Scenario]


@pytest.mark.parametrize("tolerance", [0.1, 0.01])
@pytest.mark.parametrize("emit", [1, 100, 2999, 90_000])
def test_the_rate_of_the_sink_is_found_from_any_start(
    make: Make, fluid: Any, tolerance: float, emit: float
) -> None:
    clock = fluid()
    found = capacity(make(emit_rate=emit), "source", tolerance=tolerance, simulate=clock)
    assert float(found.rate) == pytest.approx(3000, rel=tolerance)
    assert found.below is not None
    assert found.above is not None
    assert found.below.is_sustained
    assert not found.above.is_sustained
    assert found.below.rate < found.above.rate <= found.below.rate * (1 + Fraction(tolerance))
    assert found.limit is not None
    assert found.limit.stage == "sink"
    assert found.force == (3000, 3000)
    assert found.window == (10, 20)
    assert len(clock.rates) == len(found.probes) + 1  # one more shows what limits


def test_full_buffers_do_not_hide_what_cannot_last(make: Make, fluid: Any) -> None:
    """A million records of room are never full in 20 s: the queue only grows."""
    found = capacity(make(), "source", simulate=fluid(room=1e6))
    assert float(found.rate) == pytest.approx(3000, rel=0.01)
    assert found.above is not None
    assert found.above.blocked == 0
    assert found.above.growth.share > 0.005


def test_the_total_is_of_all_subtasks(make: Make, fluid: Any) -> None:
    found = capacity(make(parallelism=3), "source", simulate=fluid())
    assert float(found.rate) == pytest.approx(1000, rel=0.01)
    assert found.total == 3 * found.rate
    assert found.parallelism == 3


def test_a_slow_phase_counts_for_as_long_as_it_lasts(make: Make, fluid: Any) -> None:
    """5 s at 1,000/s with room for 500: the most is 1,000 + 500 / 5, and a little is allowed."""
    slow = [{"at_s": 0, "rate": 3000}, {"at_s": 12, "rate": 1000}, {"at_s": 17, "rate": 3000}]
    found = capacity(make(slow), "source", simulate=fluid(room=500))
    assert 1095 <= found.rate <= 1125
    assert found.force == (1000, 3000)


def test_a_sink_that_stands_still_sustains_nothing(make: Make, fluid: Any) -> None:
    found = capacity(make(0), "source", simulate=fluid(room=0))
    assert (found.below, found.rate, found.total) == (None, 0, 0)
    assert "source can sustain no rate: not even 0.002" in describe(found)


def test_nothing_limits(make: Make, fluid: Any) -> None:
    clock = fluid()
    found = capacity(make(10**9), "source", simulate=clock)
    assert found.above is None
    assert found.limit is None
    assert "every rate that was tried, up to 100,000,000 records/s" in describe(found)
    assert "Nothing else limits it." in describe(found)


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ("sink", "--stage: 'sink' is not a source: edges lead to it; use one of source"),
        ("sauce", "--stage: 'sauce' is not a stage of the scenario; use one of source"),
    ],
)
def test_a_stage_that_is_no_source_is_refused(
    make: Make, fluid: Any, stage: str, text: str
) -> None:
    clock = fluid()
    with pytest.raises(ScenarioError, match=text):
        capacity(make(), stage, simulate=clock)
    assert clock.rates == []


@pytest.mark.parametrize("tolerance", [0, -1, 0.00009, 0.51, float("nan")])
def test_a_tolerance_out_of_range_is_refused(make: Make, fluid: Any, tolerance: float) -> None:
    with pytest.raises(ValueError, match=r"at least 0\.0001 and at most 0\.5"):
        capacity(make(), "source", tolerance=tolerance, simulate=fluid())


def test_the_words(make: Make, fluid: Any) -> None:
    probes: list[Probe] = []
    found = capacity(make(), "source", simulate=fluid(), progress=probes.append)
    assert probes == list(found.probes)
    lines = describe(found).splitlines()
    rate = f"{float(found.rate):,.1f}".rstrip("0").rstrip(".")
    assert lines[0] == (
        f"source can sustain {rate} records/s per subtask, {rate} records/s in total "
        "(1 subtask), within 0.01 of it."
    )
    assert lines[1] == (
        "It is limited by sink, whose rate in force is 3,000 records/s per subtask."
    )
    assert lines[2].startswith("At 1.5 times that rate: Bottleneck: sink")
    assert lines[4] == "Per subtask, from 10 to 20 s of each run:"
    below, above = lines[6:8]
    assert below.startswith("sustained ")
    assert above.startswith("not sustained ")
    assert below.endswith(" ms")
    assert above.endswith(" ms")
    assert max(map(len, lines[4:8])) <= 80
    said = [describe_probe(probe) for probe in probes]
    assert said[0] == "100 records/s: sustained"
    assert any(line.startswith("3,200 records/s: not sustained (blocked 6.2") for line in said)


def test_runs_too_short_for_the_tolerance_say_so(make: Make, fluid: Any) -> None:
    """32 records are 0.8 % of what flows in the quarter of 5.3 s; 0.5 % would take 8.5 s."""
    found = capacity(make(duration_s=5), "source", simulate=fluid())
    last = describe(found).splitlines()[-1]
    assert found.error < 0.011
    assert last.startswith("The rate is what is behind source can do. In runs of 5 s another limit")
    assert last.endswith("state a duration_s of 9 or more to see a smaller one.")
    assert found.below is not None
    found = replace(found, below=replace(found.below, most=inf))  # by the runs alone
    last = describe(found).splitlines()[-1]
    assert last.startswith("Runs of 5 s do not show a queue that grows by less than 0.8")
    assert "of what source->sink carries: state a duration_s of 9 or more." in last
    assert found.error == pytest.approx(0.005 + found.below.growth.blind)
    assert "within 0.013 of it" in describe(found)
    long = capacity(make(duration_s=20), "source", simulate=fluid())
    assert "uns of" not in describe(long)


# ---------------------------------------------------------------- a source that reads a log


def log(sink: float, emit: float = 150, **source: Any) -> Scenario:
    first = {"name": "topic", "emit_rate": emit, "arrival_rate": 10, "record_bytes": 1000}
    return parse_scenario(
        {
            "schema": 1, "name": "log", "duration_s": 60, "round_ms": 100,
            "stages": [{**first, **source}, {"name": "sink", "service_rate": sink}],
            "edges": [{"from": "topic", "to": "sink"}],
        }
    )  # fmt: skip


def test_a_topic_may_be_written_as_fast_as_its_source_reads() -> None:
    found = capacity(log(1000), "topic", tolerance=0.02)
    assert float(found.rate) == pytest.approx(150, rel=0.02)
    assert found.limit is not None
    assert (found.limit.stage, found.force) == ("topic", (150, 150))
    assert found.above is not None
    assert "not sustained (the log of topic holds" in describe_probe(found.above)
    assert "It is limited by topic, whose rate in force is 150 records/s" in describe(found)


def test_a_topic_may_be_written_as_fast_as_the_job_takes_it() -> None:
    found = capacity(log(80, record_bytes=10_000), "topic", tolerance=0.02)
    assert float(found.rate) == pytest.approx(80, rel=0.02)
    assert found.limit is not None
    assert (found.limit.stage, found.force) == ("sink", (80, 80))


def test_a_lag_that_is_read_again_is_bounded() -> None:
    """A pause of 6 s in the judged half: what it leaves is read by the end."""
    stalls = [{"at_s": 32, "for_s": 6}]
    found = capacity(log(1000, stalls=stalls), "topic", tolerance=0.02)
    assert 100 < found.rate <= 150
