"""One switch for the whole job: any queue above its high mark stops all sources.

Storm 1 (``DisruptorQueue``, ``WorkerBackpressureThread``, the worker's and the executor's Clojure
code, 1.0 to 1.2) carries the switch through ZooKeeper; Heron (its stream manager) by
messages between stream managers. What differs are the unit, the marks, how often a mark must be
met, and how old a claim may be.
"""

from __future__ import annotations

__all__ = [
    "is_claimed",
    "is_pressed",
    "is_throttled",
    "mark",
    "mark_below",
    "may_emit",
    "streak",
]


def mark(share: float, slots: int) -> int:
    """Return a mark in whole slots, truncated: 0.9 and 0.4 of 1024 are 921 and 409."""
    return int(share * slots)


def mark_below(limit: int) -> int:
    """Return the low mark of a queue that is relieved *below* a limit, as Heron's 50 MB are."""
    return limit - 1


def is_pressed(was: int, queued: int, overflow: int, high: int, low: int) -> int:
    """Return whether a queue claims pressure: 1 at or above its high mark, 0 at or below its low.

    Parameters
    ----------
    was : int
        What it was; it stays so between the marks.
    queued, overflow : int
        Tuples in the queue, and in the list that takes what does not fit.
    high, low : int
        Marks, tuples.
    """
    waiting = queued + overflow
    if was == 0:
        return 1 if waiting >= high else 0
    return 0 if waiting <= low else 1


def streak(count: int, is_above: int) -> int:
    """Return how many times in a row a mark was met; Heron wants more than 3."""
    return count + 1 if is_above == 1 else 0


def is_claimed(was: int, waiting: int, high: int, low: int, met: int, consecutive: int) -> int:
    """Return whether a queue claims pressure: as :func:`is_pressed`, but it begins less readily.

    Parameters
    ----------
    was : int
        What it was.
    waiting : int
        Tuples or bytes that wait.
    high, low : int
        Marks, in the same unit.
    met, consecutive : int
        How many times in a row the high mark was met, this time included (:func:`streak`), and how
        many are needed: 1 in Storm, 4 in Heron.
    """
    if was == 0 and met < consecutive:
        return 0
    return is_pressed(was, waiting, 0, high, low)


def is_throttled(newest_ms: int, now_ms: int, timeout_ms: int) -> int:
    """Tell whether the sources stop, by the newest claim that any worker has written: 1 if so.

    Parameters
    ----------
    newest_ms : int
        Time of that claim; negative if there is none.
    now_ms : int
        Time.
    timeout_ms : int
        ``backpressure.znode.timeout.secs``, 30 s: a claim is written again every 15 s, so
        that of a worker that has died ends. 0: a claim has no age, as in Heron.
    """
    is_fresh = timeout_ms == 0 or now_ms - newest_ms < timeout_ms
    return 1 if newest_ms >= 0 and is_fresh else 0


def may_emit(is_transfer_full: int, throttled: int, pending: int, most_pending: int) -> int:
    """Tell whether a spout is asked for its next tuple: 1 if so.

    Parameters
    ----------
    is_transfer_full : int
        1 if the queue to the other workers is full.
    throttled : int
        As :func:`is_throttled` says, when the spout last heard.
    pending, most_pending : int
        Trees that are not acknowledged, and ``topology.max.spout.pending``; 0: no limit.
    """
    is_within = most_pending == 0 or pending < most_pending
    return 1 if is_transfer_full == 0 and throttled == 0 and is_within else 0
