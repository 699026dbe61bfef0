"""Jumps over periods: equal to the run without them in every row of every table."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.replay import NO_ROWS
from flowcontrol.job.run import Run
from flowcontrol.protocol.motions import Motion
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual.clock import run_job
from flowcontrol.virtual.log_sizes import LogSizes
from flowcontrol.virtual.periods.jumps import Jumps
from flowcontrol.virtual.periods.layout import Layout
from flowcontrol.virtual.periods.orbit import Orbit
from flowcontrol.virtual.periods.search import EFFORT, Candidate, Effort
from flowcontrol.virtual.running import Running

EAGER = Effort(
    steps=24, matches=1, whole_looks=10**6, tries=10, looks=10**6, gain=2, moment=0, copy=0
)
"""Looks nearly always, and jumps wherever it may."""

EXAMPLES = settings.default.max_examples
MOST_RUNS = 40
"""Runs of the property until what is seldom has been jumped."""

JUMPED = {
    "never flushed",
    "flushed every round",
    "flushed at their own beat",
    "flushed without effect",
    "log",
    "wire",
    "latency",
    "local",
    "broadcast",
    "selectivity",
    "shares",
    "rounds behind a moment of the period",
    "a schedule changes behind it",
}
"""What must have been jumped in some of the runs."""


def laid_out(scenario: Any) -> Job:
    try:
        return build_physical_graph(scenario)
    except ScenarioError:  # too few buffers
        assume(False)
        raise


def assert_equal(run: Run, other: Run) -> None:
    """Assert that two runs of a job have the same rows and the same figures."""
    assert run.tables.keys() == other.tables.keys()
    for name, table in run.tables.items():
        if not table.equals(other.tables[name]):
            pairs = zip(table.to_pylist(), other.tables[name].to_pylist(), strict=False)
            raise AssertionError(f"{name}: {next(pair for pair in pairs if pair[0] != pair[1])}")
    for figure in ("rounds", "transfers", "control_messages"):
        assert getattr(run, figure) == getattr(other, figure), figure


def kinds_of(job: Job, found: list[tuple[Candidate, Orbit]]) -> set[str]:
    """Say what a job that jumped has of what has to be met."""
    scenario, kinds = job.scenario, set()
    for candidate, orbit in found:
        interval = scenario.options.flush_interval_us
        if candidate.flushes:
            kinds.add("flushed at their own beat")
        elif candidate.is_settled:
            kinds.add("flushed without effect")
        else:
            kinds.add("never flushed" if interval < 0 else "flushed every round")
        if orbit.until < job.rounds:
            kinds.add("a schedule changes behind it")
        if orbit.moments > 1:
            kinds.add("rounds behind a moment of the period")
    if any(stage.reads_log for stage in scenario.stages):
        kinds.add("log")
    if scenario.cluster.bandwidth_bytes_per_s is not None:
        kinds.add("wire")
    if scenario.cluster.network_latency_us > job.round_us:
        kinds.add("latency")
    if any(channel.is_local for link in job.links for channel in link.channels):
        kinds.add("local")
    if any(stage.selectivity not in {0, 1} for stage in scenario.stages):
        kinds.add("selectivity")
    partitioners = {link.edge.partitioner for link in job.links if len(link.channels) > 1}
    shares = {"shares"} if "custom" in partitioners else set()
    return kinds | shares | ({"broadcast"} & partitioners)


@pytest.mark.holds(
    "credit", "virtual", "a run without jumps: every row of every table, random steady jobs"
)
def test_a_run_that_jumps_is_the_run_that_does_not(
    draw_until: Any, steady_jobs: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: Counter[str] = Counter()
    found: list[tuple[Candidate, Orbit]] = []
    try_it = Jumps._tried

    def tried(jumps: Jumps, candidate: Candidate) -> Orbit | None:
        orbit = try_it(jumps, candidate)
        if orbit is not None:
            found.append((candidate, orbit))
        return orbit

    monkeypatch.setattr(Jumps, "_tried", tried)

    @settings(max_examples=EXAMPLES)
    @given(scenario=steady_jobs.scenarios())
    def look(scenario: Any) -> None:
        note(scenario.to_yaml())
        job = laid_out(scenario)
        found.clear()
        run = run_job(job, effort=EAGER)
        assert_equal(run, run_job(job, effort=None))
        happened["runs"] += 1
        if run.jumped > 0:
            happened["jumped"] += 1
            happened.update(kinds_of(job, found))

    draw_until(look, lambda: set(happened) >= JUMPED, MOST_RUNS)
    print(dict(happened))
    assert JUMPED - set(happened) == set()


def steady(**keys: Any) -> Any:
    """A chain that repeats itself: 1, 2 or 4 records a round, each a buffer."""
    head = {"schema": 1, "name": "steady", "duration_s": 200, "round_ms": 1, "sample_interval_s": 1}
    stages = [
        {"name": "source", "emit_rate": 2000, "record_bytes": 4096, "placement": [0]},
        {"name": "sink", "service_rate": 4000, "record_bytes": 100, "placement": [1]},
    ]
    return {
        **head,
        "cluster": {"task_managers": 2},
        "options": {
            "taskmanager.memory.segment-size": "4096b",
            "execution.buffer-timeout.interval": -1,
        },
        "stages": stages,
        "edges": [{"from": "source", "to": "sink"}],
        **keys,
    }


def jumped(mapping: dict[str, Any]) -> float:
    """Return which share of a run's rounds is jumped; it is the run without jumps."""
    job = laid_out(parse_scenario(mapping))
    run = run_job(job)
    assert_equal(run, run_job(job, effort=None))
    return run.jumped / run.rounds


