"""Random jobs through the kernel alone: nothing is lost, and Little's law holds to the record."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.emulation import Job, StagePlan
from flowcontrol.scenario import Scenario
from flowcontrol.virtual import VirtualRun, simulate

EXAMPLES = 100


def changed(scenario: Scenario, **keys: Any) -> Scenario:
    return scenario.model_copy(update=keys)


def run(scenario: Scenario) -> VirtualRun:
    return simulate(scenario, round_us=scenario.live_round_us)


def frames(tables: dict[str, pa.Table]) -> dict[str, pd.DataFrame]:
    return {name: table.to_pandas() for name, table in tables.items()}


def sampled(scenario: Scenario) -> Scenario:
    """The same with a sample after each round."""
    return changed(scenario, sample_interval_s=scenario.live_round_us / 1e6)


def later(scenario: Scenario, rounds: int) -> Scenario:
    """The same with a network so slow that a message takes so many rounds."""
    latency_ms = rounds * scenario.live_round_us / 1000
    return changed(
        scenario, cluster=scenario.cluster.model_copy(update={"network_latency_ms": latency_ms})
    )


# ---------------------------------------------------------------- after every round


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_all_that_is_emitted_is_processed_or_in_flight(
    clocks: ModuleType, accounts: ModuleType, random_jobs: ModuleType, data: Any
) -> None:
    """Records, messages, buffers and time, by channel, pool and task; also on slow networks."""
    scenario = data.draw(random_jobs.scenarios(random_jobs.Shape(is_virtual=True)))
    scenario = later(scenario, data.draw(st.sampled_from([0, 1, 2, 5])))
    note(scenario.to_yaml())
    every = data.draw(st.sampled_from([1, 1, 4]))
    job, done = random_jobs.laid_out(scenario), 0
    for batch in clocks.kernel_rounds(job, every=every):
        found = list(accounts.violations(job, clocks.read(batch), batch.number + 1 - done))
        assert found == [], f"after round {batch.number}"
        done = batch.number + 1
    assert done == job.rounds


def edges_into(job: Job, plan: StagePlan) -> list[str]:
    return [link.name for link in plan.inputs]


def test_the_tables_of_a_run_balance(random_jobs: ModuleType) -> None:
    shape = random_jobs.Shape(is_virtual=True)
    moved: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        interval = data.draw(st.sampled_from([1, 3, 7.5]))
        scenario = changed(
            later(scenario, data.draw(st.sampled_from([0, 3]))),
            sample_interval_s=round(interval * scenario.live_round_us) / 1e6,
        )
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        found = frames(run(scenario).tables)
        check_times(found["stages"])
        check_selectivity(job, found["stages"])
        check_cursors(found["channels"])
        for plan in job.stages:
            check_flow(job, plan, found)
        moved["records"] += int(found["stages"].records_in.sum() > 0)

    look()
    assert moved["records"] > EXAMPLES // 3


def check_times(stages: pd.DataFrame) -> None:
    shares = stages[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]]
    assert (shares >= 0).all().all()
    assert (shares.sum(axis=1) - 1000).abs().max() < 1e-9


def check_selectivity(job: Job, stages: pd.DataFrame) -> None:
    """A stage has sent on, or has still to send on, what the records that it took up yield."""
    for plan in job.stages:
        if plan.is_source or plan.is_sink:
            continue
        own = stages[stages.stage == plan.name]
        exact = plan.stage.selectivity_exact
        due = own.records_in * exact.numerator // exact.denominator
        assert own.records_out.tolist() == due.tolist()


def check_cursors(channels: pd.DataFrame) -> None:
    c = channels
    for low, high in (
        ("consumed", "sent"),
        ("sent", "released"),
        ("released", "written"),
        ("sent", "announced"),
    ):
        assert (c[low] <= c[high]).all(), (low, high)
    assert (c.in_flight_records >= 0).all()
    assert (c.credit >= 0).all()
    assert (c.backlog == c.released - c.sent).all()
    cumulative = ["written", "released", "announced", "sent", "consumed"]
    for _, own in c.groupby(["edge", "sender", "receiver"]):
        assert all(own[name].is_monotonic_increasing for name in cumulative)


def check_flow(job: Job, plan: StagePlan, found: dict[str, pd.DataFrame]) -> None:
    """What was emitted to a stage is what it has taken up and what is in flight to it."""
    if plan.is_source:
        return
    stages, channels = found["stages"], found["channels"]
    own = stages[stages.stage == plan.name].groupby("t_s").records_in.sum()
    flying = channels[channels.edge.isin(edges_into(job, plan))]
    emitted = 0
    for link in plan.inputs:
        sent = stages[stages.stage == link.edge.sender].groupby("t_s").records_out.sum()
        copies = plan.stage.parallelism if link.edge.partitioner == "broadcast" else 1
        emitted = emitted + copies * sent
    expected = own + flying.groupby("t_s").in_flight_records.sum()
    assert emitted.tolist() == expected.tolist()


# ---------------------------------------------------------------- Little's law


def copies(job: Job, plan: StagePlan) -> int:
    """Records at the sinks that one becomes which a stage takes up, one to one on each edge."""
    if plan.is_sink:
        return 1
    return sum(
        copies(job, job.stage(link.edge.receiver))
        * (len(link.outgoing(0)) if link.edge.partitioner == "broadcast" else 1)
        for link in plan.outputs
    )


def in_flight_sum(job: Job, channels: pd.DataFrame) -> int:
    """Sum over all rounds of the records in flight, each as often as it reaches a sink."""
    by_edge = channels.groupby("edge").in_flight_records.sum()
    total = 0
    for link in job.links:
        total += int(by_edge[link.name]) * copies(job, job.stage(link.edge.receiver))
    return total


def ages_sum(job: Job, latency: pd.DataFrame) -> int:
    """Sum over all records that the sinks took up of their ages, rounds."""
    ages = latency["count"] * latency.mean_ms * 1000 / job.round_us
    assert all(abs(age - round(age)) < 1e-6 for age in ages)
    return int(ages.round().sum())


def test_littles_law(random_jobs: ModuleType) -> None:
    """In flight, summed over the rounds, is the ages, summed over the records: L = lambda W.

    Of a run that begins and ends empty it is an identity, not a mean. Stages yield a record for a
    record, so that each has an age. Where records are left over at the end (without a flusher, at
    the quota, behind a stage too slow), there is none.
    """
    shape = random_jobs.Shape(rounds=(400, 600), is_drained=True, is_virtual=True)
    hit: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        even = [s.model_copy(update={"selectivity_exact": Fraction(1)}) for s in scenario.stages]
        scenario = changed(sampled(scenario), stages=tuple(even))
        scenario = later(scenario, data.draw(st.sampled_from([0, 3])))
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        found = frames(run(scenario).tables)
        channels = found["channels"]
        hit["run"] += 1
        assume(channels[channels.t_s == channels.t_s.max()].in_flight_records.sum() == 0)
        hit["drained"] += 1
        taken = int(found["latency"]["count"].sum())
        total = in_flight_sum(job, channels)
        assert total == ages_sum(job, found["latency"])
        if taken:
            hit["moved"] += 1
            hit["waited"] += int(total > 5 * taken)
            hit["hops"] += int(len(job.stages) > 2)

    look()
    print(dict(hit))
    for name in ("moved", "waited", "hops"):
        assert hit[name] > EXAMPLES // 20, name
