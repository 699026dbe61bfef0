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

from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.memory.task_memory import times_before
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, Stage
from flowcontrol.state.tasks import TASK_INPUT
from flowcontrol.virtual import simulate

EXAMPLES = settings.default.max_examples * 3 // 5


def changed(scenario: Scenario, **keys: Any) -> Scenario:
    return scenario.model_copy(update=keys)


def run(scenario: Scenario) -> Run:
    return simulate(scenario, round_us=scenario.live_round_us)


def frames(tables: dict[str, pa.Table]) -> dict[str, pd.DataFrame]:
    return {name: table.to_pandas() for name, table in tables.items()}


def sampled(scenario: Scenario) -> Scenario:
    """The same with a sample after each round."""
    return changed(scenario, sample_interval_s=scenario.live_round_us / 1e6)


@st.composite
def networks(draw: Any, scenario: Scenario) -> Scenario:
    """The same over a network of some latency and bandwidth, its buffers debloated or not."""
    round_us, options = scenario.live_round_us, scenario.options
    cluster = {"network_latency_ms": draw(st.sampled_from([0, 0, 1, 3])) * round_us / 1000}
    if rounds := draw(st.sampled_from([0, 0, 0.2, 1, 7])):  # that a buffer takes on the wire
        seconds = rounds * round_us / 1e6
        cluster["bandwidth_bytes_per_s"] = round(options.segment_bytes / seconds, 3)
    if draw(st.booleans()):
        sizes = {"debloat_enabled": True, "debloat_period_us": draw(st.integers(1, 6)) * round_us}
        sizes |= {"debloat_target_us": 8 * round_us, "debloat_samples": 2}
        options = options.model_copy(update=sizes)
    return changed(scenario, cluster=scenario.cluster.model_copy(update=cluster), options=options)


# ---------------------------------------------------------------- after every round


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_all_that_is_emitted_is_processed_or_in_flight(
    clocks: ModuleType, accounts: ModuleType, random_jobs: ModuleType, data: Any
) -> None:
    """Records, messages, buffers and time, by channel, pool and task; also on slow networks."""
    scenario = data.draw(random_jobs.scenarios(random_jobs.Shape(is_virtual=True)))
    scenario = data.draw(networks(scenario))
    note(scenario.to_yaml())
    every = data.draw(st.sampled_from([1, 1, 4]))
    job, done = random_jobs.laid_out(scenario), 0
    for batch in clocks.kernel_rounds(job, every=every, has_all=True):
        found = list(accounts.violations(job, clocks.read(batch), batch.number + 1 - done))
        assert found == [], f"after round {batch.number}"
        done = batch.number + 1
    assert done == job.rounds


def edges_into(job: Job, plan: JobVertex) -> list[str]:
    return [link.name for link in plan.inputs]


