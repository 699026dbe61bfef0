"""The memory of checkpoints: of tasks, orders and reports, and the cells that a cut keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import CheckpointSettings, Job, is_forced
from flowcontrol.layout.state_sizes import task_sync_us
from flowcontrol.layout.task_settings import look_rounds
from flowcontrol.layout.work import byte_cost
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import cells_of, view, zeros
from flowcontrol.memory.part_fields import (
    CUT_SLOTS,
    KernelCheckpoints,
    KernelOrder,
    KernelTime,
    KernelWindow,
)
from flowcontrol.memory.places import Builder, Ints
from flowcontrol.protocol.checkpoints.alignment import PUTTING_ASIDE
from flowcontrol.protocol.checkpoints.barriers import MOST_TRACKED
from flowcontrol.protocol.tasks.operators import OPERATORS
from flowcontrol.protocol.tasks.snapshots import WHOLE_SERVICE
from flowcontrol.protocol.windows.keeping import STORE
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import AlignedChannel, Alignment, CheckpointReport, TaskCheckpoint
from flowcontrol.state.queues import MOST_BARRIERS
from flowcontrol.state.tasks import Operator, SourceLog, TaskTime
from flowcontrol.state.windows import WindowStore
from flowcontrol.systems.barrier_buffer import AsideDisk, AsideEntries, BarrierBuffer

if TYPE_CHECKING:
    from flowcontrol.memory.memory import Memory


# --- The kernel's memory of what tasks put aside behind barriers, and of the disks for that


def puts_aside(job: Job) -> bool:
    """Tell whether the tasks of a job put aside what comes behind barriers."""
    return job.checkpoints is not None and job.checkpoints.mode == PUTTING_ASIDE


def _put_disks(build: Builder) -> list[int]:
    """Make room for what tasks put aside; return where the disk of each task manager is."""
    build.head.asides_free = build.put(
        cells_of(AsideEntries(-1 if build.head.asides_most == 0 else 0))
    )
    cluster, disk = build.job.scenario.cluster, AsideDisk()
    if cluster.disk_bytes_per_s is not None:
        disk = AsideDisk(0, *byte_cost(cluster.disk_bytes_per_s), build.job.round_us * 1000)
    return [build.put(cells_of(disk)) for _ in range(cluster.task_managers)]


# --- The kernel's memory of checkpoints: of each task, of the coordinator's orders, of reports


def fill_checkpoints(build: Builder, settings: CheckpointSettings) -> None:
    """Make room for the orders of the coordinator and the reports of tasks.

    ``build``: the memory; its tasks and partitions are filled.
    """
    job, head = build.job, build.head
    head.has_checkpoints = 1
    head.has_looks = int(any(look_rounds(job, plan) for plan in job.stages))
    head.reports_wanted = head.reports_most // 2
    head.reports = build.take(head.reports_most * width(CheckpointReport))
    head.orders_most = len(job.subtasks) * (2 * MOST_BARRIERS + 3)  # triggers, ends, slowdown
    head.orders = build.take(head.orders_most * width(KernelOrder))
    tasks, partitions = build.blocks["tasks_at"], build.blocks["partitions_at"]
    disks = _put_disks(build) if puts_aside(job) else []
    for task, (plan, index) in zip(tasks, job.subtasks, strict=False):
        task["has_checkpoints"] = 1
        held = _task_state(build, settings, plan, index)
        if disks:
            limit = job.scenario.options.alignment_bytes_limit
            held.aside = build.put(cells_of(BarrierBuffer(limit=limit)))
            held.aside_disk = disks[plan.stage.placement[index]]
        task["checkpoints"] = build.put(cells_of(held))
        for link in plan.outputs:
            number = build.places.partitions[link.name, index]
            partitions["is_forced"][number] = is_forced(job.stage(link.edge.receiver))


def _task_state(
    build: Builder, settings: CheckpointSettings, plan: JobVertex, index: int
) -> KernelCheckpoints:
    """Return the state of a task at the start of a run; what it points to is there."""
    inputs = sum(len(link.incoming(index)) for link in plan.inputs)
    job, timeout = build.job, settings.aligned_timeout_us
    alignment = Alignment(
        mode=settings.mode_of(plan),
        timeout=timeout,
        tasks_finish=int(settings.after_tasks_finish),
        open_channels=inputs,
        resumes_at_switch=0,
    )
    own = TaskCheckpoint(
        mode=settings.mode,
        timeout=timeout,
        withholds=int(job.record_transport is not None),
        waits_final=int(settings.waits_for_final),
        data_open=max(1, inputs),
        sync=task_sync_us(job, plan),
        slowdown=int(job.scenario.cluster.upload_slowdown * WHOLE_SERVICE),
        look_rounds=look_rounds(job, plan),
    )
    held = KernelCheckpoints(own, alignment, channel_count=inputs)
    held.tracked_most, held.messages_most = MOST_TRACKED, MOST_BARRIERS + 1
    build.lay(held, "channels", "tracked", "triggers", "aborted")
    place, into = held.channels, build.blocks["inputs_at"]
    for link in plan.inputs:
        gate = build.blocks["gates_at"][build.places.gates[link.name, index]]
        first, count = int(gate["first_channel"]), int(gate["channels"])
        into["aligned"][first : first + count] = place + width(AlignedChannel) * np.arange(count)
        place += width(AlignedChannel) * count
    return held


# --- Where the cells of a task are that a checkpoint keeps, and a restart puts back.
#
# They are listed as in flowcontrol.control.cuts.TaskCut: a snapshot copies the cells of the
# list, whatever they mean, and a restart writes them where they were.


@dataclass(frozen=True)
class CutPlaces:
    """Where the cells of a task's cut are."""

    all: Ints  # All of them
    position: int  # That of a source's position
    written: Ints  # Those of all that its channels were written, which are among them


