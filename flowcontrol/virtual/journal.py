"""Which records tasks move in a round: kept by the interpreted kernel for whoever moves rows.

A compiled kernel has none of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from flowcontrol.virtual.parts import JOURNAL
from flowcontrol.virtual.registry import part_of

TAKEN = 0
"""Records taken up: ``first`` is the gate, ``second`` its channel."""
ROUTED = 1
"""Records put out: ``first`` is the channel, by its number at the sender, ``second`` how many
records the task has taken up by then."""
FIRED = 2
"""A result of a window: ``first`` is the round in which its last record was emitted, ``records``
how many the task has taken up by then."""
LATE = 3
"""A record that came too late for every window; ``records`` as of FIRED."""


class Move(NamedTuple):
    """What a task did with ``records``: how many, unless the kind says otherwise."""

    task: int
    kind: int
    first: int
    second: int
    records: int


@part_of(JOURNAL)
def note_move(m: Any, task: int, kind: int, first: int, second: int, records: int) -> int:
    """Note that a task moves records, if somebody wants to know."""
    if m.moves is not None:
        m.moves.append(Move(task, kind, first, second, int(records)))
    return 0
