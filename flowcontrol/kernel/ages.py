"""Ages of records, in flight and taken up; and the journal of records that tasks move."""

from __future__ import annotations

from typing import Any, NamedTuple

from flowcontrol.kernel.views import age_rows, chained_sinks, run_rows
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import found_once, part_of, rows
from flowcontrol.memory.parts import JOURNAL
from flowcontrol.memory.places import FLAG_AGES, FLAG_RUNS, KernelMemory
from flowcontrol.protocol.service import phase_at
from flowcontrol.state.requests import Entry

# --- Which records tasks move in a round: kept by the interpreted kernel for whoever moves rows.
#
# A compiled kernel has none of it.


TAKEN = 0
"""Records taken up: ``first`` is the gate, ``second`` its channel."""
ROUTED = 1
"""Records put out: ``first`` is the channel, by its number at the sender, ``second`` how many
records the task has taken up by then."""
FIRED = 2
"""A result of a window: ``first`` is the round in which its last record was emitted, ``records``
how many the task has taken up by then."""
LATE = 3
"""A record that came too late for every window; ``records`` as of FIRED."""
ANSWERED = 4
"""Records leave the queue of a task that calls a service, or the destination of a sink has stored
them: ``first`` is their channel, by its number at the receiver, ``second`` the number of the first
one there."""


SNAPSHOT = 5
"""The task takes the state of a checkpoint: ``first`` is its number."""


PLACES = 1 << 40
"""Numbers of records on a channel; the number of an entry of a task with requests is that of its
channel, times this, and its own there."""


class Move(NamedTuple):
    """What a task did with ``records``: how many, unless the kind says otherwise."""

    task: int
    kind: int
    first: int
    second: int
    records: int
    # Of a sink: in which round the answer comes, and in which its writer hears it, -1: never; and
    # in how many requests they were.
    due: int = -1
    heard: int = -1
    attempts: int = 0


@part_of(JOURNAL)
def note_move(m: Any, task: int, kind: int, first: int, second: int, records: int) -> int:
    """Note that a task moves records, if somebody wants to know."""
    if m.moves is not None:
        m.moves.append(Move(task, kind, first, second, int(records)))
    return 0


@part_of(JOURNAL)
def note_stored(m: Any, task: int, entry: Entry, due: int, heard: int) -> int:
    """Note that the destination of a sink has stored records, if somebody wants to know."""
    if m.moves is not None:
        place, attempts = divmod(entry.first, PLACES), entry.tries + 1
        m.moves.append(Move(task, ANSWERED, *place, entry.count, due, heard, attempts))
    return 0


@part_of(JOURNAL)
def keeps_journal(m: Any) -> int:
    """Tell whether somebody wants to know of each record that a task moves: 1 if so."""
    return 0 if m.moves is None else 1


# --- Ages of records: runs in flight on a channel, and the log of what sinks took up


@found_once
def run_at(m: KernelMemory, number: int) -> f.Run:
    """Return a run by its number."""
    return run_rows(m, m.runs, m.runs_most)[number]


def push_run(m: KernelMemory, runs: f.RunList, emitted: int, count: int, stamp: int = 0) -> None:
    """Let ``count`` records that a source emitted in a round enter a channel, or a log.

    With event time all of one run have the same ``stamp``.
    """
    if m.is_tracked == 0:
        return
    tail = runs.tail
    if tail > 0:
        last = run_at(m, tail - 1)
        if last.round == emitted and last.stamp == stamp and last.kind == 0:
            last.count += count
            return
    _enter(m, runs, emitted, count, stamp, 0)


def push_mark(m: KernelMemory, runs: f.RunList, kind: int, watermark: int) -> None:
    """Let a watermark or a status enter a channel, behind what is in it."""
    _enter(m, runs, 0, 0, watermark, kind)


def _enter(
    m: KernelMemory, runs: f.RunList, emitted: int, count: int, stamp: int, kind: int
) -> None:
    """Let a new run enter a channel, or a log."""
    tail = runs.tail
    number = m.runs_free
    if number < 0:
        number = m.runs_used
        if number == m.runs_most:
            m.flags |= FLAG_RUNS
            return
        m.runs_used = number + 1
    else:
        m.runs_free = run_at(m, number).next
    fresh = run_at(m, number)
    fresh.next = 0
    fresh.round = emitted
    fresh.count = count
    if fresh.stamp != stamp:
        fresh.stamp = stamp
    if fresh.kind != kind:
        fresh.kind = kind
    if tail > 0:
        run_at(m, tail - 1).next = number + 1
    else:
        runs.head = number + 1
    runs.tail = number + 1


