"""Random jobs: the trace of messages alone gives what the tables say of every channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job import Job
from flowcontrol.job.message_table import Window
from flowcontrol.job.messages import Message
from flowcontrol.virtual import run_job
from flowcontrol.virtual.running import step
from flowcontrol.virtual.tracing import record
from modules import load

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12

EVENTS = {
    "BacklogAnnouncement",
    "credit 0",
    "event at credit 0",
    "floating",
    "slice of a flush",
    "empty buffer",
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


@pytest.fixture(scope="session")
def message_replay() -> ModuleType:
    """Return ``message_replay.py`` of the emulation's tests: who replays a trace."""
    return load("tests/job/message_replay.py")


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
    down, now_s = down_by_round(job), -1.0
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
        if own.told_us == replay.us(now_s):  # nothing comes behind a message in a round
            assert own.backlog == row["backlog"], where
        elif own.credit > 0 and not waits:  # or a message would have gone
            assert row["backlog"] == 0, where
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
    if any(one.bytes == 0 for one in data):
        yield "empty buffer"
    if job.scenario.cluster.network_latency_us > job.round_us:
        yield "late credit"
    if job.scenario.cluster.bandwidth_bytes_per_s is not None and data:
        yield "wire"


@pytest.mark.holds("credit", "virtual", "a replay of every message: random jobs, each round")
def test_the_trace_alone_gives_credits_backlogs_and_sequence_numbers(
    random_jobs: ModuleType, message_replay: ModuleType, whole_kernel: None, draw_until: Any
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
