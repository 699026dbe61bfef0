"""The memory of a task for what only some have: a processor, sinks, event time, windows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS, ONE_KEY, LinkKeys, RowKeys
from flowcontrol.layout.task_settings import (
    has_batches,
    new_operators,
    new_store,
    new_time,
    timed_flags,
)
from flowcontrol.layout.window_settings import new_window_settings, new_window_task
from flowcontrol.layout.work import cpu_shares, new_processors, tasks_by_manager
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import cells_of
from flowcontrol.memory.part_fields import (
    KernelKeys,
    KernelProcessor,
    KernelProcessors,
    KernelTime,
    KernelWindow,
)
from flowcontrol.memory.places import Builder
from flowcontrol.protocol.windows.keeping import buckets_for
from flowcontrol.scenario import Scenario, Schedule
from flowcontrol.scenario.schedule import MICROSECONDS
from flowcontrol.scenario.windows import WindowPlan
from flowcontrol.state.declared import width

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
