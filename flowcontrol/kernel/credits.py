"""What a receiver tells a sender: credits, grants of records, what a local consumer has freed."""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.messages import has_arrived, serve_now
from flowcontrol.kernel.views import wake
from flowcontrol.kernel.writing import note_barriers_of
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of
from flowcontrol.memory.parts import BUFFERS, CHECKPOINTS, RECORDS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.network.rounds import announce_credit, free_local
from flowcontrol.protocol.network.subpartition_rules import on_resume_consumption
from flowcontrol.state.queues import append, drop, next_slot
from flowcontrol.state.rows import WORD, Partition
from flowcontrol.systems.transports.rules import is_held, next_grant, next_look
from flowcontrol.systems.transports.transport import RoundEnd


def read_credits(m: KernelMemory, task: f.KernelTask) -> None:
    """Take notice of credits and of buffers that local consumers have let go of."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = v.partition_row(m, number)
        count, bits = p.channels, p.credited
        place = v.next_bit(m, bits, count, -1)
        if place < 0:
            continue
        partition = v.partition_of(m, number)
        while place >= 0:
            out = v.out_row(m, p.first_channel + place)
            into = v.in_row(m, out.input)
            done = 1
            if into.buffer_size > 0:
                out.desired_buffer_size = into.buffer_size
            if m.has_checkpoints == 1 and into.credits_most == 0 and into.resumed > out.resumed:
                on_resume_consumption(out, into.resumed)
            if p.kind > PIPELINED and out.is_local == 1:
                pass  # disk.note_disk takes notice
            elif out.is_local == 1 and m.counts_records == 0:
                free_lent(m, partition, place, into.consumed)
            elif into.credits_most == 0:
                out.announced = into.announced
            else:
                done = _receive_credits(m, p.task, out, into)
            v.set_bit(m, p.dirty, place)
            if done == 1:
                v.clear_bit(m, bits, place)
            place = v.next_bit(m, bits, count, place)
        if m.has_checkpoints == 1 and m.counts_records == 1:
            note_barriers_of(m, partition)


@part_of(BUFFERS)
def free_lent(m: KernelMemory, partition: Partition, place: int, consumed: int) -> None:
    """Free the buffers that a local consumer has let go of."""
    free_local(partition, place, consumed, m.quota)


def _receive_credits(
    m: KernelMemory, task: int, out: f.KernelSubpartition, into: f.KernelInputChannel
) -> int:
    """Take the credits that have arrived after some rounds; 1 if none is under way any more."""
    credits = v.credit_queue(m, into.credits, into.credits_most)
    while has_arrived(m, task, credits) == 1:
        credit = drop(credits)
        if credit.kind == f.ADD_CREDIT:
            out.announced = credit.value
        elif credit.kind == f.RESUME_CONSUMPTION:
            on_resume_consumption(out, credit.value)
        else:
            out.desired_buffer_size = credit.value
    return 1 if credits.ends.count == 0 else 0


@part_of(BUFFERS)
def announce_all(m: KernelMemory, task: f.KernelTask) -> None:
    """Announce the credit that channels gained, and what local ones have consumed."""
    for i in range(task.gates):
        number = task.first_gate + i
        g = v.gate_row(m, number)
        count, bits = g.channels, g.dirty_channels
        channel = v.next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = v.gate_of(m, number)
        while 0 <= channel < count:
            into = v.in_row(m, g.first_channel + channel)
            out = v.out_row(m, into.out)
            if m.has_checkpoints == 1 and may_resume(m, task) == 1:
                resume_consumption(m, into)
            if out.is_local == 1:
                wake_sender(m, out, m.now + 1)
            elif into.unannounced > 0:
                if m.is_tcp == 1:  # not a credit: a buffer for the message that is staged
                    into.unannounced = 0
                    serve_now(m, out.connection)
                    channel = v.next_bit(m, bits, count, channel)
                    continue
                announce_credit(gate, channel)
                grant(m, into)
            channel = v.next_bit(m, bits, count, channel)
        for word in range(count // WORD + 1):
            m[bits + word] = 0


@part_of(CHECKPOINTS)
def may_resume(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether senders hear that they may go on: 1 if no snapshot waits for requests."""
    if task.in_checkpoint == 0 or m.is_tcp == 1:
        return 0
    return 1 - v.kernel_checkpoints(m, task.checkpoints).own.waits_requests


@part_of(CHECKPOINTS)
def resume_consumption(m: KernelMemory, into: f.KernelInputChannel) -> None:
    """Tell a sender of its barriers, if there is news: consumption resumed behind one that blocks.

    Where records are counted nothing blocks; the news is that the task has taken one.
    """
    aligned = v.aligned_channel(m, into.aligned)
    resumed = aligned.barriers if m.counts_records == 1 else aligned.resumed
    if resumed == into.resumed:
        return
    into.resumed = resumed
    notify_sender(m, into, f.RESUME_CONSUMPTION, resumed)


@part_of(RECORDS)
def grant_all(m: KernelMemory, number: int, task: f.KernelTask) -> None:
    """Grant what a task's receivers may after a round; have it looked at for the next time."""
    transport = v.transport_of(m)
    held = is_held(transport, task.is_held, task.queued, m.now)
    task.is_held = held
    for i in range(task.gates):
        g = v.gate_row(m, task.first_gate + i)
        states = v.channel_grants(m, g.grants, g.channels)
        end = RoundEnd(m.now, held, g.record_bytes)
        for channel in range(g.channels):
            into, state = v.in_row(m, g.first_channel + channel), states[channel]
            granted = next_grant(transport, state, into, end)
            if granted != into.announced:
                into.announced = granted
                grant(m, into)
            if m.has_checkpoints == 1 and task.in_checkpoint == 1:
                resume_consumption(m, into)
            look = next_look(transport, state, end)
            if look > m.now:
                wake(m, number, look)
        for word in range(g.channels // WORD + 1):
            m[g.dirty_channels + word] = 0


def grant(m: KernelMemory, into: f.KernelInputChannel) -> None:
    """Send what a channel has announced to its sender."""
    m.grants += 1
    notify_sender(m, into, f.ADD_CREDIT, into.announced)


def notify_sender(m: KernelMemory, into: f.KernelInputChannel, kind: int, value: int) -> None:
    """Tell the sender of a channel something: it reads that in the next round, or off the wire."""
    out, at = v.out_row(m, into.out), m.now + 1
    if into.credits_most > 0:
        at = m.now + m.latency
        credits = v.credit_queue(m, into.credits, into.credits_most)
        credit = next_slot(credits)
        credit.kind = kind
        credit.value = value
        credit.round = at
        append(credits)
    wake_sender(m, out, at)


def wake_sender(m: KernelMemory, out: f.KernelSubpartition, at: int) -> None:
    """Have a sender look at a channel in a round."""
    v.set_bit(m, v.partition_row(m, out.partition).credited, out.place)
    wake(m, out.sender, at)
