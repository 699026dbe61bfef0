"""Ages of records: runs in flight on a channel, and the log of what sinks took up."""

from __future__ import annotations

from typing import Any

from flowcontrol.virtual import fields as f
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.views import runs_of

__all__ = [
    "log_age",
    "peek_run",
    "push_records",
    "push_run",
    "run_length",
    "take_ages",
    "take_one_age",
    "take_run",
]


@kernel
def _run(m: Any, number: int) -> Any:
    return row(m, m[f.H_RUNS] + number * f.RUN_WIDTH, f.RUN_WIDTH)


@kernel
def push_records(m: Any, out: f.KernelSubpartition, emitted: int, count: int) -> None:
    """Let ``count`` records that a source emitted in round ``emitted`` enter a channel."""
    push_run(m, runs_of(out), emitted, count)


@kernel
def push_run(m: Any, runs: f.RunList, emitted: int, count: int) -> None:
    """Append ``count`` records to the newest run, or as a new one."""
    if m[f.H_TRACK] == 0:
        return
    tail = runs.tail
    if tail > 0:
        last = _run(m, tail - 1)
        if last[f.RUN_ROUND] == emitted:
            last[f.RUN_COUNT] += count
            return
    number = m[f.H_RUNS_FREE]
    if number < 0:
        m[f.H_FLAGS] |= f.FLAG_RUNS
        return
    fresh = _run(m, number)
    m[f.H_RUNS_FREE] = fresh[f.RUN_NEXT]
    fresh[f.RUN_NEXT] = 0
    fresh[f.RUN_ROUND] = emitted
    fresh[f.RUN_COUNT] = count
    if tail > 0:
        _run(m, tail - 1)[f.RUN_NEXT] = number + 1
    else:
        runs.head = number + 1
    runs.tail = number + 1


@kernel
def _drop_head(m: Any, runs: f.RunList) -> None:
    """Free the oldest run of a channel, or of a log."""
    number = runs.head - 1
    head = _run(m, number)
    runs.head = head[f.RUN_NEXT]
    if head[f.RUN_NEXT] == 0:
        runs.tail = 0
    head[f.RUN_NEXT] = m[f.H_RUNS_FREE]
    m[f.H_RUNS_FREE] = number


@kernel
def take_one_age(m: Any, out: f.KernelSubpartition) -> int:
    """Take a record out of a channel; return the round in which its source emitted it."""
    return take_run(m, runs_of(out), 1)


@kernel
def run_length(m: Any, runs: f.RunList) -> int:
    """Return how many records the oldest run has; a lot if ages are not followed."""
    if m[f.H_TRACK] == 0 or runs.head == 0:
        return 1 << 60
    return _run(m, runs.head - 1)[f.RUN_COUNT]


@kernel
def peek_run(m: Any, runs: f.RunList) -> int:
    """Return the round in which the records of the oldest run were emitted."""
    if m[f.H_TRACK] == 0 or runs.head == 0:
        return 0
    return _run(m, runs.head - 1)[f.RUN_ROUND]


@kernel
def take_run(m: Any, runs: f.RunList, count: int) -> int:
    """Take records out of the oldest run, at most all; return the round of their emission."""
    if m[f.H_TRACK] == 0 or runs.head == 0:
        return 0
    head = _run(m, runs.head - 1)
    emitted = head[f.RUN_ROUND]
    head[f.RUN_COUNT] -= count
    if head[f.RUN_COUNT] == 0:
        _drop_head(m, runs)
    return emitted


@kernel
def take_ages(m: Any, out: f.KernelSubpartition, task: int, now: int, count: int) -> None:
    """Take ``count`` records out of a channel and log their ages at the sink."""
    runs = runs_of(out)
    while count > 0 and m[f.H_TRACK] == 1 and runs.head > 0:
        head = _run(m, runs.head - 1)
        part = min(count, head[f.RUN_COUNT])
        log_age(m, task, now - head[f.RUN_ROUND], part)
        count -= part
        head[f.RUN_COUNT] -= part
        if head[f.RUN_COUNT] == 0:
            _drop_head(m, runs)


@kernel
def log_age(m: Any, task: int, age: int, count: int) -> None:
    """Log that a sink took up ``count`` records of an age, rounds."""
    number = m[f.H_AGES_COUNT]
    if number > 0:
        last = row(m, m[f.H_AGES] + (number - 1) * f.A_WIDTH, f.A_WIDTH)
        if last[f.A_TASK] == task and last[f.A_AGE] == age:
            last[f.A_COUNT] += count
            return
    if number == m[f.H_AGES_MOST]:
        m[f.H_FLAGS] |= f.FLAG_AGES
        return
    entry = row(m, m[f.H_AGES] + number * f.A_WIDTH, f.A_WIDTH)
    entry[f.A_TASK] = task
    entry[f.A_AGE] = age
    entry[f.A_COUNT] = count
    m[f.H_AGES_COUNT] = number + 1
