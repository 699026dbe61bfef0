"""Stages chained into one task: which may be, by the rules of Flink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flowcontrol.errors import Problem
from flowcontrol.scenario.spec import EdgeSpec, StageSpec

__all__ = ["resolve_chains"]


def resolve_chains(
    stages: Sequence[tuple[int, StageSpec]],
    edges: Sequence[tuple[int, EdgeSpec]],
    problems: list[Problem],
) -> dict[str, str]:
    """Return which stages run in the tasks of which others.

    Parameters
    ----------
    stages : sequence of (int, StageSpec)
        All stages of an acyclic job, with their positions.
    edges : sequence of (int, EdgeSpec)
        All edges, with theirs.
    problems : list of Problem
        Grows by every edge that is chained and must not be.

    Returns
    -------
    dict of str to str
        By chained stage, the stage that it is chained to; edges that are refused left out.

    Notes
    -----
    ``StreamingJobGraphGenerator.isChainable``: one input, a forward partitioner, equal
    parallelism, one slot-sharing group. Of the chaining strategies we know none: whoever
    writes ``chain: true`` has chosen.
    """
    specs = {stage.name: stage for _, stage in stages}
    onto = {}
    for index, edge in edges:
        if not edge.chain:
            continue
        senders = [other.sender for _, other in edges if other.receiver == edge.receiver]
        faults = list(_faults(edge, specs[edge.sender], specs[edge.receiver], senders))
        problems.extend(Problem(f"edges[{index}].{key}", text) for key, text in faults)
        if not faults and specs[edge.sender].parallelism == specs[edge.receiver].parallelism:
            onto[edge.receiver] = edge.sender
    return onto


def _faults(
    edge: EdgeSpec, sender: StageSpec, receiver: StageSpec, senders: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Say what forbids to chain two stages.

    That forward, if stated, needs equal parallelism is said of every edge, not here.
    """
    if edge.partitioner not in {None, "forward"}:
        text = (
            f"{edge.partitioner!r} sends records to other subtasks, but the edge is chained: use "
            "forward or leave it out, or take chain out"
        )
        yield "partitioner", text
    elif edge.partitioner is None and sender.parallelism != receiver.parallelism:
        text = (
            f"true: from {sender.parallelism} subtasks to {receiver.parallelism}: needs equal "
            "parallelism on both sides; set it, or take chain out"
        )
        yield "chain", text
    if len(senders) > 1:
        text = (
            f"true: {receiver.name!r} has {len(senders)} inputs ({', '.join(senders)}): a chained "
            "stage has one; take chain out"
        )
        yield "chain", text
