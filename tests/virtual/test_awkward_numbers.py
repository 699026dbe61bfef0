"""Numbers of many digits at the ends of their ranges: nothing wraps, and the figures add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from flowcontrol.kernel import loop
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.shares import weights_of
from flowcontrol.layout.work import ServiceCurve
from flowcontrol.protocol.network.partitioners import integer_weights
from flowcontrol.protocol.service import work_by
from flowcontrol.results import running
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.virtual import simulate

LIMIT = 1 << 63
EXAMPLES = settings.default.max_examples * (2 if settings.default.max_examples >= 100 else 1)
MOST_RUNS = 12
INTERPRETED = EXAMPLES // 4
"""Examples that are interpreted too, which takes ten times as long; again until all is met."""

HARD = {
    "a selectivity's product beyond 64 bits",
    "a share of time beyond 64 bits",
    "shares beyond 64 bits",
    "a rate that is rounded",
    "a chain of many digits",
    "a phase after the run",
    "rounds of a microsecond",
    "rounds of hours",
    "a record every round or less",
    "records lost by the million",
    "random times",
    "records of 2 GiB",
}
"""What must have been met, with records that moved."""


def test_the_kernel_is_the_reference_and_all_adds_up(
    clocks: ModuleType, accounts: ModuleType, awkward_jobs: ModuleType, draw_until: Any
) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(scenario=awkward_jobs.scenarios(), every=st.sampled_from([1, 4, 50]))
    def look(scenario: Any, every: int) -> None:
        note(scenario.to_yaml())
        job, done = build_physical_graph(scenario), 0
        seen: list[Any] = []

        def watch(state: Any) -> None:
            nonlocal done
            rounds = min(every, job.rounds - done)
            done += rounds
            assert list(accounts.violations(job, state, rounds)) == []
            seen.append(state)

        clocks.compare(job, every=every, watch=watch)
        moved = check_outputs(job, accounts, seen[-1])
        if moved > 0:
            met.update(hard_cases(job, accounts, seen[-1]))

    draw_until(look, lambda: set(met) >= HARD, MOST_RUNS)
    print(dict(met))
    assert HARD - set(met) == set()


def check_outputs(job: Job, accounts: ModuleType, state: Any) -> int:
    """Assert that each task has routed what its records yield, within a record; return how many.

    A chain rounds down after each of its stages, so a record there becomes what is left of the
    path; a ratio is off by at most 6.6e-10 of itself.
    """
    moved = 0
    for plan in job.stages:
        for index in range(plan.stage.parallelism if plan.outputs else 0):
            taken = accounts.task_of(state, plan, index)["task"]["taken"]
            for link in plan.outputs:
                routed = routed_by(state, link.name, index)
                exact, lost = Fraction(taken), Fraction(0)
                path = stated_path(plan, link)
                for part in path:
                    exact, lost = exact * part, (lost + 1) * part if lost else Fraction(1)
                rounded = sum(part != 1 for part in path)
                error = lost + exact * Fraction(1, 10**9) * rounded
                assert exact - error - 1 < routed <= exact + error
                moved += routed
    return moved


def routed_by(state: Any, edge: str, sender: int) -> int:
    rows = [row for row in state[edge]["sender"] if row["sender"] == sender]
    return sum(row["channel_state"]["routed"] for row in rows)


def stated_path(plan: Any, link: Any) -> list[Fraction]:
    """Selectivities as the scenario has them, from the task's input to an edge."""
    names = [member.stage.name for member in plan.members]
    upto = names[: names.index(link.edge.sender) + 1]
    return [m.stage.selectivity_exact for m in plan.members if m.stage.name in upto]


def hard_cases(job: Job, accounts: ModuleType, state: Any) -> set[str]:
    """Name what is hard about a job, by the formulas as one would write them down."""
    found = set()
    found |= {"rounds of a microsecond"} if job.round_us == 1 else set()
    found |= {"rounds of hours"} if job.round_us >= 10**9 else set()
    found |= {"records of 2 GiB"} if any(x.record_bytes > 2**30 for x in job.links) else set()
    for plan in job.stages:
        taken = accounts.task_of(state, plan, 0)["task"]["taken"]
        for link in plan.outputs:
            for part in stated_path(plan, link):
                if taken * part.numerator >= LIMIT:
                    found.add("a selectivity's product beyond 64 bits")
            weights = weights_of(link.edge, len(link.outgoing(0)))
            if weights is not None and link.edge.channel_weights is not None:
                whole = integer_weights(link.edge.channel_weights)
                if sum(whole) * taken >= LIMIT:
                    found.add("shares beyond 64 bits")
        found |= hard_rates(job, plan, taken)
    return found


