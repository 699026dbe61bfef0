"""How much of a ring is in use: its first slots, as many as have ever been needed at once.

A ring that went round in all its slots would touch all of them, and most have room for far more
than they ever hold: what is in use stays in a processor's cache, what is not is no memory at all.
"""

from collections.abc import Sequence
from typing import TypeVar

from flowcontrol.protocol.state import assign
from flowcontrol.protocol.states import Ring

FIRST_SPAN = 2
"""Slots of a ring to begin with."""

S = TypeVar("S")


class Slots(Sequence[S]):
    """Slots in a memory, where a ring that needs few has little room until it needs more."""

    def give_room(self, count: int) -> None:
        """Have them stand where there is room for so many."""
        raise NotImplementedError


def with_room(ends: Ring, slots: Sequence[S], count: int) -> Sequence[S]:
    """Return the slots of a ring, which stand where there is room for so many; those of a list do.

    In the kernel's memory they may have moved; compiled, it is the ends that say where they are.
    """
    if isinstance(slots, Slots):
        slots.give_room(count)
    return slots


def widen(ends: Ring, slots: Sequence[S]) -> None:
    """Have a ring that is full go round in twice as many slots, if it has any more.

    What is in it stays where it is, but for what is newer than the last slot or in front of it:
    from the oldest one to the last slot all move to the end of the wider ring.
    """
    span = ends.span
    wider = min(len(slots), max(FIRST_SPAN, 2 * span))
    added = wider - span
    slots = with_room(ends, slots, wider)
    if added > 0 and ends.head > 0:
        shift(slots, ends.head, span, added)
        ends.head += added
    ends.span = wider


def shift(slots: Sequence[S], first: int, after: int, by: int) -> None:
    """Move what is in the slots from ``first`` to the one before ``after`` so many slots on."""
    for i in range(after - 1, first - 1, -1):
        assign(slots[i + by], slots[i])


def use_all(ends: Ring, slots: Sequence[S]) -> None:
    """Have a ring go round in all its slots, if it is empty: nothing in it ever moves then."""
    ends.span = len(slots)
