"""Processors of a task manager, shared by the threads of its tasks as a fair scheduler does.

In a round each task computes, up to what its rate allows; what that takes of a processor it claims.
If the task manager has less than all its tasks claim, they get max-min fair shares, and what a task
has not got it is behind: that much of the next round it waits for a processor. So a thread is
never ahead of its processor by more than a round, and in the long run nobody gets more than its
share. The rest of the processors goes to whoever claims it; what nobody claims is not saved up.

Processor time is counted in parts of a round, so small that a round of one processor has
:data:`WHOLE_ROUND`. Pure functions of integers; nothing is lost to rounding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flowcontrol.protocol.service import proportion
from flowcontrol.state.rows import Rows

WHOLE_ROUND: Final = 1_000_000_000_000
"""Parts of a round of one processor."""

UNLIMITED: Final = -1
"""In place of processors: as many as needed."""


@dataclass(slots=True)
class TaskProcessor:
    """What a task has claimed of a processor; its thread uses one at most."""

    behind: int = 0
    """Of what it has claimed, what it has not got, parts; at most a round."""
    claim: int = 0
    """What it claims in the round, parts, with that."""
    done: int = 0
    """Work of which the part that was rounded off is claimed later, units."""


@dataclass(slots=True)
class Processors:
    """The processors of a task manager."""

    most: int = UNLIMITED
    """Parts that they do in a round, or UNLIMITED; constant."""
    left: int = 0
    """Parts that could not be shared evenly in the round before, fewer than there are tasks."""
    used: int = 0
    """Parts that tasks have got so far."""


def cpu_at(shares: Rows, us: int) -> int:
    """Return which part of a task's time needs a processor at a moment, parts of a whole.

    - ``shares`` (shape (phases, 2)): first microsecond of each phase, and the part, of WHOLE_ROUND;
      the first starts at 0.
    - ``us``: microseconds since the start.
    """
    index = len(shares) - 1
    while shares[index][0] > us:
        index -= 1
    return shares[index][1]


def computes_until(state: TaskProcessor, start: int, end: int) -> int:
    """Return the work that a task may do by the end of a round, as it waits for a processor first.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    if state.behind == 0:
        return end
    return start + proportion(end - start, max(0, WHOLE_ROUND - state.behind), WHOLE_ROUND)


def waiting_us(state: TaskProcessor, start: int, end: int, whole: int) -> int:
    """Return for how long of a round a task waits for a processor first, microseconds.

    One that stands still, as in a stall, asks for none.

    - ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    - ``whole``: length of the round, microseconds.
    """
    if state.behind == 0 or start == end:
        return 0
    return proportion(whole, min(state.behind, WHOLE_ROUND), WHOLE_ROUND)


def claim_processor(state: TaskProcessor, cpu: int, work: int, allowed: int) -> None:
    """Have a task claim what its work of a round takes of a processor, and what it is behind.

    - ``state``: of the task; ``claim`` is set.
    - ``work``: what it has done, units, from 0 to ``allowed``.
    - ``allowed``: what its rate allows in the whole round, units; 0: it stands still, and claims
      nothing.
    """
    state.claim = 0
    if allowed == 0:
        return
    state.claim = state.behind
    if work == 0:
        return
    before = state.done % allowed
    after = before + work
    state.claim += _parts(cpu, after, allowed) - _parts(cpu, before, allowed)
    state.done = after % allowed


def _parts(cpu: int, work: int, allowed: int) -> int:
    """Parts of a round that so much work takes, rounded down."""
    return work // allowed * cpu + proportion(cpu, work % allowed, allowed)


def share_processors(own: Processors, tasks: Sequence[TaskProcessor]) -> None:
    """Share a round's processors out over the tasks of a task manager, max-min fair.

    ``tasks``: all its tasks; a claim of 0 is nobody's. Afterwards each is behind by what it did not
    get.
    """
    claimed = 0
    for i in range(len(tasks)):
        claimed += tasks[i].claim
    level, left = WHOLE_ROUND + WHOLE_ROUND, 0  # nobody claims more
    if own.most != UNLIMITED and claimed > own.most + own.left:
        level = fair_level(tasks, own.most + own.left)
        left = own.most + own.left
    for i in range(len(tasks)):
        task = tasks[i]
        if task.claim > 0:
            got = min(task.claim, level)
            own.used += got
            left -= got
            task.behind = task.claim - got
            task.claim = 0
    own.left = max(0, left)


def fair_level(tasks: Sequence[TaskProcessor], most: int) -> int:
    """Return what a task may get at most, so that all together get at most so much.

    Water filling: whoever claims less than an even part leaves the rest to the others.

    ``tasks``: they claim more than ``most`` together.
    """
    level = 0
    while True:
        above, rest = 0, most
        for i in range(len(tasks)):
            rest -= min(tasks[i].claim, level)
            above += 1 if tasks[i].claim > level else 0
        if rest < above:
            return level
        level += rest // above
