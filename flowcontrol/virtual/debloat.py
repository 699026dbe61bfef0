"""Buffer debloating in the kernel: a gate measures, sizes and announces every period.

The rule itself is :mod:`flowcontrol.protocol.debloating`; here stands what it is fed with.
"""

from flowcontrol.protocol.debloating import (
    buffers_in_use,
    debloat,
    is_announced,
    rounded,
    throughput,
)
from flowcontrol.protocol.rows import FIFO_COUNT
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.credits import notify_sender, notify_sender_later
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import DEBLOATING
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.views import gate_row, in_row, out_row
from flowcontrol.virtual.wheel import wake

PARTS = 1048576.0
"""Parts of a byte in which the size in force is kept."""


@part_of(DEBLOATING)
def measure_gates(m: KernelMemory, task: f.KernelTask, start_us: int, worked_us: int) -> None:
    """Note whether each gate has data: the measurement pauses while it has none.

    Parameters
    ----------
    start_us : int
        Start of the round.
    worked_us : int
        Time of the round after which a task that found nothing more stopped, microseconds.
    """
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        in_hand = task.left + task.marks + task.goes_on > 0 and task.gate == i
        has_data = m[g.order + FIFO_COUNT] > 0 or in_hand
        since = g.since
        if since < 0 and (has_data or g.bytes_taken != g.bytes_seen):
            since = start_us
            g.since = start_us
        if since >= 0 and not has_data:
            g.active_us += start_us + worked_us - since
            g.since = -1
        g.bytes_seen = g.bytes_taken


@part_of(DEBLOATING)
def note_waiting(m: KernelMemory, task: f.KernelTask) -> None:
    """Note what waits at the producers of local channels, before any of them works in the round."""
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        g.waits_at_producers = 0
        for channel in range(g.channels):
            into = in_row(m, g.first_channel + channel)
            if into.initial < 0:
                g.waits_at_producers += out_row(m, into.out).buffers


@part_of(DEBLOATING)
def debloat_gates(m: KernelMemory, number: int, task: f.KernelTask, end_us: int, now: int) -> None:
    """Let each gate of a task size its buffers if a period ends in the round."""
    period = m.debloat_us
    start_us = end_us - m.round_us
    if end_us // period > start_us // period:
        for i in range(task.gates):
            _size(m, task, task.first_gate + i, i, end_us, now)
    if task.gates > 0:
        at_us = (end_us // period + 1) * period
        wake(m, number, (at_us + m.round_us - 1) // m.round_us - 1)


def _size(
    m: KernelMemory, task: f.KernelTask, number: int, place: int, end_us: int, now: int
) -> None:
    """Measure one gate, size its buffers and announce the size if it has changed enough."""
    g = gate_row(m, number)
    if g.since >= 0:
        g.active_us += end_us - g.since
        g.since = end_us
    speed = throughput(g.bytes_taken, g.active_us, g.throughput)
    g.throughput = speed
    g.bytes_taken = g.active_us = g.bytes_seen = 0
    smallest, largest = m.min_segment_bytes, m.segment_bytes
    size = debloat(
        g.size / PARTS,
        speed,
        _in_use(m, g),
        m.debloat_target_us,
        m.debloat_samples,
        smallest,
        largest,
    )
    g.size = int(size * PARTS)
    new, threshold = rounded(size), m.debloat_threshold
    if is_announced(new, g.last_size, threshold, smallest, largest) == 1:
        g.last_size = new
        for channel in range(g.channels):
            _announce_size(m, g.first_channel + channel, new, now)


def _in_use(m: KernelMemory, g: f.KernelGate) -> int:
    """Buffers in use of a gate; a local channel counts what waits at its producer too."""
    total = g.waits_at_producers
    for channel in range(g.channels):
        into = in_row(m, g.first_channel + channel)
        queued = into.received.count
        if into.initial < 0:
            total += queued
        else:
            total += buffers_in_use(queued, into.required, into.initial)
    return total


def _announce_size(m: KernelMemory, channel: int, size: int, now: int) -> None:
    """Tell a channel's sender the size; it counts for the next buffer that it requests."""
    into = in_row(m, channel)
    out = out_row(m, into.out)
    if out.is_local == 0 and into.credits_most > 0:
        notify_sender_later(m, out, f.NEW_BUFFER_SIZE, size, now)
    else:
        into.buffer_size = size
        notify_sender(m, out, now + 1)
