"""Rules by which the sources of a group wait for each other: flow control by event time.

Every interval each subtask reports its watermark, and is told which watermark its group allows it.

Source: ``SourceCoordinator`` and ``SourceOperator``; section 6 of checkpoints-and-time.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.protocol.event_time.bounds import MAX_TIME, is_first, later
from flowcontrol.protocol.event_time.states import AlignedSource

Sources: TypeAlias = Sequence[AlignedSource]

PAUSE = 1
"""The subtask emits nothing from now on."""
RESUME = 2
"""It goes on."""


def report_of(watermark: int, is_idle: int, is_finished: int) -> int:
    """Watermark that a subtask reports, ms; MIN_TIME: it reports nothing.

    Parameters
    ----------
    watermark : int
        Its last one, ms, which never falls; MIN_TIME: none so far, and it says nothing.
    is_idle, is_finished : int
        1: it is, and holds nobody back (MAX_TIME).
    """
    if is_finished == 0 and (is_idle == 0 or is_first(watermark) == 1):
        return watermark
    return MAX_TIME


def note_report(source: AlignedSource, watermark: int) -> None:
    """Take the report of a subtask, ms, at its coordinator."""
    source.reported = watermark
    source.has_reported = 1


def allowed_watermark(sources: Sources, drift: int) -> int:
    """Watermark that a group allows, ms.

    Parameters
    ----------
    sources : sequence of AlignedSource
        All subtasks of all sources of the group.
    drift : int
        How far a subtask may be ahead of the last, ms, at least 0.

    Returns
    -------
    int
        The least one reported + drift, at most MAX_TIME; MAX_TIME before the first report.
    """
    least = MAX_TIME
    for i in range(len(sources)):
        if sources[i].has_reported == 1:
            least = min(least, sources[i].reported)
    return later(least, drift)


def must_pause(watermark: int, allowed: int) -> int:
    """Tell whether a subtask, or a split of one, is too far ahead: 1 if it is beyond, strictly."""
    return 1 if watermark > allowed else 0


def on_allowed(source: AlignedSource, watermark: int, allowed: int) -> int:
    """Tell a subtask what its group allows; return PAUSE or RESUME if that changes anything."""
    source.allowed = allowed
    return check_watermark(source, watermark)


def check_watermark(source: AlignedSource, watermark: int) -> int:
    """Compare a subtask's watermark, ms, when it has a new one or is told what is allowed.

    Returns
    -------
    int
        PAUSE, RESUME, or 0 if nothing changes.
    """
    pauses = must_pause(watermark, source.allowed)
    if pauses == source.is_paused:
        return 0
    source.is_paused = pauses
    return PAUSE if pauses == 1 else RESUME
