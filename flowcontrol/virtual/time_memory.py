"""The kernel's memory of event time: filled from a job, and read for a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.job.timed_settings import new_time, timed_flags
from flowcontrol.protocol.event_time.bounds import MIN_TIME
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.fields import ABSENT
from flowcontrol.virtual.places import Builder
from flowcontrol.virtual.time_fields import KernelTime

if TYPE_CHECKING:
    from flowcontrol.virtual.memory import Memory
    from flowcontrol.virtual.places import Ints


def fill_times(build: Builder) -> None:
    """Put the event time of each task there; the tasks are filled."""
    tasks = build.blocks["tasks_at"]
    for plan in build.job.stages:
        for index in range(plan.stage.parallelism):
            task = tasks[build.places.tasks[plan.name] + index]
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


def watermarks_of(memory: Memory) -> tuple[Ints, Ints]:
    """Return the watermark that each subtask gave out last, ms, and 1 where it is idle.

    One that is not deployed has none.
    """
    tasks = memory.tasks[memory.tasks["time"] > 0]
    own = memory.states(tasks["time"], KernelTime)["own"]
    has_inputs = tasks["gates"] > 0
    mark, idle = (
        np.where(has_inputs, own["valve"][name], own["generator"][name])
        for name in ("watermark", "is_idle")
    )
    is_gone = tasks["status"] == ABSENT
    return np.where(is_gone, MIN_TIME, mark), np.where(is_gone, 0, idle)


class PausedTime:
    """Reads for how long each subtask has stood because it was paused.

    Parameters
    ----------
    memory : Memory
        Of a run, before the first round.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._carried = np.zeros_like(self._held())

    def read(self) -> Ints:
        """Return that time since the start of the run, microseconds."""
        return self._held() + self._carried

    def hold(self) -> Callable[[], None]:
        """Return what is to be called when tasks have begun anew: the time goes on."""
        before = self._held()

        def go_on() -> None:
            self._carried += before - self._held()

        return go_on

    def _held(self) -> Ints:
        tasks = self._memory.tasks[self._memory.tasks["time"] > 0]
        found: Ints = self._memory.states(tasks["time"], KernelTime)["own"]["paused_us"].copy()
        return found
