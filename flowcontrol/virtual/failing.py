"""Tasks of the kernel that are not deployed: what reaches them is lost."""

from flowcontrol.protocol.queues import drop
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.messages import has_arrived
from flowcontrol.virtual.parts import FAILURES
from flowcontrol.virtual.reading import append_until
from flowcontrol.virtual.registry import part_of


@part_of(FAILURES)
def lose_arrivals(m: KernelMemory, task: f.KernelTask) -> None:
    """Lose the messages and the credit that reach a task that is not deployed."""
    for i in range(task.gates):
        g = v.gate_row(m, task.first_gate + i)
        channel = v.next_bit(m, g.arrivals, g.channels, -1)
        while channel >= 0:
            queue = v.wire_queue(m, g.first_channel + channel)
            while has_arrived(m, g.task, queue) == 1:
                drop(queue)
            if queue.ends.count == 0:
                v.clear_bit(m, g.arrivals, channel)
            channel = v.next_bit(m, g.arrivals, g.channels, channel)
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        place = v.next_bit(m, p.credited, p.channels, -1)
        while place >= 0:
            lose_credit(m, p.task, v.out_row(m, p.first_channel + place))
            place = v.next_bit(m, p.credited, p.channels, place)


def lose_credit(m: KernelMemory, task: int, out: f.KernelSubpartition) -> None:
    """Lose the credit that has reached a channel of a task that is not deployed."""
    into = v.in_row(m, out.input)
    if into.credits_most == 0:
        return
    credits = v.credit_queue(m, into.credits, into.credits_most)
    while has_arrived(m, task, credits) == 1:
        drop(credits)


@part_of(FAILURES)
def fill_log(m: KernelMemory, task: f.KernelTask, us: int) -> None:
    """Have the log of a source that is not deployed hold what is written by a moment."""
    if m.has_readers == 1 and task.kind == f.READER:
        append_until(m, task, us)
