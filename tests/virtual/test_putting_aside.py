"""Checkpoints of Flink 1.4 on the virtual clock: random jobs, closed forms, its disk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import flowcontrol
from flowcontrol.experiments.compare import compare
from flowcontrol.layout.job import CheckpointSettings, Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE, PUTTING_ASIDE
from flowcontrol.results.figures import aside_figures
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.state.queues import BARRIER
from flowcontrol.virtual import simulate
from modules import load
from staged_runs import RoundRows

accounts = load("tests/virtual/accounts.py")
clocks = load("tests/virtual/clocks.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")
wire_accounts = load("tests/virtual/wire_accounts.py")

EXAMPLES = max(3, settings.default.max_examples // 6)
CHECKPOINT = "execution.checkpointing."
LIMIT = "task.checkpoint.alignment.max-size"

tcp = load("tests/virtual/test_tcp.py")

pytestmark = pytest.mark.usefixtures("whole_kernel")


# ---------------------------------------------------------------- random jobs


def with_checkpoints(job: Job, made: CheckpointSettings, is_exact: bool) -> Job:
    """The job with checkpoints as Flink 1.4 has them."""
    mode = PUTTING_ASIDE if is_exact else AT_LEAST_ONCE
    return replace(job, checkpoints=replace(made, mode=mode, after_tasks_finish=False))


@st.composite
def jobs(draw: Any, random_jobs: ModuleType, checkpoints: ModuleType, is_drained: bool) -> Job:
    if is_drained:
        made = tcp.drained(draw, random_jobs)
    else:
        shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
        made = tcp.drawn_parts(draw, draw(random_jobs.scenarios(shape)))
    changes: dict[str, Any] = {}
    if draw(st.booleans()):  # of a disk that is slow
        rounds = draw(st.sampled_from([0.3, 2]))
        rate = made.options.segment_bytes / (rounds * made.live_round_us / 1e6)
        changes["cluster"] = made.cluster.model_copy(update={"disk_bytes_per_s": rate})
    if draw(st.sampled_from([True, False, False])):
        limit = 3 * made.options.segment_bytes
        options = made.options.model_copy(update={"alignment_bytes_limit": limit})
        changes["options"] = options
    job = random_jobs.laid_out(made.model_copy(update=changes))
    drawn = draw(checkpoints.settings_of(job.round_us, 0))
    return with_checkpoints(job, drawn, draw(st.sampled_from([True, True, True, False])))


def happened(wires: Any, seen: Counter[str]) -> None:
    """Note what the states show."""
    state = wires.reader.read()
    for task in state.tasks:
        held = task.checkpoints
        if held is None or held.aside is None:
            continue
        seen["put aside"] += len(held.aside.behind) > 0
        seen["played back"] += held.aside.state.read > 0
        seen["waits for the disk"] += len(held.aside.writing) > 0
        seen["file is read"] += held.aside.state.loading > 0


@pytest.mark.long
@pytest.mark.holds("tcp", "virtual", "with checkpoints: consistent cuts, random jobs")
def test_random_jobs_keep_the_rules(draw_until: Any) -> None:
    """After every round all records are somewhere; what a checkpoint took is consistent."""
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(job=jobs(random_jobs, random_checkpoints, is_drained=False))
    def look(job: Job) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        wires = wire_accounts.Wires(job)
        for _ in range(job.rounds):
            wires.run()
            batch = wires.state(clocks.read, RoundRows)
            found = list(wires.violations_of(batch, accounts))
            assert found == [], f"after round {wires.done - 1}"
            happened(wires, seen)
        assert job.checkpoints is not None
        for (channel, checkpoint), (written, processed) in wires.cuts().items():
            seen["cuts"] += 1
            if job.checkpoints.mode == PUTTING_ASIDE:
                assert written == processed, f"checkpoint {checkpoint} of channel {channel}"
            else:
                assert written <= processed
                seen["at least once"] += 1

    hard = ("put aside", "waits for the disk", "cuts", "at least once")
    draw_until(look, lambda: min(seen[name] for name in hard) > 0, 8)
    print(dict(seen))
    assert [name for name in hard if seen[name] == 0] == []


@pytest.mark.long
def test_everything_arrives(draw_until: Any) -> None:
    """Once the sources have stopped all records get through, whatever was put aside."""
    read = [0]

    @settings(max_examples=EXAMPLES)
    @given(job=jobs(random_jobs, random_checkpoints, is_drained=True))
    def look(job: Job) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        assert job.checkpoints is not None
        own = replace(job.checkpoints, interval_us=15 * job.round_us)
        wires = wire_accounts.Wires(replace(job, checkpoints=own))
        wires.finish(job.rounds)
        for _ in range(40):  # no longer than it takes: each checkpoint costs
            if any(wires.left()):
                wires.finish(500)
        assert wires.left() == [0] * len(wires.memory.outs)
        read.append(sum(one["bytes_read"] for one in aside_figures(job, wires.memory).values()))

    draw_until(look, lambda: max(read) > 0, 8)
    assert max(read) > 0


def test_a_job_runs_on_beyond_its_rounds() -> None:
    """Once a source has finished no checkpoint is due, neither within the run nor behind it."""
    ends = [{"at_s": 0, "rate": 100}, {"at_s": 4, "rate": 0}]
    job = build_physical_graph(job_of(ends, ends, 80))
    wires = wire_accounts.Wires(job)
    wires.finish(job.rounds)
    assert sum(wires.left()) > 0
    wires.finish(job.rounds)
    assert sum(wires.left()) == 0
    assert wires.memory.head.round == 2 * job.rounds


# ---------------------------------------------------------------- closed forms


def job_of(
    left: Any, right: Any, sink: Any, options: dict[str, Any] | None = None, **keys: Any
) -> Scenario:
    """Two sources on machines of their own, and a sink; rounds of 10 ms, buffers of 4 KiB."""
    both = {"record_bytes": 1024}
    return parse_scenario(
        {
            "schema": 1,
            "name": "aside",
            "duration_s": 8,
            "round_ms": 10,
            "system": "flink-1.4",
            "cluster": {"task_managers": 3, **keys.pop("cluster", {})},
            "stages": [
                {"name": "left", "emit_rate": left, "placement": [0], **both},
                {"name": "right", "emit_rate": right, "placement": [1], **both},
                {"name": "sink", "service_rate": sink, "placement": [2], **both},
            ],
            "edges": [{"from": "left", "to": "sink"}, {"from": "right", "to": "sink"}],
            **keys,
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "execution.buffer-timeout.interval": "10ms",
                CHECKPOINT + "interval": "3s",
                **(options or {}),
            },
        }
    )


def sink_rows(run: Any) -> Any:
    frame = run.tables["checkpoint_tasks"].to_pandas()
    return frame[frame.stage == "sink"].reset_index(drop=True)


def test_what_is_put_aside_is_the_rate_of_the_blocked_channel_times_the_alignment() -> None:
    """Left has nothing in flight and goes on at its rate while right's barrier is awaited.

    A record a round, flushed: 1024 bytes, and 9 of a header in the file.
    """
    run = simulate(job_of(100, 2000, 1000))
    [first, *_] = sink_rows(run).itertuples()
    assert first.alignment_ms > 1000
    records = round(100 * first.alignment_ms / 1000)
    own = run.put_aside["sink"]
    frame = run.tables["checkpoints"].to_pandas()
    assert frame.status.iloc[0] == "completed"
    assert own["read_memory_bytes"] == 1 << 20
    assert own["max_bytes"] == own["bytes_read"] == records * (1024 + 9)


def test_the_sink_goes_on_at_its_rate_and_the_slow_channel_drains() -> None:
    """In an alignment all of the sink's work is right's: in flight ahead of the barrier / rate."""
    run = simulate(job_of(100, 2000, 1000))
    [first, *_] = sink_rows(run).itertuples()
    seconds = first.alignment_ms / 1000
    assert first.processed_bytes == pytest.approx(1000 * 1024 * seconds, rel=0.02)


def test_senders_do_not_wait_behind_a_barrier() -> None:
    """Under credits left's sender blocks itself and is back-pressured; here it never is."""
    states = list(flowcontrol.rounds(job_of(100, 2000, 1000, duration_s=3.5)))
    outs = [state.channel("left->sink")[0].state for state in states]
    assert max(out.is_blocked for out in outs) == max(out.blocks for out in outs) == 0
    kinds = {one.kind for state in states for one in state.channel("left->sink")[1].queue}
    assert BARRIER in kinds
    assert sum(state.task("left").backpressured_us for state in states) == 0
    aside = [state.task("sink").checkpoints.aside for state in states]
    assert max(len(one.behind) for one in aside) > 10
    assert max(state.task("sink").gates[0].pool.in_use for state in states) <= 10


