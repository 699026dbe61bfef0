"""Checkpoints: what a job shows after a round."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.protocol.checkpoints.alignment import TIMEOUTABLE, UNALIGNED
from flowcontrol.protocol.checkpoints.barriers import (
    ACKNOWLEDGED,
    DECLINED,
    ENDED,
    FINISHED,
    STOPS,
    TAKEN,
)
from flowcontrol.state.queues import KINDS
from flowcontrol.trace.round_state import CheckpointState, RoundState, TaskState

REPORTS = {
    ACKNOWLEDGED: "acknowledged",
    DECLINED: "declined",
    FINISHED: "finished",
    ENDED: "ended",
    TAKEN: "taken",
}

EVENTS = {
    "aligned_barrier",
    "timeoutable_barrier",
    "unaligned_barrier",
    "at_least_once_barrier",
    "cancel_marker",
    "end_of_data",
    "blocked channel",
    "blocked subpartition",
    "flushed while blocked",
    "several events queued",
    "announced",
    "overtaken at the receiver",
    "overtaken at the sender",
    "switched",
    "persisted input",
    "several tracked",
    "aborted before its barrier",
    "stands still",
    "slowed",
    "stopped",
    *REPORTS.values(),
}
"""What must have happened in some of the runs; a channel that ends in an alignment is met below."""


def happened(state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    for task in state.tasks:
        assert task.checkpoints is not None
        yield from _to_the_task(task, task.checkpoints)
        if task.checkpoints.state.synced_at > state.end_us:
            yield "stands still"
        for out in (out for part in task.partitions for out in part.subpartitions):
            yield from (KINDS[sent.message.kind].name for sent in out.under_way)
            if out.state.is_blocked == 1:
                yield "blocked subpartition"
                if out.state.is_flushed == 1:
                    yield "flushed while blocked"
            if out.state.events > 1:
                yield "several events queued"
            if out.state.persisted > 0:
                yield "overtaken at the sender"


def _to_the_task(task: TaskState, held: CheckpointState) -> Iterator[str]:
    alignment = held.alignment
    for channel in held.channels:
        if channel.is_blocked == 1:
            yield "blocked channel"
        if channel.is_announced == 1:
            yield "announced"
        if channel.is_overtaken == 1 or (alignment.kind == UNALIGNED and channel.persisted > 0):
            yield "overtaken at the receiver"
        if channel.persisted > 0:
            yield "persisted input"
    if alignment.barriers < alignment.delivered:
        yield "ends in alignment"
    if alignment.kind == TIMEOUTABLE and alignment.is_unaligned == 1:
        yield "switched"
    if len(held.tracked) > 1:
        yield "several tracked"
    if held.state.is_slowed == 1:
        yield "slowed"
    if any(message.is_savepoint == STOPS for message in held.triggers):
        yield "stopped"
    if held.aborted:
        yield "aborted before its barrier"
    yield from (REPORTS[report.kind] for report in held.reports)
