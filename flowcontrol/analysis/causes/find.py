"""The causes of a run, from its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from flowcontrol.analysis.causes.cause import Cause
from flowcontrol.analysis.causes.disturbances import Disturbances, disturbances_of
from flowcontrol.analysis.causes.exchanges import exchange_causes
from flowcontrol.analysis.causes.pace import throttled, unlimited
from flowcontrol.analysis.causes.run import Run, Times
from flowcontrol.analysis.causes.stages import LASTING, stage_causes
from flowcontrol.analysis.frames import Tables
from flowcontrol.analysis.limits import Limits, find_limits
from flowcontrol.analysis.round_trips import ROUND
from flowcontrol.analysis.wording import throttle_name
from flowcontrol.scenario import Scenario


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
