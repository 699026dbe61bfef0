"""What happened in a run, told from its rows: where nothing does, a comparison says nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.shares import weights_of
from flowcontrol.memory.links import LONGEST_TABLE
from flowcontrol.state.queues import BACKLOG_ANNOUNCEMENT, END_OF_PARTITION

Row = dict[str, Any]
State = dict[str, dict[str, list[Row]]]


class Witness:
    """Notes what happens in a run.

    Parameters
    ----------
    job : Job
        Which is run.

    Attributes
    ----------
    seen : set of str
        What has happened so far.
    """

    def __init__(self, job: Job) -> None:
        self.seen: set[str] = set()
        self._job, self._round = job, -1
        self._taken: dict[tuple[str, int], int] = {}

    def __call__(self, state: State) -> None:
        """Look at the state after one more round."""
        self._round += 1
        for link in self._job.links:
            senders = self._job.stage(link.edge.sender)
            for row in state[link.name]["sender"]:
                self.seen.update(_sent(self._job, link, row))
                self._look_at_task(senders, row["sender"], row["task_state"])
            receivers = self._job.stage(link.edge.receiver)
            for row in state[link.name]["receiver"]:
                self.seen.update(_received(row))
                self._look_at_task(receivers, row["receiver"], row["task_state"])
            self.seen.update(_competed(state[link.name]["receiver"]))

    def _look_at_task(self, plan: JobVertex, index: int, state: Row | None) -> None:
        if state is None:
            return
        self.seen.update(_task(plan, state))
        taken, key = state["task"]["taken"], (plan.name, index)
        whole = state["times_us"][0] == self._job.round_us
        if whole and taken == self._taken.get(key, -1):
            is_still = self._stands_still(plan, index)
            self.seen.add("stands still" if is_still else "long service")
        self._taken[key] = taken

    def _stands_still(self, plan: JobVertex, index: int) -> bool:
        """Whether a subtask stands still, or has no rate, for a part of the round."""
        start, end = (n * self._job.round_us for n in (self._round, self._round + 1))
        spans = plan.stalled(index)
        if any(begin < end and start < after for begin, after in spans):
            return True
        schedule = plan.rates(index)
        return schedule is not None and schedule.integral(start) == schedule.integral(end)


def _sent(job: Job, link: JobEdge, row: Row) -> Iterator[str]:
    if row["pool_used"] > row["pool_size"]:
        yield "overdraft"
    kinds = [one["kind"] for one in row["channel_state"]["messages"]]
    if BACKLOG_ANNOUNCEMENT in kinds:
        yield "backlog announced"
    if END_OF_PARTITION in kinds:
        yield "end of partition"
        if row["credit"] == 0 and not row["channel_state"]["local"]:
            yield "end without credit"
    if row["sent"] == 0:
        return
    yield "local" if row["channel_state"]["local"] else "remote"
    if row["credit"] == 0 and row["backlog"] > 0 and not row["channel_state"]["local"]:
        yield "no credit"
    if link.record_bytes > job.scenario.options.segment_bytes:
        yield "large records"
    width = len(link.outgoing(row["sender"]))
    if link.edge.partitioner == "broadcast" and width > 1:
        yield "broadcast"
    if sum(weights_of(link.edge, width) or [0]) > LONGEST_TABLE:
        yield "long period"


def _received(row: Row) -> Iterator[str]:
    if row["floating_held"] > 0:
        yield "floating"
    if row["channel_state"]["channel"]["is_waiting"] == 1:
        yield "waiting"


def _competed(rows: list[Row]) -> Iterator[str]:
    """Several channels of a gate hold floating buffers, and one waits for another."""
    for receiver in {row["receiver"] for row in rows}:
        own = [row for row in rows if row["receiver"] == receiver]
        held = sum(row["floating_held"] > 0 for row in own)
        waits = any(row["channel_state"]["channel"]["is_waiting"] for row in own)
        if held >= 2 and waits:
            yield "competition"


def _task(plan: JobVertex, state: Row) -> Iterator[str]:
    for part in state["partitions"]:
        if part["pool"]["at_quota"] > 0:
            yield "quota"
        if part["left_bytes"] > 0:
            yield "blocked inside a record"
        elif part["pending"]:
            yield "pending output"
    if state["times_us"][2] > 0:
        yield "blocked"
    if log := state.get("log"):
        yield "caught up with a log" if log["position"] == log["end"] else "behind in a log"
        if log["position"] < log["end"] and state["times_us"][2] > 0:
            yield "blocked before a log"
    if plan.inputs and plan.outputs and state["task"]["is_finished"] == 1:
        yield "end passed on"
    if len(plan.members) > 1 and state["task"]["taken"] > 0:
        yield "chained stage" if plan.inputs else "chained source"
    if plan.stage.service_time != "constant" and state["task"]["draws"] > 2:
        yield f"{plan.stage.service_time} {'source' if plan.is_source else 'stage'}"
