"""Connections and processors in a round: they serve the tasks of several task managers."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.kernel import views as v
from flowcontrol.kernel.messages import (
    count_bytes,
    depart,
    expect,
    is_sendable,
    may_be_served,
    wire_of,
)
from flowcontrol.kernel.views import wake
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, row, rows, rows_of, state_of
from flowcontrol.memory.part_fields import KernelProcessor, KernelProcessors
from flowcontrol.memory.parts import CORES, TCP, WIRES
from flowcontrol.memory.places import FLAG_PROTOCOL, KernelMemory
from flowcontrol.protocol.network.events import HEADER_BYTES as FRAMES
from flowcontrol.protocol.network.events import Frame
from flowcontrol.protocol.network.rounds import receive, send_next
from flowcontrol.protocol.service import capped, proportion, work_by
from flowcontrol.protocol.tasks import processors as p
from flowcontrol.protocol.tasks.event_time import is_paused
from flowcontrol.state import rows as r
from flowcontrol.state.declared import width
from flowcontrol.state.queues import is_event, next_slot
from flowcontrol.systems import tcp as t
from flowcontrol.systems.tcp import poll_closed

# --- Connections on which channels wait for their turn, one message a turn.
#
# A connection stands among the tasks, so that it has a place on the wheel; it works after
# them in a round. With a bandwidth there is one for each ordered pair of task managers
# (transmit); without one none: a channel then sends all that its credit allows.
#
# Connections without credits (carry) do what `flowcontrol.systems.tcp` says, their two ends
# together: they write what senders have closed, let the kernel take it, and read at the
# receiver what arrives by the next round. The buffers that receivers have just recycled are
# there, and a task takes up what it has got in the next round, as it does under credits.


HEADER_BYTES = FRAMES[Frame.BUFFER_RESPONSE]
"""What a message weighs besides its data."""

CONNECTION_CELLS = width(t.TcpConnection)


tcp_connection = state_of(t.TcpConnection)
tcp_messages = rows_of(t.TcpMessage)


@part_of(WIRES)
def transmit(m: KernelMemory, number: int) -> None:
    """Send what the wire takes in a round, a message of each channel in turn."""
    connection = v.task_row(m, number)
    connection.has_sent = 0
    queue = row(m, connection.union, r.FIFO_SLOTS + connection.gates)
    round_ns = m.round_us * 1000
    first_after_ns = (m.now + 1) * round_ns
    unseen = queue[r.FIFO_COUNT]  # those behind them were found sendable here, after they had sent
    arrives, until_ns, nbytes, took_ns = m.now, 0, -1, 0
    while queue[r.FIFO_COUNT] > 0 and connection.ready < first_after_ns:
        out = v.out_row(m, r.fifo_first(queue))
        unseen -= 1
        wire = wire_of(m, out)
        message, found = next_slot(wire), 0
        if unseen < 0 or is_sendable(m, out) == 1:
            found = send_next(v.partition_of(m, out.partition), out.place, m.quota, 0, message)
        if found > 0:
            if message.nbytes != nbytes:
                nbytes = message.nbytes
                took_ns = _takes_ns(connection, nbytes + HEADER_BYTES)
            arrives_ns = _serve_wire(m, connection, took_ns) + m.latency_ns
            if arrives_ns > until_ns:  # as most do, it arrives in the round of the one before
                arrives = max(m.now + 1, (arrives_ns + round_ns - 1) // round_ns)
                until_ns = arrives * round_ns
            is_first = wire.ends.count == 0  # else its receiver is looked at by then already
            depart(m, wire, message, arrives)
            if is_first:
                expect(m, out, arrives)
            if unseen >= 0:
                wake(m, out.sender, m.now + 1)
        if found > 0 and is_sendable(m, out) == 1:
            r.fifo_rotate(queue)
        else:
            out.is_queued = 0
            r.fifo_drop(queue)
    if queue[r.FIFO_COUNT] > 0:
        wake(m, number, max(m.now + 1, connection.ready // (m.round_us * 1000)))


@part_of(TCP)
def carry(m: KernelMemory, number: int) -> None:
    """Do a connection's part of a round, at its sender, in the kernel and at its receiver."""
    connection = v.task_row(m, number)
    connection.has_sent = 0
    at = connection.phases
    wire = tcp_connection(m, at)
    ring = tcp_messages(m, at + CONNECTION_CELLS, connection.phase_count)
    t.on_window_update(wire, ring, m.now)
    while True:
        slot = t.enter_message(wire, ring)
        while slot >= 0:
            ring[slot].round = _arrival(m, connection, ring[slot].wire_bytes)
            slot = t.enter_message(wire, ring)
        if wire.is_writable == 0 or _write_next(m, connection, wire, ring) == 0:
            break
    _deliver_staged(m, wire, ring)
    while wire.auto_read == 1:
        if t.read_socket(wire, ring, m.now + 1, m.now + 1 + m.latency) == 0:
            break
        _deliver_staged(m, wire, ring)
    if wire.auto_read == 1 and wire.read < wire.entered:
        wake(m, number, ring[wire.read % len(ring)].round - 1)
    if wire.entered < wire.written and wire.freed < wire.read:
        wake(m, number, max(m.now + 1, ring[wire.freed % len(ring)].round))


