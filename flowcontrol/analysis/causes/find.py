"""The causes of a run, from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from flowcontrol.analysis.causes.disturbances import Disturbances, disturbances_of
from flowcontrol.analysis.causes.exchanges import exchange_causes
from flowcontrol.analysis.causes.run import Cause, Run, Times
from flowcontrol.analysis.causes.stages import LASTING, stage_causes
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.limits import Limits, find_limits
from flowcontrol.analysis.waits import ROUND
from flowcontrol.analysis.wording import percent, seconds, throttle_name
from flowcontrol.scenario import Scenario

SPARE: Final = 0.5
"""Busy share of the busiest stage behind a source up to which that source gives little to do."""


def throttled(run: Run, times: Times) -> Cause:
    """Return the cause for sources that a throttle holds back while nothing is saturated.

    ``times`` (s): samples in whose intervals it does.
    """
    name = run.scenario.system.throttle
    shares = {
        source.name: run.worst(source.name, "backpressured_ms_per_s", times) / 1000
        for source in run.scenario.sources
    }
    held = max(shares, key=lambda source: shares[source])
    top, busy = _busiest(run, times)
    text = (
        f"The throttle {name} held {held} back {percent(shares[held])} of the time, while {top}, "
        f"the busiest stage after it, was busy {percent(busy)} (stages, {run.span(times)})."
    )
    return Cause(
        stage=held,
        subtask=None,
        cause="throttle",
        evidence=(text,),
        confidence=round(0.95 - 0.3 * max(0.0, busy - SPARE), 2),
        reason="the source could emit more, and what comes after it has time to spare",
        advice="give the throttle larger limits or a quicker reaction",
        limited_s=run.length(times),
    )


def unlimited(run: Run) -> Cause:
    """Return the cause where nothing limits for long: the sources set the pace, or all is well."""
    times = frozenset(run.lengths)
    if not times:
        text = "The run ended before its first sample."
        return Cause(None, None, "none", (text,), 0.0, reason="nothing was measured")
    scenario = run.scenario
    top, busy = _busiest(run, times)
    rates = {one.name: run.total(one.name, "rate_out", times) for one in scenario.sources}
    most = max(rates, key=lambda name: rates[name])
    after = f"{top}, the busiest stage after it, was busy {percent(busy)} of the time"
    short = _limited_shortly(run)
    if all(scenario.stage(name).reads_log for name in rates):
        text = f"All that was written to the logs was read; {after} (stages, {run.span(times)})."
        why = "a log shows what was to be read, and no more waited than is on its way"
        return Cause(None, None, "none", (text, *short), 0.95, reason=why)
    if busy <= SPARE:
        text = (
            f"{most} emitted {rates[most]:,.0f} records/s at its own pace and was not held back; "
            f"{after} (stages, {run.span(times)})."
        )
        return Cause(
            stage=most,
            subtask=None,
            cause="source",
            evidence=(text, *short),
            confidence=round(0.6 + 0.3 * (1 - busy / SPARE), 2),
            reason="nobody can see in these figures whether there was more to emit",
            advice="let it emit more: what comes after it has time to spare",
        )
    text = f"Nothing was blocked for long; {after} (stages, {run.span(times)})."
    why = "the sources set the pace, and what follows keeps up"
    return Cause(
        None, None, "none", (text, *short), round(0.95 - 0.3 * (busy > 0.9), 2), reason=why
    )


def _busiest(run: Run, times: Times) -> tuple[str, float]:
    """Return the busiest stage after the sources, and its share, ratio."""
    scenario = run.scenario
    later = [stage.name for stage in scenario.stages if scenario.inputs(stage.name)]
    busy = {name: run.worst(name, "busy_ms_per_s", times) / 1000 for name in later}
    top = max(busy, key=lambda name: busy[name])
    return top, busy[top]


def _limited_shortly(run: Run) -> list[str]:
    lengths = {name: run.length(times) for name, times in run.limited.items()}
    if not lengths:
        return []
    name = max(lengths, key=lambda one: lengths[one])
    total = seconds(run.total_s)
    return [f"{name} limited for {seconds(lengths[name])} of {total} s, too short to matter."]


def find_causes(tables: Tables, scenario: Scenario, limits: Limits | None = None) -> list[Cause]:
    """Return why a run was slow.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` and ``channels`` of the run; ``checkpoint_tasks``, ``time`` and ``processes`` if
        it has them.
    scenario : Scenario
        What was run. Only what a user of a real job knows of it is read: graph, placement,
        machines and options, no rates and nothing that was planted.
    limits : sequence, optional
        Those of ``find_limits``, if they are known.

    Returns
    -------
    list of Cause
        The strongest first: what limited for longest. One with the cause ``none`` or ``source`` if
        nothing limited; none if the length of the rounds limited, which says nothing of the job.
    """
    run = Run(tables, scenario, find_limits(tables, scenario) if limits is None else limits)
    stages = {stage.name for stage in scenario.stages}
    disturbed = {name: disturbances_of(run, name) for name in run.limited if name in stages}
    found: list[Cause] = []
    of_round = [interval.t_s for interval, names in run.limits if ROUND in names[:1]]
    if run.length(of_round) >= LASTING * run.total_s > 0:
        return []
    for name, times in run.limited.items():
        if name != ROUND and run.length(times) >= LASTING * run.total_s:
            found.extend(_causes_of(run, name, times, disturbed))
    return _ordered(run, _merged(found)) or [unlimited(run)]


def _causes_of(
    run: Run, name: str, times: Times, disturbed: Mapping[str, Disturbances]
) -> Iterator[Cause]:
    """Yield why a stage, an edge or a throttle limits."""
    scenario = run.scenario
    edges = {edge.name: edge for edge in scenario.edges}
    if name in edges:
        yield from exchange_causes(run, edges[name], times)
    elif name == throttle_name(scenario):
        yield throttled(run, times)
    else:
        yield from stage_causes(run, name, times, disturbed)


def _merged(causes: list[Cause]) -> list[Cause]:
    """Return causes with those of one stage, subtask and word as one, its evidence together.

    Stages of a task manager that stand still at the same times are one cause, too.
    """
    found: dict[tuple[str | None, int | None, str], Cause] = {}
    for cause in causes:
        key = (cause.stage, cause.subtask, cause.cause)
        if key in found:
            evidence = dict.fromkeys([*found[key].evidence, *cause.evidence])
            longest = max(found[key], cause, key=lambda one: one.limited_s)
            cause = replace(longest, evidence=tuple(evidence))
        found[key] = cause
    return [one for one in found.values() if one.cause != "stall" or one in _apart(found.values())]


def _apart(causes: Iterable[Cause]) -> list[Cause]:
    """Return the stalls of which none is that of another one's task manager, the longest first."""
    kept: list[Cause] = []
    for one in sorted(causes, key=lambda cause: -cause.limited_s):
        if one.cause == "stall" and not any(one.stage in other.beside for other in kept):
            kept.append(one)
    return kept


def _ordered(run: Run, causes: list[Cause]) -> list[Cause]:
    """Return causes by how long they limited; of equal ones those of the bottleneck first."""
    firsts = [names[0] for _, names in run.limits if names]
    return sorted(
        causes, key=lambda one: (-round(one.limited_s, 6), -firsts.count(one.stage or ""))
    )
