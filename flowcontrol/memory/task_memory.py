"""The memory of a task for what only some have: a processor, sinks, event time, windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.layout.fault_tolerance import task_sync_us
from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import CheckpointSettings, Job, is_forced
from flowcontrol.layout.replay import NO_KEYS, ONE_KEY, LinkKeys, RowKeys
from flowcontrol.layout.task_settings import (
    has_batches,
    look_rounds,
    new_operators,
    new_store,
    new_time,
    new_window_settings,
    new_window_task,
    timed_flags,
)
from flowcontrol.layout.work import byte_cost, cpu_shares, new_processors, tasks_by_manager
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import cells_of, sparse, view
from flowcontrol.memory.part_fields import (
    CUT_SLOTS,
    KernelCheckpoints,
    KernelKeys,
    KernelOrder,
    KernelProcessor,
    KernelProcessors,
    KernelTime,
    KernelWindow,
)
from flowcontrol.memory.places import Builder, Ints
from flowcontrol.memory.requests import kept_places
from flowcontrol.protocol.checkpoints.alignment import PUTTING_ASIDE
from flowcontrol.protocol.checkpoints.barriers import MOST_TRACKED
from flowcontrol.protocol.tasks.operators import OPERATORS
from flowcontrol.protocol.tasks.snapshots import WHOLE_SERVICE
from flowcontrol.protocol.windows.firing import STORE, buckets_for
from flowcontrol.scenario import Scenario, Schedule
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.scenario.windows import WindowPlan
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import AlignedChannel, Alignment, CheckpointReport, TaskCheckpoint
from flowcontrol.state.queues import MOST_BARRIERS
from flowcontrol.state.tasks import Operator, SourceLog, TaskTime
from flowcontrol.state.windows import WindowStore
from flowcontrol.systems.barrier_buffer import AsideDisk, AsideEntries, BarrierBuffer

if TYPE_CHECKING:
    from flowcontrol.memory.memory import Memory


# --- The kernel's memory of processors: filled from a job, and read for a table


def fill_processors(build: Builder) -> None:
    """Put the processors of each task manager there, and the claims of its tasks; these are filled.

    Those of one task manager stand one behind the other.
    """
    job, head, tasks = build.job, build.head, build.blocks["tasks_at"]
    managers = []
    for numbers in tasks_by_manager(job):
        claims = []
        for number in numbers:
            shares = cpu_shares(job, *job.subtasks[number]) or []
            at = build.put(np.array(shares, np.int64).ravel())
            claims.append(cells_of(KernelProcessor(shares=at, share_count=len(shares))))
        first = build.put(np.concatenate(claims)) if claims else 0
        for place, number in enumerate(numbers):
            tasks["processor"][number] = first + place * width(KernelProcessor)
        managers.append(cells_of(KernelProcessors(new_processors(job), first, len(numbers))))
    head.has_processors, head.managers = 1, len(managers)
    head.managers_at = build.put(np.concatenate(managers))


def used_of(memory: Memory) -> list[int]:
    """Return what the tasks of each task manager have used of its processors, parts of a round."""
    head = memory.head
    found = memory.table(head.managers_at, head.managers, KernelProcessors)
    used: list[int] = found["own"]["used"].tolist()
    return used


# --- Sinks that are chained behind the first stage of their task: numbers, and when they begin


def fill_sinks(build: Builder) -> None:
    """Number the chained sinks of all subtasks, and tell their tasks of them."""
    scenario, tasks = build.job.scenario, build.blocks["tasks_at"]
    for task, (plan, index) in zip(tasks, build.job.subtasks, strict=False):
        if sinks := [member for member in plan.members[1:] if member.is_sink]:
            found = [_sink(build, scenario, plan, member, index) for member in sinks]
            task["sinks"] = len(found)
            task["sinks_at"] = build.put(np.concatenate([cells_of(one) for one in found]))


def _sink(
    build: Builder, scenario: Scenario, plan: JobVertex, member: Member, index: int
) -> f.ChainedSink:
    number = build.places.sinks.setdefault((member.stage.name, index), len(build.places.sinks))
    sink = f.ChainedSink(number=number, operator=member.input)
    if phases := times_before(scenario, plan, member, index):
        sink.before = build.put(np.array(phases, np.int64).ravel())
        sink.before_count = len(phases)
    return sink


def times_before(
    scenario: Scenario, plan: JobVertex, member: Member, index: int
) -> list[tuple[int, int]]:
    """Return how long a record is in the stages of its task before it reaches one of them.

    Each stage on the way takes the record its own service time, and of several outputs of one
    record none waits for the others. What a source takes to emit is before the emission. The result
    of a window is made when the window fires, so neither the window's time counts nor what is
    before it. While a rate is 0 nothing is taken up, and the time of before stands.

    ``member``: the stage, not the first one.

    From when on, and how long, microseconds; empty without any service rate.
    """
    rates: list[Schedule] = []
    for name in _before(scenario, plan, member):
        stage = scenario.stage(name)
        if scenario.window_of(name) is not None:
            rates.clear()
        elif stage.service_rate is not None and (schedule := stage.rates(index)) is not None:
            rates.append(schedule)
    starts = sorted({phase.at_us for schedule in rates for phase in schedule.phases})
    found: list[tuple[int, int]] = []
    for at_us in starts:
        now = [schedule.rate_at(at_us) for schedule in rates]
        if min(now) > 0:
            seconds = sum((1 / Fraction(rate) for rate in now), Fraction(0))
            found.append((at_us, round(seconds * MICROSECONDS)))
    return found


def _before(scenario: Scenario, plan: JobVertex, member: Member) -> list[str]:
    """Return the stages of a chain on the way to one of them, the first one first."""
    names: list[str] = []
    name = member.stage.name
    while name != plan.name:
        name = next(edge.sender for edge in scenario.inputs(name) if edge.chain)
        names.insert(0, name)
    return names


# --- The kernel's memory of event time


def fill_times(build: Builder) -> None:
    """Put the event time of each task there; the tasks are filled."""
    for task, (plan, index) in zip(build.blocks["tasks_at"], build.job.subtasks, strict=False):
        count = sum(len(link.incoming(index)) for link in plan.inputs)
        for name, value in timed_flags(build.job, plan).items():
            task[name] = value
        stamps = build.replayed.stamps.get((plan.name, index))
        own = new_time(build.job, plan, index, brings_stamps=stamps is not None)
        time = KernelTime(own, channel_count=count)
        build.lay(time, "channels")
        if stamps is not None:
            time.stamps = build.put(stamps)
        task["time"] = build.put(cells_of(time))


# --- The kernel's memory of windows


LEAST_ENTRIES = 1 << 6
"""Windows of a task to begin with, at the least, besides those of two records."""
MOST_FIRST_ENTRIES = 1 << 16
"""Windows of a task to begin with, at the most; a run that needs more begins again with more."""


def first_entries(job: Job, rows: RowKeys = NO_KEYS) -> int:
    """Return for how many windows each task has room to begin with; 0: no stage has one.

    Of each key those that a record is in, one more before they fire, and those that lateness keeps.

    ``rows``: keys of replayed rows; by default there are none.
    """
    most = 0
    for plan in job.stages:
        window = job.scenario.window_of(plan.name)
        if window is not None:
            keys = window.keys or len(rows.names.get(plan.name, (ONE_KEY,)))
            most = max(most, _wanted(window, plan, keys))
    return most


def _wanted(window: WindowPlan, plan: JobVertex, keys: int) -> int:
    settings = new_window_settings(window)
    kept = settings.overlap + 1 + settings.lateness // settings.slide
    each = -(-keys // plan.stage.parallelism)
    return min(MOST_FIRST_ENTRIES, 2 * each * kept) + LEAST_ENTRIES + 2 * settings.overlap


def fill_windows(build: Builder, capacity: int) -> None:
    """Put the windows of each task there that has some; the tasks are filled."""
    for task, (plan, _) in zip(build.blocks["tasks_at"], build.job.subtasks, strict=False):
        window = build.job.scenario.window_of(plan.name)
        if window is not None:
            task["has_window"] = 1
            task["window"] = build.put(cells_of(_windows(build, plan, window, capacity)))


def _windows(build: Builder, plan: JobVertex, window: WindowPlan, capacity: int) -> KernelWindow:
    """Make room for the windows of a task; entries that are 0 are free."""
    keys = [cells_of(put_keys(build, build.keys_of(link))) for link in plan.inputs]
    operators = new_operators(build.job, plan)
    seen = [cells_of(operator) for operator in operators]
    rows = build.replayed.keys
    columns = rows.columns_of(plan.name)
    values, table, is_batched = columns.first, columns.table, has_batches(build.job.scenario)
    held = KernelWindow(
        new_window_task(build.job, plan, window, len(rows.names.get(plan.name, (ONE_KEY,)))),
        new_window_settings(window, is_batched=is_batched, further=columns.further),
        new_store(build.job),
        capacity=capacity,
        bucket_count=buckets_for(capacity),
        keys=build.put(np.concatenate(keys)),
        values=build.put_once(values) if len(values) > 0 else 0,
        value_count=len(values),
        table=build.put_once(table) if len(table) > 0 else 0,
        table_count=len(table),
        operators=build.put(np.concatenate(seen)) if seen else 0,
        operator_count=len(seen),
    )
    build.lay(held, "entries", "buckets", "event_heap", "clock_heap", "further", "expected")
    return held


def put_keys(build: Builder, keys: LinkKeys | None) -> KernelKeys:
    """Put the tables of the keys of an edge there; return where they are."""
    if keys is None:
        return KernelKeys(keys=1)
    found = KernelKeys(keys=keys.keys, first_count=len(keys.firsts))
    if len(keys.firsts) > 0:
        found.firsts = build.put_once(keys.firsts)
        found.guide, found.guide_count = build.put_once(keys.guide), len(keys.guide)
    if keys.routes:
        found.owners = build.put_once(keys.owners)
    if len(keys.numbers) > 0:
        found.numbers, found.number_count = build.put_once(keys.numbers), len(keys.numbers)
    return found


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
    commit = plan.stage.commit
    flushes = any(one.stage.requests is not None for one in job.stages)
    own = TaskCheckpoint(
        mode=settings.mode,
        timeout=timeout,
        withholds=int(job.record_transport is not None),
        waits_final=1 if settings.waits_for_final else -int(flushes),
        data_open=max(1, inputs),
        sync=task_sync_us(job, plan),
        slowdown=int(job.scenario.cluster.upload_slowdown * WHOLE_SERVICE),
        look_rounds=look_rounds(job, plan),
    )
    if commit is not None and not commit.shared:
        own.commit_files, own.commit_us = commit.files, commit.length_us(commit.files)
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
    put, used = list[tuple[int, Ints]](), len(memory.cells)
    for task, places in enumerate(all_cut_places(job, memory)):
        held = view(KernelCheckpoints, memory.cells, int(memory.tasks["checkpoints"][task]))
        held.cut_places, held.cut_cells = used, len(places.all)
        held.cuts = used + len(places.all)
        put.append((used, places.all))
        used = held.cuts + CUT_SLOTS * (1 + len(places.all))
    cells = sparse(memory.cells, used, is_dense=True)
    for first, found in put:
        cells[first : first + len(found)] = found
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
    if row["requests"] > 0:  # what its sink has buffered
        found.append(kept_places(memory, int(row["requests"])))
        own = head.tasks_at + number * width(f.KernelTask)
        found.append(np.array([own + cell(f.KernelTask, "answered")], np.int64))
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
