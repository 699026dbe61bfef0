"""How a subtask begins anew: fresh, from a cut; the same for whoever holds the subtasks.

Tasks that restart together do so in two steps: each gets its counters (:func:`begin_from`), then
what was in flight to it (:func:`receive_in_flight`), which depends on what its senders had written.
"""

from collections.abc import Callable
from dataclasses import replace

from flowcontrol.job.cuts import Elements, TaskCut, carry_on, cut_of, put_cut, put_in_flight
from flowcontrol.job.graph import JobEdge
from flowcontrol.job.subtask import Subtask

Written = Callable[[JobEdge, int, int], int]
"""Records that a restarted sender has written over an edge, by edge, sender and receiver."""

Between = Callable[[int, int, int], tuple[int, Elements]]
"""By gate, channel and records written to it: the marks that the sender had put into it, and what
was in flight."""


def begin_from(fresh: Subtask, old: Subtask, cut: TaskCut | None, *, keeps: bool) -> None:
    """Give a fresh subtask the counters of a cut.

    Parameters
    ----------
    fresh : Subtask
        Of the new attempt; changed in place.
    old : Subtask
        Of the attempt before.
    cut : TaskCut or None
        What it restores; None: it begins at the beginning.
    keeps : bool
        It is a source that cannot rewind: it goes on where it was, and its channels begin at the
        cut.
    """
    fresh.rest()
    if cut is not None:
        put_cut(fresh, cut)
    if keeps:
        counts = tuple(tuple(one.written for one in part.channels) for part in fresh.partitions)
        marks = 0 if fresh.time is None else fresh.time.state.marks
        put_cut(fresh, replace(cut_of(old), written=counts, marks=marks))
    carry_on(fresh, old)


def receive_in_flight(
    fresh: Subtask, cut: TaskCut | None, written: Written, elements: Between | None = None
) -> None:
    """Give a subtask that began from a cut what was in flight to it.

    Parameters
    ----------
    fresh : Subtask
        Of the new attempt; changed in place.
    cut : TaskCut or None
        What it began from.
    written : callable
        What its senders had written.
    elements : callable, optional
        Of a job with event time: what that was.
    """
    if cut is None:
        return
    for number, (link, own) in enumerate(fresh.in_links):
        for place, channel in enumerate(own):
            count = written(link, channel.sender, channel.receiver)
            if elements is None:
                put_in_flight(fresh, number, place, count, cut)
            else:
                marks, found = elements(number, place, count)
                put_in_flight(fresh, number, place, count, cut, marks, found)
