"""Starving receivers: idle although there are records for them.

There are three reasons, and two of them are a matter of the system. Its records wait behind those
of another receiver in something that both share on the way, a connection or a queue: then the job
could carry them, and a system that keeps channels apart does. Or the system holds all sources back
because of the other receiver: the job could carry them then, too. Or the task that feeds both waits
for the other one, with the next record in its hand: then nothing that moves records between tasks
can help, since the records are not made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from flowcontrol.analysis.frames import Tables, mean_over_time, result_frame
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.layout.graph import JobEdge
from flowcontrol.layout.job import Job

if TYPE_CHECKING:
    import pandas as pd

Cause = Literal["producer", "throttle", "road"]

LEAST_SHARE: Final = 0.9
"""A receiver that processes less than this share of what it could by itself starves."""


@dataclass(frozen=True)
class Starved:
    """A receiver that starved."""

    name: str  # Of the stage, with the subtask where there are several
    share: float  # What it took up, over what it could by itself
    limit_share: float  # The same at the limit of the job: what any system can give it at most
    idle: float  # Share of the time in which it had nothing to do
    # What waits for the other receiver: the task that feeds both, all sources, or what both share
    # on the way.
    cause: Cause
    feeder: str  # feeder, other: the task that feeds it, and the receiver that it waits behind
    other: str
    shared: str  # What both share on the way; empty for the other causes


def find_starved(tables: Tables, job: Job, limits: Sequence[LimitPhase] | None) -> list[Starved]:
    """Return the receivers that starved.

    ``limits``: the limit of the job; None: unknown.

    In the order of the job. A receiver that was blocked more than idle does not starve, nor does
    one that shares nothing with a full receiver.
    """
    if limits is None:
        return []
    stages = result_frame(tables, "stages")
    found = []
    for plan in job.stages:
        if plan.is_source:
            continue
        for subtask in range(plan.stage.parallelism):
            one = _starved(stages, job, limits, plan.name, subtask)
            found += [one] if one is not None else []
    return found


def _starved(
    stages: pd.DataFrame, job: Job, limits: Sequence[LimitPhase], stage: str, subtask: int
) -> Starved | None:
    rows = stages[(stages["stage"] == stage) & (stages["subtask"] == subtask)]
    able, at_limit = (_integral(limits, kind, stage, subtask) for kind in ("alone", "into"))
    if rows.empty or able < 1:
        return None
    share = float(rows["records_in"].iloc[-1]) / able
    idle = mean_over_time(rows, "idle_ms_per_s") / 1000
    blocked = mean_over_time(rows, "backpressured_ms_per_s") / 1000
    if share >= LEAST_SHARE or blocked >= idle:
        return None
    cause: Cause = "road" if job.scenario.system.throttle == "none" else "throttle"
    cause = "producer" if at_limit / able < LEAST_SHARE else cause
    feeder, other = _behind(job, limits, stage, subtask, cause)
    if not other:
        return None
    return Starved(
        task_name(job, stage, subtask), share, at_limit / able, idle, cause,
        feeder, other, _shared(job, stage, subtask) if cause == "road" else "",
    )  # fmt: skip


def _integral(limits: Sequence[LimitPhase], kind: str, stage: str, subtask: int) -> float:
    """Return the records that a subtask takes up over the run, at the limit or by itself."""
    return sum(
        float(getattr(phase, kind)[stage][subtask]) * (phase.end_s - phase.start_s)
        for phase in limits
    )


def task_name(job: Job, stage: str, subtask: int) -> str:
    """Return the name of a task: ``sink``, or ``workers [3]`` if there are several."""
    count = job.scenario.stage(stage).parallelism
    return stage if count == 1 else f"{stage} [{subtask}]"


def _behind(
    job: Job, limits: Sequence[LimitPhase], stage: str, subtask: int, cause: Cause
) -> tuple[str, str]:
    """Return the feeder, and the receiver longest full that shares what the cause is."""
    own = [(link, c) for link in job.stage(stage).inputs for c in link.incoming(subtask)]
    feeders = {(link.edge.sender, channel.sender) for link, channel in own}
    roads = {_road(job, link, channel.sender, subtask) for link, channel in own}
    rivals: dict[tuple[str, int], tuple[str, int]] = {}
    for link in job.links:
        for channel in link.channels:
            feeder = link.edge.sender, channel.sender
            road = _road(job, link, channel.sender, channel.receiver)
            is_rival = {"producer": feeder in feeders, "road": road in roads, "throttle": True}
            if is_rival[cause] and (link.edge.receiver, channel.receiver) != (stage, subtask):
                rivals.setdefault((link.edge.receiver, channel.receiver), feeder)
    full = {rival: _full_s(limits, *rival) for rival in rivals}
    first = min(feeders)
    other = max(full, key=lambda rival: full[rival], default=None)
    if other is None or full[other] <= 0:
        return task_name(job, *first), ""
    feeder = rivals[other] if cause == "producer" else first
    return task_name(job, *feeder), task_name(job, *other)


def _road(job: Job, link: JobEdge, sender: int, receiver: int) -> tuple[int, int]:
    """Return the pair of task managers between which a channel runs."""
    scenario = job.scenario
    here = scenario.stage(link.edge.sender).placement[sender]
    return here, scenario.stage(link.edge.receiver).placement[receiver]


def _shared(job: Job, stage: str, subtask: int) -> str:
    """Return what the channels into a subtask share with others, in words."""
    link = job.stage(stage).inputs[0]
    here, there = _road(job, link, link.incoming(subtask)[0].sender, subtask)
    return (
        f"task manager {here}" if here == there
        else f"the connection from task manager {here} to {there}"
    )  # fmt: skip


def _full_s(limits: Sequence[LimitPhase], stage: str, subtask: int) -> float:
    """Return for how long a subtask is full at the limit, s."""
    return sum(phase.end_s - phase.start_s for phase in limits if phase.full[stage][subtask])
