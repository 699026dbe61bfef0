"""The kernel's memory of windows."""

import numpy as np

from flowcontrol.job.batch_settings import has_batches, new_operators, new_store
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.row_keys import NO_KEYS, ONE_KEY, RowKeys
from flowcontrol.job.window_settings import (
    LinkKeys,
    new_window_settings,
    new_window_task,
    window_plan_of,
)
from flowcontrol.protocol.windows.keeping import buckets_for
from flowcontrol.scenario.windows import WindowPlan
from flowcontrol.virtual.cells import cells_of
from flowcontrol.virtual.places import Builder
from flowcontrol.virtual.window_fields import KernelKeys, KernelWindow

LEAST_ENTRIES = 1 << 6
"""Windows of a task to begin with, at the least, besides those of two records."""
MOST_FIRST_ENTRIES = 1 << 16
"""Windows of a task to begin with, at the most; a run that needs more begins again with more."""


def first_entries(job: Job, rows: RowKeys = NO_KEYS) -> int:
    """Return for how many windows each task has room to begin with; 0: no stage has one.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    rows : RowKeys, optional
        Keys of replayed rows; by default there are none.

    Notes
    -----
    Of each key those that a record is in, one more before they fire, and those that lateness keeps.
    """
    most = 0
    for plan in job.stages:
        window = window_plan_of(job, plan)
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
    """Put the windows of each task there that has some; the tasks are filled.

    Parameters
    ----------
    build : Builder
        The memory.
    capacity : int
        Windows that each task has room for.
    """
    for task, (plan, _) in zip(build.blocks["tasks_at"], build.job.subtasks, strict=False):
        window = window_plan_of(build.job, plan)
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
    build.lay(held, "entries", "buckets", "event_heap", "clock_heap", "further")
    return held


def put_keys(build: Builder, keys: LinkKeys | None) -> KernelKeys:
    """Put the tables of the keys of an edge there; return where they are."""
    if keys is None:
        return KernelKeys(keys=1)
    found = KernelKeys(keys=keys.keys, first_count=len(keys.firsts))
    if len(keys.firsts) > 0:
        found.firsts = build.put_once(keys.firsts)
    if keys.routes:
        found.owners = build.put_once(keys.owners)
    if len(keys.numbers) > 0:
        found.numbers, found.number_count = build.put_once(keys.numbers), len(keys.numbers)
    return found
