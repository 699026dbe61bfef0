"""What the result partitions of a run that may spill did and hold, read from its memory."""

from typing import Any

from flowcontrol.job.channel_state import BufferPlace, FinishedBuffer, SpillState
from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.protocol.partition_kinds import PIPELINED, waits_for_producers
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.spill_memory import kinds_of
from flowcontrol.virtual.spilled import lane_of, spill_row


def partition_figures(job: Job, memory: Memory) -> dict[str, dict[str, Any]]:
    """Return what the partitions of each edge did that are not pipelined and bounded.

    Parameters
    ----------
    job : Job
        What was run.
    memory : Memory
        After its last round.

    Returns
    -------
    dict of str to dict
        By edge: ``type``; ``bytes_spilled`` and ``bytes_read``; ``regions`` that sort-merge
        partitions have written; ``max_buffers``, most buffers of a pool in use at a time, summed
        over the subtasks, and ``pool_buffers``, the sizes of those pools; ``max_read_buffers``
        besides; ``producers_finished_s``, when all was finished and written (null: not in the
        run, or nobody asks); ``consumers_may_start_s`` (null: not in the run);
        ``first_message_s``; ``producers_waited_s``, the longest that a subtask waited for the
        partition's memory; ``waits``, who waited for whom, in words.
    """
    kinds = kinds_of(job)
    found = {}
    for link in job.links:
        numbers = {
            sender: memory.places.partitions[edge, sender]
            for edge, sender in kinds
            if edge == link.name
        }
        if numbers:
            own = max(kinds[link.name, sender] for sender in numbers)
            found[link.name] = _edge(job, memory, link, list(numbers.values()), own)
    return found


def _edge(job: Job, memory: Memory, link: JobEdge, numbers: list[int], kind: int) -> dict[str, Any]:
    parts = memory.partitions[numbers]
    rows = memory.states(parts["spill"], s.SpillingPartition)
    end = memory.head.round
    waited = rows["waited"] + (rows["since"] >= 0) * (end - rows["since"])
    figures: dict[str, Any] = {
        "type": link.edge.partition_type,
        "bytes_spilled": int(rows["bytes_written"].sum()),
        "bytes_read": int(rows["bytes_read"].sum()),
        "regions": int(rows["regions"].sum()),
        "max_buffers": int(rows["peak"].sum()),
        "pool_buffers": int(parts["pool"]["size"].sum()),
        "max_read_buffers": int(rows["loaded_peak"].sum()),
        "producers_finished_s": _last(job, rows["done_at"]),
        "consumers_may_start_s": 0.0,
        "first_message_s": None,
        "producers_waited_s": job.time_s(int(waited.max())),
    }
    if kind > PIPELINED:
        starts = memory.states(rows["region"], s.ConsumerRegion)["start"]
        figures["consumers_may_start_s"] = _last(job, starts)
        sent = rows["first"]
        figures["first_message_s"] = (
            job.time_s(int(sent[sent >= 0].min())) if max(sent) >= 0 else None
        )
    figures["waits"] = list(_waits(link, kind, figures))
    return figures


def _last(job: Job, rounds: Ints) -> float | None:
    """Time of the last of some rounds; None if one of them has not come."""
    return job.time_s(int(rounds.max())) if rounds.min() >= 0 else None


def _waits(link: JobEdge, kind: int, figures: dict[str, Any]) -> list[str]:
    """Say who waited for whom."""
    sender, receiver = link.edge.sender, link.edge.receiver
    found = []
    start, waited = figures["consumers_may_start_s"], figures["producers_waited_s"]
    if waits_for_producers(kind) == 1 and start is None:
        found.append(f"{receiver} never started: {sender} had not finished by the end")
    elif start is None:
        found.append(f"{receiver} never started: other inputs of it had not finished by the end")
    elif start > 0:
        found.append(f"{receiver} waited {start:.6g} s for all of its blocking inputs to finish")
    if waited > 0:
        what = f"buffers that {receiver} had not consumed" if kind <= PIPELINED else "the disk"
        found.append(f"{sender} waited {waited:.6g} s for {what}")
    return found


FINISHED = 2
"""``SpillingPartition.closed`` when all is written that has to be."""
LOADED = 2
"""``SpilledBuffer.loaded`` when it has been read."""


def spill_state(memory: Memory, row: f.KernelPartition) -> SpillState | None:
    """Return what a partition has that may spill; None of one that never does."""
    if row.kind <= PIPELINED:
        return None
    own = spill_row(memory.head, row)
    return SpillState(
        kept=own.kept,
        writing=own.writing,
        unread=own.unread,
        read_buffers=own.loaded,
        bytes_written=own.bytes_written,
        bytes_read=own.bytes_read,
        regions=own.regions,
        is_stopped=row.is_stopped == 1,
        is_finished=own.closed == FINISHED,
    )


def finished_buffers(
    memory: Memory, row: f.KernelPartition, place: int
) -> tuple[FinishedBuffer, ...]:
    """Return the finished buffers that a spilling subpartition still remembers, oldest first."""
    if row.kind <= PIPELINED:
        return ()
    lane = lane_of(memory.head, spill_row(memory.head, row), place)
    return tuple(
        FinishedBuffer(
            buffer.index,
            buffer.records,
            buffer.nbytes,
            BufferPlace(buffer.spill),
            buffer.is_held == 1,
            buffer.loaded == LOADED,
        )
        for buffer in memory.copies(memory.linked(memory.spills, lane.head), s.SpilledBuffer)
    )
