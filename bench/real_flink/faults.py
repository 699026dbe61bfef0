"""Failures of a scenario on a real Flink: what is planned, and the table ``restarts`` of a run.

Flink's own timestamps of every attempt say when tasks failed and ran again; the program notes what
its sources emit again, and every 10 ms what waits, from which it follows when a job has caught up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from placing import deployment, head_of, head_of_vertex

from flowcontrol.layout.fault_tolerance import Failover
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import TABLES
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.fault_tolerance import Failure, restart_policy_of

Figure = tuple[tuple[str, str, str], float]
"""Place, figure, unit; and the value."""

TOGETHER_MS = 100
"""Attempts that are made so shortly one after another are one restart."""

ANY_ROUND_US = 1000
"""Regions do not depend on rounds."""


def planned(scenario: Scenario) -> list[dict[str, Any]]:
    """Return what the program has fail, and when."""
    return [
        {
            "at_s": float(failure.at_s),
            "task_manager": failure.task_manager,
            "subtask": None if failure.stage is None else f"{failure.stage}/{failure.subtask}",
        }
        for failure in scenario.failures
    ]


def options(scenario: Scenario) -> dict[str, Any]:
    """Return Flink's options of restarts; without failures the program's own, which has none."""
    if not scenario.failures:
        return {}
    stated = scenario.options.canonical()
    own = {key: value for key, value in stated.items() if key.startswith("restart-strategy")}
    return {**own, "restart-strategy.type": restart_policy_of(scenario.options).name}


def refusals(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Yield what cannot fail on a MiniCluster: the place in the scenario, and why."""
    if not scenario.failures:
        return
    if scenario.has_event_time:
        yield "failures", "the program restores no windows; leave them or the event time out"
    for number, stage in enumerate(scenario.stages):
        if stage.requests is not None:
            text = "the program restores no requests; leave them or the failures out"
            yield f"stages[{number}].requests", text
        if not stage.replayable:
            text = "false: the program's sources rewind; leave it out"
            yield f"stages[{number}].replayable", text
    for number, failure in enumerate(scenario.failures):
        if failure.job_manager:
            text = "a MiniCluster has no second JobManager; have something else fail"
            yield f"failures[{number}].job_manager", text
        if failure.task_manager is not None and (text := _lasting(scenario, failure)):
            yield f"failures[{number}].task_manager", text


def _lasting(scenario: Scenario, failure: Failure) -> str | None:
    """Return why the end of a task manager is another one on a MiniCluster; None: it is not."""
    if not deployment(scenario).are_placed:
        return "Flink chooses where tasks run; put each stage on one task manager"
    assert failure.task_manager is not None
    breaks = Failover(_job(scenario)).breaks_connection(failure.task_manager, lambda _: True)
    if not breaks:
        return (
            "a MiniCluster says when one ends, instead of letting heartbeats fail; let another read"
        )
    return None


def _job(scenario: Scenario) -> Job:
    return build_physical_graph(scenario, round_us=ANY_ROUND_US)


def restarts_table(scenario: Scenario, found: Mapping[str, Any], start_ms: int) -> pa.Table:
    """Return the table ``restarts``.

    Parameters
    ----------
    scenario : Scenario
        What ran.
    found : mapping
        What the program wrote: ``attempts`` of each subtask of each vertex, when they were made,
        ran and ended, ms since 1970; ``restored`` (subtask, when, s, records emitted before and
        then, checkpoint); ``subtasks`` and their ``samples`` (when, s; taken, emitted, lag).
    start_ms : int
        When sources began, ms since 1970.
    """
    rows: list[dict[str, Any]] = []
    fresh, waves = list(scenario.failures), list(_waves(found["attempts"]))
    for wave in waves:
        made_s = _seconds(wave.made_ms, start_ms)
        own = [one for one in fresh if one.at_s <= made_s and wave.tasks & _victims(scenario, one)]
        fresh = [one for one in fresh if one not in own]
        if own:
            rows.append(_restart(scenario, found, wave, own, start_ms) | {"number": len(rows) + 1})
    if found["failed_ms"] is not None:
        rows.append(
            {
                "number": len(rows) + 1,
                "failed_s": float(fresh[0].at_s),
                "cause": fresh[0].victim,
                "detected_s": _seconds(found["failed_ms"], start_ms),
                "tasks": 0,
            }
        )
    schema = TABLES["restarts"].arrow_schema()
    return pa.Table.from_pylist(rows, pa.schema([one.with_nullable(True) for one in schema]))


def _seconds(ms: float, start_ms: int) -> float:
    return round((ms - start_ms) / 1000, 3)


class _Wave(NamedTuple):
    """The attempts of a restart, which are made at the same time; ms since 1970."""

    made_ms: int
    ended_ms: int  # When the first of the attempts before ended
    ran_ms: int | None  # When the last of them ran; None: one never did
    tasks: set[str]


def _waves(attempts: Mapping[str, Sequence[Sequence[int]]]) -> Iterator[_Wave]:
    """Yield the restarts of a run, in order."""
    again = sorted(
        (*two[1], two[0][2], _task(name)) for name, own in attempts.items() for two in pairwise(own)
    )
    while again:
        last = 1
        while last < len(again) and again[last][0] <= again[last - 1][0] + TOGETHER_MS:
            last += 1
        own, again = again[:last], again[last:]
        ran = [one[1] for one in own]
        ran_ms = max(ran) if min(ran) > 0 else None
        yield _Wave(own[0][0], min(one[3] for one in own), ran_ms, {one[4] for one in own})


