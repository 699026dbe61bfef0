"""Connections with a bandwidth: one for each ordered pair of task managers, one message a turn.

A connection stands among the tasks, so that it has a place on the wheel; it works after them in
a round. Without a bandwidth there are none: a channel then sends all that its credit allows.
"""

from __future__ import annotations

from flowcontrol.protocol.ratios import capped
from flowcontrol.protocol.rounds import send_message
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_SLOTS, fifo_pop, fifo_push
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.messages import next_message, put
from flowcontrol.virtual.parts import WIRES
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.turns import is_sendable
from flowcontrol.virtual.views import out_row, partition_of, task_row
from flowcontrol.virtual.wheel import wake

HEADER_BYTES = 43
"""What a message weighs besides its data (reference section 13)."""


@part_of(WIRES)
def transmit(m: KernelMemory, number: int, now: int) -> None:
    """Send what the wire takes in a round, a message of each channel in turn."""
    connection = task_row(m, number)
    connection.has_sent = 0
    queue = row(m, connection.union, FIFO_SLOTS + connection.gates)
    round_ns = m.round_us * 1000
    start_ns = now * round_ns
    while queue[FIFO_COUNT] > 0 and connection.ready < start_ns + round_ns:
        channel = fifo_pop(queue)
        out = out_row(m, channel)
        out.is_queued = 0
        partition = partition_of(m, out.partition)
        message = next_message(m, out)
        if send_message(partition, out.place, m.quota, 0, message) == 0:
            continue
        nbytes = message.nbytes + HEADER_BYTES
        begun_ns = max(start_ns, connection.ready)
        done_ns = begun_ns + capped(nbytes, connection.cost_ns, connection.unit)
        connection.ready = done_ns
        there = (done_ns + m.latency_ns + round_ns - 1) // round_ns
        put(m, out, max(now + 1, there))
        wake(m, out.sender, now + 1)
        if is_sendable(m, out) == 1:
            out.is_queued = 1
            fifo_push(queue, channel)
    if queue[FIFO_COUNT] > 0:
        wake(m, number, max(now + 1, connection.ready // round_ns))
