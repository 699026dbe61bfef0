"""What a controller sees, and what it says."""

from __future__ import annotations

from typing import NamedTuple


class SourceObservation(NamedTuple):
    """One source subtask at the end of a round.

    Attributes
    ----------
    stage, subtask : str, int
        Which.
    emitted : int
        Records that it has emitted into the job so far.
    log : int
        Records that wait in the log before it, offered and not yet emitted; 0 if it has none.
    offered : int
        Records that fell due so far.
    rate : float
        What it is offered now, records/s.
    """

    stage: str
    subtask: int
    emitted: int
    log: int
    offered: int
    rate: float


class TaskObservation(NamedTuple):
    """One subtask of a stage that is no source, at the end of a round.

    Attributes
    ----------
    stage, subtask : str, int
        Which.
    queued, queued_bytes : int
        Records that have arrived and were not taken up, and their bytes.
    taken : int
        Records taken up so far.
    service_ms : float
        Time that a record takes it now, ms; 0 if no rate is stated.
    """

    stage: str
    subtask: int
    queued: int
    queued_bytes: int
    taken: int
    service_ms: float


class JobObservation(NamedTuple):
    """A whole job at the end of a round.

    Attributes
    ----------
    now_us : int
        The end of that round, microseconds.
    sources : tuple of SourceObservation
        Always the same subtasks, in the same order.
    tasks : tuple of TaskObservation
        Likewise.
    is_empty : bool
        Nothing that was emitted is unfinished: no record is under way, queued or in service.
    arrived : int
        Records that sinks have taken up so far.
    oldest_us : int
        End of the round in which the oldest record was emitted that no sink has taken up, so a
        record of this very round has ``now_us``; -1 if there is none.
    """

    now_us: int
    sources: tuple[SourceObservation, ...]
    tasks: tuple[TaskObservation, ...]
    is_empty: bool
    arrived: int
    oldest_us: int


class Command(NamedTuple):
    """What a source subtask does from the next round on, until it is told otherwise.

    Attributes
    ----------
    is_stopped : int
        1: it emits nothing.
    gap_ns : int
        Least time between two emissions, ns; 0: none.
    admitted : int
        With a log, records that it may ever have emitted: cumulative, never falls. -1: no limit.
    """

    is_stopped: int
    gap_ns: int
    admitted: int


GO = Command(0, 0, -1)
"""Emit as you can."""

STOP = Command(1, 0, -1)
"""Emit nothing."""