def _task(name: str) -> str:
    vertex, _, subtask = name.rpartition("/")
    return f"{head_of_vertex(vertex)}/{subtask}"


def _task_of(scenario: Scenario, name: str) -> str:
    stage, _, subtask = name.rpartition("/")
    return f"{head_of(scenario, stage)}/{subtask}"


def _victims(scenario: Scenario, failure: Failure) -> set[str]:
    """Return the tasks that a failure takes with it: the first stage and the subtask of each."""
    job = _job(scenario)
    names = [f"{plan.name}/{index}" for plan, index in job.subtasks]
    return {names[task] for task in Failover(job).victims(failure)}


def _restart(
    scenario: Scenario, found: Mapping[str, Any], wave: _Wave, own: Sequence[Failure], start_ms: int
) -> dict[str, Any]:
    """Return what is known of a restart for some failures."""
    failed_s, made_s = float(own[0].at_s), _seconds(wave.made_ms, start_ms)
    row: dict[str, Any] = {
        "failed_s": failed_s,
        "cause": " and ".join(one.victim for one in own),
        "detected_s": _seconds(wave.ended_ms, start_ms),
        "restarted_s": made_s,
        "tasks": len(wave.tasks),
    }
    later = (
        float(one.at_s)
        for one in scenario.failures
        if one.at_s > own[-1].at_s and _victims(scenario, one) & wave.tasks
    )
    until_s = min(later, default=scenario.duration_s)
    kept = [
        one
        for one in found["restored"]
        if one[1] >= made_s and _task_of(scenario, one[0]) in wave.tasks
    ]
    kept = [one for one in kept if one[1] == min(o[1] for o in kept if o[0] == one[0])]
    if wave.ran_ms is None or not kept:
        return row
    ran_s, begun_s = _seconds(wave.ran_ms, start_ms), max(one[1] for one in kept)
    kept = [one for one in kept if not scenario.inputs(one[0].rpartition("/")[0])]
    sources = [one[0] for one in kept]
    return row | {
        "running_s": ran_s,
        "checkpoint_id": max(one[4] for one in kept),
        "records_reprocessed": sum(one[2] - one[3] for one in kept),
        "caught_up_s": _caught_up_s(
            *(scenario, found, failed_s, max(ran_s, begun_s), sources, until_s)
        ),
    }


def _caught_up_s(
    scenario: Scenario,
    found: Mapping[str, Any],
    failed_s: float,
    ran_s: float,
    sources: Sequence[str],
    until_s: float,
) -> float | None:
    """Return when no more records waited than at the failure; None: not in this run.

    As in the emulation (`flowcontrol.control.failures`), but for what an open buffer holds: records
    are in channels until they are taken up, so the least of a buffer timeout is what waits.
    """
    names, times = list(found["subtasks"]), [row[0] for row in found["samples"]]
    in_flight = [_in_flight(scenario, names, row[1]) for row in found["samples"]]
    within_s = max(0, scenario.options.flush_interval_us) / 1e6

    def least(begin: int, end: int) -> int:
        return min(in_flight[max(begin, bisect_left(times, times[end] - within_s)) : end + 1])

    at, first = max(0, bisect_left(times, failed_s) - 1), bisect_left(times, ran_s)
    before = dict(zip(names, found["samples"][at][1], strict=True))
    for number in range(first, bisect_left(times, until_s)):
        now = dict(zip(names, found["samples"][number][1], strict=True))
        missing = least(first, number) - least(0, at)
        for source in sources:
            then, own = before[source], now[source]
            missing += own[2] - then[2] if then[2] >= 0 else max(0, then[1] - own[1])
        if missing <= 0:
            return float(times[number])
    return None


def _in_flight(scenario: Scenario, names: Sequence[str], rows: Sequence[Sequence[int]]) -> int:
    """Return how many records were sent and not taken up."""
    sums: dict[str, list[int]] = {}
    for name, row in zip(names, rows, strict=True):
        own = sums.setdefault(name.rpartition("/")[0], [0, 0])
        own[0] += row[0]
        own[1] += row[1]
    held = 0
    for edge in scenario.edges:
        copies = scenario.stage(edge.receiver).parallelism if edge.partitioner == "broadcast" else 1
        held += copies * sums[edge.sender][1]
    return held - sum(sums[one.name][0] for one in scenario.stages if scenario.inputs(one.name))


def figures(tables: Mapping[str, pa.Table]) -> Iterator[Figure]:
    """Yield what each restart cost: time without tasks, records again, time to catch up."""
    for row in tables["restarts"].to_pylist():
        place = f"failure {row['number']}"
        if row["running_s"] is None:
            if row["tasks"] == 0:
                yield (place, "job failed", "s"), row["detected_s"]
            continue
        yield (place, "tasks", "subtasks"), row["tasks"]
        yield (place, "downtime", "s"), row["running_s"] - row["failed_s"]
        yield (place, "processed again", "records"), row["records_reprocessed"] or 0
        if row["caught_up_s"] is not None:
            yield (place, "catching up", "s"), row["caught_up_s"] - row["running_s"]
