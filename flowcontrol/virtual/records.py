"""What receivers that count records tell their senders, in the kernel's memory."""

from __future__ import annotations

from flowcontrol.protocol.rows import WORD
from flowcontrol.systems.grants import (
    after_period,
    after_taking,
    after_trip,
    is_held,
)
from flowcontrol.systems.record_transport import (
    BDP_WINDOW,
    FREE,
    HOP_HYSTERESIS,
    RATE_WINDOW,
    UNBOUNDED,
)
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.messages import tell, tell_late
from flowcontrol.virtual.parts import RECORDS
from flowcontrol.virtual.registry import kernel, part_of
from flowcontrol.virtual.views import (
    channel_grants,
    gate_row,
    in_row,
    next_bit,
    out_row,
    transport_of,
)
from flowcontrol.virtual.wheel import wake

__all__ = ["grant_all"]


@part_of(RECORDS)
def grant_all(m: KernelMemory, number: int, task: f.KernelTask, now: int) -> None:
    """Grant what a task's receivers may after a round; have it looked at for the next time."""
    transport = transport_of(m)
    kind = transport.kind
    if kind == UNBOUNDED:
        return
    if kind == HOP_HYSTERESIS:
        switch(m, number, task, now)
        return
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        for channel in range(g.channels):
            # Windows are looked at whether or not something was taken up.
            if kind in (RATE_WINDOW, BDP_WINDOW) or has_news(m, g, channel) == 1:
                grant(m, number, g, channel, now)
        for word in range(g.channels // WORD + 1):
            m[g.news + word] = 0
    if kind == RATE_WINDOW and task.gates > 0:
        wake(m, number, (now + 1) // transport.period * transport.period + transport.period - 1)


@kernel
def has_news(m: KernelMemory, g: f.KernelGate, channel: int) -> int:
    """Tell whether records of a channel were taken up: 1 if so."""
    return 1 if next_bit(m, g.news, g.channels, channel - 1) == channel else 0


@kernel
def grant(m: KernelMemory, number: int, g: f.KernelGate, channel: int, now: int) -> None:
    """Let one channel grant what it may, and tell its sender."""
    transport = transport_of(m)
    into = in_row(m, g.first_channel + channel)
    state = channel_grants(m, g.grants, g.channels)[channel]
    before, taken = into.announced, into.processed
    size, arrived = g.record_bytes, into.arrived
    after = before
    if transport.kind == RATE_WINDOW:
        if (now + 1) % transport.period == 0:
            empty = 1 if arrived == taken else 0
            after = after_period(transport, state, taken, empty, size)
    else:
        if transport.kind == BDP_WINDOW:
            ends = after_trip(transport, state, arrived, now, size)
            if ends > now:
                wake(m, number, ends)
        after = after_taking(transport, state, before, taken, size)
    if after != before:
        into.announced = after
        say(m, into, after, now)


@kernel
def switch(m: KernelMemory, number: int, task: f.KernelTask, now: int) -> None:
    """Stop a task's senders, or let them go on."""
    transport = transport_of(m)
    held = is_held(transport, task.is_held, task.queued, now)
    if held != task.is_held:
        task.is_held = held
        granted = 0 if held == 1 else FREE
        for i in range(task.gates):
            g = gate_row(m, task.first_gate + i)
            for channel in range(g.channels):
                into = in_row(m, g.first_channel + channel)
                into.announced = granted
                say(m, into, granted, now)
    if held == 1 and transport.check > 0:
        wake(m, number, (now + 1) // transport.check * transport.check + transport.check - 1)


@kernel
def say(m: KernelMemory, into: f.KernelInputChannel, granted: int, now: int) -> None:
    """Send a grant to the sender of a channel."""
    m.grants += 1
    out = out_row(m, into.out)
    if into.credits_most == 0:
        tell(m, out, now + 1)
    else:
        tell_late(m, out, into, granted, now)
