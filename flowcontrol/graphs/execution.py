"""The execution graph: subtasks, results with their partitions, channels, and regions."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from flowcontrol.graphs.jobgraph import JobEdge, JobGraph
from flowcontrol.graphs.stream import JOINING, PARTITION_TYPES
from flowcontrol.protocol.network.partitioners import (
    MAX_MAX_PARALLELISM,
    default_max_parallelism,
    pointwise_channels,
    pointwise_senders,
    pointwise_subpartition,
)
from flowcontrol.protocol.restarts import failover_tasks, pipelined_regions

# --- Intermediate results: what a vertex gives out, a partition a subtask.


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


Subtask = tuple[str, int]
"""Name of a vertex and index of one of its subtasks."""


@dataclass(frozen=True, slots=True)
class ExecutionVertex:
    """All subtasks of a vertex."""

    name: str  # That of the vertex in the job graph
    parallelism: int  # Number of subtasks
    max_parallelism: int  # Number of key groups
    is_max_fixed: bool  # Whether the user set it; Flink's default may change at a rescale
    slot_group: str  # Slot sharing group


@dataclass(frozen=True, slots=True)
class ExecutionGraph:
    """All subtasks and channels of a job."""

    vertices: tuple[ExecutionVertex, ...]  # In Flink's topological order
    edges: tuple[JobEdge, ...]  # As in the job graph, each a gate of every subtask that it leads to
    results: tuple[IntermediateResult, ...]  # What the vertices give out, in the order of the edges
    job: JobGraph  # What it was made of

    @property
    def subtasks(self) -> list[Subtask]:
        """All subtasks, vertex by vertex."""
        return [(vertex.name, i) for vertex in self.vertices for i in range(vertex.parallelism)]

    def vertex(self, name: str) -> ExecutionVertex:
        """Return a vertex by its name, or by that of one of its operators.

        Raises KeyError if there is none.
        """
        whole = self.job.vertex(name).name
        return next(vertex for vertex in self.vertices if vertex.name == whole)

    def channels(self, name: str, subtask: int) -> list[tuple[int, int]]:
        """Return the channels that a subtask reads.

        Returns the producer subtask and its subpartition, in channel order; gate by gate, in the
        order of the edges. Raises KeyError if there is no such vertex. Raises ValueError if there
        is no such subtask.
        """
        vertex = self.vertex(name)
        self._check(vertex, subtask)
        edges = (edge for edge in self.edges if edge.target == vertex.name)
        return [channel for edge in edges for channel in self.gate(edge, subtask)]

    def gate(self, edge: JobEdge, subtask: int) -> list[tuple[int, int]]:
        """Return the channels of one gate of a subtask: producer subtask and subpartition.

        ``VertexInputInfoComputationUtils`` and ``EdgeManagerBuildUtil``: over an all-to-all edge
        subtask t reads subpartition t of every partition.
        """
        senders = self.vertex(edge.source).parallelism
        receivers = self.vertex(edge.target).parallelism
        if edge.pattern == "ALL_TO_ALL":
            return [(sender, subtask) for sender in range(senders)]
        place = pointwise_subpartition(subtask, senders, receivers)
        return [(sender, place) for sender in pointwise_senders(subtask, senders, receivers)]

    def subpartitions(self, edge: JobEdge, sender: int) -> int:
        """Return how many subpartitions a producer subtask has on an edge."""
        receivers = self.vertex(edge.target).parallelism
        if edge.pattern == "ALL_TO_ALL":
            return receivers
        return len(pointwise_channels(sender, self.vertex(edge.source).parallelism, receivers))

    def channel_count(self, edge: JobEdge) -> int:
        """Return the number of channels of an edge."""
        ends = (self.vertex(edge.source).parallelism, self.vertex(edge.target).parallelism)
        return max(ends) if edge.pattern == "POINTWISE" else ends[0] * ends[1]

    def regions(self) -> list[frozenset[Subtask]]:
        """Return the pipelined regions: what is scheduled, and restarted, together.

        In the order of their first subtasks.
        """
        found = pipelined_regions(self._links(), self.subtasks)
        members: dict[object, list[Subtask]] = {}
        for task in self.subtasks:
            members.setdefault(found[task], []).append(task)
        return [frozenset(own) for own in members.values()]

    def restart_set(
        self, failed: Subtask, lost: Iterable[Subtask] = (), created: Iterable[Subtask] = ()
    ) -> set[Subtask]:
        """Return the subtasks that a failure restarts.

        ``created``: subtasks that have not been scheduled yet: they are left out.

        Raises KeyError if there is no such vertex. Raises ValueError if there is no such subtask.
        """
        gone = [self._subtask(one) for one in lost]
        found = failover_tasks(self._links(), self._subtask(failed), gone)
        tasks = {(name, index) for name, index in self.subtasks if (name, index) in found}
        return tasks - {self._subtask(one) for one in created}

    def _links(self) -> Iterator[tuple[Subtask, Subtask, str]]:
        for edge in self.edges:
            kind = "pipelined" if edge.exchange in JOINING else "blocking"
            for subtask in range(self.vertex(edge.target).parallelism):
                for sender, _ in self.gate(edge, subtask):
                    yield (edge.source, sender), (edge.target, subtask), kind

    def _subtask(self, pair: Subtask) -> Subtask:
        vertex = self.vertex(pair[0])
        self._check(vertex, pair[1])
        return vertex.name, pair[1]

    @staticmethod
    def _check(vertex: ExecutionVertex, subtask: int) -> None:
        if not 0 <= subtask < vertex.parallelism:
            raise ValueError(
                f"{vertex.name!r} has no subtask {subtask}: there are {vertex.parallelism}, from 0"
            )


def execution_graph(graph: JobGraph) -> ExecutionGraph:
    """Return the execution graph of a job graph.

    Raises ValueError if a parallelism is above its max parallelism, or one of them outside 1 to
    32768.
    """
    vertices = []
    for vertex in graph.vertices:
        most, count = vertex.max_parallelism, vertex.parallelism
        for what, number in (("parallelism", count), ("max parallelism", most)):
            if number is not None and not 1 <= number <= MAX_MAX_PARALLELISM:
                raise ValueError(
                    f"vertex {vertex.name!r}: {what} {number} is out of range: needs at least 1 "
                    f"and at most {MAX_MAX_PARALLELISM}"
                )
        groups = default_max_parallelism(count) if most is None else most
        if count > groups:
            raise ValueError(
                f"vertex {vertex.name!r}: its parallelism, {count}, is higher than its max "
                f"parallelism, {groups}: lower it, or raise max_parallelism"
            )
        vertices.append(
            ExecutionVertex(vertex.name, count, groups, most is not None, vertex.slot_group)
        )
    results = results_of(graph)
    return ExecutionGraph(tuple(vertices), graph.edges, results, graph)
