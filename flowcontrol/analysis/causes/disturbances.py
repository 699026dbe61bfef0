"""When a stage stalled, and when checkpoints slowed its work.

Its progress shows both: a stall is a time in which subtasks are busy and take no record up, as in a
full garbage collection or a call that hangs; a checkpoint slows a stage while its own part of it
lasts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from flowcontrol.analysis.causes.run import Run

STILL: Final = 0.05
"""Share of its usual progress up to which a busy subtask stands still."""

_ENOUGH: Final = 5.0
"""Records that it would usually have taken up meanwhile; of fewer, none may be chance."""

_AT_WORK: Final = 0.5
"""Busy share from which an interval tells how quick a subtask is."""

_SLOWED: Final = 0.15
"""Share of its progress that a checkpoint must take from a subtask to count, beyond chance."""

_OVERLAP: Final = 0.1
"""Share of an interval that the part of a checkpoint must last to be looked at."""

_BESIDE: Final = 3
"""Intervals on each side that tell what is usual just before and after a checkpoint."""

_ALIGNING: Final = 0.2
"""Idle share of an aligning task above which its alignment keeps it from input that is there, and
blocked share of who sends it that from which it holds somebody up."""

Key = tuple[float, int]
"""Sample and subtask."""


@dataclass(frozen=True)
class Disturbances:
    """What disturbs a stage."""

    still: frozenset[Key]  # Samples and subtasks that were busy and took nothing up
    # Share of its progress that a subtask lost as it wrote for a checkpoint (ratio).
    slowed: Mapping[Key, float]
    # Share of the time for which a subtask aligned barriers and idled beside input (ratio).
    held: Mapping[Key, float]


def disturbances_of(run: Run, stage: str) -> Disturbances:
    """Return what disturbs a stage in the course of a run."""
    progress = _progress(run, stage)
    at_work, aligning = _checkpoint_shares(run, stage)
    slowed, held = _slowed(progress, at_work), _held(run, stage, aligning)
    still = frozenset(
        key
        for key, (count, usual) in progress.items()
        if usual >= _ENOUGH and count <= STILL * usual and key not in slowed | held
    )
    return Disturbances(still, slowed, held)


def _progress(run: Run, stage: str) -> dict[Key, tuple[float, float]]:
    """Return the records of each busy subtask and interval, and how many are usual in that time."""
    is_source = not run.scenario.inputs(stage)
    rows = run.of_stage[stage]
    column = "rate_out" if is_source else "rate_in"
    rows = rows.assign(
        count=rows[column] * rows["interval_s"],
        busy_s=rows["busy_ms_per_s"] * rows["interval_s"] / 1000,
    )
    rows = rows[rows["busy_ms_per_s"] >= 1000 * _AT_WORK]
    if is_source:
        rows = rows[rows["lag_records"] > 0]  # else it has nothing to do, or generates
    moving = rows[rows["count"] > 0]
    rates = (moving["count"] / moving["busy_s"]).groupby(moving["subtask"]).median()
    usual = rows["busy_s"] * rows["subtask"].map(rates).fillna(0.0)
    found = zip(rows["t_s"], rows["subtask"], rows["count"], usual, strict=True)
    return {(float(t), int(subtask)): (float(n), float(most)) for t, subtask, n, most in found}


_Shares = dict[Key, float]
"""Share of an interval that something lasted, ratio."""


def _checkpoint_shares(run: Run, stage: str) -> tuple[_Shares, _Shares]:
    """Return how much of each interval a stage wrote for checkpoints, and aligned barriers.

    Where barriers overtake, what a snapshot waits for in its channels is no work: it writes from
    the last barrier on, and until its report. Who has nothing to write does not write.
    """
    tasks, at_work, aligning = run.frame("checkpoint_tasks"), _Shares(), _Shares()
    if tasks is None:
        return at_work, aligning
    for row in tasks[tasks["stage"] == stage].dropna(subset=["sync_ms"]).to_dict("records"):
        start = row["acknowledged_s"] - (row["e2e_ms"] - row["start_delay_ms"]) / 1000
        aligned = start + row["alignment_ms"] / 1000
        done = aligned + (row["sync_ms"] + row["async_ms"]) / 1000
        if row["sync_ms"] > 0 or row["state_bytes"] + row["persisted_bytes"] > 0:
            _add(at_work, run, int(row["subtask"]), aligned, min(done, row["acknowledged_s"]))
        _add(aligning, run, int(row["subtask"]), start, aligned)
    return at_work, aligning


def _add(shares: _Shares, run: Run, subtask: int, start_s: float, end_s: float) -> None:
    """Add the time from start to end to the shares of the intervals that it touches."""
    for t_s, length in run.lengths.items():
        overlap = min(end_s, t_s) - max(start_s, t_s - length)
        if overlap > 0:
            key = (t_s, subtask)
            shares[key] = shares.get(key, 0.0) + overlap / length


def _slowed(progress: Mapping[Key, tuple[float, float]], at_work: _Shares) -> _Shares:
    """Return by how much checkpoints slowed subtasks, where that is more than chance."""
    touched = {key for key, share in at_work.items() if share >= _OVERLAP}
    usual = _usual_outside(progress, touched)
    found = _Shares()
    for key in touched & set(progress):
        count, expected = progress[key][0], usual(key)
        if expected >= _ENOUGH:
            lost = 1 - count / expected
            if lost > _SLOWED + 2 / expected**0.5:
                found[key] = lost
    return found


def _usual_outside(
    progress: Mapping[Key, tuple[float, float]], touched: Collection[Key]
) -> Callable[[Key], float]:
    """Return what is usual just before and after a checkpoint is at work, the less of both.

    A stage that is slow for minutes is so beside checkpoints as well. If one is always at work, it
    is what is usual in the run.
    """
    factors: dict[int, list[tuple[float, float]]] = {}
    for (t_s, subtask), (count, expected) in sorted(progress.items()):
        if (t_s, subtask) not in touched and count > 0 and expected > 0:
            factors.setdefault(subtask, []).append((t_s, count / expected))

    def usual(key: Key) -> float:
        own = factors.get(key[1], [])
        place = bisect_left(own, (key[0], 0.0))
        sides = own[max(0, place - _BESIDE) : place], own[place : place + _BESIDE]
        near = [median(factor for _, factor in side) for side in sides if side]
        return progress[key][1] * min(near, default=1.0)

    return usual


def _held(run: Run, stage: str, aligning: _Shares) -> _Shares:
    """Return the intervals in which an aligning subtask idled beside input that was there.

    It holds nobody up where who sends to it is not blocked, as behind a stage that is slower.
    """
    touched = {key: share for key, share in aligning.items() if share >= _OVERLAP}
    if not touched:
        return touched
    rows = run.of_stage[stage]
    idle = rows[(rows["input_queue_buffers"] > 0) & (rows["idle_ms_per_s"] > 1000 * _ALIGNING)]
    blocked = _blocked_by(run, stage)
    keys = {(float(t), int(n)) for t, n in zip(idle["t_s"], idle["subtask"], strict=True)}
    keys = {key for key in keys if key[0] in blocked}
    return {key: share for key, share in touched.items() if key in keys}


def _blocked_by(run: Run, stage: str) -> set[float]:
    """Return the samples in whose intervals a subtask that sends to a stage was blocked."""
    found = set[float]()
    for one in run.scenario.inputs(stage):
        rows = run.of_stage[one.sender]
        found |= set(map(float, rows[rows["backpressured_ms_per_s"] > 1000 * _ALIGNING]["t_s"]))
    return found
