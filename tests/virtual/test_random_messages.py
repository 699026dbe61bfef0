"""Random jobs: the trace of messages alone gives what the tables say of every channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import UNALIGNED
from flowcontrol.protocol.checkpoints.barriers import BARRIER_BYTES
from flowcontrol.results.running import step
from flowcontrol.trace.message_table import Window, messages_of
from flowcontrol.trace.messages import Message
from flowcontrol.virtual import run_job
from flowcontrol.virtual.clock import record
from modules import load
from staged_runs import run_staged

message_replay = load("tests/job/message_replay.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")

EXAMPLES = max(2, settings.default.max_examples // 4)
MOST_RUNS = 12

EVENTS = {
    "BacklogAnnouncement",
    "credit 0",
    "event at credit 0",
    "floating",
    "slice of a flush",
    "broadcast",
    "late credit",
    "wire",
}
"""What must have happened in some of the runs."""

OF_CHECKPOINTS = {
    "ResumeConsumption",
    "AckAllUserRecordsProcessed",
    "CancelPartitionRequest",
    "unaligned barrier",
}
OF_FAILURES = {"restart", "ErrorResponse", "CancelPartitionRequest", "died"}


def sampled(job: Job) -> Job:
    """Return a job whose tables have a sample after every round."""
    scenario = job.scenario.model_copy(update={"sample_interval_s": job.round_us / 1e6})
    return replace(job, scenario=scenario)


@st.composite
def on_wires(draw: Any, job: Job) -> Job:
    """Let messages take some rounds, and let some of these be waited for on a wire."""
    ms = draw(st.sampled_from([0, 0, 1, 2.5])) * job.round_us / 1000
    each = 1_000_000 / job.round_us * draw(st.sampled_from([4139, 9000, 40_000]))
    keys = {
        "network_latency_ms": round(ms, 3),
        "bandwidth_bytes_per_s": draw(st.sampled_from([None, None, None, round(each)])),
    }
    cluster = job.scenario.cluster.model_copy(update=keys)
    return replace(job, scenario=job.scenario.model_copy(update={"cluster": cluster}))


def whole(job: Job) -> Window:
    """The window that is the whole run."""
    return Window(0, job.rounds * job.round_us)


def check(job: Job, messages: list[Message], replay: Any) -> Counter[str]:
    """Compare what a replay of a trace says with the tables, sample by sample."""
    trip = max(1, -(-job.scenario.cluster.network_latency_us // job.round_us)) * job.round_us
    replayed = replay.Replay(messages, trip)
    tables = run_job(job).tables["channels"].to_pylist()
    remote = {
        (link.name, one.sender, one.receiver)
        for link in job.links
        for one in link.channels
        if not one.is_local
    }
    waits = job.scenario.cluster.bandwidth_bytes_per_s is not None
    down, now_s, has_barriers = down_by_round(job), -1.0, job.checkpoints is not None
    for row in tables:
        name = row["edge"], row["sender"], row["receiver"]
        if row["t_s"] != now_s:
            now_s = row["t_s"]
            replayed.until(now_s)
        if name not in remote:
            assert name not in replayed.channels
            continue
        own, is_down = replayed.channels[name], name in down.get(replay.us(now_s), ())
        where = f"{name} at {now_s}"
        if is_down:
            continue
        found = own.credit, own.announced, own.sent
        assert found == (row["credit"], row["announced"], row["sent"]), where
        if own.credit > 0 and not waits:  # or a message would have gone
            assert row["backlog"] == 0, where
            # A barrier may close a buffer that was sent to its last byte: it is dropped unseen.
            assert own.told_us < replay.us(now_s) or has_barriers or own.backlog == 0, where
        elif own.told_us == replay.us(now_s):  # nothing comes behind a message in a round
            assert own.backlog == row["backlog"], where
        else:
            assert row["backlog"] >= (own.backlog or 0), where
    return replayed.seen


def down_by_round(job: Job) -> dict[int, set[tuple[str, int, int]]]:
    """By the end of a round, the channels of which an end is not deployed; only of failures."""
    if job.faults is None:
        return {}
    found = {}
    for state in step(job):
        gone = {(task.stage, task.subtask) for task in state.tasks if not task.is_running}
        found[state.end_us] = {
            (link.name, one.sender, one.receiver)
            for link in job.links
            for one in link.channels
            if (job.stage(link.edge.sender).name, one.sender) in gone
            or (job.stage(link.edge.receiver).name, one.receiver) in gone
        }
    return found


def happened(job: Job, messages: list[Message]) -> Iterator[str]:
    """Tell what a trace shows besides."""
    first = job.scenario.options.exclusive_buffers
    if any(one.edge.partitioner == "broadcast" and len(one.channels) > 1 for one in job.links):
        yield "broadcast"
    if any(one.name == "AddCredit" and (one.credit or 0) > first for one in messages):
        yield "floating"
    data = [one for one in messages if one.name == "BufferResponse" and one.credit == 1]
    if any(0 < (one.bytes or 0) < 4096 for one in data):
        yield "slice of a flush"
    if job.scenario.cluster.network_latency_us > job.round_us:
        yield "late credit"
    if job.scenario.cluster.bandwidth_bytes_per_s is not None and data:
        yield "wire"


@pytest.mark.holds("credit", "virtual", "a replay of every message: random jobs, each round")
def test_the_trace_alone_gives_credits_backlogs_and_sequence_numbers(
    whole_kernel: None, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = random_jobs.laid_out(data.draw(random_jobs.scenarios(shape)))
        job = sampled(data.draw(on_wires(job)))
        note(job.scenario.to_yaml())
        assume(job.links)
        messages = record(job, whole(job))
        seen.update(check(job, messages, message_replay))
        seen.update(set(happened(job, messages)))

    draw_until(look, lambda: set(+seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(+seen) == set()


@pytest.mark.parametrize("fails", [False, True])
def test_with_checkpoints_and_failures_too(
    whole_kernel: None, draw_until: Any, *, fails: bool
) -> None:
    seen: Counter[str] = Counter()
    wanted = OF_FAILURES if fails else OF_CHECKPOINTS
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)
    drawn = random_checkpoints.jobs(random_jobs, shape)
    if fails:
        drawn = random_failures.jobs(random_jobs, random_checkpoints, shape)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = sampled(data.draw(drawn))
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        messages = record(job, whole(job))
        seen.update(check(job, messages, message_replay))
        seen.update(set(with_events(job, messages)))

    draw_until(look, lambda: set(+seen) >= wanted, MOST_RUNS)
    print(dict(seen))
    assert wanted - set(+seen) == set()


def with_events(job: Job, messages: list[Message]) -> Iterator[str]:
    """Tell what a trace shows of checkpoints and failures."""
    events = [one for one in messages if one.name == "BufferResponse" and one.credit == 0]
    if job.checkpoints is not None and job.checkpoints.mode == UNALIGNED and events:
        yield from ["unaligned barrier"] * any(one.bytes == BARRIER_BYTES for one in events)
    if job.faults is not None:
        yield from ["died"] * any(one.task_manager is not None for one in job.faults.failures)


def test_both_clocks_send_the_same_messages(whole_kernel: None) -> None:
    drawn = random_failures.jobs(random_jobs, random_checkpoints, random_jobs.LIVE)

    @settings(max_examples=max(2, EXAMPLES // 2))
    @given(job=drawn)
    def look(job: Job) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        states = (batch.state for batch in run_staged(job))
        assert list(messages_of(job, whole(job), states)) == record(job, whole(job))

    look()


def test_a_window_has_what_the_whole_run_has_there(whole_kernel: None) -> None:
    """Also where the rounds before it are run in one go."""

    @settings(max_examples=max(2, EXAMPLES // 2))
    @given(data=st.data())
    def look(data: Any) -> None:
        shape = random_jobs.Shape(is_virtual=True)
        job = random_jobs.laid_out(data.draw(random_jobs.scenarios(shape)))
        assume(job.links)
        start, end = sorted(data.draw(st.tuples(*[st.integers(0, job.rounds)] * 2)))
        edges = data.draw(st.frozensets(st.sampled_from([link.name for link in job.links])))
        window = Window(start * job.round_us, end * job.round_us, edges)
        note(f"{job.scenario.to_yaml()}\n{window}")
        every = record(job, whole(job))
        assert record(job, window) == [one for one in every if window.shows(one)]

    look()


def test_the_bytes_are_those_that_the_connections_carry(
    whole_kernel: None, draw_until: Any
) -> None:
    """A wire is busy for the bytes of its messages; on all channels go as many as are counted."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = random_jobs.laid_out(data.draw(random_jobs.scenarios(shape)))
        job = data.draw(on_wires(job))
        note(job.scenario.to_yaml())
        assume(job.links)
        messages = record(job, whole(job))
        data_messages = [one for one in messages if one.credit == 1]
        run = run_job(job)
        last = run.tables["channels"].to_pylist()[-sum(len(one.channels) for one in job.links) :]
        remote = {(one.edge, one.sender, one.receiver) for one in messages}
        sent = {(row["edge"], row["sender"], row["receiver"]): row["sent"] for row in last}
        local = sum(count for name, count in sent.items() if name not in remote)
        assert len([one for one in data_messages if one.name == "BufferResponse"]) + local == (
            run.transfers
        )
        if job.scenario.cluster.bandwidth_bytes_per_s is not None:
            seen["wires"] += check_wires(job, messages)

    draw_until(look, lambda: seen["wires"] >= 3, MOST_RUNS)
    assert seen["wires"] >= 3


def check_wires(job: Job, messages: list[Message]) -> int:
    """Compare when each wire is free with what its messages weigh; return how many are busy."""
    byte_ns = 10**9 / Fraction(repr(job.scenario.cluster.bandwidth_bytes_per_s))
    places = {plan.stage.name: plan.stage.placement for plan in job.stages}
    for plan in job.stages:
        places |= {member.stage.name: plan.stage.placement for member in plan.members}
    by_round: dict[int, list[Message]] = {}
    for one in messages:
        if one.sequence_number is not None:
            by_round.setdefault(round(one.t_s * 1e6), []).append(one)
    free: dict[tuple[int, int], int] = {}
    for state in step(job):
        for one in by_round.get(state.end_us, ()):
            sender, receiver = one.edge.split("->")
            wire = places[sender][one.sender or 0], places[receiver][one.receiver or 0]
            begun = max(state.start_us * 1000, free.get(wire, 0))
            free[wire] = begun + int(((one.bytes or 0) + (one.header_bytes or 0)) * byte_ns)
        for found in state.connections:
            assert found.free_ns == free.get((found.sender_manager, found.receiver_manager), 0)
    return len(free)
