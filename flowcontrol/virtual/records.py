"""What receivers that count records tell their senders, in the kernel's memory."""

from __future__ import annotations

from flowcontrol.protocol.rows import WORD
from flowcontrol.systems.transports.rules import is_held, next_grant, next_look
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.messages import tell, tell_late
from flowcontrol.virtual.parts import RECORDS
from flowcontrol.virtual.registry import kernel, part_of
from flowcontrol.virtual.views import (
    channel_grants,
    gate_row,
    in_row,
    out_row,
    transport_of,
)
from flowcontrol.virtual.wheel import wake


@part_of(RECORDS)
def grant_all(m: KernelMemory, number: int, task: f.KernelTask, now: int) -> None:
    """Grant what a task's receivers may after a round; have it looked at for the next time."""
    transport = transport_of(m)
    held = is_held(transport, task.is_held, task.queued, now)
    task.is_held = held
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        states = channel_grants(m, g.grants, g.channels)
        for channel in range(g.channels):
            into, state = in_row(m, g.first_channel + channel), states[channel]
            granted = next_grant(transport, state, into, held, g.record_bytes, now)
            if granted != into.announced:
                into.announced = granted
                say(m, into, granted, now)
            look = next_look(transport, state, held, now)
            if look > now:
                wake(m, number, look)
        for word in range(g.channels // WORD + 1):
            m[g.news + word] = 0


@kernel
def say(m: KernelMemory, into: f.KernelInputChannel, granted: int, now: int) -> None:
    """Send a grant to the sender of a channel."""
    m.grants += 1
    out = out_row(m, into.out)
    if into.credits_most == 0:
        tell(m, out, now + 1)
    else:
        tell_late(m, out, into, granted, now)
