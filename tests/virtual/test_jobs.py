"""Jobs that start and stop: pools by hand, excess that comes back, waits, failures, totals."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import RunError
from flowcontrol.kernel.jobs import Timeline
from flowcontrol.kernel.loop import advance
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.memory.fill import fill
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.memory.memory import Memory
from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

BUFFERS = "taskmanager.network.numberOfBuffers"
TIMEOUT = "taskmanager.network.memory.buffers-request-timeout"
ROUND_MS = 10
SEGMENT = 4096


def chain(name: str, managers: int = 2, rate: float = 400, service: Any = 100, **keys: Any) -> Any:
    """A job of one channel whose records are a quarter of a buffer; its sink is slow."""
    placement = keys.pop("placement", [0, managers - 1])
    return {
        "name": name,
        "stages": [
            {"name": f"{name}-a", "emit_rate": rate, "record_bytes": SEGMENT // 4,
             "placement": [placement[0]]},
            {"name": f"{name}-b", "service_rate": service, "placement": [placement[1]]},
        ],
        "edges": [{"from": f"{name}-a", "to": f"{name}-b"}],
        **keys,
    }  # fmt: skip


def scenario(jobs: list[Any], buffers: int, managers: int = 2, **keys: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "name": "jobs",
        "duration_s": keys.pop("duration_s", 6),
        "round_ms": ROUND_MS,
        "sample_interval_s": keys.pop("sample_interval_s", 0.5),
        "cluster": {"task_managers": managers, **keys.pop("cluster", {})},
        "options": {
            "taskmanager.memory.segment-size": SEGMENT,
            BUFFERS: buffers,
            **keys.pop("options", {}),
        },
        "jobs": jobs,
    }


def run(mapping: dict[str, Any]) -> Run:
    return simulate(parse_scenario(mapping))


def rows(found: Run, stage: str) -> pd.DataFrame:
    frame = found.tables["stages"].to_pandas()
    return frame[frame.stage == stage].set_index("t_s")


class Step(NamedTuple):
    """The state before a round, after jobs have started and stopped."""

    number: int
    memory: Memory
    timeline: Timeline

    def sizes(self, job: str) -> tuple[int, ...]:
        """Sizes of a job's pools; none where it holds nothing."""
        held = self.timeline.allocation.held.get(job, [])
        return tuple(int(holding.pool.size) for holding in held)

    def used(self, job: str) -> tuple[int, ...]:
        return tuple(int(h.pool.state.in_use) for h in self.timeline.allocation.held[job])

    def state(self, job: str) -> str:
        return next(run.state for run in self.timeline.runs if run.span.name == job)


def walk(mapping: dict[str, Any]) -> Iterator[Step]:
    """Run a scenario round by round."""
    job = build_physical_graph(parse_scenario(mapping), round_us=ROUND_MS * 1000)
    memory = fill(job, LogSizes(1 << 14, 1 << 14), track=False)
    timeline = Timeline(job, memory)
    for number in range(job.rounds):
        timeline.act(number)
        yield Step(number, memory, timeline)
        assert advance(memory.cells, number + 1) == 0
    timeline.finish()
    yield Step(job.rounds, memory, timeline)


# ---------------------------------------------------------------- one job


def test_a_single_job_is_the_scenario_without_jobs() -> None:
    job = chain("one")
    alone = {key: value for key, value in scenario([], 40).items() if key != "jobs"}
    alone |= {"stages": job["stages"], "edges": job["edges"]}
    plain, listed = run(alone), run(scenario([job], 40))
    assert plain.jobs == ()
    assert [job["state"] for job in listed.jobs] == ["finished"]
    assert plain.tables.keys() == listed.tables.keys()
    for name, table in plain.tables.items():
        assert table.equals(listed.tables[name]), name


# ---------------------------------------------------------------- sizes by hand

# As in tests/job/test_allocation.py; the second job runs from 2 to 4 s.
BY_HAND = [
    (1, 21, (10, 8), (6, 4), (6, 5)),
    (1, 36, (10, 8), (10, 8), (10, 8)),
    (2, 12, (10, 8), (6, 4), (6, 4)),
    (2, 6, (6, 4), (3, 1), (3, 1)),
]


