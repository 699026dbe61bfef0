"""From stages as written to stages as meant: rates per subtask, stalls, record sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.errors import Problem
from flowcontrol.scenario.graph import in_order
from flowcontrol.scenario.models import Stall
from flowcontrol.scenario.schedule import MICROSECONDS, Phase, Schedule
from flowcontrol.scenario.spec import EdgeSpec, PhaseSpec, StageSpec

__all__ = [
    "DEFAULT_RECORD_BYTES",
    "StageRates",
    "expand_stage_rates",
    "expand_stalls",
    "resolve_record_bytes",
    "service_time_cv",
]

DEFAULT_RECORD_BYTES = 1024
"""Bytes of a source's records if it does not say: 32 records in a default buffer."""

DEFAULT_VARIATION = 1.0
"""Standard deviation / mean of lognormal times: that of exponential ones, for comparison."""

Stages = Sequence[tuple[int, StageSpec]]


@dataclass(frozen=True)
class StageRates:
    """What the subtasks of a stage may emit and can process; None where nothing is stated."""

    emit: tuple[Schedule, ...] | None
    service: tuple[Schedule, ...] | None


def expand_stage_rates(index: int, stage: StageSpec, problems: list[Problem]) -> StageRates:
    """Return both rates of the stage at a position, one schedule a subtask."""
    place = f"stages[{index}]"
    return StageRates(
        emit=_expand(stage.emit_rate, stage.parallelism, f"{place}.emit_rate", problems),
        service=_expand(stage.service_rate, stage.parallelism, f"{place}.service_rate", problems),
    )


def _expand(
    rates: object, parallelism: int, place: str, problems: list[Problem]
) -> tuple[Schedule, ...] | None:
    """Return one schedule a subtask; None if nothing was written, or something is wrong."""
    if rates is None:
        return None
    if rates == ():
        problems.append(Problem(place, "[] is empty: write a rate, or one for each subtask"))
        return None
    if not isinstance(rates, tuple) or isinstance(rates[0], PhaseSpec):
        one = _schedule(rates, place, problems)
        return None if one is None else (one,) * parallelism
    if len(rates) != parallelism:
        text = f"{len(rates)} for {parallelism} subtasks: write a rate for each, or one for all"
        problems.append(Problem(place, text))
        return None
    each = [_schedule(rate, f"{place}[{i}]", problems) for i, rate in enumerate(rates)]
    return tuple(schedule for schedule in each if schedule is not None)


def _schedule(rate: object, place: str, problems: list[Problem]) -> Schedule | None:
    """Return the schedule of a number or of phases; the first at 0, then one after the other."""
    if isinstance(rate, Fraction):
        return Schedule.constant(rate)
    phases = [phase for phase in rate if isinstance(phase, PhaseSpec)]  # type: ignore[attr-defined]
    last: Fraction | None = None
    for index, phase in enumerate(phases):
        at = f"{place}[{index}].at_s"
        if last is None and phase.at_s != 0:
            problems.append(
                Problem(at, f"{float(phase.at_s):g} is not 0: the first phase starts at_s: 0")
            )
            return None
        if last is not None and phase.at_s <= last:
            text = f"{float(phase.at_s):g} is not more than {float(last):g}, the phase before"
            problems.append(Problem(at, f"{text}: write the phases in the order of time"))
            return None
        last = phase.at_s
    return Schedule(
        phases=tuple(Phase(at_us=int(p.at_s * MICROSECONDS), rate=p.rate) for p in phases)
    )


def expand_stalls(index: int, stage: StageSpec, problems: list[Problem]) -> tuple[Stall, ...]:
    """Return the stalls of a stage, each with its subtasks."""
    stalls = []
    for k, stall in enumerate(stage.stalls):
        subtasks = tuple(range(stage.parallelism)) if stall.subtasks is None else stall.subtasks
        for subtask in subtasks:
            if subtask >= stage.parallelism:
                text = f"{subtask} is no subtask: there are {stage.parallelism}, from 0"
                problems.append(Problem(f"stages[{index}].stalls[{k}].subtasks", text))
        at_us, for_us = (int(s * MICROSECONDS) for s in (stall.at_s, stall.for_s))
        stalls.append(Stall(at_us=at_us, for_us=for_us, subtasks=subtasks))
    return tuple(stalls)


def service_time_cv(index: int, stage: StageSpec, problems: list[Problem]) -> float:
    """Return the coefficient of variation of a stage's service times; 1 if it states none."""
    if stage.service_time_cv is None:
        return DEFAULT_VARIATION
    stated = float(stage.service_time_cv)
    if stage.service_time != "lognormal":
        text = (
            f"{stated:g}: {stage.service_time} times take no coefficient of variation: "
            "take it out, or write service_time: lognormal"
        )
        problems.append(Problem(f"stages[{index}].service_time_cv", text))
    return stated


def resolve_record_bytes(
    stages: Stages, edges: Sequence[EdgeSpec], problems: list[Problem]
) -> Mapping[str, int]:
    """Return the record size of each stage of an acyclic job, in bytes.

    A stage's own size counts; else that of what it reads; else, of a source, the default. A
    sink sends nothing, so its inputs may differ; the largest of them stands for it.
    """
    senders = {edge.sender for edge in edges}
    specs = {stage.name: (index, stage) for index, stage in stages}
    sizes: dict[str, int] = {}
    for name in in_order((edge.sender, edge.receiver) for edge in edges):
        index, stage = specs[name]
        inputs = {edge.sender: sizes[edge.sender] for edge in edges if edge.receiver == name}
        found = set(inputs.values())
        if stage.record_bytes is None and len(found) > 1 and name in senders:
            listed = ", ".join(f"{size} from {sender!r}" for sender, size in inputs.items())
            text = f"is missing, and its inputs differ ({listed} bytes): state the size it sends"
            problems.append(Problem(f"stages[{index}].record_bytes", text))
        sizes[name] = stage.record_bytes or max(found, default=DEFAULT_RECORD_BYTES)
    return sizes
