"""Jumps over periods: equal to the run without them in every row of every table."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings

from flowcontrol.errors import ScenarioError
from flowcontrol.job import Job, build_physical_graph
from flowcontrol.job.run import Run
from flowcontrol.virtual.clock import run_job
from flowcontrol.virtual.periods.jumps import Jumps
from flowcontrol.virtual.periods.orbit import Orbit
from flowcontrol.virtual.periods.search import Candidate, Effort

EAGER = Effort(steps=24, matches=1, whole_looks=10**6, tries=10, looks=10**6, gain=2)
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
