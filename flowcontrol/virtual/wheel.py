"""When a task is looked at next: a wheel of rounds, so that idle stretches cost nothing."""

from flowcontrol.protocol.service import NEVER
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import row
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.views import clear_bit, next_bit, set_bit, task_row

_LAST = f.WHEEL_SLOTS - 1


def wake(m: KernelMemory, number: int, at: int) -> None:
    """Have a task looked at in round ``at`` at the latest, which is after the present one."""
    task = task_row(m, number)
    at = min(at, m.now + _LAST)
    planned = task.wake
    if planned >= 0:
        if planned <= at:
            return
        _unlink(m, task, planned)
    task.wake = at
    slot = at % f.WHEEL_SLOTS
    first = m[m.wheel + slot]
    task.next = first
    task.previous = 0
    if first > 0:
        task_row(m, first - 1).previous = number + 1
    else:
        set_bit(m, m.wheel_bits, slot)
    m[m.wheel + slot] = number + 1


def wake_at(m: KernelMemory, number: int, us: int) -> None:
    """Have a task looked at in the round in which a microsecond after this one ends."""
    if us == NEVER or task_row(m, number).wake == m.now + 1:
        return
    whole = m.round_us
    wake(m, number, max(m.now + 1, (us + whole - 1) // whole - 1))


def _clear_slot(m: KernelMemory, slot: int) -> None:
    m[m.wheel + slot] = 0
    clear_bit(m, m.wheel_bits, slot)


def _unlink(m: KernelMemory, task: f.KernelTask, planned: int) -> None:
    slot = planned % f.WHEEL_SLOTS
    after, before = task.next, task.previous
    if after > 0:
        task_row(m, after - 1).previous = before
    if before > 0:
        task_row(m, before - 1).next = after
    elif after > 0:
        m[m.wheel + slot] = after
    else:
        _clear_slot(m, slot)


def sleep(m: KernelMemory, number: int) -> None:
    """Have a task not looked at any more until somebody wakes it."""
    task = task_row(m, number)
    if task.wake >= 0:
        _unlink(m, task, task.wake)
        task.wake = -1


def next_round(m: KernelMemory, now: int, end: int) -> int:
    """First round from ``now`` on in which a task is to be looked at, at most ``end``."""
    slot = now % f.WHEEL_SLOTS
    found = next_bit(m, m.wheel_bits, f.WHEEL_SLOTS, slot - 1)
    if found >= 0:
        return min(end, now + found - slot)
    found = next_bit(m, m.wheel_bits, f.WHEEL_SLOTS, -1)
    if found >= 0:
        return min(end, now + found - slot + f.WHEEL_SLOTS)
    return end


def collect(m: KernelMemory, now: int) -> int:
    """Take the tasks of a round off the wheel, into the list at ``H_ACTIVE``; return how many."""
    slot = now % f.WHEEL_SLOTS
    number = m[m.wheel + slot]
    active = row(m, m.active, m.tasks)
    count = 0
    while number > 0:
        task = task_row(m, number - 1)
        active[count] = number - 1
        count += 1
        task.wake = -1
        number = task.next
    _clear_slot(m, slot)
    return count
