"""How an integer of a state moves while a job goes on: what its type says beside its name.

A job that repeats itself is in the same state again when its levels are what they were, and all
that grows has grown by as much as what it is compared with. Which integers are levels and which
grow is said here once, in the declaration of the field: ``sent: Messages = 0``. To everything that
reads a state they are integers.
"""

from enum import Enum
from typing import Annotated, Any, get_type_hints

from flowcontrol.protocol.state import cell, members, per_class


class Motion(Enum):
    """What becomes of an integer."""

    CONSTANT = "constant"
    LEVEL = "level"
    MESSAGES = "messages"
    CREDITS = "credits"
    LENT = "lent"
    RECORDS = "records"
    SHARED = "shared buffers"
    TOTAL = "total"
    ROUND = "round"
    MOMENT = "moment"
    WORK = "work"
    SCRATCH = "scratch"


Constant = Annotated[int, Motion.CONSTANT]
"""Stays as it is during a run: a setting, a size, a place."""
Level = Annotated[int, Motion.LEVEL]
"""Goes up and down, or takes one of a few values."""
Messages = Annotated[int, Motion.MESSAGES]
"""Grows: messages of a channel. What follows hangs on its distance from the channel's others."""
Credits = Annotated[int, Motion.CREDITS]
"""Grows: credit ever granted on a remote channel; it is compared with the channel's messages."""
Lent = Annotated[int, Motion.LENT]
"""Grows: messages of a local channel, whose buffers come back to the producer; it is compared with
the channel's messages."""
Records = Annotated[int, Motion.RECORDS]
"""Grows: records of a channel; it is compared with the others of the channel."""
Shared = Annotated[int, Motion.SHARED]
"""Grows: buffers of a broadcast; it is compared with those of the partition's other channels."""
Total = Annotated[int, Motion.TOTAL]
"""Grows: records and time of a task, bytes of a gate. No rule looks at the number itself, at most
at its distance from another one of the task."""
Round = Annotated[int, Motion.ROUND]
"""A round of the run."""
Moment = Annotated[int, Motion.MOMENT]
"""A microsecond of the run; below 0: none."""
Work = Annotated[int, Motion.WORK]
"""What a rate has allowed by some moment of the run, units."""
Scratch = Annotated[int, Motion.SCRATCH]
"""Says nothing of what follows: where something happens to lie, a list of the clock's own, what is
written before it is read."""


@per_class
def motions(cls: type[Any]) -> dict[int, Motion]:
    """Return how the cells of a state class move, those of the states in it too.

    Parameters
    ----------
    cls : type
        The class.

    Raises
    ------
    TypeError
        If a field does not say it.
    """
    found: dict[int, Motion] = {}
    kinds = get_type_hints(cls, include_extras=True)
    for name, inner in members(cls):
        at = cell(cls, name)
        if inner is not None:
            found |= {at + place: motion for place, motion in motions(inner).items()}
            continue
        said = [one for one in getattr(kinds[name], "__metadata__", ()) if isinstance(one, Motion)]
        if len(said) != 1:
            raise TypeError(
                f"{cls.__name__}.{name} does not say how it moves: declare it as one of "
                f"{', '.join(motion.name.capitalize() for motion in Motion)}"
            )
        found[at] = said[0]
    return found


def cells_of_motion(cls: type[Any], *wanted: Motion) -> list[int]:
    """Return which cells of a state class move in one of some ways, in their order."""
    return [place for place, motion in motions(cls).items() if motion in wanted]