def with_source(**keys: Any) -> dict[str, Any]:
    """Return the chain with other keys of its source."""
    source, sink = steady()["stages"]
    return steady(stages=[{**source, **keys}, sink])


def test_a_steady_chain_is_jumped_for_most_of_its_run() -> None:
    assert jumped(steady()) > 0.5


def test_a_rate_that_changes_is_no_end_of_it() -> None:
    rates = [{"at_s": 0, "rate": 2000}, {"at_s": 100.0007, "rate": 1000}]
    share = jumped(with_source(emit_rate=rates))
    assert 0.2 < share < jumped(steady())


@pytest.mark.parametrize("at_s", [100, 100.0007])
def test_a_source_that_ends_does_so_in_the_round_that_reaches_the_moment(at_s: float) -> None:
    """A rate of 0 that is the last one ends the input at its moment, which is a round's last."""
    rates = [{"at_s": 0, "rate": 2000}, {"at_s": at_s, "rate": 0}]
    assert jumped(with_source(emit_rate=rates)) > 0.2


def test_a_jump_that_costs_more_than_its_rounds_is_none() -> None:
    """A sample each 500 ms has its own place in a flusher's beat of 199 ms for a long time."""
    often = with_source(emit_rate=1000, record_bytes=200) | {"duration_s": 1000}
    often["options"] = {**often["options"], "execution.buffer-timeout.interval": "200ms"}
    assert jumped(often | {"sample_interval_s": 1000}) > 0.3
    assert jumped(often | {"sample_interval_s": 0.5}) == 0


@pytest.mark.parametrize(
    ("interval", "period", "steps", "pays"),
    [
        (200_000, 10, 20, True),  # one sample
        (1000, 10, 20, True),  # 200 samples at one place
        (1000, 999, 1998, False),  # each at a place of its own, and few rounds between
        (100_000, 9_999, 19_998, True),  # many periods between
        (10, 10, 20, False),  # a copy costs more than the 20 steps
    ],
)
def test_what_pays(interval: int, period: int, steps: int, pays: bool) -> None:
    found = EFFORT.pays(rounds=200_000, interval=interval, period=period, steps=steps)
    assert found == pays
    assert EAGER.pays(rounds=200_000, interval=interval, period=period, steps=steps)


def test_a_log_is_steady_once_what_was_written_at_another_rate_is_read() -> None:
    """Until then as many records wait as ever, and those that are read get older and older."""
    arrivals = [{"at_s": 0, "rate": 2000}, {"at_s": 30, "rate": 1000}]
    share = jumped(with_source(emit_rate=1000, arrival_rate=arrivals))
    assert 0.1 < share < 0.6


def with_sink(**keys: Any) -> dict[str, Any]:
    """Return the chain with other keys of its sink."""
    source, sink = steady()["stages"]
    return steady(stages=[source, {**sink, **keys}])


OTHERS = {
    "random times": with_source(service_time="exponential"),
    "a rate that comes to no whole number of records": with_source(emit_rate=1183.673469),
    "checkpoints": steady(
        options={**steady()["options"], "execution.checkpointing.interval": "10s"}
    ),
    "a transport that counts records": steady(system="storm-2", options={}),
    "a shuffle": steady(edges=[{"from": "source", "to": "sink", "partitioner": "shuffle"}]),
    "a wire that several tasks share": {
        **with_source(parallelism=2, placement=[0, 0]),
        "cluster": {"task_managers": 2, "bandwidth_bytes_per_s": 10**9},
    },
    "samples of back pressure": steady(
        monitoring={"sampling": {"samples": 7, "delay_ms": 50, "refresh_s": 3}}
    ),
    "readers of a sink": with_sink(guarantee="at-most-once"),
}
"""Jobs that do not jump, by what keeps them from it."""


@pytest.mark.parametrize("why", OTHERS)
def test_other_jobs_run_as_they_do(why: str) -> None:
    assert jumped({**OTHERS[why], "duration_s": 100}) == 0


@settings(max_examples=max(1, EXAMPLES // 5))
@given(data=st.data())
def test_what_is_declared_constant_stays_as_it_is(steady_jobs: ModuleType, data: Any) -> None:
    job = laid_out(data.draw(steady_jobs.scenarios()))
    running = Running.start(job, NO_ROWS, LogSizes.first(job), track=True)
    layout, cells = Layout.of(running.memory), running.memory.cells
    states = [layout.tasks, layout.partitions, layout.outs, layout.logs]
    constant = np.concatenate([s.of_motion(Motion.CONSTANT).ravel() for s in states])
    before = cells[constant]
    assert running.advance_to(job.rounds) == 0
    assert cells[constant].tolist() == before.tolist()
