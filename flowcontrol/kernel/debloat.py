"""Buffer debloating in the kernel: a gate measures, sizes and announces every period.

The rule itself is :mod:`flowcontrol.protocol.network.debloating`; here stands what it is fed with.
"""

from typing import Any

from flowcontrol.kernel.credits import notify_sender
from flowcontrol.kernel.views import gate_row, in_row, out_row, wake
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of
from flowcontrol.memory.links import PARTS
from flowcontrol.memory.parts import DEBLOATING
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.network import debloating as d
from flowcontrol.state.rows import FIFO_COUNT


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
def debloat_gates(m: KernelMemory, worker: Any, done: int, busy_us: int) -> None:
    """Have each gate of a task measure its throughput, and size its buffers if a period ends.

    - ``done``: records that the task has taken up in the round.
    - ``busy_us``: how long it was busy, microseconds.
    """
    task, period = worker.task, m.debloat_us
    worked_us = busy_us
    if task.kind == f.RELAY and done > 0:
        worked_us = m.round_us  # finer than a round is not known
    start_us = m.now * m.round_us
    end_us = start_us + m.round_us
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        in_hand = task.left + task.marks + task.goes_on > 0 and task.gate == i
        _measure(m, g, in_hand, start_us, worked_us)
        if end_us // period > start_us // period:
            _size(m, g, end_us)
    if task.gates > 0:
        at_us = (end_us // period + 1) * period
        wake(m, worker.number, (at_us + m.round_us - 1) // m.round_us - 1)


def _measure(m: KernelMemory, g: f.KernelGate, in_hand: bool, start_us: int, us: int) -> None:
    """Note whether a gate has data: the measurement pauses while it has none.

    A task that found nothing more stopped ``us`` microseconds after the round began.
    """
    has_data = m[g.order + FIFO_COUNT] > 0 or in_hand
    if g.since < 0 and (has_data or g.bytes_taken != g.bytes_seen):
        g.since = start_us
    if g.since >= 0 and not has_data:
        g.active_us += start_us + us - g.since
        g.since = -1
    g.bytes_seen = g.bytes_taken


def _size(m: KernelMemory, g: f.KernelGate, end_us: int) -> None:
    """Size the buffers of one gate, and announce the size if it has changed enough."""
    if g.since >= 0:
        g.active_us += end_us - g.since
        g.since = end_us
    speed = d.throughput(g.bytes_taken, g.active_us, g.throughput)
    g.throughput = speed
    g.bytes_taken = g.active_us = g.bytes_seen = 0
    smallest, largest, before = m.min_segment_bytes, m.segment_bytes, g.size / PARTS
    target, samples = m.debloat_target_us, m.debloat_samples
    size = d.debloat(before, speed, _in_use(m, g), target, samples, smallest, largest)
    g.size = int(size * PARTS)
    new, threshold = d.rounded(size), m.debloat_threshold
    if d.is_announced(new, g.last_size, threshold, smallest, largest) == 1:
        g.last_size = new
        for channel in range(g.channels):
            _announce_size(m, g.first_channel + channel, new)


def _in_use(m: KernelMemory, g: f.KernelGate) -> int:
    """Buffers in use of a gate; a local channel counts what waits at its producer too."""
    total = g.waits_at_producers
    for channel in range(g.channels):
        into = in_row(m, g.first_channel + channel)
        queued = into.received.count
        if into.initial < 0:
            total += queued
        else:
            total += d.buffers_in_use(queued, into.required, into.initial)
    return total


def _announce_size(m: KernelMemory, channel: int, size: int) -> None:
    """Tell a channel's sender the size; it counts for the next buffer that it requests."""
    into = in_row(m, channel)
    if into.credits_most == 0:
        into.buffer_size = size
    notify_sender(m, into, f.NEW_BUFFER_SIZE, size)
