"""The kernel's memory of checkpoints: of each task, of the coordinator's orders, of reports."""

import numpy as np

from flowcontrol.job.checkpoint_settings import CheckpointSettings, is_forced
from flowcontrol.job.delivery_settings import look_rounds
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.state_sizes import task_sync_us
from flowcontrol.operators.snapshots import WHOLE_SERVICE
from flowcontrol.protocol.checkpoints.tracker import MOST_TRACKED
from flowcontrol.protocol.queues import MOST_BARRIERS
from flowcontrol.protocol.state import width
from flowcontrol.protocol.states import AlignedChannel, Alignment, CheckpointReport, TaskCheckpoint
from flowcontrol.virtual.aside_memory import AsideBuilder, puts_aside
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.checkpoint_fields import KernelCheckpoints, KernelOrder
from flowcontrol.virtual.places import Builder


def fill_checkpoints(build: Builder, settings: CheckpointSettings, reports: int) -> None:
    """Make room for the orders of the coordinator and the reports of tasks.

    Parameters
    ----------
    build : Builder
        The memory; its tasks and partitions are filled.
    settings : CheckpointSettings
        How the job checkpoints.
    reports : int
        Entries of the log of reports.
    """
    job, head = build.job, build.head
    head.has_checkpoints = 1
    head.has_looks = int(any(look_rounds(job, plan) for plan in job.stages))
    head.reports_most, head.reports_wanted = reports, reports // 2
    head.reports = build.take(reports * width(CheckpointReport))
    head.orders_most = len(job.subtasks) * (2 * MOST_BARRIERS + 3)  # triggers, ends, slowdown
    head.orders = build.take(head.orders_most * width(KernelOrder))
    tasks, partitions = build.blocks["tasks_at"], build.blocks["partitions_at"]
    aside = AsideBuilder(build) if puts_aside(job) else None
    for task, (plan, index) in zip(tasks, job.subtasks, strict=False):
        task["has_checkpoints"] = 1
        held = _task_state(build, settings, plan, index)
        if aside is not None:
            aside.put(held, plan.stage.placement[index])
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
