"""Whether busy tasks compute or wait, from the load of their task managers' processors."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowcontrol.analysis.causes.run import Run, Times
from flowcontrol.analysis.wording import join_words, percent

FULL: Final = 0.9
"""Load over cores from which the processors of a task manager limit its tasks."""

WAITS: Final = 0.5
"""Share of its busy time up to which a task that had the whole load would compute."""


@dataclass(frozen=True)
class Work:
    """What busy tasks do."""

    # They share full processors, wait for something else (also: as the scenario states), or compute
    # (also: unknown).
    kind: Literal["cpu", "external", "operator"]
    sentence: str = ""  # With the figures; empty if no process was measured
    is_measured: bool = False  # Whether the load leaves no doubt


def work_of(run: Run, stage: str, subtasks: Sequence[int], times: Times) -> Work:
    """Return what the subtasks of a stage do while they are busy.

    - ``run``: the run; without a table ``processes`` nothing is known.
    - ``subtasks``: those that limit; empty: all.
    - ``times`` (s): samples in whose intervals they do.
    """
    if run.scenario.stage(stage).external:
        return Work("external")
    processes = run.frame("processes")
    if processes is None:
        return Work("operator")
    placement = run.scenario.stage(stage).placement
    own = subtasks or range(len(placement))
    machines = sorted({placement[subtask] for subtask in own})
    rows = processes[processes["task_manager"].isin(machines) & processes["t_s"].isin(times)]
    means = rows.groupby("task_manager")[["load", "cpu_share"]].mean()
    if means["load"].isna().any() or means.empty:
        return Work("operator")
    computing, share = float(means["load"].sum()), float(means["cpu_share"].mean())
    noun = "task manager" if len(machines) == 1 else "task managers"
    where = f"{noun} {join_words([str(one) for one in machines])}"
    text = f"The tasks of {where} used {computing:.2f} processors"
    if share == share:
        text += f", {percent(share)} of what there is"
    text += f" (processes, {run.span(times)})"
    if share >= FULL:
        return Work("cpu", f"{text}.", is_measured=True)
    busy = _busy(run, stage, own, times)
    if busy > 0 and computing <= WAITS * busy:
        more = f"{stage} alone was busy for {busy:.2f} s in a second there, and so waits"
        return Work("external", f"{text}; {more}.", is_measured=True)
    others = sum(
        _busy(run, other.name, [i for i, at in enumerate(other.placement) if at in machines], times)
        for other in run.scenario.stages
        if other.name != stage
    )
    return Work("operator", f"{text}.", is_measured=computing - others > WAITS * busy)


def _busy(run: Run, stage: str, subtasks: Collection[int], times: Times) -> float:
    """Return the busy time of some subtasks together, s/s."""
    shares = run.by_subtask(stage, "busy_ms_per_s", times)
    return sum(shares.get(subtask, 0.0) for subtask in subtasks) / 1000