def test_the_tables_of_a_run_balance(random_jobs: ModuleType, draw_until: Any) -> None:
    shape = random_jobs.Shape(is_virtual=True)
    moved: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        interval = data.draw(st.sampled_from([1, 3, 7.5]))
        interval_s = round(interval * scenario.live_round_us) / 1e6
        scenario = changed(data.draw(networks(scenario)), sample_interval_s=interval_s)
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        found = frames(run(scenario).tables)
        check_times(found["stages"])
        check_selectivity(job, found["stages"])
        check_cursors(found["channels"])
        for plan in job.stages:
            check_flow(job, plan, found)
        moved["records"] += int(found["stages"].records_in.sum() > 0)

    draw_until(look, lambda: moved["records"] > EXAMPLES // 3, 5)
    assert moved["records"] > EXAMPLES // 3


def check_times(stages: pd.DataFrame) -> None:
    shares = stages[["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s"]]
    assert (shares >= 0).all().all()
    assert (shares.sum(axis=1) - 1000).abs().max() < 1e-9


def check_selectivity(job: Job, stages: pd.DataFrame) -> None:
    """A stage has written all that its records yield, but for what the last one in hand does."""
    for plan in job.stages:
        head = stages[stages.stage == plan.name]
        if plan.is_source:  # how many it emitted is told by what it has written
            continue
        for member in plan.members:
            own = stages[stages.stage == member.stage.name]
            assert own.records_in.tolist() == after(head.records_in, ratios_to(plan, member.input))
            due = after(head.records_in, ratios_to(plan, member.output))
            if member.is_sink:
                assert own.records_out.tolist() == [0] * len(own)
                continue
            most = member.most_outputs
            missing = [a - b for a, b in zip(due, own.records_out, strict=True)]
            assert min(missing) >= 0
            assert max(missing) <= most


def ratios_to(plan: JobVertex, operator: int) -> list[Fraction]:
    """Ratios of the operators from a task's input to what one of them puts out, in order."""
    if operator == TASK_INPUT:
        return []
    own = plan.operators[operator]
    return [*ratios_to(plan, own.input), own.ratio]


def after(taken: pd.Series, path: list[Fraction]) -> list[int]:
    """Records that come out of some selectivities, each rounded down."""
    for part in path:
        taken = taken * part.numerator // part.denominator
    return [int(count) for count in taken]


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
    assert (c.released - c.sent - c.backlog).isin([0, 1]).all()  # 1: a full last buffer
    cumulative = ["written", "released", "announced", "sent", "consumed"]
    for _, own in c.groupby(["edge", "sender", "receiver"]):
        assert all(own[name].is_monotonic_increasing for name in cumulative)


def check_flow(job: Job, plan: JobVertex, found: dict[str, pd.DataFrame]) -> None:
    """What was emitted to a stage is what it has taken up and what is in flight to it.

    A row's records out are those of its first output; where a stage takes from another one, the
    sender's task may be blocked between the two.
    """
    if plan.is_source:
        return
    stages, channels = found["stages"], found["channels"]
    own = stages[stages.stage == plan.name].groupby("t_s").records_in.sum()
    flying = channels[channels.edge.isin(edges_into(job, plan))]
    emitted, unsure = 0, 0
    for link in plan.inputs:
        sender = job.stage(link.edge.sender)
        sent = stages[stages.stage == link.edge.sender].groupby("t_s").records_out.sum()
        emitted = emitted + width_of(link) * sent
        outputs = [o for o in sender.outputs if o.edge.sender == link.edge.sender]
        if link is not outputs[0]:
            most = sender.member(link).most_outputs
            unsure += most * width_of(link) * sender.stage.parallelism
    expected = own + flying.groupby("t_s").in_flight_records.sum()
    assert ((emitted - expected).abs() <= unsure).all()


def width_of(link: JobEdge) -> int:
    """Copies of a record on an edge: one, or one a receiver."""
    return len(link.outgoing(0)) if link.edge.partitioner == "broadcast" else 1


# ---------------------------------------------------------------- Little's law


def copies(job: Job, plan: JobVertex) -> int:
    """Records at the sinks that one becomes which a task takes up, one to one on each edge."""
    return sum(member.is_sink for member in plan.members) + sum(
        copies(job, job.stage(link.edge.receiver)) * width_of(link) for link in plan.outputs
    )


def on_the_way(job: Job, plan: JobVertex, stages: pd.DataFrame) -> pd.Series:
    """Records by time that were emitted or yielded to a stage, and that it has not taken up.

    What a record in service will yield counts: it is older by that much at the sink.
    """
    total = -stages[stages.stage == plan.name].groupby("t_s").records_in.sum()
    for link in plan.inputs:
        sender = stages[stages.stage == link.edge.sender]
        is_source = job.scenario.stage(link.edge.sender).is_source
        emitted = sender.groupby("t_s")["records_out" if is_source else "records_in"].sum()
        total = total + width_of(link) * emitted
    return total


def ages_sum(job: Job, latency: pd.DataFrame) -> int:
    """Sum over all records that the sinks took up of their ages, rounds."""
    ages = latency["count"] * latency.mean_ms * 1000 / job.round_us
    assert all(abs(age - round(age)) < 1e-6 for age in ages)
    return int(ages.round().sum())


def in_service_before_sinks(job: Job, latency: pd.DataFrame) -> int:
    """Sum over the records of chained sinks of the rounds in service in the stages before these."""
    total = 0
    for plan in job.stages:
        for member in plan.members[1:]:
            for index in range(plan.stage.parallelism if member.is_sink else 0):
                times = times_before(job.scenario, plan, member, index)
                assume(len(times) <= 1)
                own = latency[(latency.stage == member.stage.name) & (latency.subtask == index)]
                for _, us in times:
                    total += (us + job.round_us // 2) // job.round_us * int(own["count"].sum())
    return total


def test_littles_law(random_jobs: ModuleType, draw_until: Any) -> None:
    """In flight, summed over the rounds, is the ages, summed over the records: L = lambda W.

    Of a run that begins and ends empty it is an identity, not a mean. Stages yield a record for a
    record, so that each has an age, and a source's record fits into a buffer, so that it is never
    blocked in the middle of one. What it is reading from its log is not emitted. Where records
    are left over at the end (without a flusher, at the quota, behind a stage too slow), there is
    none.
    """
    shape = random_jobs.Shape(rounds=(400, 600), is_drained=True, is_virtual=True)
    hit: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        scenario = data.draw(random_jobs.scenarios(shape))
        scenario = changed(sampled(scenario), stages=tuple(map(even, scenario.stages)))
        scenario = data.draw(networks(scenario))
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        found = frames(run(scenario).tables)
        hit["run"] += 1
        total = 0
        for plan in job.stages:
            if not plan.is_source:
                way = on_the_way(job, plan, found["stages"])
                assert way.min() >= 0
                assume(way.iloc[-1] == 0)
                total += int(way.sum()) * copies(job, plan)
                if all(job.scenario.stage(link.edge.sender).is_source for link in plan.inputs):
                    into = found["channels"].edge.isin(edges_into(job, plan))
                    flying = found["channels"][into].groupby("t_s").in_flight_records.sum()
                    assert flying.tolist() == way.tolist()
        total += in_service_before_sinks(job, found["latency"])
        assert total == ages_sum(job, found["latency"])
        taken = int(found["latency"]["count"].sum())
        hit["moved"] += int(total > 0)
        hit["waited"] += int(total > 5 * taken > 0)
        hit["hops"] += int(total > 0 and any(p.inputs and p.outputs for p in job.stages))

    hard = ("moved", "waited", "hops")
    draw_until(look, lambda: min(hit[name] for name in hard) > EXAMPLES // 20, 5)
    print(dict(hit))
    for name in hard:
        assert hit[name] > EXAMPLES // 20, name


def even(stage: Stage) -> Stage:
    """A stage that yields a record for a record, none larger than a buffer."""
    size = min(stage.record_bytes, 4096)
    return stage.model_copy(update={"selectivity_exact": Fraction(1), "record_bytes": size})
