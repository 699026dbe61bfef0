"""What receivers that count records tell their senders, in the kernel's memory."""

from __future__ import annotations

from typing import Any

from flowcontrol.policies.grant_rows import (
    BDP_WINDOW,
    FREE,
    GRANT_WIDTH,
    HOP_HYSTERESIS,
    RATE_WINDOW,
    UNBOUNDED,
    V_CHECK,
    V_KIND,
    V_PERIOD,
)
from flowcontrol.policies.grants import (
    after_period,
    after_taking,
    after_trip,
    is_held,
)
from flowcontrol.protocol.rows import WORD
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.compiled import kernel, part_of
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.messages import tell, tell_late
from flowcontrol.virtual.parts import RECORDS
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.views import gate_row, in_row, next_bit, out_row, values_of
from flowcontrol.virtual.wheel import wake

__all__ = ["grant_all"]


@part_of(RECORDS)
def grant_all(m: KernelMemory, number: int, task: f.KernelTask, now: int) -> None:
    """Grant what a task's receivers may after a round; have it looked at for the next time."""
    values = values_of(m)
    kind = values[V_KIND]
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
        wake(m, number, (now + 1) // values[V_PERIOD] * values[V_PERIOD] + values[V_PERIOD] - 1)


@kernel
def has_news(m: KernelMemory, g: f.KernelGate, channel: int) -> int:
    """Tell whether records of a channel were taken up: 1 if so."""
    return 1 if next_bit(m, g.news, g.channels, channel - 1) == channel else 0


@kernel
def grant(m: KernelMemory, number: int, g: f.KernelGate, channel: int, now: int) -> None:
    """Let one channel grant what it may, and tell its sender."""
    values = values_of(m)
    into = in_row(m, g.first_channel + channel)
    state = row(m, g.grants + channel * GRANT_WIDTH, GRANT_WIDTH)
    before, taken = into.announced, into.processed
    size, arrived = g.record_bytes, into.arrived
    after = before
    if values[V_KIND] == RATE_WINDOW:
        if (now + 1) % values[V_PERIOD] == 0:
            empty = 1 if arrived == taken else 0
            after = after_period(values, state, taken, empty, size)
    else:
        if values[V_KIND] == BDP_WINDOW:
            ends = after_trip(values, state, arrived, now, size)
            if ends > now:
                wake(m, number, ends)
        after = after_taking(values, state, before, taken, size)
    if after != before:
        into.announced = after
        say(m, into, after, now)


@kernel
def switch(m: KernelMemory, number: int, task: f.KernelTask, now: int) -> None:
    """Stop a task's senders, or let them go on."""
    values = values_of(m)
    held = is_held(values, task.is_held, task.queued, now)
    if held != task.is_held:
        task.is_held = held
        granted = 0 if held == 1 else FREE
        for i in range(task.gates):
            g = gate_row(m, task.first_gate + i)
            for channel in range(g.channels):
                into = in_row(m, g.first_channel + channel)
                into.announced = granted
                say(m, into, granted, now)
    if held == 1 and values[V_CHECK] > 0:
        wake(m, number, (now + 1) // values[V_CHECK] * values[V_CHECK] + values[V_CHECK] - 1)


@kernel
def say(m: KernelMemory, into: Any, granted: int, now: int) -> None:
    """Send a grant to the sender of a channel."""
    m.grants += 1
    out = out_row(m, into.out)
    if into.credits_most == 0:
        tell(m, out, now + 1)
    else:
        tell_late(m, out, into, granted, now)
