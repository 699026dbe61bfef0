"""The parts of a scenario file, each read by itself, so that one slip does not hide others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flowcontrol.errors import Problem
from flowcontrol.scenario.models import SystemSpec
from flowcontrol.scenario.options import NetworkOptions, read_options
from flowcontrol.scenario.presets import PRESETS
from flowcontrol.scenario.spec import ClusterSpec, EdgeSpec, HeadSpec, StageSpec
from flowcontrol.scenario.system import read_system
from flowcontrol.scenario.translate import read_part

__all__ = ["Parts", "read_parts"]

SpecT = TypeVar("SpecT", StageSpec, EdgeSpec)


@dataclass(frozen=True)
class Parts:
    """What could be read of a file.

    Attributes
    ----------
    head : HeadSpec or None
        The top of the file.
    cluster : ClusterSpec or None
        The machines.
    options : NetworkOptions or None
        Flink's options.
    system : SystemSpec
        Whose flow control.
    stages : list of (int, StageSpec)
        Those that could be read, with their positions in the file.
    edges : list of (int, EdgeSpec)
        Likewise.
    names : list of str
        Names of all stages, also of those that could not be read; empty for one without.
    links : list of (int, str, str)
        Position, sender and receiver of all edges that name both, likewise.
    is_whole : bool
        Every stage and every edge could be read.
    are_links_whole : bool
        Every edge is in ``links``.
    """

    head: HeadSpec | None = None
    cluster: ClusterSpec | None = None
    options: NetworkOptions | None = None
    system: SystemSpec = field(default_factory=SystemSpec)
    stages: list[tuple[int, StageSpec]] = field(default_factory=list)
    edges: list[tuple[int, EdgeSpec]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    links: list[tuple[int, str, str]] = field(default_factory=list)
    is_whole: bool = False
    are_links_whole: bool = False


def read_parts(mapping: object, problems: list[Problem]) -> Parts:
    """Read each part of a file.

    Parameters
    ----------
    mapping : object
        The file's content; a mapping if it is to be a scenario.
    problems : list of Problem
        Grows by everything that is wrong with a part by itself.

    Returns
    -------
    Parts
        What could be read.
    """
    head = read_part(HeadSpec, mapping, (), problems)
    if not isinstance(mapping, Mapping):
        return Parts()
    options = mapping.get("options", {})
    preset = PRESETS.get(str(mapping.get("system")))
    if preset is not None and isinstance(options, Mapping):
        options = {**options, **preset.options}
    raw_stages, raw_edges = _list(mapping, "stages"), _list(mapping, "edges")
    system = read_system(mapping.get("system", "flink"), problems)
    network = read_options(options, problems) if isinstance(options, Mapping) else None
    stages = _read_each(StageSpec, raw_stages, "stages", problems)
    edges = _read_each(EdgeSpec, raw_edges, "edges", problems)
    if system.transport == "chained":
        edges = [(i, edge.model_copy(update={"chain": True})) for i, edge in edges]
    links = [link for i, raw in enumerate(raw_edges) for link in _links(i, raw)]
    return Parts(
        head=head,
        cluster=read_part(ClusterSpec, mapping.get("cluster", {}), (), []),
        options=network,
        system=system,
        stages=stages,
        edges=edges,
        names=[_name(raw) for raw in raw_stages],
        links=links,
        is_whole=len(stages) == len(raw_stages) and len(edges) == len(raw_edges),
        are_links_whole=len(links) == len(raw_edges),
    )


def _list(mapping: Mapping[Any, Any], key: str) -> Sequence[Any]:
    value = mapping.get(key)
    return value if isinstance(value, list | tuple) else ()


def _name(raw: object) -> str:
    """Return the name of a stage; empty if it has none that an edge could mean."""
    name = raw.get("name") if isinstance(raw, Mapping) else None
    return name if isinstance(name, str) else ""


def _links(index: int, raw: object) -> Iterator[tuple[int, str, str]]:
    """Yield position and stages of an edge if it names both."""
    if isinstance(raw, Mapping):
        sender, receiver = raw.get("from"), raw.get("to")
        if isinstance(sender, str) and isinstance(receiver, str):
            yield index, sender, receiver


def _read_each(
    model: type[SpecT], raw: Sequence[Any], key: str, problems: list[Problem]
) -> list[tuple[int, SpecT]]:
    read = [(i, read_part(model, item, (key, i), problems)) for i, item in enumerate(raw)]
    return [(i, spec) for i, spec in read if spec is not None]