def test_the_limit_aborts_a_checkpoint_and_the_job_goes_on() -> None:
    """As much as 50 records of left: with more the sink declines, and plays them back."""
    options = {LIMIT: 50 * 1033, CHECKPOINT + "tolerable-failed-checkpoints": 9}
    run = simulate(job_of(100, 2000, 1000, options))
    frame = run.tables["checkpoints"].to_pandas()
    assert set(frame.status[:2]) == {"declined"}
    assert run.put_aside["sink"]["max_bytes"] == pytest.approx(51 * 1033, rel=0.02)
    assert run.put_aside["sink"]["bytes_read"] == run.put_aside["sink"]["bytes_written"]


def test_a_slow_disk_keeps_buffers_and_stops_the_channel() -> None:
    """At a tenth of left's rate the gate's ten buffers are all being written: left is blocked."""
    free = simulate(job_of(400, 2000, 1000, duration_s=5))
    slow = simulate(job_of(400, 2000, 1000, cluster={"disk_bytes_per_s": 40_000}, duration_s=5))
    written = [run.put_aside["sink"]["bytes_written"] for run in (free, slow)]
    assert written[0] > 3 * written[1] > 0
    aside = written[1] - 10 * 4105  # those that the pool holds are on their way
    assert aside <= 40_000 * 2