@pytest.mark.parametrize(("managers", "buffers", "alone", "first", "second"), BY_HAND)
def test_pools_before_during_and_after_a_second_job(
    managers: int,
    buffers: int,
    alone: tuple[int, int],
    first: tuple[int, int],
    second: tuple[int, int],
) -> None:
    jobs = [chain("one", managers), chain("two", managers, start_at_s=2, stop_at_s=4)]
    mapping = scenario(jobs, buffers, managers)
    for step in walk(mapping):
        runs = 200 <= step.number < 400
        assert step.sizes("one") == (first if runs else alone), step.number
        assert step.sizes("two") == (second if runs else ()), step.number
    found = run(mapping)
    sizes = rows(found, "one-a").output_pool_size
    assert sizes[[0.5, 2.0, 2.5, 4.0, 4.5, 6.0]].tolist() == [
        alone[0], alone[0], first[0], first[0], alone[0], alone[0]
    ]  # fmt: skip
    assert set(rows(found, "two-a").output_pool_size[[0.5, 2.0, 4.5, 6.0]]) == {0}
    assert rows(found, "two-a").output_pool_size[3.0] == second[0]


def test_excess_comes_back_as_it_is_recycled() -> None:
    """The first job's pools are full when the second starts: they are above their new sizes."""
    jobs = [chain("one", service=20), chain("two", start_at_s=2)]
    above = []  # buffers of the first gate that are more than its size
    for step in walk(scenario(jobs, 12)):
        if step.number >= 200:
            above.append(step.used("one")[1] - step.sizes("one")[1])
    assert above[0] == 4
    down = above[: above.index(0) + 1]
    assert down == sorted(down, reverse=True)
    assert len(down) > 10  # 20 records/s: it takes a while
    assert max(above[len(down) :]) <= 0


def test_a_pool_without_a_segment_gets_the_first_that_comes_back() -> None:
    """All 10 buffers are used when the second job starts: its partition begins with none."""
    jobs = [chain("one", service=20), chain("two", start_at_s=2)]
    got = {}
    for step in walk(scenario(jobs, 10)):
        if step.number >= 200:
            pool = step.timeline.allocation.held["two"][0].pool
            got[step.number] = int(pool.state.in_use + pool.free)
    assert got[200] == 0
    assert max(got.values()) > 1
    found = run(scenario(jobs, 10))
    assert rows(found, "two-b").records_in[6.0] > 100


# ---------------------------------------------------------------- waiting, failing


def test_a_start_waits_for_exclusive_buffers_until_they_come_back() -> None:
    """The first sink stands still until 3 s and holds 8 + 2 of 12 buffers: 2 are free, 3 needed."""
    service = [{"at_s": 0, "rate": 0}, {"at_s": 3, "rate": 100}]
    jobs = [chain("one", service=service), chain("two", start_at_s=2)]
    states = {step.number: step.state("two") for step in walk(scenario(jobs, 12))}
    assert {states[number] for number in range(200)} == {"due"}
    assert {states[number] for number in range(200, 300)} == {"starting"}
    assert states[310] == "running"
    found = run(scenario(jobs, 12))
    assert [job["state"] for job in found.jobs] == ["finished", "finished"]
    two = rows(found, "two-b").records_in
    assert two[3.0] == 0 < two[6.0]


@pytest.mark.parametrize(("timeout", "state"), [("900 ms", "failed"), ("1100 ms", "finished")])
def test_a_start_that_waits_too_long_fails_in_flinks_words(timeout: str, state: str) -> None:
    service = [{"at_s": 0, "rate": 0}, {"at_s": 3, "rate": 100}]
    jobs = [chain("one", service=service), chain("two", start_at_s=2)]
    found = run(scenario(jobs, 12, options={TIMEOUT: timeout}))
    assert [job["state"] for job in found.jobs] == ["finished", state]
    if state == "failed":
        message = found.jobs[1]["message"]
        assert message.startswith("Timeout triggered when requesting exclusive buffers: The total")
        assert "set to 12 of 4096 bytes each" in message
        assert f"900ms by setting the key '{TIMEOUT}'" in message
        assert rows(found, "two-b").records_in.max() == 0
    assert rows(found, "one-a").output_pool_size[6.0] == (10 if state == "failed" else 6)


