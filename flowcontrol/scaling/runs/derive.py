"""The scenario of one epoch: new parallelisms, shifted times, and logs with the backlog.

An epoch begins, by its own clock, when the oldest record was written that waits for it. Until the
job runs again its sources stand still, while what is written to their logs goes on: so a record
that waited has its true age, and the time in which nothing ran is part of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.clocks import placed_by_hand
from flowcontrol.scenario.request_parts import LatencyPhase
from flowcontrol.scenario.scaling_models import MOST_PARALLELISM
from flowcontrol.scenario.schedule import MICROSECONDS, Schedule
from flowcontrol.scenario.stage_models import Stage

# --- What a controller may scale in a scenario: a stage, or a chain of them, under its head's name.


@dataclass(frozen=True)
class Vertex:
    """A stage with those that are chained to it."""

    name: str  # Of the head
    stages: tuple[str, ...]  # The head first
    inputs: dict[str, str]  # Vertices that send to it, and by which partitioner
    is_source: bool  # Whether nobody does
    # Whether another number of subtasks means something: of a source that reads a log, or whose
    # ``total_rate`` they share.
    scales: bool
    max_parallelism: int  # Most subtasks: as many as Flink gives it key groups


def vertices_of(scenario: Scenario) -> dict[str, Vertex]:
    """Return the vertices of a job by name, senders first."""
    head_of: dict[str, str] = {}
    for stage in scenario.topological():
        onto = next((e.sender for e in scenario.inputs(stage.name) if e.chain), None)
        head_of[stage.name] = stage.name if onto is None else head_of[onto]
    found = {}
    for name in dict.fromkeys(head_of.values()):
        stages = tuple(one for one, head in head_of.items() if head == name)
        inputs = {head_of[e.sender]: str(e.partitioner) for e in scenario.inputs(name)}
        head = scenario.stage(name)
        scales = bool(inputs) or head.reads_log or head.is_total_divided
        most = max(MOST_PARALLELISM, head.parallelism)
        found[name] = Vertex(name, stages, inputs, not inputs, scales, most)
    return found


def outputs_of(scenario: Scenario, vertex: Vertex) -> Iterator[tuple[Stage, float]]:
    """Yield the stages of a vertex whose output leaves it.

    With each, how many records it puts out for each that the vertex takes in.
    """
    ratios: dict[str, float] = {}
    for name in vertex.stages:
        onto = next((e.sender for e in scenario.inputs(name) if e.chain), None)
        before = 1.0 if onto is None else ratios[onto]
        ratios[name] = before * scenario.stage(name).selectivity
        if any(not edge.chain for edge in scenario.outputs(name)):
            yield scenario.stage(name), ratios[name]


_RATES = ("emit_rate", "arrival_rate", "service_rate", "total_rate", "total_arrival_rate")

Offsets = Mapping[str, Sequence[Fraction]]
"""By source with a log: records that each subtask has had from it since the start of the run."""


def shares(stage: Stage, width: int, partitions: int | None) -> list[Fraction]:
    """Return the part of a log that each of so many subtasks reads.

    With partitions they read them in turn; else the log is divided evenly.
    """
    if partitions is None:
        return [Fraction(1, width)] * width
    counts = [len(range(subtask, partitions, width)) for subtask in range(width)]
    return [Fraction(count, partitions) for count in counts]


def arrivals(stage: Stage, width: int, partitions: int | None) -> list[Schedule]:
    """Return what is written for each of so many subtasks of a source with a log."""
    own = stage.arrival_rate or ()
    if partitions is None and width == stage.parallelism:
        return list(own)
    if stage.total_arrival_rate is not None:
        whole = stage.total_arrival_rate
    else:
        whole = own[0].times(Fraction(stage.parallelism))
    return [whole.times(share) for share in shares(stage, width, partitions)]


def moved(
    stage: Stage, width: int, partitions: int | None, offsets: Sequence[Fraction]
) -> list[Fraction]:
    """Return the offsets of so many subtasks that go on where others were."""
    if len(offsets) == width:
        return list(offsets)
    whole = sum(offsets, Fraction(0))
    return [whole * share for share in shares(stage, width, partitions)]


@dataclass(frozen=True)
class Derived:
    """The scenario of an epoch."""

    scenario: Scenario  # Without a controller; its time 0 is ``origin_us``
    origin_us: int  # When that is, microseconds since the start of the run: a sample
    offsets: dict[str, list[Fraction]]  # By source with a log: what its subtasks have had before


def derive(
    scenario: Scenario, widths: Mapping[str, int], offsets: Offsets, begins_us: int, running_us: int
) -> Derived:
    """Return the scenario of an epoch.

    Raises ScenarioError if the job does not fit the cluster at these parallelisms.
    """
    partitions = {} if scenario.scaling is None else scenario.scaling.partitions
    logs = {stage.name: stage for stage in scenario.sources if stage.reads_log}
    written, had, first_us = {}, {}, begins_us
    for name, stage in logs.items():
        width, count = widths[name], partitions.get(name)
        written[name] = arrivals(stage, width, count)
        had[name] = moved(stage, width, count, offsets.get(name, [Fraction(0)] * width))
        for schedule, offset in zip(written[name], had[name], strict=True):
            first_us = min(first_us, _waits_us(schedule, offset, begins_us))
    every_us = scenario.sample_interval_us
    origin_us = first_us // every_us * every_us
    mapping = _mapping(scenario, widths, origin_us)
    for row in mapping["stages"]:
        stage, width = scenario.stage(row["name"]), widths[row["name"]]
        _put_times(row, stage, width, origin_us)
        if row["name"] in logs:
            row["arrival_rate"] = [
                _written(schedule.without([(0, waits)] if waits else []).after(origin_us))
                for schedule, offset in zip(written[stage.name], had[stage.name], strict=True)
                for waits in [_waits_us(schedule, offset, begins_us)]
            ]
        if not scenario.inputs(stage.name) and running_us > origin_us:
            every = {"subtasks": list(range(width))}
            wait = {"at_s": 0, "for_s": _seconds(running_us - origin_us), **every}
            row["stalls"] = [wait, *row.get("stalls", ())]
    return Derived(parse_scenario(mapping, scenario.name), origin_us, had)


def _waits_us(schedule: Schedule, offset: Fraction, begins_us: int) -> int:
    """Return from when on a log holds what its subtask has not had; no later than an epoch."""
    found = schedule.reached_us(offset)
    return begins_us if found is None else min(found, begins_us)


def _mapping(scenario: Scenario, widths: Mapping[str, int], origin_us: int) -> dict[str, Any]:
    """Return the file of a scenario with other parallelisms, its times still to be put in."""
    mapping = scenario.canonical()
    mapping.pop("scaling", None)
    mapping["duration_s"] = _seconds(scenario.duration_us - origin_us)
    placed = placed_by_hand(scenario)
    for row in mapping["stages"]:
        row["parallelism"] = widths[row["name"]]
        if row["name"] not in placed:
            row.pop("placement", None)
        for key in _RATES:
            row.pop(key, None)
    for row in mapping["edges"]:
        # Flink's StreamTask replaces forward where an override of the parallelism breaks it; the
        # channels stay pointwise, so that is rescale.
        if row["partitioner"] == "forward" and widths[row["from"]] != widths[row["to"]]:
            row["partitioner"] = "rescale"
    slots = scenario.cluster.slots
    if slots is not None:
        needed = -(-max(widths.values()) // slots)
        own = mapping["cluster"]
        own["task_managers"] = max(scenario.cluster.task_managers, needed)
    if scenario.options.checkpoint_interval_us is None:
        mapping["savepoints"] = [{"at_s": 0, "stop": True}]
    return mapping


def _put_times(row: dict[str, Any], stage: Stage, width: int, origin_us: int) -> None:
    """Give the row of a stage its rates and stalls, from the origin on.

    A new subtask is as fast as the others, unless all share what an external service takes.
    """
    rates = stage.service_rate if stage.emit_rate is None else stage.emit_rate
    key = "service_rate" if stage.emit_rate is None else "emit_rate"
    is_shared = stage.is_source or stage.external or width == stage.parallelism
    if is_shared and rates is not None and stage.is_total_divided and stage.total_rate is not None:
        row["total_rate"] = _written(stage.total_rate.after(origin_us))
    elif rates is not None:
        own = rates if width == stage.parallelism else (rates[0],) * width
        row[key] = [_written(schedule.after(origin_us)) for schedule in own]
    every = tuple(range(stage.parallelism))
    stalls = []
    for stall in stage.stalls:
        begin, end = (moment - origin_us for moment in stall.span)
        if end > 0:
            hit = range(width) if stall.subtasks == every else stall.subtasks
            begin = max(0, begin)
            one = {"at_s": _seconds(begin), "for_s": _seconds(end - begin)}
            stalls.append({**one, "subtasks": list(hit)})
    if stage.requests is not None:
        row["requests"]["latency_ms"] = _phases(stage.requests.latency_ms, origin_us)
    row.pop("stalls", None)
    if stalls:
        row["stalls"] = stalls


def _phases(latency: Sequence[LatencyPhase], origin_us: int) -> list[dict[str, Fraction]]:
    """Return what a request takes from the origin on."""
    moved = [{"at_s": phase.at_s - _seconds(origin_us), "ms": phase.ms} for phase in latency]
    over = [phase for phase in moved if phase["at_s"] <= 0]
    return [{**over[-1], "at_s": Fraction(0)}, *moved[len(over) :]]


def _written(schedule: Schedule) -> list[dict[str, Fraction]]:
    return [{"at_s": _seconds(phase.at_us), "rate": phase.rate} for phase in schedule.phases]


def _seconds(us: int) -> Fraction:
    return Fraction(us, MICROSECONDS)