def _drop_head(m: KernelMemory, runs: f.RunList) -> None:
    """Free the oldest run of a channel, or of a log."""
    number = runs.head - 1
    head = run_at(m, number)
    runs.head = head.next
    if head.next == 0:
        runs.tail = 0
    head.next = m.runs_free
    m.runs_free = number


def free_runs(m: KernelMemory, runs: f.RunList) -> None:
    """Give back all runs of a channel, or of a log."""
    while runs.head > 0:
        _drop_head(m, runs)


def run_length(m: KernelMemory, runs: f.RunList) -> int:
    """Return how many records the oldest run has; a lot if ages are not followed."""
    if m.is_tracked == 0 or runs.head == 0:
        return 1 << 60
    return run_at(m, runs.head - 1).count


def peek_run(m: KernelMemory, runs: f.RunList) -> int:
    """Return the round in which the records of the oldest run were emitted."""
    if m.is_tracked == 0 or runs.head == 0:
        return 0
    return run_at(m, runs.head - 1).round


def first_run(m: KernelMemory, runs: f.RunList) -> f.Run:
    """Return the oldest run of a channel that is not empty."""
    return run_at(m, runs.head - 1)


def records_before_mark(m: KernelMemory, runs: f.RunList, most: int) -> int:
    """Return how many records of a channel, at most ``most``, are before its first mark."""
    number, count = runs.head, 0
    while number > 0 and count < most:
        found = run_at(m, number - 1)
        if found.kind > 0:
            break
        count += found.count
        number = found.next
    return min(count, most)


def drop_mark(m: KernelMemory, runs: f.RunList) -> None:
    """Take the mark out of a channel that is the oldest in it."""
    _drop_head(m, runs)


def take_run(m: KernelMemory, runs: f.RunList, count: int) -> int:
    """Take records out of the oldest run, at most all; return the round of their emission."""
    if m.is_tracked == 0 or runs.head == 0:
        return 0
    head = run_at(m, runs.head - 1)
    emitted = head.round
    head.count -= count
    if head.count == 0:
        _drop_head(m, runs)
    return emitted


def take_ages(m: KernelMemory, out: f.KernelSubpartition, task: int, now: int, count: int) -> None:
    """Take ``count`` records out of a channel and log their ages at the sink."""
    runs = out.runs
    while count > 0 and m.is_tracked == 1 and runs.head > 0:
        head = run_at(m, runs.head - 1)
        part = min(count, head.count)
        log_age(m, task, now - head.round, part)
        count -= part
        head.count -= part
        if head.count == 0:
            _drop_head(m, runs)


def log_put_out(m: KernelMemory, task: f.KernelTask, operator: int, count: int) -> None:
    """Log the ages of records that an operator puts out to sinks that are chained behind it.

    Such a sink begins with a record when the stages before it are done with it.
    """
    sinks = chained_sinks(m, task.sinks_at, task.sinks)
    for i in range(task.sinks):
        if sinks[i].operator == operator:
            age = m.now - task.emitted + rounds_before(m, sinks[i])
            log_age(m, 2 * m.tasks + sinks[i].number, age, count)


def rounds_before(m: KernelMemory, sink: f.ChainedSink) -> int:
    """Return how long the record in hand is in the stages before a chained sink, rounds."""
    if sink.before_count == 0:
        return 0
    phases = rows(m, sink.before, sink.before_count, 2)
    us = phases[phase_at(phases, m.now * m.round_us)][1]
    return (us + m.round_us // 2) // m.round_us


def log_age(m: KernelMemory, task: int, age: int, count: int) -> None:
    """Log that a sink took up ``count`` records of an age, rounds."""
    if m.drops_ages == 1:
        return
    number = m.ages_count
    if number > 0:
        last = age_rows(m, m.ages, m.ages_most)[number - 1]
        if last.task == task and last.age == age:
            last.count += count
            return
    if number == m.ages_most:
        m.flags |= FLAG_AGES
        return
    entry = age_rows(m, m.ages, m.ages_most)[number]
    entry.task = task
    entry.age = age
    entry.count = count
    m.ages_count = number + 1
