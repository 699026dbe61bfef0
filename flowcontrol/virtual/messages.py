"""What travels between two tasks: messages, credits, and what a local consumer has freed."""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.protocol.rounds import (
    ANNOUNCEMENT,
    announce_backlog,
    announce_credit,
    backlog_after,
    channel_backlog,
    free_local,
    receive,
    receive_backlog,
    send_message,
)
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_SLOTS, WORD
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.closed import poll
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.counted import receive_counted, send_counted
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.turns import enqueue, serve_now
from flowcontrol.virtual.views import (
    gate_of,
    gate_row,
    in_row,
    next_bit,
    out_row,
    partition_of,
    partition_row,
    set_bit,
    union_of,
)
from flowcontrol.virtual.wheel import wake

__all__ = [
    "announce_all",
    "hear",
    "put",
    "receive_all",
    "send",
    "tell",
    "tell_backlog",
    "tell_late",
]


@kernel
def receive_all(m: Any, task: f.KernelTask, now: int) -> None:
    """Store the messages that have arrived, gate by gate, channel by channel."""
    union = union_of(m, task)
    for i in range(task.gates):
        number = task.first_gate + i
        g = gate_row(m, number)
        count, bits = g[f.G_CHANNELS], g[f.G_ARRIVALS]
        channel = next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = gate_of(m, number)
        while channel >= 0:
            into = in_row(m, g[f.G_CHANNEL0] + channel)
            most = into.transit_most
            transit = row(m, into.transit, 2 + f.M_WIDTH * most)
            while transit[1] > 0:
                place = 2 + f.M_WIDTH * transit[0]
                if transit[place + f.M_ROUND] > now:
                    wake(m, g[f.G_TASK], transit[place + f.M_ROUND])
                    break
                records = transit[place + f.M_RECORDS]
                backlog = transit[place + f.M_BACKLOG]
                transit[0] = transit[0] + 1 if transit[0] + 1 < most else 0
                transit[1] -= 1
                if m[f.H_RECORDS] == 1:
                    receive_counted(m, task, gate, union, i, channel, records)
                elif records == ANNOUNCEMENT:
                    receive_backlog(gate, channel, backlog)
                elif receive(task, gate, union, i, channel, records, backlog) == 0:
                    m[f.H_FLAGS] |= f.FLAG_PROTOCOL
            if transit[1] == 0:
                m[bits + channel // WORD] &= ~(1 << (channel % WORD))
            channel = next_bit(m, bits, count, channel)


@kernel
def hear(m: Any, task: f.KernelTask, now: int) -> None:
    """Take notice of credits and of buffers that local consumers have let go of."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        count, bits = p[f.P_CHANNELS], p[f.P_NEWS]
        place = next_bit(m, bits, count, -1)
        if place < 0:
            continue
        partition = partition_of(m, number)
        while place >= 0:
            out = out_row(m, p[f.P_CHANNEL0] + place)
            into = in_row(m, out.input)
            done = 1
            if out.next_wish > 0:
                out.wish = out.next_wish
            if p[f.P_KIND] > PIPELINED and out.is_local == 1:
                pass  # disk.hear_disk takes notice
            elif out.is_local == 1 and m[f.H_RECORDS] == 0:
                consumed = into.consumed
                free_local(partition, place, consumed, m[f.H_QUOTA])
            elif into.credits_most == 0:
                out.announced = into.announced
            else:
                done = _hear_late(m, p[f.P_TASK], out, into, now)
            set_bit(m, p[f.P_DIRTY], place)
            if done == 1:
                m[bits + place // WORD] &= ~(1 << (place % WORD))
            place = next_bit(m, bits, count, place)


@kernel
def _hear_late(m: Any, task: int, out: f.KernelSubpartition, into: Any, now: int) -> int:
    """Take the credits that have arrived after some rounds; 1 if none is under way any more."""
    most = into.credits_most
    credits = row(m, into.credits, 2 + f.C_WIDTH * most)
    while credits[1] > 0:
        place = 2 + f.C_WIDTH * credits[0]
        if credits[place + f.C_ROUND] > now:
            wake(m, task, credits[place + f.C_ROUND])
            return 0
        value = credits[place + f.C_ANNOUNCED]
        if value < 0:
            out.wish = -value
        else:
            out.announced = value
        credits[0] = credits[0] + 1 if credits[0] + 1 < most else 0
        credits[1] -= 1
    return 1


@kernel
def send(m: Any, task: f.KernelTask, now: int) -> None:
    """Send what credit allows; hand a local consumer what its queue may hold."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        count, bits = p[f.P_CHANNELS], p[f.P_DIRTY]
        place = next_bit(m, bits, count, -1)
        if place < 0 or p[f.P_KIND] > PIPELINED:  # spilling.send_spilled sends those
            continue
        partition = partition_of(m, number)
        while place >= 0:
            word = bits + place // WORD
            m[word] &= ~(1 << (place % WORD))
            out = out_row(m, p[f.P_CHANNEL0] + place)
            local = out.is_local
            if m[f.H_RECORDS] == 1:
                records = send_counted(m, partition, place)
                if records > 0:
                    put(m, out, records, 0, now + (1 if local == 1 else m[f.H_LATENCY]))
                    task.has_sent = 1
                place = next_bit(m, bits, count, place)
                continue
            if out.initial == 0 and m[f.H_TCP] == 0:
                tell_backlog(m, out, channel_backlog(out), now)
            if out.connection >= 0:
                enqueue(m, p[f.P_CHANNEL0] + place)
                place = next_bit(m, bits, count, place)
                continue
            held = partition.held[place]
            while (
                held[FIFO_COUNT] < len(held) - FIFO_SLOTS
                if local == 1
                else out.sent < out.announced
            ):
                if m[f.H_TCP] == 1:
                    records = poll(m, partition, place, local)
                else:
                    records = send_message(partition, place, m[f.H_QUOTA], local)
                if records < 0:
                    break
                at = now + (1 if local == 1 else m[f.H_LATENCY])
                put(m, out, records, backlog_after(partition, place), at)
                task.has_sent = 1
            place = next_bit(m, bits, count, place)


@kernel
def tell_backlog(m: Any, out: f.KernelSubpartition, backlog: int, now: int) -> None:
    """Announce a backlog to a receiver without exclusive buffers, if there is need to."""
    told = announce_backlog(out, backlog)
    if told > 0:
        put(m, out, ANNOUNCEMENT, told, now + m[f.H_LATENCY])


@kernel
def put(m: Any, out: f.KernelSubpartition, records: int, backlog: int, at: int) -> None:
    """Put a message on its way; its receiver is looked at when it arrives."""
    into = in_row(m, out.input)
    most = into.transit_most
    transit = row(m, into.transit, 2 + f.M_WIDTH * most)
    slot = transit[0] + transit[1]
    if slot >= most:
        slot -= most
    place = 2 + f.M_WIDTH * slot
    transit[place + f.M_RECORDS] = records
    transit[place + f.M_BACKLOG] = backlog
    transit[place + f.M_ROUND] = at
    transit[1] += 1
    m[f.H_TRANSFERS] += 0 if records == ANNOUNCEMENT else 1
    set_bit(m, gate_row(m, out.gate)[f.G_ARRIVALS], out.index)
    wake(m, out.receiver, at)


@kernel
def announce_all(m: Any, task: f.KernelTask, now: int) -> None:
    """Announce the credit that channels gained, and what local ones have consumed."""
    for i in range(task.gates):
        number = task.first_gate + i
        g = gate_row(m, number)
        count, bits = g[f.G_CHANNELS], g[f.G_NEWS]
        channel = next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = gate_of(m, number)
        while 0 <= channel < count:
            into = in_row(m, g[f.G_CHANNEL0] + channel)
            out = out_row(m, into.out)
            if out.is_local == 1:
                tell(m, out, now + 1)
            elif into.unannounced > 0:
                if m[f.H_TCP] == 1:  # not a credit: a buffer for the message that is staged
                    into.unannounced = 0
                    serve_now(m, out.connection)
                    channel = next_bit(m, bits, count, channel)
                    continue
                announce_credit(gate, channel)
                m[f.H_GRANTS] += 1
                if into.credits_most == 0:
                    tell(m, out, now + 1)
                else:
                    tell_late(m, out, into, into.announced, now)
            channel = next_bit(m, bits, count, channel)
        for word in range(count // WORD + 1):
            m[bits + word] = 0


@kernel
def tell(m: Any, out: f.KernelSubpartition, at: int) -> None:
    """Have a sender look at a channel in a round."""
    set_bit(m, partition_row(m, out.partition)[f.P_NEWS], out.place)
    wake(m, out.sender, at)


@kernel
def tell_late(m: Any, out: f.KernelSubpartition, into: Any, value: int, now: int) -> None:
    """Send credits, or a size of buffer below 0, that arrive after the network's latency."""
    most = into.credits_most
    credits = row(m, into.credits, 2 + f.C_WIDTH * most)
    slot = credits[0] + credits[1]
    if slot >= most:
        slot -= most
    place = 2 + f.C_WIDTH * slot
    credits[place + f.C_ANNOUNCED] = value
    credits[place + f.C_ROUND] = now + m[f.H_LATENCY]
    credits[1] += 1
    tell(m, out, now + m[f.H_LATENCY])
