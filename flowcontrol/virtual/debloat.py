"""Buffer debloating in the kernel: a gate measures, sizes and announces every period.

The rule itself is :mod:`flowcontrol.protocol.debloating`; here stands what it is fed with.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.debloating import (
    buffers_in_use,
    debloat,
    is_announced,
    rounded,
    throughput,
)
from flowcontrol.protocol.rows import FIFO_COUNT
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.compiled import kernel, part_of
from flowcontrol.virtual.messages import tell, tell_late
from flowcontrol.virtual.parts import DEBLOATING
from flowcontrol.virtual.views import gate_row, in_row, out_row
from flowcontrol.virtual.wheel import wake

__all__ = ["debloat_gates", "measure_gates"]

PARTS = 1048576.0
"""Parts of a byte in which the size in force is kept."""


@part_of(DEBLOATING)
def measure_gates(m: Any, task: f.KernelTask, start_us: int, worked_us: int) -> None:
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
        in_hand = task.left > 0 and task.gate == i
        has_data = m[g[f.G_ORDER] + FIFO_COUNT] > 0 or in_hand
        since = g[f.G_SINCE]
        if since < 0 and (has_data or g[f.G_BYTES] != g[f.G_BYTES_SEEN]):
            since = start_us
            g[f.G_SINCE] = start_us
        if since >= 0 and not has_data:
            g[f.G_ACTIVE_US] += start_us + worked_us - since
            g[f.G_SINCE] = -1
        g[f.G_BYTES_SEEN] = g[f.G_BYTES]


@part_of(DEBLOATING)
def debloat_gates(m: Any, number: int, task: f.KernelTask, end_us: int, now: int) -> None:
    """Let each gate of a task size its buffers if a period ends in the round."""
    period = m[f.H_DEBLOAT_US]
    start_us = end_us - m[f.H_ROUND_US]
    if end_us // period > start_us // period:
        for i in range(task.gates):
            _size(m, task, task.first_gate + i, i, end_us, now)
    if task.gates > 0:
        at_us = (end_us // period + 1) * period
        wake(m, number, (at_us + m[f.H_ROUND_US] - 1) // m[f.H_ROUND_US] - 1)


@kernel
def _size(m: Any, task: f.KernelTask, number: int, place: int, end_us: int, now: int) -> None:
    """Measure one gate, size its buffers and announce the size if it has changed enough."""
    g = gate_row(m, number)
    if g[f.G_SINCE] >= 0:
        g[f.G_ACTIVE_US] += end_us - g[f.G_SINCE]
        g[f.G_SINCE] = end_us
    speed = throughput(g[f.G_BYTES], g[f.G_ACTIVE_US], g[f.G_THROUGHPUT])
    g[f.G_THROUGHPUT] = speed
    g[f.G_BYTES] = g[f.G_ACTIVE_US] = g[f.G_BYTES_SEEN] = 0
    smallest, largest = m[f.H_MIN_SEGMENT], m[f.H_SEGMENT]
    size = debloat(
        g[f.G_SIZE] / PARTS,
        speed,
        _in_use(m, g),
        m[f.H_DEBLOAT_TARGET_US],
        m[f.H_DEBLOAT_SAMPLES],
        smallest,
        largest,
    )
    g[f.G_SIZE] = int(size * PARTS)
    new, threshold = rounded(size), m[f.H_DEBLOAT_THRESHOLD]
    if is_announced(new, g[f.G_LAST_SIZE], threshold, smallest, largest) == 1:
        g[f.G_LAST_SIZE] = new
        for channel in range(g[f.G_CHANNELS]):
            _announce_size(m, g[f.G_CHANNEL0] + channel, new, now)


@kernel
def _in_use(m: Any, g: Any) -> int:
    """Buffers in use of a gate; a local channel counts what waits at its producer too."""
    total = 0
    for channel in range(g[f.G_CHANNELS]):
        into = in_row(m, g[f.G_CHANNEL0] + channel)
        queued = m[g[f.G_RECORDS] + channel * g[f.G_QUEUE_WIDTH] + FIFO_COUNT]
        if into.initial < 0:
            total += queued + out_row(m, into.out).buffers
        else:
            total += buffers_in_use(queued, into.required, into.initial)
    return total


@kernel
def _announce_size(m: Any, channel: int, size: int, now: int) -> None:
    """Tell a channel's sender the size; it counts for the next buffer that it requests."""
    into = in_row(m, channel)
    out = out_row(m, into.out)
    if out.is_local == 0 and into.credits_most > 0:
        tell_late(m, out, into, -size, now)
    else:
        out.next_wish = size
        tell(m, out, now + 1)
