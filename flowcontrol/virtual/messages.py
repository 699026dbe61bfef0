"""What travels between two tasks: messages, credits, and what a local consumer has freed."""

from __future__ import annotations

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
from flowcontrol.virtual.header import FLAG_PROTOCOL, KernelMemory
from flowcontrol.virtual.turns import enqueue, serve_now
from flowcontrol.virtual.views import (
    append,
    credit_rows,
    drop,
    gate_of,
    gate_row,
    in_row,
    message_rows,
    next_bit,
    out_row,
    partition_of,
    partition_row,
    ring,
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
def receive_all(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Store the messages that have arrived, gate by gate, channel by channel."""
    union = union_of(m, task)
    for i in range(task.gates):
        number = task.first_gate + i
        g = gate_row(m, number)
        count, bits = g.channels, g.arrivals
        channel = next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = gate_of(m, number)
        while channel >= 0:
            into = in_row(m, g.first_channel + channel)
            transit = ring(m, into.transit)
            messages = message_rows(m, into.transit, into.transit_most)
            while transit.count > 0:
                message = messages[transit.head]
                if message.round > now:
                    wake(m, g.task, message.round)
                    break
                drop(transit, into.transit_most)
                records = message.records
                if m.counts_records == 1:
                    receive_counted(m, task, gate, union, i, channel, records)
                elif records == ANNOUNCEMENT:
                    receive_backlog(gate, channel, message.backlog)
                elif receive(task, gate, union, i, channel, records, message.backlog) == 0:
                    m.flags |= FLAG_PROTOCOL
            if transit.count == 0:
                m[bits + channel // WORD] &= ~(1 << (channel % WORD))
            channel = next_bit(m, bits, count, channel)


@kernel
def hear(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Take notice of credits and of buffers that local consumers have let go of."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        count, bits = p.channels, p.news
        place = next_bit(m, bits, count, -1)
        if place < 0:
            continue
        partition = partition_of(m, number)
        while place >= 0:
            out = out_row(m, p.first_channel + place)
            into = in_row(m, out.input)
            done = 1
            if out.next_wish > 0:
                out.wish = out.next_wish
            if p.kind > PIPELINED and out.is_local == 1:
                pass  # disk.hear_disk takes notice
            elif out.is_local == 1 and m.counts_records == 0:
                consumed = into.consumed
                free_local(partition, place, consumed, m.quota)
            elif into.credits_most == 0:
                out.announced = into.announced
            else:
                done = _hear_late(m, p.task, out, into, now)
            set_bit(m, p.dirty, place)
            if done == 1:
                m[bits + place // WORD] &= ~(1 << (place % WORD))
            place = next_bit(m, bits, count, place)


@kernel
def _hear_late(
    m: KernelMemory, task: int, out: f.KernelSubpartition, into: f.KernelInputChannel, now: int
) -> int:
    """Take the credits that have arrived after some rounds; 1 if none is under way any more."""
    under_way = ring(m, into.credits)
    credits = credit_rows(m, into.credits, into.credits_most)
    while under_way.count > 0:
        credit = credits[under_way.head]
        if credit.round > now:
            wake(m, task, credit.round)
            return 0
        if credit.announced < 0:
            out.wish = -credit.announced
        else:
            out.announced = credit.announced
        drop(under_way, into.credits_most)
    return 1


@kernel
def send(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Send what credit allows; hand a local consumer what its queue may hold."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        count, bits = p.channels, p.dirty
        place = next_bit(m, bits, count, -1)
        if place < 0 or p.kind > PIPELINED:  # spilling.send_spilled sends those
            continue
        partition = partition_of(m, number)
        while place >= 0:
            word = bits + place // WORD
            m[word] &= ~(1 << (place % WORD))
            out = out_row(m, p.first_channel + place)
            local = out.is_local
            if m.counts_records == 1:
                records = send_counted(m, partition, place)
                if records > 0:
                    put(m, out, records, 0, now + (1 if local == 1 else m.latency))
                    task.has_sent = 1
                place = next_bit(m, bits, count, place)
                continue
            if out.initial == 0 and m.is_tcp == 0:
                tell_backlog(m, out, channel_backlog(out), now)
            if out.connection >= 0:
                enqueue(m, p.first_channel + place)
                place = next_bit(m, bits, count, place)
                continue
            held = partition.held[place]
            while (
                held[FIFO_COUNT] < len(held) - FIFO_SLOTS
                if local == 1
                else out.sent < out.announced
            ):
                if m.is_tcp == 1:
                    records = poll(m, partition, place, local)
                else:
                    records = send_message(partition, place, m.quota, local)
                if records < 0:
                    break
                at = now + (1 if local == 1 else m.latency)
                put(m, out, records, backlog_after(partition, place), at)
                task.has_sent = 1
            place = next_bit(m, bits, count, place)


@kernel
def tell_backlog(m: KernelMemory, out: f.KernelSubpartition, backlog: int, now: int) -> None:
    """Announce a backlog to a receiver without exclusive buffers, if there is need to."""
    told = announce_backlog(out, backlog)
    if told > 0:
        put(m, out, ANNOUNCEMENT, told, now + m.latency)


@kernel
def put(m: KernelMemory, out: f.KernelSubpartition, records: int, backlog: int, at: int) -> None:
    """Put a message on its way; its receiver is looked at when it arrives."""
    into = in_row(m, out.input)
    most = into.transit_most
    message = message_rows(m, into.transit, most)[append(ring(m, into.transit), most)]
    message.records = records
    message.backlog = backlog
    message.round = at
    m.transfers += 0 if records == ANNOUNCEMENT else 1
    set_bit(m, gate_row(m, out.gate).arrivals, out.index)
    wake(m, out.receiver, at)


@kernel
def announce_all(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Announce the credit that channels gained, and what local ones have consumed."""
    for i in range(task.gates):
        number = task.first_gate + i
        g = gate_row(m, number)
        count, bits = g.channels, g.news
        channel = next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = gate_of(m, number)
        while 0 <= channel < count:
            into = in_row(m, g.first_channel + channel)
            out = out_row(m, into.out)
            if out.is_local == 1:
                tell(m, out, now + 1)
            elif into.unannounced > 0:
                if m.is_tcp == 1:  # not a credit: a buffer for the message that is staged
                    into.unannounced = 0
                    serve_now(m, out.connection)
                    channel = next_bit(m, bits, count, channel)
                    continue
                announce_credit(gate, channel)
                m.grants += 1
                if into.credits_most == 0:
                    tell(m, out, now + 1)
                else:
                    tell_late(m, out, into, into.announced, now)
            channel = next_bit(m, bits, count, channel)
        for word in range(count // WORD + 1):
            m[bits + word] = 0


@kernel
def tell(m: KernelMemory, out: f.KernelSubpartition, at: int) -> None:
    """Have a sender look at a channel in a round."""
    set_bit(m, partition_row(m, out.partition).news, out.place)
    wake(m, out.sender, at)


@kernel
def tell_late(
    m: KernelMemory, out: f.KernelSubpartition, into: f.KernelInputChannel, value: int, now: int
) -> None:
    """Send credits, or a size of buffer below 0, that arrive after the network's latency."""
    most = into.credits_most
    credit = credit_rows(m, into.credits, most)[append(ring(m, into.credits), most)]
    credit.announced = value
    credit.round = now + m.latency
    tell(m, out, now + m.latency)
