"""Figures read from the memory: running counters, samples, partitions that spill.

Taking all of them at once costs two microseconds; a column of its own for each, with what is
worked out of it, cost a run of a minute twenty times what its rounds did. So columns are worked
out later, of many samples at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy import typing as npt

from flowcontrol.kernel.disk import lane_of, spill_row
from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as s
from flowcontrol.memory.links import kinds_of
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelCheckpoints
from flowcontrol.memory.task_memory import puts_aside
from flowcontrol.protocol.network.partition_kinds import PIPELINED, waits_for_producers
from flowcontrol.systems.barrier_buffer import READ_BYTES, BarrierBuffer
from flowcontrol.trace.channel_state import BufferPlace, FinishedBuffer, SpillState


class Counted:
    """What has been counted since the start of the run.

    - ``begun``: what stood there at the start.
    - ``carried``: what had been counted before tasks began anew.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self.begun: Any = read()
        self.carried: Any = 0 * self.begun

    def __call__(self) -> Any:
        """Return the counters."""
        return self._read() + self.carried

    def hold(self) -> Callable[[], None]:
        """Return what is to be called when tasks have begun anew."""
        before = self._read()

        def go_on() -> None:
            self.carried = self.carried + before - self._read()

        return go_on


Ints = npt.NDArray[np.int64]


class Gathered:
    """Cells that samples are made of."""

    def __init__(self, cells: Ints, places: Mapping[str, Ints]) -> None:
        self._cells = cells
        self._at = np.concatenate([np.zeros(0, np.int64), *places.values()])
        ends = np.cumsum([len(own) for own in places.values()]).tolist()
        self._parts = {
            name: slice(end - len(own), end)
            for (name, own), end in zip(places.items(), ends, strict=True)
        }

    def take(self) -> Ints:
        """Return the present values."""
        return self._cells.take(self._at)

    def columns(self, samples: Iterable[Ints]) -> dict[str, Ints]:
        """Return the values of some samples by name, each of shape (samples, cells)."""
        values = np.array(list(samples))
        return {name: values[:, part] for name, part in self._parts.items()}


def partition_figures(job: Job, memory: Memory) -> dict[str, dict[str, Any]]:
    """Return what the partitions of each edge did that are not pipelined and bounded.

    ``memory``: after its last round.

    By edge: ``type``; ``bytes_spilled`` and ``bytes_read``; ``regions`` that sort-merge partitions
    have written; ``max_buffers``, most buffers of a pool in use at a time, summed over the
    subtasks, and ``pool_buffers``, the sizes of those pools; ``max_read_buffers`` besides;
    ``producers_finished_s``, when all was finished and written (null: not in the run, or nobody
    asks); ``consumers_may_start_s`` (null: not in the run); ``first_message_s``;
    ``producers_waited_s``, the longest that a subtask waited for the partition's memory; ``waits``,
    who waited for whom, in words.
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


def aside_figures(job: Job, memory: Memory) -> dict[str, dict[str, int]]:
    """Return what the tasks of each stage have put aside behind barriers.

    ``memory``: after its last round.

    As ``put_aside`` of :class:`~flowcontrol.results.run.Run`; empty where no task does so.
    """
    found = dict[str, dict[str, int]]()
    for plan in job.stages if puts_aside(job) else ():
        if plan.is_source:
            continue
        own = [_task(memory, plan.name, index) for index in range(plan.stage.parallelism)]
        found[plan.name] = {
            "bytes_written": sum(one.written for one in own),
            "bytes_read": sum(one.read for one in own),
            "max_bytes": max(one.most for one in own),
            "read_memory_bytes": READ_BYTES * len(own),
        }
    return found


def _task(memory: Memory, stage: str, index: int) -> BarrierBuffer:
    at = int(memory.tasks["checkpoints"][memory.places.tasks[stage] + index])
    return memory.copy(memory.copy(at, KernelCheckpoints).aside, BarrierBuffer)
