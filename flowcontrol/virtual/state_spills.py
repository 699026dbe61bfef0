"""What result partitions that may spill hold, read from the kernel's memory."""

from __future__ import annotations

from flowcontrol.job.round_state import BufferPlace, FinishedBuffer, SpillState
from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.spill_fields import SpilledBuffer
from flowcontrol.virtual.spilled import lane_of, spill_row

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
    head, places = memory.head, []
    buffers = memory.table(head.spills, head.spills_most, SpilledBuffer)
    pointer, after = lane_of(head, spill_row(head, row), place).head, buffers["next"]
    while pointer > 0:
        places.append(pointer - 1)
        pointer = int(after[pointer - 1])
    return tuple(
        FinishedBuffer(
            buffer.index,
            buffer.records,
            buffer.nbytes,
            BufferPlace(buffer.spill),
            buffer.is_held == 1,
            buffer.loaded == LOADED,
        )
        for buffer in memory.copies(buffers[places], SpilledBuffer)
    )
