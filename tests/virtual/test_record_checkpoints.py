"""Random jobs with checkpoints whose transport counts records: both clocks, and the cuts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import ALIGNED, AT_LEAST_ONCE
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, is_barrier
from flowcontrol.state.queues import DATA
from flowcontrol.systems.transports.record_rounds import QUEUE_MESSAGES
from flowcontrol.systems.transports.rules import names
from flowcontrol.trace.round_state import CheckpointState, RoundState, TaskState
from modules import load

clocks = load("tests/virtual/clocks.py")
cuts = load("tests/job/checkpoints/cuts.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")
small_checkpoints = load("tests/job/checkpoints/small.py")

pytestmark = pytest.mark.usefixtures("whole_kernel")

EXAMPLES = settings.default.max_examples // 2
MOST_RUNS = 12
"""Runs until what is seldom has happened."""

TRANSPORTS = [name for name in names() if name != "hop_hysteresis"]
"""Under a switch, records that wait behind a barrier may stop the senders that it waits for."""

EVENTS = {
    "blocked with records behind",
    "records before and behind an event",
    "full queue with an event",
    "event under way between records",
    "completed",
}
"""What must have happened in some of the runs of each transport."""

PERMITS = {"waits for a permit", "waits behind records"}
"""And where barriers need permits."""


def happened(job: Job, state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    for task in state.tasks:
        assert task.checkpoints is not None
        yield from _at_the_receiver(task, task.checkpoints)
        for part in task.partitions:
            for out in part.subpartitions:
                kinds = [message.kind for message in out.finished]
                if any(map(is_barrier, kinds)) and part.pool.size == 0:  # else behind its messages
                    assert part.pool.free == 0
                    yield "waits for a permit"
                    if kinds[0] == DATA or out.state.buffers > 0:
                        yield "waits behind records"
                sent = [one.message.kind == DATA for one in out.under_way]
                if sent[:1] == [True] and False in sent and sent[-1]:
                    yield "event under way between records"


def _at_the_receiver(task: TaskState, held: CheckpointState) -> Iterator[str]:
    channels = (channel for gate in task.gates for channel in gate.channels)
    for channel, aligned in zip(channels, held.channels, strict=True):
        kinds = [message.kind == DATA for message in channel.queue]
        assert aligned.is_withheld == aligned.is_blocked
        if aligned.is_withheld == 1 and True in kinds:
            yield "blocked with records behind"
        if False in kinds and True in kinds[: kinds.index(False)] and kinds[-1]:
            yield "records before and behind an event"
        if len(kinds) > QUEUE_MESSAGES and False in kinds:
            yield "full queue with an event"


def check_withheld(state: RoundState) -> None:
    """What a task does not read is what waits in the channels that its alignment has blocked."""
    for task in state.tasks:
        assert task.checkpoints is not None
        withheld, index = 0, 0
        for gate in task.gates:
            for place, channel in enumerate(gate.channels):
                own = task.checkpoints.channels[index]
                index += 1
                records = sum(one.records for one in channel.queue if one.kind == DATA)
                withheld += records * own.is_withheld
                assert (place in gate.order) == (bool(channel.queue) and not own.is_withheld)
        assert task.state.withheld == withheld


@pytest.mark.long
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_kernel_does_what_stages_apart_do(draw_until: Any, transport: str) -> None:
    """After every round, and each completed checkpoint is a consistent cut."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)
    systems = partial(random_systems.systems, transport)
    modes = (ALIGNED, ALIGNED, AT_LEAST_ONCE)
    jobs = random_checkpoints.jobs(random_jobs, shape, systems=systems, modes=modes)

    @settings(max_examples=EXAMPLES)
    @given(job=jobs, every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Job, every: int) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)

        def watch(state: RoundState) -> None:
            check_withheld(state)
            seen.update(happened(job, state))

        clocks.compare(job, every=(1, every), look=watch)
        run = cuts.CheckpointRun(job)
        run.run()
        seen["completed"] += len(run.completed)
        if job.checkpoints is not None and job.checkpoints.mode != AT_LEAST_ONCE:
            for checkpoint in run.completed:
                run.check_cut(checkpoint)

    events = EVENTS | (PERMITS if transport == "batched_credit" else set())
    draw_until(look, lambda: set(seen) >= events, MOST_RUNS)
    print(dict(seen))
    assert events - set(seen) == set()


QUICK = {
    "arroyo": {"transport": {"name": "blocking_queue", "slots": 200}},
    "jet": {"transport": {"name": "rate_window", "unit": 4560, "period_ms": 200}},
    "risingwave": {"transport": {"name": "batched_credit", "slots": 200, "lot": 8}},
    "unbounded": {"transport": "unbounded"},
}


