"""The shape of a job: names, edges, cycles; who is a source, who is a sink."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Sequence

from flowcontrol.errors import Problem
from flowcontrol.scenario.problems import known

__all__ = ["check_edges", "check_stage_names", "find_cycle", "in_order"]


def check_stage_names(names: Sequence[tuple[int, str]], problems: list[Problem]) -> None:
    """Refuse two stages whose folders would be one, also where case does not count."""
    seen: dict[str, int] = {}
    for index, name in names:
        first = seen.setdefault(name.lower(), index)
        if first != index:
            problems.append(
                Problem(
                    f"stages[{index}].name",
                    f"{name!r} is the name of stages[{first}] too: folders are named by stages, so "
                    "give each a name that differs in more than upper and lower case",
                )
            )


Links = Sequence[tuple[int, str, str]]
"""Position of an edge in the file, its sender and its receiver."""


def check_edges(
    links: Links, names: Sequence[str], *, is_whole: bool, problems: list[Problem]
) -> None:
    """Refuse edges to nowhere, edges drawn twice, stages without edges, and cycles.

    Parameters
    ----------
    links : sequence of (int, str, str)
        All edges that name their stages.
    names : sequence of str
        Names of all stages, in the order of the file; empty for a stage without one.
    is_whole : bool
        No edge is left out of ``links``; otherwise no stage is called lonely.
    problems : list of Problem
        Grows by everything that is wrong.
    """
    nowhere = list(_edges_to_nowhere(links, names)) if names and all(names) else []
    problems.extend(nowhere)
    problems.extend(_edges_in_one_folder(links))
    if is_whole and links and not nowhere:
        problems.extend(_lonely_stages(links, names))
    cycle = find_cycle((sender, receiver) for _, sender, receiver in links)
    if cycle:
        problems.append(
            Problem(
                "edges",
                f"they form a cycle, {' -> '.join(cycle)}: a job flows from sources to sinks; "
                "take one of these edges out",
            )
        )


def _edges_to_nowhere(links: Links, names: Sequence[str]) -> Iterable[Problem]:
    for index, sender, receiver in links:
        for key, name in (("from", sender), ("to", receiver)):
            if name not in names:
                yield Problem(f"edges[{index}].{key}", known(name, names, "stage"))


def _edges_in_one_folder(links: Links) -> Iterable[Problem]:
    """Edges between the same stages, or whose link folders would be one."""
    seen: dict[str, tuple[int, str, str]] = {}
    for link in links:
        index, sender, receiver = link
        first = seen.setdefault(f"{sender}-{receiver}".lower(), link)
        if first is link:
            continue
        if first[1:] == link[1:]:
            text = f"goes from {sender!r} to {receiver!r} as edges[{first[0]}] does: keep one"
        else:
            text = (
                f"its folder '{sender}-{receiver}' is that of edges[{first[0]}] too: "
                "rename one of the stages"
            )
        yield Problem(f"edges[{index}]", text)


def _lonely_stages(links: Links, names: Sequence[str]) -> Iterable[Problem]:
    linked = {name for _, *ends in links for name in ends}
    for index, name in enumerate(names):
        if name and name not in linked:
            yield Problem(
                f"stages[{index}]", f"{name!r} has no edge: link it with an edge, or take it out"
            )


def _sorter(links: Iterable[tuple[str, str]]) -> graphlib.TopologicalSorter[str]:
    sorter: graphlib.TopologicalSorter[str] = graphlib.TopologicalSorter()
    for sender, receiver in links:
        sorter.add(receiver, sender)
    return sorter


def find_cycle(links: Iterable[tuple[str, str]]) -> list[str]:
    """Return the stages of one cycle, the first one repeated at the end; empty without one."""
    try:
        _sorter(links).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def in_order(links: Iterable[tuple[str, str]]) -> list[str]:
    """Return the stages of an acyclic job, senders before receivers."""
    return list(_sorter(links).static_order())