def _arrival(m: KernelMemory, connection: f.KernelTask, nbytes: int) -> int:
    """Put a message on the wire; return the round in which it arrives."""
    if connection.unit == 0:
        return m.now + m.latency
    round_ns = m.round_us * 1000
    done_ns = _serve_wire(m, connection, _takes_ns(connection, nbytes))
    return max(m.now + 1, (done_ns + m.latency_ns + round_ns - 1) // round_ns)


def _takes_ns(connection: f.KernelTask, nbytes: int) -> int:
    """Time that so many bytes take on the wire, nanoseconds."""
    return capped(nbytes, connection.cost_ns, connection.unit)


def _serve_wire(m: KernelMemory, connection: f.KernelTask, took_ns: int) -> int:
    """Have the wire be busy for so long; return when it is done, nanoseconds."""
    wire = v.task_row(m, connection.first_gate)  # all connections between two machines share it
    done_ns = max(m.now * m.round_us * 1000, wire.ready) + took_ns
    wire.ready = done_ns
    return done_ns


def _write_next(
    m: KernelMemory, connection: f.KernelTask, wire: t.TcpConnection, ring: Sequence[t.TcpMessage]
) -> int:
    """Write a message of the channel whose turn it is: 1, or 0 if there is none."""
    queue = row(m, connection.union, r.FIFO_SLOTS + connection.gates)
    if queue[r.FIFO_COUNT] == 0:
        return 0
    if t.has_room(wire, ring) == 0:
        m.flags |= FLAG_PROTOCOL
        return 0
    channel = r.fifo_pop(queue)
    out = v.out_row(m, channel)
    partition = v.partition_of(m, out.partition)
    message = t.next_message(wire, ring)
    poll_closed(partition, out.place, m.quota, 0, message)
    t.write_message(wire, message, channel)
    m.transfers += 1 - is_event(message)
    wake(m, out.sender, m.now + 1)
    out.is_queued = may_be_served(m, out)
    if out.is_queued == 1:
        r.fifo_push(queue, channel)
    return 1


def _deliver_staged(m: KernelMemory, wire: t.TcpConnection, ring: Sequence[t.TcpMessage]) -> None:
    """Give messages that were read to their channels, until one finds no buffer."""
    slot = t.staged_slot(wire, ring)
    while slot >= 0:
        message = ring[slot]
        if message.channel == t.NOBODY:  # of an attempt that is over
            t.deliver_message(wire)
            slot = t.staged_slot(wire, ring)
            continue
        out = v.out_row(m, message.channel)
        gate, channel = v.gate_of(m, out.gate), out.index
        if is_event(message) == 0 and t.obtain_buffer(gate, channel) == 0:
            t.stage_message(wire)
            return
        task = v.task_row(m, out.receiver)
        index = out.gate - task.first_gate
        if receive(task, gate, v.union_of(m, task), index, channel, message) == 0:
            m.flags |= FLAG_PROTOCOL
        if m.has_checkpoints == 1 and is_event(message) == 0:
            count_bytes(m, v.in_row(m, out.input), message.nbytes)
        t.deliver_message(wire)
        wake(m, out.receiver, m.now + 1)
        slot = t.staged_slot(wire, ring)


# --- Processors in a round of the kernel: what its tasks claim, and what they get.
#
# The rules are flowcontrol.protocol.tasks.processors. The thread of a server, or of a source
# that reads a log, works while it has a record; that of a source that makes its records up
# works at its rate while its output takes them. A thread runs all operators of a chain. A
# task without a rate works in no time, and takes no processor. One that may claim something
# is looked at in every round.


kernel_processor = state_of(KernelProcessor)
processor_rows = rows_of(KernelProcessor)
manager_rows = rows_of(KernelProcessors)


@part_of(CORES)
def work_until(m: KernelMemory, task: f.KernelTask, start: int, end: int) -> int:
    """Return the work that a task may do by the end of a round, as it waits for a processor."""
    return p.computes_until(kernel_processor(m, task.processor), start, end)


@part_of(CORES)
def waits_for(m: KernelMemory, task: f.KernelTask, start: int, end: int) -> int:
    """Return for how long of the round it waits for a processor, microseconds."""
    return p.waiting_us(kernel_processor(m, task.processor), start, end, m.round_us)


@part_of(CORES)
def claim(m: KernelMemory, worker: Any, allowed: Any, blocked_us: int) -> None:
    """Have a task claim what it has done of the work that a round allowed, before it finishes.

    It was back-pressured for ``blocked_us`` of it.
    """
    task = worker.task
    state = kernel_processor(m, task.processor)
    work = min(task.ready, allowed.until) - allowed.start
    if task.kind == f.SOURCE:
        work = allowed.until - allowed.start
        free_us = m.round_us - p.waiting_us(state, allowed.start, allowed.end, m.round_us)
        if free_us > 0 and blocked_us > 0:
            work = proportion(work, max(0, free_us - blocked_us), free_us)
        if has_nothing_to_emit(worker, task) == 1:
            work = 0
    cpu = p.cpu_at(rows(m, state.shares, state.share_count, 2), m.now * m.round_us)
    p.claim_processor(state, cpu, max(0, work), allowed.end - allowed.start)


@part_of(CORES)
def share_round(m: KernelMemory, active: Any, count: int) -> None:
    """Share the processors of a round out, and have tasks looked at that claim more in the next."""
    managers = manager_rows(m, m.managers_at, m.managers)
    for i in range(m.managers):
        own = managers[i]
        p.share_processors(own.own, processor_rows(m, own.first, own.count))
    for i in range(count):
        number = active[i]
        task = v.task_row(m, number)
        if task.processor > 0 and task.status != f.ABSENT:
            phases = rows(m, task.phases, task.phase_count, 3)
            end = work_by(phases, (m.now + 1) * m.round_us)
            if computes_next(task, kernel_processor(m, task.processor), end) == 1:
                wake(m, number, m.now + 1)


def has_nothing_to_emit(worker: Any, task: f.KernelTask) -> int:
    """Tell whether a source has ended, or is paused: 1 if so."""
    if task.open_inputs == 0 or (task.limit >= 0 and task.taken >= task.limit):
        return 1
    return 1 if task.is_aligned == 1 and is_paused(worker) == 1 else 0


def computes_next(task: f.KernelTask, state: KernelProcessor, end: int) -> int:
    """Tell whether a task may have something to claim in the next round by itself: 1 if so.

    ``end``: work that its rate allows by the end of the round, units.
    """
    if state.behind > 0 or (task.kind == f.SOURCE and task.open_inputs > 0):
        return 1
    return 1 if task.kind != f.SOURCE and task.ready > end else 0