def test_a_job_that_does_not_fit_fails_and_the_others_go_on() -> None:
    """One task manager with 8 buffers: two jobs require 6, the gate of a third finds none."""
    jobs = [chain(name, 1, start_at_s=k) for k, name in enumerate(("one", "two", "three"))]
    found = run(scenario(jobs, 8, managers=1))
    assert [job["state"] for job in found.jobs] == ["finished", "finished", "failed"]
    assert found.jobs[0] == {
        "name": "one", "start_at_s": 0.0, "stop_at_s": None, "state": "finished", "message": None
    }  # fmt: skip
    assert found.jobs[2]["message"].startswith(
        "three-b subtask 0, task manager 0: Insufficient number of network buffers: required 1, "
        "but only 0 available. The total number of network buffers is currently set to 8 of 4096 "
        "bytes each."
    )
    alone = run(scenario(jobs[:2], 8, managers=1))
    for stage in ("one-a", "one-b", "two-a", "two-b"):
        assert rows(found, stage).equals(rows(alone, stage))
    last = rows(found, "three-a").loc[6.0]
    shares = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s", "records_out")
    assert [last[name] for name in shares] == [0, 0, 0, 0]


def test_when_no_job_fits_the_run_fails() -> None:
    with pytest.raises(RunError) as failed:
        run(scenario([chain("one"), chain("two", start_at_s=1)], 1))
    assert "no job could run: one: one-a subtask 0, task manager 0: Insuff" in str(failed.value)
    assert "two: two-a subtask 0" in str(failed.value)


def test_a_job_due_within_the_last_round_says_so() -> None:
    jobs = [chain("one"), chain("two", start_at_s=5.995)]
    found = run(scenario(jobs, 40))
    assert found.jobs[1]["state"] == "failed"
    assert found.jobs[1]["message"] == "it was to start within the last round"


# ---------------------------------------------------------------- before and after


def test_nothing_is_done_before_the_start_and_after_the_stop() -> None:
    jobs = [chain("one"), chain("two", start_at_s=2, stop_at_s=4)]
    found = run(scenario(jobs, 40))
    assert [job["state"] for job in found.jobs] == ["finished", "stopped"]
    for stage in ("two-a", "two-b"):
        own = rows(found, stage)
        absent = own[(own.index <= 2.0) | (own.index > 4.0)]
        levels = ["busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s", "rate_in",
                  "rate_out", "in_pool_usage", "out_pool_usage", "floating_buffers_usage",
                  "exclusive_buffers_usage", "input_queue_buffers", "output_queue_buffers",
                  "output_pool_size", "output_pool_used"]  # fmt: skip
        assert (absent[levels] == 0).all(axis=None)
        times = own.busy_ms_per_s + own.idle_ms_per_s + own.backpressured_ms_per_s
        assert times[2.5:4.0].round(6).tolist() == [1000] * 4
        counters = own[["records_in", "records_out"]]
        assert (counters[:2.0] == 0).all(axis=None)
        assert (counters[4.0:] == counters.loc[4.0]).all(axis=None)
        assert counters.loc[4.0].sum() > 0
    channels = found.tables["channels"].to_pandas()
    own = channels[channels.edge == "two-a->two-b"].set_index("t_s")
    assert own.announced[[0.5, 2.0, 2.5]].tolist()[:2] == [0, 0]
    assert own.announced[2.5] > 2
    cursors = ["written", "released", "announced", "sent", "consumed"]
    assert (own[cursors].diff().dropna() >= 0).all(axis=None)
    assert (own[cursors][4.0:] == own[cursors].loc[4.0]).all(axis=None)
    levels = ["credit", "backlog", "exclusive_free", "floating_held", "queued",
              "in_flight_records", "in_flight_bytes"]  # fmt: skip
    assert (own[levels][(own.index <= 2.0) | (own.index > 4.0)] == 0).all(axis=None)
    assert own.in_flight_records[3.0] > 0
    latency = found.tables["latency"].to_pandas()
    assert set(latency[latency.stage == "two-b"].t_s) <= {2.5, 3.0, 3.5, 4.0}


