"""What rows enter and leave a job: inputs of sources, outputs of sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.graph import in_order
from flowcontrol.scenario.inputs import locate, read_columns
from flowcontrol.scenario.models import Input, Output
from flowcontrol.scenario.problems import known, show
from flowcontrol.scenario.spec import EdgeSpec, StageSpec

__all__ = ["Replayed", "carried", "resolve_input", "resolve_output"]

Replayed = tuple[Input, tuple[str, ...]]
"""An input and the names of its columns."""

_RESERVED: Final = frozenset({"stages", "channels", "latency", "links", "checkpoints"})
"""Folders of a run that hold its results and its state (design, sections 6 and 7)."""


def resolve_input(
    index: int, stage: StageSpec, base: Path, problems: list[Problem]
) -> Replayed | None:
    """Return the input of a stage with its columns; None without one, or if it is refused."""
    place = f"stages[{index}].input"
    spec = stage.input
    if spec is None:
        return None
    try:
        path = locate(spec.path, base)
        columns = read_columns(spec.format, path)
    except ValueError as error:
        problems.append(Problem(f"{place}.path", str(error)))
        return None
    if spec.key is not None and spec.key not in columns:
        problems.append(Problem(f"{place}.key", known(spec.key, columns, "column")))
    return Input(format=spec.format, path=path, key=spec.key), columns


def resolve_output(
    index: int, stage: StageSpec, taken: dict[str, str], problems: list[Problem]
) -> Output | None:
    """Return the output of a stage, its path relative to the run's folder.

    Parameters
    ----------
    index : int
        Position of the stage.
    stage : StageSpec
        As written.
    taken : dict of str to str
        Paths of the outputs so far and their stages; grows by this one.
    problems : list of Problem
        Grows by everything that is wrong.

    Returns
    -------
    Output or None
        None without one.
    """
    if stage.output is None:
        return None
    path = PurePosixPath(stage.output.path or f"output/{stage.name}")
    fault = _fault_of(path, taken)
    if fault:
        rule = "name a folder of its own inside the run's folder, as output/" + stage.name
        text = f"{show(str(path))} {fault}: {rule}"
        problems.append(Problem(f"stages[{index}].output.path", text))
    taken[str(path)] = stage.name
    return Output(path=str(path))


def _fault_of(path: PurePosixPath, taken: Mapping[str, str]) -> str:
    """Say why a path is no good for an output; nothing if it is."""
    if path.is_absolute() or ".." in path.parts or not path.parts or ":" in str(path):
        return "leaves the run's folder"
    if path.parts[0].lower() in _RESERVED or path.suffix in {".json", ".html"}:
        return "is where a run keeps its own results"
    for other, stage in taken.items():
        theirs = PurePosixPath(other)
        if path.is_relative_to(theirs) or theirs.is_relative_to(path):
            return f"lies in the output of {stage!r} ({other}), or holds it"
    return ""


def carried(
    edges: Sequence[EdgeSpec], replayed: Mapping[str, Replayed | None]
) -> dict[str, Replayed | None]:
    """Return the real rows that each stage sends on.

    Parameters
    ----------
    edges : sequence of EdgeSpec
        Of an acyclic job.
    replayed : mapping of str to (Input, columns), or None
        By source.

    Returns
    -------
    dict of str to (Input, columns), or None
        By stage; None if it sends made rows, or rows of different columns meet in it.
    """
    rows: dict[str, Replayed | None] = {}
    for name in in_order((edge.sender, edge.receiver) for edge in edges):
        senders = [edge.sender for edge in edges if edge.receiver == name]
        found = [rows[sender] for sender in senders] or [replayed.get(name)]
        columns = {None if each is None else each[1] for each in found}
        rows[name] = found[0] if len(columns) == 1 else None
    return rows
