"""The kernel's memory filled from a job: who is where, how many buffers, what rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowcontrol.emulation.job import Job, Link, StagePlan
from flowcontrol.emulation.work import WorkClock, emission_cost_ns
from flowcontrol.policies.throttled_source import ThrottledSource
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.state import width
from flowcontrol.protocol.states import GlobalPool
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import cells_of, dtype
from flowcontrol.virtual.links import connections_of, fill_connections, fill_link
from flowcontrol.virtual.needs import parts_of
from flowcontrol.virtual.places import Builder, Ints, Places
from flowcontrol.virtual.spill_fields import SpilledBuffer
from flowcontrol.virtual.spill_memory import disks_of, fill_disks, fill_kinds

__all__ = ["Memory", "fill"]


@dataclass(frozen=True)
class Memory:
    """The memory of a run, and what stands where.

    Attributes
    ----------
    cells : ndarray of int64, shape (cells,)
        All of it, in the layout of :mod:`flowcontrol.virtual.fields`.
    places : Places
        Numbers of gates, partitions and channels.
    """

    cells: Ints
    places: Places

    def block(self, base: int, count: int, width: int) -> Ints:
        """Return a block of rows as a view, ``(count, width)``."""
        first = int(self.cells[base])
        return self.cells[first : first + count * width].reshape(count, width)

    def table(self, base: int, count: int, cls: type[Any]) -> Any:
        """Return a block of states as a structured array, a view."""
        return self.block(base, count, width(cls)).reshape(-1).view(dtype(cls))

    def states(self, places: Ints, cls: type[Any]) -> Any:
        """Return the states of a class that stand at some places, a copy."""
        return self.cells[places[:, None] + range(width(cls))].view(dtype(cls)).ravel()

    @property
    def tasks(self) -> Any:
        """All tasks."""
        return self.table(f.H_TASK0, int(self.cells[f.H_TASKS]), f.KernelTask)

    @property
    def gates(self) -> Ints:
        """Rows of all gates."""
        return self.block(f.H_GATE0, int(self.cells[f.H_GATES]), f.G_WIDTH)

    @property
    def partitions(self) -> Ints:
        """Rows of all partitions."""
        return self.block(f.H_PARTITION0, int(self.cells[f.H_PARTITIONS]), f.P_WIDTH)

    @property
    def ins(self) -> Any:
        """All channels at their receivers."""
        return self.table(f.H_IN0, int(self.cells[f.H_CHANNELS]), f.KernelInputChannel)

    @property
    def outs(self) -> Any:
        """All channels at their senders."""
        return self.table(f.H_OUT0, int(self.cells[f.H_CHANNELS]), f.KernelSubpartition)

    def values(self, offset: int, length: int) -> list[int]:
        """Values of a first-in-first-out row, oldest first."""
        row = self.cells[offset : offset + length]
        capacity, head = length - w.FIFO_SLOTS, int(row[w.FIFO_HEAD])
        count = int(row[w.FIFO_COUNT])
        return [int(row[w.FIFO_SLOTS + (head + i) % capacity]) for i in range(count)]


def fill(
    job: Job,
    *,
    runs: int,
    ages: int,
    track: bool = True,
    spills: int = 0,
    tables: dict[tuple[str, int], Ints] | None = None,
    limits: dict[tuple[str, int], int] | None = None,
) -> Memory:
    """Return the memory of a job before its first round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    runs, ages : int
        Runs of records that may be in flight, and entries of the log of ages.
    track : bool, default True
        Follow the age of records.
    spills : int, default 0
        Buffers that spilling partitions may have finished and not yet got rid of.
    tables : dict, optional
        By edge and sender: subpartition of each replayed row, in order.
    limits : dict, optional
        By stage and subtask: records that a replaying source has.
    """
    build, places, pairs = Builder(), Places(), connections_of(job)
    _number(job, places)
    disks, first_disk = disks_of(job), sum(plan.stage.parallelism for plan in job.stages)
    counts = {
        f.H_TASKS: first_disk + len(disks) + len(pairs),
        f.H_GATES: len(places.gates),
        f.H_PARTITIONS: len(places.partitions),
        f.H_CHANNELS: sum(len(link.channels) for link in job.links),
    }
    header = _header(job, counts, track)
    if job.record_transport is not None:
        header[f.H_VALUES] = build.put(cells_of(job.record_transport))
    widths = {
        f.H_TASK0: (counts[f.H_TASKS], width(f.KernelTask)),
        f.H_GATE0: (counts[f.H_GATES], f.G_WIDTH),
        f.H_PARTITION0: (counts[f.H_PARTITIONS], f.P_WIDTH),
        f.H_IN0: (counts[f.H_CHANNELS], width(f.KernelInputChannel)),
        f.H_OUT0: (counts[f.H_CHANNELS], width(f.KernelSubpartition)),
        f.H_WHEEL: (f.WHEEL_SLOTS, 1),
        f.H_WHEEL_BITS: (f.WHEEL_SLOTS // w.WORD, 1),
        f.H_ACTIVE: (2 * counts[f.H_TASKS], 1),
        f.H_RUNS: (runs, f.RUN_WIDTH),
        f.H_AGES: (ages, f.A_WIDTH),
        f.H_SPILLS: (spills, width(SpilledBuffer)),
    }
    for base, (count, each) in widths.items():
        header[base] = build.take(count * each)
    header[f.H_RUNS_MOST], header[f.H_AGES_MOST] = runs, ages
    header[f.H_SPILLS_MOST], header[f.H_SPILLS_FREE] = spills, -1 if spills == 0 else 0
    blocks = {base: np.zeros(shape, np.int64) for base, shape in widths.items()}
    blocks[f.H_TASK0] = np.zeros(counts[f.H_TASKS], dtype(f.KernelTask))
    blocks[f.H_IN0] = np.zeros(counts[f.H_CHANNELS], dtype(f.KernelInputChannel))
    blocks[f.H_OUT0] = np.zeros(counts[f.H_CHANNELS], dtype(f.KernelSubpartition))
    for plan in job.stages:
        for index in range(plan.stage.parallelism):
            limit = (limits or {}).get((plan.name, index), -1)
            _fill_task(job, plan, index, places, blocks, build, limit)
    for link in job.links:
        fill_link(job, link, places, blocks, build, int(header[f.H_LATENCY]), tables or {})
    _fill_throttles(job, places, blocks, build)
    fill_disks(job, disks, first_disk, blocks, build)
    fill_kinds(job, disks, first_disk, places, blocks, build)
    fill_connections(job, pairs, places, blocks, build)
    free = np.zeros(spills, dtype(SpilledBuffer))
    free["next"] = np.arange(1, spills + 1)
    free["next"][-1:] = -1
    blocks[f.H_SPILLS] = free
    _fill_globals(job, header, blocks, build)
    blocks[f.H_RUNS][:, f.RUN_NEXT] = np.arange(1, runs + 1)
    blocks[f.H_RUNS][-1:, f.RUN_NEXT] = -1
    _wake_all(blocks)
    cells = np.zeros(build.used, np.int64)
    cells[: f.HEADER] = header
    for base, block in blocks.items():
        values = block.view(np.int64).ravel()
        cells[header[base] : header[base] + len(values)] = values
    for first, values in build.tables:
        cells[first : first + len(values)] = values
    return Memory(cells, places)


def _fill_throttles(job: Job, places: Places, blocks: dict[int, Any], build: Builder) -> None:
    """Give every source of a job with a throttle its state; commands come before round 0."""
    if job.scenario.system.throttle == "none":
        return
    for plan in job.stages:
        for index in range(plan.stage.parallelism if plan.is_source else 0):
            task = blocks[f.H_TASK0][places.tasks[plan.name] + index]
            task["throttle"] = build.put(cells_of(ThrottledSource()))


def _header(job: Job, counts: dict[int, int], track: bool) -> Ints:
    options, header = job.scenario.options, np.zeros(f.HEADER, np.int64)
    latency_us = job.scenario.cluster.network_latency_us
    header[f.H_ROUND_US] = job.round_us
    header[f.H_ROUNDS] = job.rounds
    header[f.H_LATENCY] = max(1, -(-latency_us // job.round_us))
    header[f.H_LATENCY_NS] = latency_us * 1000
    header[f.H_SEGMENT] = options.segment_bytes
    header[f.H_QUOTA] = options.max_buffers_per_channel
    if job.scenario.system.transport == "tcp":
        header[f.H_TCP], header[f.H_QUOTA] = 1, w.UNLIMITED
    header[f.H_FLUSH_US] = options.flush_interval_us
    if options.debloat_enabled:
        header[f.H_DEBLOAT_US] = options.debloat_period_us
        header[f.H_DEBLOAT_TARGET_US] = options.debloat_target_us
        header[f.H_DEBLOAT_SAMPLES] = options.debloat_samples
        header[f.H_DEBLOAT_THRESHOLD] = options.debloat_threshold_percent
        header[f.H_MIN_SEGMENT] = options.min_segment_bytes
    header[f.H_SEED] = job.scenario.seed
    header[f.H_TRACK] = int(track)
    header[f.H_NOW], header[f.H_PARTS] = -1, parts_of(job)
    if job.record_transport is not None:
        header[f.H_RECORDS], header[f.H_DEBLOAT_US] = 1, 0
    for column, count in counts.items():
        header[column] = count
    return header


def _fill_globals(job: Job, header: Ints, blocks: dict[int, Any], build: Builder) -> None:
    """Say which row is the global pool of each gate and partition: its own part, at first."""
    for base, cells, own, column in (
        (f.H_GATE0, f.G_WIDTH, f.G_SEGMENTS, f.G_GLOBAL),
        (f.H_PARTITION0, f.P_WIDTH, f.P_SEGMENTS, f.P_GLOBAL),
    ):
        block = blocks[base]
        block[:, column] = header[base] + cells * np.arange(len(block)) + own
    if job.scenario.shares_memory:
        header[f.H_SHARED] = 1
        managers = job.scenario.cluster.task_managers
        header[f.H_SHARED0] = build.take(managers * width(GlobalPool))


def _number(job: Job, places: Places) -> None:
    """Number tasks, gates and partitions in topological order, channels in theirs."""
    task = 0
    for plan in job.stages:
        places.tasks[plan.name] = task
        task += plan.stage.parallelism
        for index in range(plan.stage.parallelism):
            for link in plan.inputs:
                places.gates[link.name, index] = len(places.gates)
            for link in plan.outputs:
                places.partitions[link.name, index] = len(places.partitions)
    firsts = {"out": 0, "in": 0}
    for plan in job.stages:
        for index in range(plan.stage.parallelism):
            for link in plan.outputs:
                _number_channels(link, index, "sender", places.outs, firsts, "out")
            for link in plan.inputs:
                _number_channels(link, index, "receiver", places.ins, firsts, "in")


def _number_channels(
    link: Link, index: int, side: str, into: dict[str, Ints], firsts: dict[str, int], which: str
) -> None:
    numbers = into.setdefault(link.name, np.full(len(link.channels), -1, np.int64))
    own = np.flatnonzero(link.ends(side) == index)
    numbers[own] = firsts[which] + np.arange(len(own))
    firsts[which] += len(own)


def _wake_all(blocks: dict[int, Any]) -> None:
    """Put every task on the wheel for the first round."""
    tasks = blocks[f.H_TASK0]
    count = len(tasks)
    tasks["next"] = np.arange(2, count + 2)
    tasks["next"][-1] = 0
    tasks["previous"] = np.arange(0, count)
    blocks[f.H_WHEEL][0, 0] = 1
    blocks[f.H_WHEEL_BITS][0, 0] = 1


def _fill_task(
    job: Job,
    plan: StagePlan,
    index: int,
    places: Places,
    blocks: dict[int, Any],
    build: Builder,
    limit: int,
) -> None:
    task = blocks[f.H_TASK0][places.tasks[plan.name] + index]
    clock = WorkClock.of(job, plan, index)
    task["kind"] = f.SOURCE if plan.is_source else f.RELAY if clock is None else f.SERVER
    task["gates"], task["partitions"] = len(plan.inputs), len(plan.outputs)
    if plan.inputs:
        task["first_gate"] = places.gates[plan.inputs[0].name, index]
    if plan.outputs:
        task["first_partition"] = places.partitions[plan.outputs[0].name, index]
    task["sinks"] = sum(member.is_sink for member in plan.members)
    task["union"] = build.take(w.FIFO_SLOTS + max(1, len(plan.inputs)))
    task["limit"], task["last"] = limit, -1
    task["status"] = f.IDLE
    task["cost_ns"] = emission_cost_ns(job, plan)
    stalls = plan.stalled(index)
    if clock is None and stalls:
        task["stalls"] = build.put(np.array(stalls, np.int64).ravel())
        task["stall_count"] = len(stalls)
    if clock is not None:
        task["phases"] = build.put(np.array(clock.phases, np.int64).ravel())
        task["phase_count"] = len(clock.phases)
        task["unit"], task["distribution"] = clock.unit, clock.kind
        task["cv"], task["stream"] = round(clock.cv * 1e6), clock.stream
