"""What a throttled source emits in a round: its switch, its gap, its log and its admission.

What throttles a source is decided elsewhere (:mod:`flowcontrol.control`) and comes as a command;
here is what the command lets it do. Without a log a source that may not emit holds one record in
its hand, as a blocked one does, and what falls due meanwhile is lost. With a log (Kafka, files)
everything that falls due waits there.
"""

from __future__ import annotations

from flowcontrol.protocol.rows import Row

__all__ = [
    "SOURCE_WIDTH",
    "S_ADMITTED",
    "S_GAP_NS",
    "S_HAS_LOG",
    "S_LOG",
    "S_NEXT_NS",
    "S_OFFERED",
    "S_STOPPED",
    "S_WAITING",
    "after_emitting",
    "may_emit",
    "offer",
    "permitted",
]

S_STOPPED = 0  # command: 1: emit nothing
S_GAP_NS = 1  # command: least time between two emissions, ns; 0: none
S_ADMITTED = 2  # command: records that may ever have been emitted; -1: no limit
S_HAS_LOG = 3  # 1: what is not emitted waits in a log
S_NEXT_NS = 4  # when the gap lets the next record go, ns
S_WAITING = 5  # without a log: 1 if a record is in hand
S_LOG = 6  # records in the log
S_OFFERED = 7  # records that ever fell due
SOURCE_WIDTH = 8


def offer(state: Row, due: int) -> int:
    """Take in what falls due in a round; return how many records there are to emit."""
    state[S_OFFERED] += due
    if state[S_HAS_LOG] == 1:
        state[S_LOG] += due
        return state[S_LOG]
    return state[S_WAITING] + due


def permitted(next_ns: int, gap_ns: int, start_ns: int, end_ns: int) -> int:
    """Return how many emissions a gap lets go in a round.

    Parameters
    ----------
    next_ns : int
        When the next one may go; a time before the round saves nothing up.
    gap_ns : int
        Time between two of them, positive.
    start_ns, end_ns : int
        The round.
    """
    first = max(next_ns, start_ns)
    return 0 if first >= end_ns else (end_ns - 1 - first) // gap_ns + 1


def may_emit(state: Row, waiting: int, emitted: int, start_ns: int, end_ns: int) -> int:
    """Return how many records the source may emit in a round.

    Parameters
    ----------
    waiting : int
        What :func:`offer` has returned.
    emitted : int
        Records that it has ever emitted.
    """
    if state[S_STOPPED] == 1:
        return 0
    count = waiting
    if state[S_GAP_NS] > 0:
        count = min(count, permitted(state[S_NEXT_NS], state[S_GAP_NS], start_ns, end_ns))
    if state[S_ADMITTED] >= 0:
        count = min(count, state[S_ADMITTED] - emitted)
    return max(0, count)


def after_emitting(state: Row, waiting: int, done: int, start_ns: int) -> None:
    """Note that ``done`` of the records that waited were emitted; the rest is kept or lost."""
    if state[S_HAS_LOG] == 1:
        state[S_LOG] -= done
    else:
        state[S_WAITING] = 1 if waiting > done else 0
    if done > 0 and state[S_GAP_NS] > 0:
        state[S_NEXT_NS] = max(state[S_NEXT_NS], start_ns) + done * state[S_GAP_NS]
