"""Intermediate results: what a vertex gives out, a partition a subtask."""

from dataclasses import dataclass

from flowcontrol.graphs.jobgraph import JobEdge, JobGraph
from flowcontrol.graphs.kinds import PARTITION_TYPES


@dataclass(frozen=True, slots=True)
class IntermediateResult:
    """One result of a vertex."""

    producer: str  # Name of the vertex
    partitions: int  # One for each of its subtasks
    exchange: str  # Flink's ``ResultPartitionType``
    consumers: tuple[int, ...]  # Positions of the edges that read it in the job graph


_SHARED = {kind.exchange for kind in PARTITION_TYPES.values() if kind.is_shared}


def results_of(graph: JobGraph) -> tuple[IntermediateResult, ...]:
    """Return all results of a job, in the order of the edges that read them first.

    Each edge has a result of its own, with partitions, pools and serialisation. Only blocking and
    hybrid ones of one operator are shared, between edges with the same partitioner to consumers of
    the same parallelism (``StreamingJobGraphGenerator``, reusable outputs).
    """
    readers: dict[tuple[object, ...], list[int]] = {}
    for position, edge in enumerate(graph.edges):
        readers.setdefault(_identity(graph, position, edge), []).append(position)
    return tuple(
        IntermediateResult(
            graph.edges[own[0]].source,
            graph.vertex(graph.edges[own[0]].source).parallelism,
            graph.edges[own[0]].exchange,
            tuple(own),
        )
        for own in readers.values()
    )


def _identity(graph: JobGraph, position: int, edge: JobEdge) -> tuple[object, ...]:
    if edge.exchange not in _SHARED:
        return (position,)
    target = graph.vertex(edge.target)
    sizes = (target.parallelism, target.max_parallelism)
    return (edge.sender, edge.ship, edge.exchange, *sizes)
