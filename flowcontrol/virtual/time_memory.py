"""The kernel's memory of event time."""

from flowcontrol.job.timed_settings import new_time, timed_flags
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder
from flowcontrol.virtual.time_fields import KernelTime


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
