"""Records moved in runs: routed, written and counted at once, while nothing but counters changes.

It is what :func:`~flowcontrol.kernel.writing.write_to` and ``put_out`` do once for each record.
Each must fit into the open buffer of its channel without filling it, or into what its transport
lets it write: then no pool, no queue and no credit changes, and nothing that a task looks at
between two records. A record that does not fit is left to them.
"""

from flowcontrol.kernel import ages
from flowcontrol.kernel import views as v
from flowcontrol.kernel.writing import (
    add_counted,
    add_together,
    count_routed,
    peek_channel,
    room_counted,
    room_together,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, prefetch, row
from flowcontrol.memory.part_fields import AHEAD
from flowcontrol.memory.parts import WINDOWS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.event_time import id_of, time_of
from flowcontrol.protocol.windows.contents import first_start, key_by_table
from flowcontrol.protocol.windows.firing import bucket_of
from flowcontrol.state.windows import NONE


def pass_runs(m: KernelMemory, task: f.KernelTask, runs: f.RunList, most: int) -> int:
    """Route and write the oldest records of a channel, at most ``most``; return how many.

    They leave the channel's runs. It ends at a mark, and at the first record that does not fit.
    """
    moved, emitted, stamp = 0, 0, task.stamp
    while moved < most:
        count, has_run = most - moved, 0
        if m.is_tracked == 1 and runs.head > 0:
            run = ages.first_run(m, runs)
            if run.kind > 0:
                break
            count, has_run, emitted = min(count, run.count), 1, run.round
            if task.is_timed == 1:
                stamp = run.stamp
        count = write_some(m, task, emitted, stamp, count)
        if count == 0:
            break
        if has_run == 1:
            ages.take_run(m, runs, count)
        moved += count
    return moved


def write_run(m: KernelMemory, task: f.KernelTask, most: int) -> int:
    """Route and write records like the one that a source has in hand; return how many fitted.

    A journal has no order of the records that go to several channels, so then it writes none.
    """
    p, moved = v.partition_row(m, task.first_partition), 0
    while moved < most and (p.channels == 1 or ages.keeps_journal(m) == 0):
        count = write_some(m, task, task.emitted, task.stamp, most - moved)
        if count == 0:
            break
        moved += count
        ages.note_move(m, p.task, ages.ROUTED, p.first_channel, task.taken + moved, count)
    return moved


def write_some(m: KernelMemory, task: f.KernelTask, emitted: int, stamp: int, most: int) -> int:
    """Route and write records of one round and stamp, some or all that fit; return how many.

    - ``stamp``: what their channel follows from, if it follows from a stamp.
    - ``most``: how many there are, at least 1.
    """
    p = v.partition_row(m, task.first_partition)
    if p.route == f.ROUTE_CYCLE and most > p.channels:
        count = _write_cycles(m, p, emitted, stamp, most)
    else:
        is_same = p.route == f.ROUTE_FIRST or p.route == f.ROUTE_KEY
        channel = peek_channel(m, p, stamp)
        count = room_for(m, p, channel, most if is_same else 1)
        if count > 0:
            _write(m, p, channel, emitted, stamp, count)
            count_routed(m, p, channel)
    if count > 0:
        p.emitted += count
        task.emitted, task.stamp = emitted, stamp
    return count


def _write_cycles(
    m: KernelMemory, p: f.KernelPartition, emitted: int, stamp: int, most: int
) -> int:
    """Do it where records go to one channel after the other: each gets every n-th of them."""
    channels, channel = p.channels, p.cursor
    for i in range(channels):
        due = (most - i + channels - 1) // channels
        if due > 0:
            most = min(most, i + room_for(m, p, channel, due) * channels)
        channel = channel + 1 if channel + 1 < channels else 0
    channel = p.cursor
    for i in range(min(most, channels)):
        _write(m, p, channel, emitted, stamp, (most - i + channels - 1) // channels)
        channel = channel + 1 if channel + 1 < channels else 0
    p.cursor = (p.cursor + most) % channels
    return most


def room_for(m: KernelMemory, p: f.KernelPartition, channel: int, most: int) -> int:
    """Return how many records, at most ``most``, a channel takes while only counters change.

    None while a checkpoint wants to know of each record that enters it.
    """
    out = v.out_row(m, p.first_channel + channel)
    if m.may_fail == 1 and v.in_row(m, out.input).recorded > 0:
        return 0
    if m.counts_records == 1:
        return room_counted(m, out, p.record_bytes, most)
    return room_together(m, out, p.record_bytes, most)


def _write(
    m: KernelMemory, p: f.KernelPartition, channel: int, emitted: int, stamp: int, count: int
) -> None:
    """Write records for which there is room, and have their ages follow them."""
    out = v.out_row(m, p.first_channel + channel)
    if m.counts_records == 1:
        add_counted(m, out, count)
    else:
        add_together(m, out, p.record_bytes, count)
    v.set_bit(m, p.dirty, channel)
    m[p.routed + channel] += count
    ages.push_run(m, out.runs, emitted, count, stamp)


@part_of(WINDOWS)
def expect_elements(m: KernelMemory, task: f.KernelTask, runs: f.RunList) -> None:
    """Ask for the windows of the records in hand, which lie far apart in memory."""
    held = v.kernel_window(m, task.window)
    if held.own.batch.is_batched == 1:
        return
    windows, keys = v.windows_of(m, held), v.key_rows(m, held.keys, task.gates)[task.gate]
    firsts, guide = row(m, keys.firsts, keys.first_count), row(m, keys.guide, keys.guide_count)
    numbers = row(m, keys.numbers, keys.number_count)
    settings, buckets = windows.settings, windows.buckets
    expected, count, number = row(m, held.expected, AHEAD), 0, runs.head
    while number > 0 and count < min(task.left, AHEAD):
        run = ages.run_at(m, number - 1)
        number = run.next
        if run.kind > 0:  # a mark is in no window
            continue
        key = key_by_table(id_of(run.stamp), held.own.keys, firsts, guide, numbers)
        start = first_start(settings, time_of(run.stamp))
        bucket = bucket_of(settings, key, start, len(buckets))
        if prefetch(buckets, bucket) == 0:
            return
        expected[count] = bucket
        count += 1
    for i in range(count):
        place = buckets[expected[i]]
        expected[i] = 0
        if place != NONE:
            prefetch(windows.entries, place - 1)
