"""What a stage would get if nothing held its sources back, and what it could do evenly loaded."""

from __future__ import annotations

from typing import Final

from flowcontrol.analysis.causes.run import Run, Times

_MOST_BLOCKED: Final = 0.98
"""Blocked share of a source above which what it would emit cannot be told from what it does."""


def demand_of(run: Run, stage: str, times: Times) -> float:
    """Return the records/s that a stage would get if its sources were not held back.

    ``times`` (s): samples to look at.

    Returns what it takes up, times what its sources would emit over what they do: a source that is
    blocked for a share b would emit 1 / (1 - b) times as much, one that reads a log as much as is
    written to it (records/s).
    """
    taken = run.total(stage, "rate_in", times)
    emitted = wanted = 0.0
    for source in run.scenario.sources_of(stage):
        rate = run.total(source.name, "rate_out", times)
        emitted += rate
        if source.reads_log:
            wanted += rate + _growth(run, source.name, times)
        else:
            blocked = run.mean(source.name, "backpressured_ms_per_s", times) / 1000
            wanted += rate / (1 - min(blocked, _MOST_BLOCKED))
    return taken * wanted / emitted if emitted > 0 else taken


def _growth(run: Run, source: str, times: Times) -> float:
    """Return by how many records a second a source fell behind its log, at least 0."""
    first, last = min(times), max(times)
    length = last - first
    if length <= 0:
        return 0.0
    lags = [run.total(source, "lag_records", (at,)) for at in (first, last)]
    return max(0.0, (lags[1] - lags[0]) / length)


def capacity_of(run: Run, stage: str, times: Times) -> float:
    """Return the records/s that a stage could take up if all its subtasks were always busy.

    Its true rate, as DS2 and Flink's autoscaler have it: records over busy time, summed over the
    subtasks; one that took up nothing counts as the mean of the others.
    """
    busy = run.by_subtask(stage, "busy_ms_per_s", times)
    rates = run.by_subtask(stage, "rate_in", times)
    true = [rates[one] / (busy[one] / 1000) for one in busy if busy[one] > 0 and rates[one] > 0]
    return sum(true) / len(true) * len(busy) if true else 0.0
