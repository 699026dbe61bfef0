"""Random small jobs: every ledger passes the audit, nothing is lost, doubled, stuck or random."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.ledger.audit import audit
from staged_runs import RoundRows, resumed, run_staged


def total(rounds: list[RoundRows], edge: str, side: str, channel: tuple[int, int]) -> int:
    return sum(
        row["rows"]
        for batch in rounds
        for row in batch.rows[edge][side]
        if (row["sender"], row["receiver"]) == channel
    )


def waiting(rounds: list[RoundRows], edge: str, channel: tuple[int, int]) -> int:
    """Count the records of a channel on their way: at the sender, on the wire, at the receiver."""
    own = {
        side: json.loads(row["channel_state"])
        for side in ("sender", "receiver")
        for row in rounds[-1].rows[edge][side]
        if (row["sender"], row["receiver"]) == channel
    }
    sender, receiver = own["sender"], own["receiver"]
    at_sender = sum(one["records"] for one in sender["queue"]) + sender["channel"]["tail"]
    on_the_wire = sum(one["records"] for one in sender["messages"])
    return at_sender + on_the_wire + sum(one["records"] for one in receiver["queue"])


def in_hand(rounds: list[RoundRows], job: Job, edge: str, channel: tuple[int, int]) -> int:
    """Count the records of the buffer that the receiver's task reads, and of a pending write."""
    [link] = [link for link in job.links if link.name == edge]
    sender, receiver = channel
    plan = job.stage(link.edge.receiver)
    rows = rounds[-1].rows
    task = _task(rows[plan.inputs[0].name]["receiver"], "receiver", receiver)
    number = plan.inputs.index(link)
    place = [c.sender for c in link.incoming(receiver)].index(sender)
    is_read = (task["task"]["gate"], task["task"]["channel"]) == (number, place)
    found = task["task"]["left"] if is_read else 0
    plan = job.stage(link.edge.sender)
    task = _task(rows[edge]["sender"], "sender", sender)
    pending = task["partitions"][plan.outputs.index(link)]["pending"]
    own = [c.receiver for c in link.outgoing(sender)].index(receiver)
    return found + pending.count(own)


def _task(rows: list[dict[str, Any]], side: str, subtask: int) -> dict[str, Any]:
    [text] = [r["task_state"] for r in rows if r[side] == subtask and r["task_state"]]
    found: dict[str, Any] = json.loads(text)
    return found


@given(data=st.data())
def test_a_random_job_keeps_every_rule_and_goes_on_after_any_round(
    jobs: ModuleType, random_jobs: ModuleType, data: Any
) -> None:
    """One run, all that must be true of it; and the same again from the start or a snapshot."""
    job = random_jobs.laid_out(data.draw(random_jobs.scenarios(random_jobs.LIVE)))
    rounds = list(run_staged(job))
    assert len(rounds) == job.rounds
    for link in job.links:
        assert audit(jobs.table(jobs.ledger_rows(rounds, link.name))) is None
        for channel in link.channels:
            check_conservation(rounds, job, link.name, (channel.sender, channel.receiver))
        for batch in rounds:
            for row in batch.rows[link.name]["receiver"]:
                check_times(row)
                check_buffers(row)
    stop = data.draw(st.integers(-1, job.rounds - 1))
    again = resumed(job, stop + 1) if stop >= 0 else run_staged(job)
    assert list(again) == rounds[stop + 1 :]


def check_conservation(
    rounds: list[RoundRows], job: Job, edge: str, channel: tuple[int, int]
) -> None:
    """Every record routed was taken up or is on its way."""
    taken = total(rounds, edge, "receiver", channel)
    left = waiting(rounds, edge, channel) + in_hand(rounds, job, edge, channel)
    assert taken + left == total(rounds, edge, "sender", channel)


def check_times(row: dict[str, Any]) -> None:
    """A round's time is shared out whole."""
    if row["task_state"] is not None:
        times = json.loads(row["task_state"])["times_us"]
        assert min(times) >= 0
        assert sum(times) == 100_000


def check_buffers(row: dict[str, Any]) -> None:
    """Stricter than the audit: no buffer of a remote channel is lost, each is credit or in use."""
    if not json.loads(row["channel_state"])["local"]:
        assert row["announced"] - row["consumed"] == row["exclusive"] + row["floating_held"]


@given(data=st.data())
def test_everything_emitted_arrives(random_jobs: ModuleType, data: Any) -> None:
    """No deadlock. Without a flusher a channel withholds its last buffer, open or full."""
    shape = random_jobs.Shape(rounds=(3000, 3000), is_drained=True)
    job = random_jobs.laid_out(data.draw(random_jobs.scenarios(shape)))
    rounds: list[RoundRows] = []
    for batch in run_staged(job):
        rounds.append(batch)
        if batch.number > 20 and _is_still(rounds):
            break
    assert _is_still(rounds), "still busy long after the sources have stopped"
    withheld = 1 if job.scenario.options.flush_interval_us < 0 else 0
    for link in job.links:
        for row in rounds[-1].rows[link.name]["sender"]:
            ends = (row["sender"], row["receiver"])
            assert in_hand(rounds, job, link.name, ends) == 0
            assert row["backlog"] == 0
            assert row["released"] - row["sent"] <= withheld
            if withheld == 0:
                sent = total(rounds, link.name, "sender", ends)
                assert total(rounds, link.name, "receiver", ends) == sent


def _is_still(rounds: list[RoundRows]) -> bool:
    """Whether the last four rounds did nothing: longer than a round trip and a flush."""
    if len(rounds) < 5:
        return False
    last = [_moving(batch) for batch in rounds[-5:]]
    return all(state == last[0] for state in last)


def _moving(batch: RoundRows) -> list[tuple[int, ...]]:
    names = ("sent", "released", "announced", "consumed")
    return [
        tuple(row.get(name, 0) for name in names)
        for sides in batch.rows.values()
        for side in sides.values()
        for row in side
    ]


def kinds_of(job: Job) -> Iterator[str]:
    """Name what is special about a job."""
    yield f"flush {job.scenario.options.flush_interval_us}"
    for link in job.links:
        yield link.edge.partitioner
        yield from (f"local {channel.is_local}" for channel in link.channels)
        if link.record_bytes > job.scenario.options.segment_bytes:
            yield "large records"
    for plan in job.stages:
        if len(plan.inputs) > 1:
            yield "fan-in"
        if len(plan.outputs) > 1:
            yield "fan-out"


def test_random_jobs_are_of_every_kind(random_jobs: ModuleType) -> None:
    """The strategies reach what they are meant to reach, and not just once."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def look(data: Any) -> None:
        job = random_jobs.laid_out(data.draw(random_jobs.scenarios(random_jobs.LIVE)))
        seen.update(set(kinds_of(job)))

    look()
    kinds = {"fan-in", "fan-out", "local True", "local False", "large records"}
    for kind in {*random_jobs.PARTITIONERS, *kinds, "flush -1", "flush 0", "flush 100000"}:
        assert seen[kind] >= 5, kind


@pytest.mark.parametrize("quota", [1])
def test_a_quota_of_one_stalls_a_channel_that_is_never_full(jobs: ModuleType, quota: int) -> None:
    """As in Flink: the open buffer is at the quota, and only a full one would be recycled."""
    stages = [jobs.source(30), jobs.sink(1000)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.QUOTA: quota})
    rounds = jobs.run(made)
    assert total(rounds, "source->sink", "sender", (0, 0)) == 1
