"""What the subtasks of a stage do: who has more, who waits, what a stage could do evenly loaded.

What follows a disturbance is catching up, which is a part of it; and so is catching up with another
stage that stood still. The rest is the time in which the stage is steadily too slow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, Literal

from flowcontrol.analysis.causes.disturbances import Disturbances, Key
from flowcontrol.analysis.causes.run import Run, Times
from flowcontrol.analysis.wording import join_words, percent
from flowcontrol.protocol.monitoring import LOW_ABOVE


@dataclass(frozen=True)
class Parts:
    """The samples in which a stage limits, by why."""

    # Samples; all but the last with the time of catching up after (s).
    stalled: Times
    checkpoint: Times
    aligned: Times
    steady: Times
    # Samples in which it took nothing up, in which its writing for a checkpoint slowed it, and in
    # which it waited for barriers beside input (s).
    still: Times
    written: Times
    held: Times
    subtasks: frozenset[int]  # Those that stood still
    slowed: float  # Share of its progress that checkpoints took, mean over ``written`` (ratio)


def parts_of(run: Run, stage: str, times: Times, disturbed: Mapping[str, Disturbances]) -> Parts:
    """Return why a stage limited, interval by interval.

    ``times`` (s): samples in whose intervals it does.
    """
    own = disturbed[stage]
    kinds = {t_s: "other" for name in _connected(run, stage) for t_s in _all(disturbed, name)}
    kinds |= {t_s: "aligned" for t_s, _ in own.held}
    kinds |= {t_s: "checkpoint" for t_s, _ in own.slowed}
    kinds |= {t_s: "stalled" for t_s, _ in own.still}
    found = _followed(run, stage, times, kinds)
    lost = own.slowed.values()
    return Parts(
        stalled=frozenset(found["stalled"]),
        checkpoint=frozenset(found["checkpoint"]),
        aligned=frozenset(found["aligned"]),
        steady=frozenset(found["steady"]),
        still=frozenset(t_s for t_s, _ in own.still),
        written=frozenset(t_s for t_s, _ in own.slowed),
        held=frozenset(t_s for t_s, _ in own.held),
        subtasks=_most_often(own.still),
        slowed=sum(lost) / len(lost) if lost else 0.0,
    )


def _connected(run: Run, stage: str) -> list[str]:
    return [*run.scenario.upstream(stage), *run.scenario.downstream(stage)]


def _all(disturbed: Mapping[str, Disturbances], stage: str) -> set[float]:
    """Return the samples in which a stage is disturbed."""
    found = disturbed.get(stage)
    if found is None:
        return set()
    return {t_s for t_s, _ in [*found.still, *found.slowed, *found.held]}


def _followed(
    run: Run, stage: str, times: Times, kinds: Mapping[float, str]
) -> Mapping[str, set[float]]:
    """Return the limited samples by kind: the disturbed ones, those just before and after."""
    found: dict[str, set[float]] = {
        name: set() for name in ("stalled", "checkpoint", "aligned", "other", "steady")
    }
    near = [run.limited.get(name, frozenset()) for name in _connected(run, stage)]
    active = times.union(*near)
    latest, since, was_active = "steady", 0, False
    before, level = 0.0, 0.0
    for t_s, coming in zip_longest(run.lengths, [*run.lengths][1:]):
        is_limited = t_s in times
        since += 1
        if t_s in kinds:
            if latest == "steady":
                level = _lag(run, stage, before)
            latest, since = kinds[t_s], 0
        elif t_s not in active and not was_active:
            latest = "steady"  # all have caught up
        elif latest != "steady" and is_limited and since > 1 and _overloaded(run, stage, t_s):
            latest = "steady"
        elif 0 < _lag(run, stage, t_s) <= level:
            latest = "steady"  # what it was behind before is not of the disturbance
        if is_limited:  # a stall that begins within an interval shows in the next one
            found[latest if latest != "steady" else kinds.get(coming, latest)].add(t_s)
        before, was_active = t_s, t_s in active
    return found


def _overloaded(run: Run, stage: str, t_s: float) -> bool:
    """Tell whether a stage that nothing disturbs any more still cannot keep up.

    Its sources are blocked or, if they read logs, fall further behind. Stages in between may be
    blocked until what waits in their buffers is worked off.
    """
    scenario = run.scenario
    above = [source.name for source in scenario.sources_of(stage)]
    if any(scenario.stage(name).reads_log for name in above):
        return _lag_grows(run, stage, t_s)
    return any(
        run.worst(name, "backpressured_ms_per_s", (t_s,)) > 1000 * LOW_ABOVE for name in above
    )


def _lag(run: Run, stage: str, t_s: float) -> float:
    """Return how many records wait in the logs above a stage."""
    above = [source.name for source in run.scenario.sources_of(stage)]
    logs = [name for name in above if run.scenario.stage(name).reads_log]
    return sum(run.total(name, "lag_records", (t_s,)) for name in logs)


def _lag_grows(run: Run, stage: str, t_s: float) -> bool:
    times = [*run.lengths]
    before = times[max(0, times.index(t_s) - 1)]
    return _lag(run, stage, t_s) > _lag(run, stage, before) or before == t_s


def _most_often(still: Collection[Key]) -> frozenset[int]:
    """Return the subtasks that stood still at least half as often as the one that most did."""
    counts: dict[int, int] = {}
    for _, subtask in still:
        counts[subtask] = counts.get(subtask, 0) + 1
    most = max(counts.values(), default=0)
    return frozenset(subtask for subtask, count in counts.items() if 2 * count >= most)


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