def test_a_job_can_start_when_another_one_stops() -> None:
    """3 buffers hold one of them at a time; stops come before starts."""
    jobs = [chain("one", 1, stop_at_s=3), chain("two", 1, start_at_s=3)]
    found = run(scenario(jobs, 3, managers=1))
    assert [job["state"] for job in found.jobs] == ["stopped", "finished"]
    assert rows(found, "two-b").records_in[6.0] > 100


def test_samples_change_nothing() -> None:
    jobs = [chain("one", service=20), chain("two", start_at_s=2, stop_at_s=4.005),
            chain("three", start_at_s=2.5, service=300)]  # fmt: skip
    few, many = (run(scenario(jobs, 14, sample_interval_s=each)) for each in (6, 0.07))
    for stage in ("one-b", "two-b", "three-b"):
        columns = ["records_in", "output_pool_used", "input_queue_buffers"]
        assert rows(few, stage)[columns].loc[6.0].equals(rows(many, stage)[columns].loc[6.0])


def test_a_shared_connection_forgets_a_job_that_stops() -> None:
    """Both jobs send over one slow connection; what the second had queued there is gone."""
    cluster = {"bandwidth_bytes_per_s": 100_000, "network_latency_ms": 30}
    jobs = [chain("one", service=1000), chain("two", service=1000, stop_at_s=3)]
    found = run(scenario(jobs, 60, cluster=cluster))
    one = rows(found, "one-b").records_in
    # 100,000 bytes/s are some 96 records/s: half of them each, then all for the first.
    assert one[3.0] - one[2.0] == pytest.approx(48, abs=4)
    assert one[6.0] - one[4.0] == pytest.approx(2 * 96, abs=8)
    assert [job["state"] for job in found.jobs] == ["finished", "stopped"]


# ---------------------------------------------------------------- never more than there are

SECONDS = st.integers(0, 99).map(lambda tenths: tenths / 50)


@st.composite
def job_lists(draw: st.DrawFn) -> dict[str, Any]:
    managers = draw(st.integers(1, 2))
    jobs = []
    for number in range(draw(st.integers(2, 4))):
        name, start = f"j{number}", draw(SECONDS)
        width = draw(st.integers(1, 3))
        job = chain(name, managers, rate=draw(st.integers(0, 800)),
                    service=draw(st.sampled_from([0, 50, 500])), start_at_s=start)  # fmt: skip
        for stage in job["stages"]:
            stage["parallelism"] = width
            stage["placement"] = draw(
                st.lists(st.integers(0, managers - 1), min_size=width, max_size=width)
            )
        kinds = ["rebalance", "forward", *(["broadcast"] if width > 1 else [])]
        job["edges"][0]["partitioner"] = draw(st.sampled_from(kinds))
        if draw(st.booleans()) and start < 1.96:
            job["stop_at_s"] = round(start + draw(st.integers(1, 100)) / 50, 2)
            job["stop_at_s"] = min(job["stop_at_s"], 2)
        jobs.append(job)
    options = {TIMEOUT: draw(st.sampled_from(["0 ms", "200 ms", "30 s"]))}
    return scenario(jobs, draw(st.integers(2, 60)), managers, duration_s=2, options=options)


@given(job_lists())
def test_never_more_segments_are_out_than_there_are(mapping: dict[str, Any]) -> None:
    for step in walk(copy.deepcopy(mapping)):
        allocation = step.timeline.allocation
        for manager, network in enumerate(allocation.networks):
            own = [h for held in allocation.held.values() for h in held
                   if h.demand.manager == manager]  # fmt: skip
            out = sum(int(h.pool.state.in_use) + int(h.pool.free) + h.taken for h in own)
            assert network.state.free >= 0
            assert out + network.state.free == network.state.total
            paper = sum(h.taken + h.promised for h in own)
            assert network.state.unpooled == paper
            assert sum(int(h.pool.size) for h in own) + paper <= network.state.total
        outs = step.memory.outs
        for run_ in step.timeline.runs:
            if run_.state not in {"running", "finished"}:
                tasks = [step.memory.places.tasks[name] for name in run_.span.stages]
                assert (step.memory.tasks["wake"][tasks] == -1).all()
        assert len(outs) == step.memory.head.channels
