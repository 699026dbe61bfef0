"""The kernel's memory filled from a job: who is where, how many buffers, what rate."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowcontrol.layout.graph import JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_ROWS, Replayed
from flowcontrol.layout.task_settings import is_punctuated, is_timed
from flowcontrol.layout.work import (
    Arrivals,
    ServiceCurve,
    emission_cost_ns,
    flush_interval_us,
    has_log,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import LARGE_CELLS, cells_of, will_touch, zeros
from flowcontrol.memory.links import (
    connections_of,
    disks_of,
    fill_connections,
    fill_disks,
    fill_kinds,
    fill_link,
)
from flowcontrol.memory.log_sizes import LOGS_OF_HEAD, LogSizes
from flowcontrol.memory.memory import Memory, _Block
from flowcontrol.memory.parts import parts_of
from flowcontrol.memory.places import Builder, KernelMemory, Places
from flowcontrol.memory.requests import NOTHING, Restored, fill_requests
from flowcontrol.memory.task_memory import (
    fill_checkpoints,
    fill_processors,
    fill_sinks,
    fill_times,
    fill_windows,
    with_cuts,
)
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.service import CONSTANT, PHASE_RATE
from flowcontrol.scenario.system import THROTTLE_PARTS
from flowcontrol.state import rows as w
from flowcontrol.state.declared import assign, cell, width
from flowcontrol.state.network import GlobalPool
from flowcontrol.systems.throttles.throttled_source import ThrottledSource

RESERVED = 8
"""A large memory is laid out in place, if all of it takes no more than so many times its blocks.
What is not touched costs nothing."""


def fill(
    job: Job,
    sizes: LogSizes,
    *,
    track: bool = True,
    replayed: Replayed = NO_ROWS,
    restored: Restored = NOTHING,
) -> Memory:
    """Return the memory of a job before its first round.

    - ``track``: follow the age of every record; a throttle that looks at ages has them followed in
      any case.
    - ``replayed``: what is known of replayed rows; by default no source replays any.
    - ``restored``: by task, what its requests held in a checkpoint from which the job begins.
    """
    head = _head(job, track)
    build = Builder(job, head, replayed)
    _number(job, build.places)
    pairs, disks = connections_of(job), disks_of(job)
    first_disk = len(job.subtasks)
    head.tasks = first_disk + len(disks) + len(pairs)
    head.gates, head.partitions = len(build.places.gates), len(build.places.partitions)
    head.channels = sum(link.width for link in job.links)
    for name in LOGS_OF_HEAD:
        setattr(head, f"{name}_most", getattr(sizes, name))
    head.spills_free = -1 if sizes.spills == 0 else 0
    head.further = replayed.keys.further
    if job.record_transport is not None:
        head.values = build.put(cells_of(job.record_transport))
    _add_blocks(build)
    for task, (plan, index) in zip(build.blocks["tasks_at"], job.subtasks, strict=False):
        _fill_task(build, task, plan, index)
    fill_sinks(build)
    for link in job.links:
        fill_link(build, link)
    fill_disks(build, disks, first_disk)
    fill_kinds(build, {manager: first_disk + i for i, manager in enumerate(disks)})
    fill_connections(build, pairs)
    head.is_ordered = int(len(pairs) > 0)
    head.may_fail = int(job.faults is not None)
    if job.checkpoints is not None:
        fill_checkpoints(build, job.checkpoints)
    if is_timed(job):
        fill_times(build)
    if sizes.windows > 0:
        fill_windows(build, sizes.windows)
    if any(stage.requests for stage in job.scenario.stages):
        fill_requests(build, restored)
    if job.scenario.counts_processors:
        fill_processors(build)
    _fill_globals(build)
    _mark_plain(build)
    _link(build)
    memory = _written(build)
    return memory if job.checkpoints is None else with_cuts(memory, job)


def _written(build: Builder) -> Memory:
    """Return a memory with all that was put into it."""
    count, done = build.all_cells(), build.in_place
    if count > len(done):  # or so few that they were not laid out in place
        cells = zeros(count, build.used)
        for base, block in build.blocks.items():
            first, values = getattr(build.head, base), block.view(np.int64)
            cells[first : first + len(values)] = values
    else:
        cells = done[:count]
        will_touch(cells, 0, build.used)
    memory = Memory(cells, build.places)
    assign(memory.head, build.head)
    for first, values in build.tables:
        cells[first : first + len(values)] = values
    return memory


def _add_blocks(build: Builder) -> None:
    """Make room for the blocks, and for the lists of tasks to look at."""
    head = build.head
    plain = np.dtype(np.int64)
    entries = {
        "wheel": (f.WHEEL_SLOTS, plain),
        "wheel_bits": (f.WHEEL_SLOTS // w.WORD, plain),
        "active": (2 * head.tasks, plain),
    }
    for block in vars(Memory).values():
        if isinstance(block, _Block):
            count, entry = getattr(head, block.count), block.entry(head)
            if block.is_log:
                setattr(head, block.at, build.take(count * entry.itemsize // 8))
            else:
                entries[block.at] = count, entry
    for base, (count, entry) in entries.items():
        setattr(head, base, build.take(count * entry.itemsize // 8))
    if build.used >= LARGE_CELLS:
        build.in_place = zeros(RESERVED * build.used, build.used)
    for base, (count, entry) in entries.items():
        first, length = getattr(head, base), count * entry.itemsize // 8
        here = build.in_place[first : first + length]
        build.blocks[base] = here.view(entry) if len(here) == length else np.zeros(count, entry)


def _head(job: Job, track: bool) -> KernelMemory:
    options, head = job.scenario.options, KernelMemory()
    latency_us = job.scenario.cluster.network_latency_us
    head.round_us = job.round_us
    head.rounds = job.rounds
    head.latency = max(1, -(-latency_us // job.round_us))
    head.latency_ns = latency_us * 1000
    head.segment_bytes = options.segment_bytes
    head.quota = options.max_buffers_per_channel
    if job.scenario.system.transport == "tcp":
        head.is_tcp, head.quota = 1, w.UNLIMITED
    head.flush_us = flush_interval_us(job)
    if options.debloat_enabled:
        head.debloat_us = options.debloat_period_us
        head.debloat_target_us = options.debloat_target_us
        head.debloat_samples = options.debloat_samples
        head.debloat_threshold = options.debloat_threshold_percent
        head.min_segment_bytes = options.min_segment_bytes
    head.seed = job.scenario.seed
    track |= THROTTLE_PARTS[job.scenario.system.throttle].needs_ages
    head.is_tracked = int(track or is_timed(job))
    head.drops_ages = int(not track)
    head.now, head.parts = -1, parts_of(job)
    head.has_readers = int(any(plan.stage.reads_log for plan in job.stages))
    if job.record_transport is not None:
        head.counts_records, head.debloat_us = 1, 0
    return head


def _fill_globals(build: Builder) -> None:
    """Say where the global pool of each gate and partition is: its own part, at first."""
    job, head = build.job, build.head
    for base, cls in (("gates_at", f.KernelGate), ("partitions_at", f.KernelPartition)):
        block = build.blocks[base]
        own = cell(cls, "segments") + width(cls) * np.arange(len(block))
        block["global_at"] = getattr(head, base) + own
    if job.scenario.shares_memory:
        head.is_shared = head.is_ordered = 1
        managers = job.scenario.cluster.task_managers
        head.shared_at = build.take(managers * width(GlobalPool))


def _number(job: Job, places: Places) -> None:
    """Number tasks, gates and partitions in topological order, channels in theirs."""
    for task, (plan, index) in enumerate(job.subtasks):
        places.tasks.setdefault(plan.name, task)
        for link in plan.inputs:
            places.gates[link.name, index] = len(places.gates)
        for link in plan.outputs:
            places.partitions[link.name, index] = len(places.partitions)
    for found, side, edges in (
        (places.outs, "sender", "outputs"),
        (places.ins, "receiver", "inputs"),
    ):
        first = 0
        for plan, index in job.subtasks:
            for link in getattr(plan, edges):
                numbers = found.setdefault(link.name, np.full(link.width, -1, np.int64))
                own = link.places(side, index)
                numbers[own] = first + np.arange(len(own))
                first += len(own)


def _link(build: Builder) -> None:
    """Link what is free, and put every task on the wheel for the first round."""
    for base in ("spills", "asides"):
        free = build.blocks[base]["next"]
        free[:] = np.arange(1, len(free) + 1)
        free[-1:] = -1
    tasks = build.blocks["tasks_at"]
    count = len(tasks)
    tasks["next"] = np.arange(2, count + 2)
    tasks["next"][-1] = 0
    tasks["previous"] = np.arange(0, count)
    build.blocks["wheel"][0] = 1
    build.blocks["wheel_bits"][0] = 1


def _mark_plain(build: Builder) -> None:
    """Say which tasks may move records in runs (``StreamTask.is_plain``)."""
    job, partitions, most = build.job, build.blocks["partitions_at"], build.head.segment_bytes
    for task, (plan, _) in zip(build.blocks["tasks_at"], job.subtasks, strict=False):
        if task["partitions"] != 1 or task["operators"] + task["sinks"] + task["awaits"] > 0:
            continue
        is_even = plan.is_source or task["distribution"] == CONSTANT
        p = partitions[task["first_partition"]]
        is_open = p["is_broadcast"] == 0 and p["kind"] <= PIPELINED
        is_small = job.record_transport is not None or 2 * p["record_bytes"] <= most
        is_plain = is_even and is_open and is_small and not is_punctuated(job, plan)
        task["is_plain"] = int(is_plain)


def _fill_task(build: Builder, task: Any, plan: JobVertex, index: int) -> None:
    job, places = build.job, build.places
    limit = build.replayed.limits.get((plan.name, index), -1)
    curve = ServiceCurve.of(job, plan, index)
    task["kind"] = f.SOURCE if plan.is_source else f.RELAY if curve is None else f.SERVER
    task["gates"], task["partitions"] = len(plan.inputs), len(plan.outputs)
    if plan.inputs:
        task["first_gate"] = places.gates[plan.inputs[0].name, index]
    if plan.outputs:
        task["first_partition"] = places.partitions[plan.outputs[0].name, index]
    places_of_operators = [build.put(cells_of(own)) for own in plan.new_operators()]
    task["operators"] = len(places_of_operators)
    task["operators_at"] = build.put(np.array(places_of_operators, np.int64))
    task["union"] = build.take(w.FIFO_SLOTS + max(1, len(plan.inputs)))
    task["open_inputs"] = max(1, sum(len(link.places("receiver", index)) for link in plan.inputs))
    task["limit"], task["last"] = limit, -1
    task["status"] = f.IDLE
    task["cost_ns"] = emission_cost_ns(job, plan)
    stalls = plan.stalled(index)
    if curve is None and stalls:
        task["stalls"] = build.put(np.array(stalls, np.int64).ravel())
        task["stall_count"] = len(stalls)
    if curve is not None:
        task["phases"] = build.put(np.array(curve.phases, np.int64).ravel())
        task["phase_count"] = len(curve.phases)
        task["unit"], task["distribution"] = curve.unit, curve.kind
        task["may_end"] = plan.is_source and (limit >= 0 or curve.phases[-1][PHASE_RATE] == 0)
        task["cv"], task["stream"] = round(curve.cv * 1e6), curve.stream
    if plan.is_source and job.scenario.system.throttle != "none":
        task["throttle"] = build.put(cells_of(ThrottledSource()))  # commands come before round 0
    if has_log(job, plan):
        _fill_log(build, plan, index, task)


def _fill_log(build: Builder, plan: JobVertex, index: int, task: Any) -> None:
    """Put the log there that a source reads, empty."""
    log, arrivals = f.KernelLog(), Arrivals.of(build.job, plan, index, int(task["limit"]))
    if arrivals is not None:
        task["kind"], task["may_end"] = f.READER, int(arrivals.may_end)
        log.arrivals = build.put(np.array(arrivals.curve.phases, np.int64).ravel())
        log.arrival_count, log.unit = len(arrivals.curve.phases), arrivals.curve.unit
        log.from_arrival = int(plan.stage.latency_from == "arrival")
    task["log"] = build.put(cells_of(log))
