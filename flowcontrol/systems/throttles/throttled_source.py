"""What a throttled source emits in a round: its switch, its gap and its admission.

What throttles a source is decided elsewhere (:mod:`.controller`) and comes as a command;
here is what the command lets it do. Without a log a source that may not emit holds one record in
its hand, as a blocked one does, and what falls due meanwhile is lost. With a log (Kafka, files)
everything that falls due waits there (:mod:`flowcontrol.protocol.tasks.reading`).
"""

from dataclasses import dataclass


@dataclass(slots=True)
class ThrottledSource:
    """The command in force for a source, and what waits at it."""

    is_stopped: int = 0
    """Command: 1: emit nothing."""
    gap_ns: int = 0
    """Command: least time between two emissions, ns; 0: none."""
    admitted: int = -1
    """Command: records that may ever have been emitted; -1: no limit."""
    next_ns: int = 0
    """When the gap lets the next record go, ns."""
    waiting: int = 0
    """Without a log: 1 if a record is in hand."""
    offered: int = 0
    """Without a log: records that ever fell due."""


def offer(state: ThrottledSource, due: int) -> int:
    """Take in what falls due in a round without a log; return how many records may be emitted."""
    state.offered += due
    return state.waiting + due


def hold(state: ThrottledSource, waiting: int, done: int) -> None:
    """Keep one record of those that waited without a log and were not emitted; the rest is lost."""
    state.waiting = 1 if waiting > done else 0


def permitted(next_ns: int, gap_ns: int, start_ns: int, end_ns: int) -> int:
    """Return how many emissions a gap lets go in a round.

    - ``next_ns``: when the next one may go; a time before the round saves nothing up.
    - ``gap_ns``: time between two of them, positive.
    """
    first = max(next_ns, start_ns)
    return 0 if first >= end_ns else (end_ns - 1 - first) // gap_ns + 1


def may_emit(state: ThrottledSource, waiting: int, emitted: int, start_ns: int, end_ns: int) -> int:
    """Return how many records the source may emit in a round.

    ``waiting``: what is there to emit: what :func:`offer` has returned, or what is in its log.
    """
    if state.is_stopped == 1:
        return 0
    count = waiting
    if state.gap_ns > 0:
        count = min(count, permitted(state.next_ns, state.gap_ns, start_ns, end_ns))
    if state.admitted >= 0:
        count = min(count, state.admitted - emitted)
    return max(0, count)


def after_emitting(state: ThrottledSource, done: int, start_ns: int) -> None:
    """Note that so many records were emitted in a round: when the gap lets the next one go."""
    if done > 0 and state.gap_ns > 0:
        state.next_ns = max(state.next_ns, start_ns) + done * state.gap_ns
