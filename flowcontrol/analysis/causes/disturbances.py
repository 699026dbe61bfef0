"""When a stage stood still, and when checkpoints took from its work.

Its progress shows both: a stall is a time in which subtasks are busy and take no record up, as in a
full garbage collection or a call that hangs; a checkpoint slows a stage while its own part of it
lasts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.causes.parts import Parts
from flowcontrol.analysis.causes.run import Cause, Run, Times
from flowcontrol.analysis.checkpoint_causes import advice_on, firing_window
from flowcontrol.analysis.wording import percent, seconds
from flowcontrol.scenario import Edge

if TYPE_CHECKING:
    import pandas as pd


_IDLE: Final = 0.5
"""Idle share of an aligning task beside its input."""

_ALIGNED: Final = 0.5
"""Share of the limited time that must fall into alignments, or just after, for them to be it."""

_SURE: Final = 0.9

_FEW: Final = 0.7
"""How sure it is that barriers limit, of one or two samples."""

_BEHIND_TIMERS: Final = 0.6
"""The same where a window fires meanwhile: its full outputs hold up records as well as barriers."""


def blocked_share(run: Run, edge: Edge, times: Times) -> str:
    """Return for how long the sender of an exchange was blocked, and its receiver busy."""
    blocked = run.worst(edge.sender, "backpressured_ms_per_s", times) / 1000
    busy = run.worst(edge.receiver, "busy_ms_per_s", times) / 1000
    return (
        f"{edge.sender} was blocked {percent(blocked)} of the time, although {edge.receiver} was "
        f"busy only {percent(busy)} (stages, {run.span(times)})"
    )


def aligned_exchange(run: Run, edge: Edge, times: Times) -> Cause | None:
    """Return the cause if the receiver was aligning barriers when the exchange limited.

    Then it idles beside input that is there: nothing else keeps a task from reading it.
    """
    checkpoints = run.frame("checkpoints")
    if checkpoints is None:
        return None
    rows = run.rows(edge.receiver, times)
    rows = rows[rows["idle_ms_per_s"] >= 1000 * _IDLE]
    waiting = rows[rows["input_queue_buffers"] > 0]["t_s"]
    held = (frozenset(map(float, waiting)) | _unsent(run, edge, rows)) & _aligning(
        run, edge.receiver, checkpoints
    )
    ordered = [*run.lengths]
    after = {ordered[i + 1] for i, t_s in enumerate(ordered[:-1]) if t_s in held}
    if run.length(times & (held | after)) < _ALIGNED * run.length(times):
        return None
    text = (
        f"{blocked_share(run, edge, times)}: in {len(held)} samples {edge.receiver} was idle "
        "beside input that waited, while a checkpoint was under way (checkpoints)."
    )
    return _of_barriers(run, edge.receiver, text, held, times, _waits(run, times))


def aligned_stage(run: Run, stage: str, parts: Parts) -> Cause:
    """Return the cause for a stage that limits as it waits for barriers beside input."""
    held = parts.held
    text = (
        f"While it aligned the barriers of a checkpoint, {stage} was idle beside input that waited "
        f"(checkpoint_tasks and stages, {run.span(held)})."
    )
    return _of_barriers(run, stage, text, held, parts.aligned, _waits(run, held))


def _of_barriers(
    run: Run,
    stage: str,
    text: str,
    held: Times,
    times: Times,
    spans: Collection[tuple[float, float]],
) -> Cause:
    """Return the cause for a stage that waits for barriers; what helps is up to what holds them."""
    evidence, tasks = [text], run.frame("checkpoint_tasks")
    if tasks is not None:
        longest = tasks[tasks["stage"] == stage]["alignment_ms"].max()
        if longest > 0:
            wait = seconds(float(longest) / 1000)
            evidence.append(f"It waited up to {wait} s for the last barrier (checkpoint_tasks).")
    sure = _SURE if len(held) > 2 else _FEW
    advice = "let barriers overtake (unaligned checkpoints), or checkpoint less often"
    reason = "only barriers keep a task from reading what has arrived"
    firing = firing_window(run.tables, run.scenario, stage, spans)
    if firing is not None:
        evidence.append(
            f"{firing} was firing into full outputs meanwhile, and no barrier, unaligned or not, "
            "passes before all timers of its watermark have fired."
        )
        sure, advice = min(sure, _BEHIND_TIMERS), advice_on(firing)
        reason += f"; how much of the time {firing} would take without them is not known"
    return Cause(
        stage=stage,
        subtask=None,
        cause="checkpoint",
        evidence=tuple(evidence),
        confidence=sure,
        reason=reason,
        advice=advice,
        limited_s=run.length(times),
    )


def _waits(run: Run, times: Times) -> list[tuple[float, float]]:
    """Return the intervals of some samples, from and until, s."""
    return [(t_s - run.lengths[t_s], t_s) for t_s in sorted(times)]


def _unsent(run: Run, edge: Edge, rows: pd.DataFrame) -> Times:
    """Return the samples in which an idle subtask gave credit for what was not sent.

    A sender with both sends at once, unless the channel is blocked behind a barrier; it then
    announces no backlog (``PipelinedSubpartition``).
    """
    channels = run.channels[run.channels["edge"] == edge.name].sort_values("t_s")
    fresh = channels.groupby(["sender", "receiver"])["sent"].diff()
    stays = channels[(channels["in_flight_records"] > 0) & (channels["credit"] > 0) & (fresh == 0)]
    keys = rows[["t_s", "subtask"]].rename(columns={"subtask": "receiver"})
    return frozenset(map(float, stays[["t_s", "receiver"]].merge(keys)["t_s"]))


def _aligning(run: Run, stage: str, checkpoints: pd.DataFrame) -> Times:
    """Return the samples in whose intervals a stage aligned the barriers of a checkpoint.

    Where it has not acknowledged one, while that was under way. One channel has nothing to align.
    """
    edges = [one.name for one in run.scenario.inputs(stage)]
    channels = run.channels[run.channels["edge"].isin(edges)]
    channels = channels[["edge", "sender", "receiver"]].drop_duplicates()
    if channels.groupby("receiver").size().max() < 2:
        return frozenset()
    spans = list[tuple[float, float]]()
    tasks = run.frame("checkpoint_tasks")
    for row in checkpoints.fillna({"ended_s": run.total_s}).to_dict("records"):
        start, end = float(row["triggered_s"]), float(row["ended_s"])
        if tasks is not None:
            own = tasks[
                (tasks["stage"] == stage) & (tasks["checkpoint_id"] == row["checkpoint_id"])
            ]
            own = own[own["start_delay_ms"].notna()]
            if len(own):
                ends = own["start_delay_ms"] + own["alignment_ms"]
                end = start + float(ends.max()) / 1000
                start += float(own["start_delay_ms"].min()) / 1000
        if end > start:
            spans.append((start, end))
    return frozenset(
        t_s
        for t_s, length in run.lengths.items()
        if any(start < t_s and end > t_s - length for start, end in spans)
    )


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
