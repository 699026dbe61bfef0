"""The kernel's memory of event time."""

import numpy as np

from flowcontrol.job.timed_settings import new_time
from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder
from flowcontrol.virtual.time_fields import KernelTime


def fill_times(build: Builder) -> None:
    """Put the event time of each task there; the tasks are filled."""
    tasks = build.blocks["tasks_at"]
    for plan in build.job.stages:
        for index in range(plan.stage.parallelism):
            task = tasks[build.places.tasks[plan.name] + index]
            count = sum(len(link.incoming(index)) for link in plan.inputs)
            channels = build.put(np.tile(cells_of(ValveChannel()), count))
            task["is_timed"] = 1
            time = KernelTime(new_time(build.job, plan, index), channels, count)
            task["time"] = build.put(cells_of(time))
