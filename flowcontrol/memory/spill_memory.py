"""The kernel's memory of partitions that are not pipelined and bounded, and of their disks."""

from collections import Counter

import numpy as np

from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job
from flowcontrol.layout.work import byte_cost
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as s
from flowcontrol.memory.cells import cells_of
from flowcontrol.memory.places import Builder
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.scenario.partitions import regions_of
from flowcontrol.state import rows as w
from flowcontrol.state.declared import width

NEVER_US = 1 << 60
"""Microsecond at which the flusher of a spilling partition runs: it has none."""


def kinds_of(job: Job) -> dict[tuple[str, int], int]:
    """Return the kind of every result partition that is not pipelined and bounded.

    By edge and sender subtask, in the order of the job's stages.
    """
    found = {}
    for plan, index in job.subtasks:
        for link in plan.outputs:
            kind = _kind(job, link, index)
            if kind != k.BOUNDED:
                found[link.name, index] = kind
    return found


def _kind(job: Job, link: JobEdge, sender: int) -> int:
    width = len(link.places("sender", sender))
    least = job.scenario.options.sort_min_parallelism
    return k.kind_of(link.edge.partition_type, width, least)


def disks_of(job: Job) -> dict[int, int]:
    """Return how many spilling partitions write to the disk of each task manager, if any do."""
    managers = [_manager(job, *own) for own, kind in kinds_of(job).items() if kind > k.PIPELINED]
    return dict(sorted(Counter(managers).items()))


def _manager(job: Job, edge: str, sender: int) -> int:
    link = next(link for link in job.links if link.name == edge)
    return job.scenario.stage(link.edge.sender).placement[sender]


def fill_disks(build: Builder, disks: dict[int, int], first: int) -> None:
    """Fill the disks, which stand behind the tasks."""
    rate = build.job.scenario.cluster.disk_bytes_per_s
    for number, count in enumerate(disks.values(), start=first):
        disk = build.blocks["tasks_at"][number]
        disk["kind"], disk["status"] = f.DISK, f.IDLE
        disk["union"], disk["gates"] = build.take(w.FIFO_SLOTS + 2 * count), 2 * count
        disk["cost_ns"], disk["unit"] = byte_cost(rate or 1.0)


def fill_kinds(build: Builder, disks: dict[int, int]) -> None:
    """Fill what partitions have besides when they are not pipelined and bounded.

    ``disks``: task that is the disk of each task manager that has one.
    """
    job, places = build.job, build.places
    kinds = kinds_of(job)
    tasks, partitions = build.blocks["tasks_at"], build.blocks["partitions_at"]
    regions = regions_of(job.scenario)
    readers = {link.name: regions[link.edge.receiver] for link in job.links}
    groups = _fill_regions(build, kinds, readers)
    sorting = Counter(_manager(job, *own) for own, kind in kinds.items() if kind == k.SORTED)
    for (edge, sender), kind in kinds.items():
        number = places.partitions[edge, sender]
        p, manager = partitions[number], _manager(job, edge, sender)
        tasks["kinds"][p["task"]] += 1
        own = s.SpillingPartition(number)
        if kind > k.PIPELINED:
            count = int(p["channels"])
            own.disk, own.region = disks[manager], groups[readers[edge]]
            own.lanes = build.take(count * width(s.SpillingSubpartition))
            options = job.scenario.options
            # No more than a remote consumer, though the rounds know no bound but its queue's:
            # what Flink's local consumer has not polled can still be spilled.
            window = options.exclusive_buffers + options.floating_buffers
            own.local = min(window, max(1, int(p["held_width"]) - w.FIFO_SLOTS))
            memory, segment = options.read_memory_bytes, options.segment_bytes
            own.ahead = k.read_ahead(kind, count, sorting[manager], memory, segment)
            p["flush_at"] = NEVER_US
        p["kind"], p["spill"] = kind, build.put(cells_of(own))


def _fill_regions(
    build: Builder, kinds: dict[tuple[str, int], int], readers: dict[str, int]
) -> dict[int, int]:
    """Lay out the pipelined regions that read spilling partitions; return where each is.

    Flink's ``PipelinedRegionSchedulingStrategy``: a region starts when all blocking partitions that
    it reads are finished. A hybrid edge joins nothing and is waited for by nobody.
    """
    members: dict[int, list[int]] = {}
    waits: dict[int, int] = {}
    for (edge, sender), kind in kinds.items():
        if kind > k.PIPELINED:
            region = readers[edge]
            members.setdefault(region, []).append(build.places.partitions[edge, sender])
            waits[region] = waits.get(region, 0) + k.waits_for_producers(kind)
    found = {}
    for region, numbers in members.items():
        start = -1 if waits[region] > 0 else 0
        own = s.ConsumerRegion(waits[region], start, len(numbers))
        found[region] = build.put(np.append(cells_of(own), numbers))
    return found