@pytest.mark.parametrize("name", QUICK)
def test_records_wait_behind_a_barrier_while_the_other_is_missing(name: str) -> None:
    """The left source is fast and its queue full; the right one's barrier is there at once.

    So the right channel is blocked while the sink works off what is before the left one's.
    """
    job = small_checkpoints.two_inputs(400, 5, 200, system=QUICK[name])
    seen: Counter[str] = Counter()

    def watch(state: RoundState) -> None:
        check_withheld(state)
        seen.update(happened(job, state))

    clocks.compare(job, every=(1, 7), look=watch)
    assert seen["blocked with records behind"] > 0
    assert seen["records before and behind an event"] > 0
    run = cuts.CheckpointRun(job)
    run.run()
    for checkpoint in run.completed:
        run.check_cut(checkpoint)
    assert len(run.completed) >= 1


def test_nothing_is_merged_across_a_barrier() -> None:
    """A queue without a bound has more messages than it keeps apart when the barrier comes."""
    made = small_checkpoints.chain({"source": 300, "sink": 20}, system={"transport": "unbounded"})
    job = small_checkpoints.with_settings(made, interval_us=2_100_000)
    seen: Counter[str] = Counter()
    clocks.compare(job, every=(1, 9), look=lambda state: seen.update(happened(job, state)))
    assert seen["full queue with an event"] > 10


@pytest.mark.parametrize(("barriers", "waits"), [(1, True), (3, False)])
def test_a_task_waits_with_a_barrier_that_has_no_permit(barriers: int, waits: bool) -> None:
    """RisingWave: a sink with seconds of records before it, and three checkpoints at a time.

    The second barrier waits for the first to be taken, and the source with it: it emits nothing.
    """
    lane = {"name": "batched_credit", "slots": 2000, "lot": 100, "barriers": barriers}
    made = small_checkpoints.chain({"source": 300, "sink": 100}, system={"transport": lane})
    job = small_checkpoints.with_settings(made, max_concurrent=3)
    seen: Counter[str] = Counter()

    def watch(state: RoundState) -> None:
        found = set(happened(job, state))
        seen.update(found)
        if "waits for a permit" in found:
            source = state.task("source")
            seen["blocked"] += source.backpressured_us == job.round_us
            seen["stands still"] += source.taken == 0

    clocks.compare(job, every=(1, 4), look=watch)
    assert (seen["waits for a permit"] > 10, seen["blocked"] > 9) == (waits, waits)
    assert (seen["stands still"] > 9) == waits


@pytest.mark.parametrize("transport", ["local", "chained"])
def test_transports_within_a_task_manager(transport: str) -> None:
    """Channels that are local, or none at all: the source is the whole task."""
    edges = [("source", "sink", "forward")]
    stages = [{"name": "source", "emit_rate": 100}, {"name": "sink", "service_rate": 80}]
    job = small_checkpoints.job(stages, edges, system={"transport": transport})
    run = cuts.CheckpointRun(job)
    run.run()
    assert len(run.completed) >= 3
    for checkpoint in run.completed:
        run.check_cut(checkpoint)
    if job.links:
        clocks.compare(job, every=(1, 5))


def test_a_switch_lets_barriers_of_at_least_once_pass() -> None:
    """They stand behind records that a stopped sender keeps, and go when it is released."""
    switch = {"name": "hop_hysteresis", "slots": 60, "cache_bytes": 8000}
    made = small_checkpoints.two_inputs(
        300, 50, 100, small_checkpoints.AT_LEAST_ONCE, system={"transport": switch}
    )
    job = small_checkpoints.with_settings(made, interval_us=300_000)
    seen: Counter[str] = Counter()

    def watch(state: RoundState) -> None:
        for part in (part for task in state.tasks for part in task.partitions):
            for out in part.subpartitions:
                held = out.state.announced == 0 and out.state.events > 0
                seen["held behind records"] += held and out.finished[0].kind == DATA
        seen["acknowledged"] += sum(
            report.kind == ACKNOWLEDGED
            for task in state.tasks
            if task.checkpoints is not None
            for report in task.checkpoints.reports
        )

    clocks.compare(job, every=(1, 5), look=watch)
    assert seen["held behind records"] > 0
    assert seen["acknowledged"] > 9


@settings(max_examples=max(3, EXAMPLES // 4))
@given(data=st.data())
def test_some_jobs_of_any_transport(data: Any) -> None:
    """The quick form of the test above."""
    systems = partial(random_systems.systems, data.draw(st.sampled_from(TRANSPORTS)))
    jobs = random_checkpoints.jobs(
        random_jobs, random_jobs.LIVE, systems=systems, modes=(ALIGNED, AT_LEAST_ONCE)
    )
    job = data.draw(jobs)
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
    assume(job.links)
    clocks.compare(job, look=check_withheld)