def test_an_older_flink_takes_no_checkpoints_once_a_source_has_finished() -> None:
    ends = [{"at_s": 0, "rate": 100}, {"at_s": 4, "rate": 0}]
    run = simulate(job_of(ends, 200, 1000))
    assert run.tables["checkpoints"].to_pandas().status.tolist() == ["completed"]


# ---------------------------------------------------------------- failures


@pytest.mark.parametrize("bandwidth", [None, 3_000_000])
def test_a_job_begins_again_from_its_checkpoint(bandwidth: float | None) -> None:
    """All records are there in the end, once more those behind the checkpoint; files are gone."""
    ends = [{"at_s": 0, "rate": 400}, {"at_s": 6, "rate": 0}]
    cluster = {} if bandwidth is None else {"bandwidth_bytes_per_s": bandwidth}
    options = {"restart-strategy.type": "fixed-delay", CHECKPOINT + "interval": "1s"}
    made = job_of(
        ends,
        [{"at_s": 0, "rate": 1200}, {"at_s": 6, "rate": 0}],
        1500,
        options,
        cluster=cluster,
        duration_s=20,
        failures=[{"at_s": 4.05, "stage": "sink", "subtask": 0}],
    )
    run = simulate(made)
    [restart] = run.tables["restarts"].to_pylist()
    assert restart["checkpoint_id"] >= 1
    assert restart["tasks"] == 3
    ends = run.tables["channels"].to_pandas().query("t_s == 20")
    assert ends.in_flight_records.tolist() == [0, 0]
    last = run.tables["stages"].to_pandas().query("t_s == 20").set_index("stage")
    lost = last.records_out.left + last.records_out.right - last.records_in.sink
    assert 0 < lost <= restart["records_reprocessed"]  # in flight when it failed, emitted again
    clean = simulate(parse_scenario({**made.canonical(), "failures": []}))
    assert run.put_aside["sink"]["bytes_read"] <= run.put_aside["sink"]["bytes_written"]
    rest = clean.tables["stages"].to_pandas().query("t_s == 20").set_index("stage")
    assert (int(rest.records_in.sink), int(rest.records_out.left)) == (9600, 2400)


def test_what_is_under_way_to_a_region_that_fails_is_dropped() -> None:
    """Two pipelines share a connection: one fails, the other one's messages arrive."""
    stages = [
        {"name": "A", "parallelism": 2, "emit_rate": 400, "placement": [0, 0]},
        {"name": "B", "parallelism": 2, "service_rate": 500, "placement": [1, 1]},
    ]
    made = parse_scenario(
        {
            "schema": 1,
            "name": "regions",
            "duration_s": 6,
            "round_ms": 10,
            "system": "flink-1.4",
            "cluster": {"network_latency_ms": 50},
            "stages": [{"record_bytes": 1024, **stage} for stage in stages],
            "edges": [{"from": "A", "to": "B", "partitioner": "forward"}],
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "restart-strategy.type": "fixed-delay",
                CHECKPOINT + "interval": "1s",
            },
            "failures": [{"at_s": 3.005, "stage": "B", "subtask": 0}],
        }
    )
    run = simulate(made)
    [restart] = run.tables["restarts"].to_pylist()
    assert restart["tasks"] == 2
    frame = run.tables["stages"].to_pandas().query("t_s == 6 and stage == 'B'")
    assert frame.records_in.tolist()[1] == pytest.approx(400 * 6 - 40, abs=60)
    assert frame.records_in.tolist()[0] > 400 * 4


# ---------------------------------------------------------------- beside credits


def test_compare_shows_the_difference_of_a_skewed_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``flowcontrol compare --systems flink-1.4,flink``: the connection is full ahead of a barrier.

    Under credits no more is than the buffers of a gate and of a partition.
    """
    monkeypatch.chdir(tmp_path)
    made = job_of(100, 2000, 1000, duration_s=12)
    (tmp_path / "skewed.yaml").write_text(made.to_yaml())
    found = compare(tmp_path / "skewed.yaml", systems=["flink-1.4", "flink"], processes=1)
    [old, new] = found.tables["results"].to_pylist()
    assert (old["system"], new["system"]) == ("flink-1.4", "flink")
    assert old["checkpoint_e2e_p50_ms"] > 20 * new["checkpoint_e2e_p50_ms"] > 0
    held = {row["system"]: row["peak_bytes"] for row in (old, new)}
    assert held["flink-1.4"] > 20 * held["flink"]