def hard_rates(job: Job, plan: Any, taken: int) -> set[str]:
    found = set()
    clock, schedule = ServiceCurve.of(job, plan, 0), plan.rates(0)
    if clock is None or schedule is None:
        return found
    end_us = job.rounds * job.round_us
    if schedule.phases[-1].at_us > end_us:
        found.add("a phase after the run")
    if len(plan.members) > 1 and schedule.phases[0].rate.denominator > 10**9:
        found.add("a chain of many digits")
    if plan.stage.service_time != "constant":
        found.add("random times")
    rate = Fraction(clock.phases[0][2], clock.unit) * MICROSECONDS
    if rate != schedule.phases[0].rate:
        found.add("a rate that is rounded")
    if job.round_us * work_by(clock.phases, job.round_us) >= LIMIT:
        found.add("a share of time beyond 64 bits")
    due = schedule.records_until(end_us)
    if plan.is_source and due - taken > 10**6:
        found.add("records lost by the million")
    if 0 < due <= job.rounds:
        found.add("a record every round or less")
    return found


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Let every run be interpreted too, where numpy raises when a number leaves 64 bits."""
    count: Counter[str] = Counter()
    compiled = loop.advance

    def advance(cells: Any, end: int) -> int:
        other = cells.copy()
        with np.errstate(over="raise"):
            flags = loop._advance(other, end)
        assert compiled(cells, end) == flags
        assert np.array_equal(cells, other)
        count["calls"] += 1
        return int(flags)

    monkeypatch.setattr(running, "advance", advance)
    return count


def test_nothing_leaves_64_bits(
    both: Counter[str], awkward_jobs: ModuleType, draw_until: Any
) -> None:
    met: Counter[str] = Counter()
    hard = ("moved", "slow wire", "long latency")

    @settings(max_examples=INTERPRETED)
    @given(scenario=awkward_jobs.scenarios(is_network=True))
    def look(scenario: Any) -> None:
        note(scenario.to_yaml())
        run = simulate(scenario)
        channels = run.tables["channels"].to_pandas()
        met["moved"] += bool(channels.consumed.sum() > 0)
        met["slow wire"] += scenario.cluster.bandwidth_bytes_per_s < 1
        met["long latency"] += scenario.cluster.network_latency_us > 10**9
        shares = run.tables["stages"].to_pandas()
        times = shares[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]]
        assert (times >= 0).all().all()
        assert (times.sum(axis=1) - 1000).abs().max() < 1e-6

    draw_until(look, lambda: all(met[name] for name in hard), MOST_RUNS)
    print(dict(met), dict(both))
    assert all(met[name] for name in hard)


def test_the_last_rounds_of_the_longest_run(both: Counter[str]) -> None:
    """Thirty years in rounds of 100 s, of which the last forty are worked: 10^18 ns are over."""
    round_us, end_us = 10**8, 10**15
    rate = 0.0912345678901234
    stages = [
        {
            "name": "source",
            "emit_rate": [
                {"at_s": 0, "rate": 0},
                {"at_s": (end_us - 40 * round_us) / 1e6, "rate": rate},
            ],
            "record_bytes": 300,
        },
        {"name": "map", "service_rate": 0.0712345678901234, "selectivity": 1 / 3},
        {"name": "sink"},
    ]
    head = {"schema": 1, "name": "late", "duration_s": 10**9, "sample_interval_s": 10**9}
    cluster = {"network_latency_ms": 2.5, "bandwidth_bytes_per_s": 31.415926535897932}
    edges = [{"from": "source", "to": "map"}, {"from": "map", "to": "sink"}]
    keys = {**head, "round_ms": round_us / 1000, "cluster": cluster, "stages": stages}
    run = simulate(parse_scenario({**keys, "edges": edges}))
    found = run.tables["stages"].to_pandas().groupby("stage")
    assert found.records_out.sum()["source"] == pytest.approx(40 * 100 * rate, abs=2)
    taken = found.records_in.sum()
    assert found.records_out.sum()["map"] == pytest.approx(taken["map"] / 3, abs=1)
    assert 0 < taken["sink"] <= taken["map"] / 3
    assert both["calls"] > 0


@pytest.mark.parametrize("kind", ["transport", "throttle"])
def test_parameters_of_other_systems_at_the_ends_of_their_ranges(
    both: Counter[str], awkward_jobs: ModuleType, kind: str, draw_until: Callable[..., None]
) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=INTERPRETED)
    @given(data=st.data())
    def look(data: Any) -> None:
        system = data.draw(awkward_jobs.systems(kind))
        scenario = data.draw(awkward_jobs.scenarios(system=system))
        note(scenario.to_yaml())
        run = simulate(scenario)
        if run.tables["channels"].to_pandas().in_flight_records.max() > 0:
            met[system[kind]["name"]] += 1

    draw_until(look, lambda: len(met) > 2, MOST_RUNS)
    print(dict(met))
    assert len(met) > 2
