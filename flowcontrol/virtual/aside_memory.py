"""The kernel's memory of what tasks put aside behind barriers, and of the disks for that."""

from typing import Any

from flowcontrol.job.job import Job
from flowcontrol.job.work import byte_cost
from flowcontrol.protocol.checkpoints.alignment import PUTTING_ASIDE
from flowcontrol.systems.barrier_buffer import AsideDisk, AsideEntries, BarrierBuffer
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder


def puts_aside(job: Job) -> bool:
    """Tell whether the tasks of a job put aside what comes behind barriers."""
    return job.checkpoints is not None and job.checkpoints.mode == PUTTING_ASIDE


class AsideBuilder:
    """Makes room for what the tasks of a job put aside.

    Parameters
    ----------
    build : Builder
        The memory.
    """

    def __init__(self, build: Builder) -> None:
        self._build, self._disks = build, dict[int, int]()
        most = build.head.asides_most
        build.head.asides_free = build.put(cells_of(AsideEntries(-1 if most == 0 else 0)))

    def put(self, held: Any, manager: int) -> None:
        """Say in a task's state of checkpoints where what it puts aside is, and its disk."""
        options = self._build.job.scenario.options
        buffer = BarrierBuffer(limit=options.alignment_bytes_limit)
        held.aside = self._build.put(cells_of(buffer))
        if manager not in self._disks:
            self._disks[manager] = self._build.put(cells_of(self._disk()))
        held.aside_disk = self._disks[manager]

    def _disk(self) -> AsideDisk:
        job = self._build.job
        rate = job.scenario.cluster.disk_bytes_per_s
        if rate is None:
            return AsideDisk()
        cost_ns, unit = byte_cost(rate)
        return AsideDisk(0, cost_ns, unit, job.round_us * 1000)