def with_cuts(memory: Memory, job: Job) -> Memory:
    """Return a memory with room for the cuts of its tasks, which have checkpoints."""
    parts, used = [memory.cells], len(memory.cells)
    for task, places in enumerate(all_cut_places(job, memory)):
        held = view(KernelCheckpoints, memory.cells, int(memory.tasks["checkpoints"][task]))
        held.cut_places, held.cut_cells = used, len(places.all)
        held.cuts = used + len(places.all)
        parts += [places.all, np.zeros(CUT_SLOTS * (1 + len(places.all)), np.int64)]
        used += len(parts[-2]) + len(parts[-1])
    cells = zeros(used, used)
    np.concatenate(parts, out=cells)
    return replace(memory, cells=cells)


def all_cut_places(job: Job, memory: Memory) -> list[CutPlaces]:
    """Return where the cells of all tasks' cuts are, in the order of the job."""
    return [cut_places(memory, plan, index) for plan, index in job.subtasks]


def cut_places(memory: Memory, plan: JobVertex, index: int) -> CutPlaces:
    """Return where the cells of a task's cut are."""
    places, head = memory.places, memory.head
    number = places.tasks[plan.name] + index
    row = memory.tasks[number]
    taken = head.tasks_at + number * width(f.KernelTask) + cell(f.KernelTask, "taken")
    log = int(row["log"])
    position = log + cell(SourceLog, "position") if log > 0 else taken
    found = [np.array([taken], np.int64)] + ([np.array([position], np.int64)] if log > 0 else [])
    first = int(row["operators_at"])
    for at in memory.cells[first : first + int(row["operators"])].tolist():
        kind = OPERATORS[int(memory.cells[at + cell(Operator, "kind")])]
        found.append(at + np.arange(width(kind)))
    for link in plan.outputs:
        found += _routing(memory, places.partitions[link.name, index])
    put = np.array([], np.int64)
    if row["time"] > 0:  # marks that it has put into its channels, and that it has taken from them
        put = row["time"] + cell(KernelTime, "own") + np.array([cell(TaskTime, "marks")])
        if row["checkpoints"] > 0:
            held = view(KernelCheckpoints, memory.cells, int(row["checkpoints"]))
            found.append(_columns(held.channels, AlignedChannel, "marks", 0, held.channel_count))
    if row["window"] > 0:  # how far its windows are
        at = int(row["window"]) + cell(KernelWindow, "store")
        found.append(np.array([at + cell(WindowStore, name) for name in STORE], np.int64))
    outputs = memory.partitions[[places.partitions[link.name, index] for link in plan.outputs]]
    inputs = memory.gates[[places.gates[link.name, index] for link in plan.inputs]]
    written = np.concatenate(
        [put, *_of_channels(outputs, head.outputs_at, f.KernelSubpartition, "written")]
    )
    processed = _of_channels(inputs, head.inputs_at, f.KernelInputChannel, "processed")
    return CutPlaces(np.concatenate([*found, written, *processed]), position, written)


def _routing(memory: Memory, number: int) -> Iterator[Any]:
    """Yield where a partition keeps how far the routing of its records is."""
    row = memory.partitions[number]
    first = memory.head.partitions_at + number * width(f.KernelPartition)
    names = ("emitted", "cursor")
    yield np.array([first + cell(f.KernelPartition, name) for name in names], np.int64)
    count = int(row["channels"])
    yield int(row["routed"]) + np.arange(count)
    if row["route"] == f.ROUTE_SHARES:
        yield int(row["table"]) + count + np.arange(count)


def _of_channels(owners: Any, at: int, cls: type[Any], name: str) -> Iterator[Ints]:
    """Yield where a field of the channels of some gates, or partitions, is."""
    for row in owners:
        yield _columns(at, cls, name, int(row["first_channel"]), int(row["channels"]))


def _columns(at: int, cls: type[Any], name: str, first: int, count: int) -> Ints:
    """Return where a field of consecutive rows is."""
    return at + cell(cls, name) + width(cls) * (first + np.arange(count))
