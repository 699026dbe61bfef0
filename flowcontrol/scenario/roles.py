"""What a stage may state: a source emits, a sink writes, the others do neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flowcontrol.errors import Problem
from flowcontrol.scenario.problems import show
from flowcontrol.scenario.spec import EdgeSpec, StageSpec

__all__ = ["check_roles"]


def check_roles(
    stages: Sequence[tuple[int, StageSpec]], edges: Sequence[EdgeSpec], problems: list[Problem]
) -> None:
    """Refuse what a stage states beside its role, and a source that states no pace.

    Parameters
    ----------
    stages : sequence of (int, StageSpec)
        All stages, with their positions.
    edges : sequence of EdgeSpec
        All edges.
    problems : list of Problem
        Grows by everything that is wrong.
    """
    senders = {edge.sender for edge in edges}
    receivers = {edge.receiver for edge in edges}
    for index, stage in stages:
        check = _inner_problems if stage.name in receivers else _source_problems
        faults = [*check(stage), *(() if stage.name in senders else _sink_problems(stage))]
        if stage.name in senders and stage.output is not None:
            faults.append(
                ("output", f"{stage.name!r} has edges out of it: only a sink writes a table")
            )
        problems.extend(Problem(f"stages[{index}].{key}", text) for key, text in faults)


def _source_problems(stage: StageSpec) -> Iterable[tuple[str, str]]:
    name = stage.name
    if stage.emit_rate is None and stage.input is not None:
        yield "emit_rate", f"is missing: {name!r} replays rows, at a pace in records/s: state it"
    elif stage.emit_rate is None:
        yield "emit_rate", f"is missing: no edge leads to {name!r}, so it is a source: state it"
    if stage.service_rate is not None:
        yield "service_rate", f"{name!r} is a source and processes nothing: emit_rate is its pace"
    if stage.selectivity not in (None, 1):
        text = (
            f"{float(stage.selectivity or 0):g} is not 1: {name!r} is a source and takes no records"
        )
        yield "selectivity", text


def _inner_problems(stage: StageSpec) -> Iterable[tuple[str, str]]:
    if stage.emit_rate is not None:
        text = f"edges lead to {stage.name!r}: only a source emits by itself; use service_rate"
        yield "emit_rate", text
    if stage.input is not None:
        text = f"{show(stage.input.path)}: edges lead to {stage.name!r}: only a source replays rows"
        yield "input", text


def _sink_problems(stage: StageSpec) -> Iterable[tuple[str, str]]:
    if stage.selectivity not in (None, 1):
        selectivity = float(stage.selectivity or 0)
        text = f"{selectivity:g} is not 1: {stage.name!r} is a sink and sends nothing"
        yield "selectivity", text
