"""Why stages wait for barriers beside input that is there, and what would help."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.causes.cause import Cause
from flowcontrol.analysis.causes.parts import Parts
from flowcontrol.analysis.causes.run import Run, Times
from flowcontrol.analysis.firing_windows import advice_on, firing_window
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
