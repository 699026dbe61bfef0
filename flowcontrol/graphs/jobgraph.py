"""The job graph: what is chained is one vertex, what is not is an edge between two of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flowcontrol.graphs.stream import (
    DEFAULT_GROUP,
    JOINING,
    PARTITION_TYPES,
    PARTITIONERS,
    StreamEdge,
    StreamGraph,
    StreamNode,
    check_hybrid,
    topological,
)
from flowcontrol.protocol.restarts import pipelined_regions

# --- Which edges are chained: the conditions of ``StreamingJobGraphGenerator``, in their order.


Refusal = tuple[int, str]
"""Number of a condition in the reference's table, and why it does not hold."""


def refusals(graph: StreamGraph) -> tuple[Refusal | None, ...]:
    """Return for each edge the first condition of chaining that does not hold.

    Condition 2 does not count where a new-style source with one output leads to an operator that is
    head-with-sources: that one draws the source into its task.

    Returns the number and text of each condition; None: the edge is chained (shape (edges,)).
    """
    found: dict[int, Refusal | None] = {}
    heads: dict[str, StreamNode] = {}
    for node in graph.in_order():
        inputs = [(i, edge) for i, edge in enumerate(graph.edges) if edge.target == node.name]
        found.update({i: _first_refusal(graph, edge, heads[edge.source]) for i, edge in inputs})
        is_chained = len(inputs) == 1 and found[inputs[0][0]] is None
        heads[node.name] = heads[inputs[0][1].source] if is_chained else node
    return tuple(found[i] for i in range(len(graph.edges)))


def _first_refusal(graph: StreamGraph, edge: StreamEdge, head: StreamNode) -> Refusal | None:
    """``head`` is that of the chain in which the sender is."""
    up, down = graph.node(edge.source), graph.node(edge.target)
    return (
        _enabled(graph)
        or (None if may_be_drawn_in(graph, edge) else _single_input(graph, down))
        or _same_group(up, down)
        or _no_legacy_head(head, down)
        or _strategies(up, down)
        or _parallelisms(graph, up, down)
        or _forward(edge)
        or _single_edge(graph, edge)
    )


def may_be_drawn_in(graph: StreamGraph, edge: StreamEdge) -> bool:
    """Whether an edge leads from a new-style source, as its only one, to a head-with-sources."""
    return (
        graph.node(edge.source).kind == "source"
        and len(graph.outputs(edge.source)) == 1
        and graph.node(edge.target).chaining == "head-with-sources"
    )


def _enabled(graph: StreamGraph) -> Refusal | None:
    if graph.options.chaining:
        return None
    return 1, "pipeline.operator-chaining.enabled is false"


def _single_input(graph: StreamGraph, down: StreamNode) -> Refusal | None:
    count = len(graph.inputs(down.name))
    return None if count == 1 else (2, f"{down.name!r} has {count} in-edges, a chained one has one")


def _same_group(up: StreamNode, down: StreamNode) -> Refusal | None:
    if up.slot_group == down.slot_group:
        return None
    groups = f"{up.slot_group!r} and {down.slot_group!r}"
    return 3, f"{up.name!r} and {down.name!r} are in the slot sharing groups {groups}"


def _no_legacy_head(head: StreamNode, down: StreamNode) -> Refusal | None:
    if down.kind != "yielding" or head.kind != "legacy-source":
        return None
    return 4, f"{down.name!r} yields its mailbox, and {head.name!r}, its head, is a legacy source"


def _strategies(up: StreamNode, down: StreamNode) -> Refusal | None:
    if up.chaining == "never":
        return 5, f"the chaining strategy of {up.name!r} is never"
    if down.chaining in ("head", "never"):
        return 5, f"the chaining strategy of {down.name!r} is {down.chaining}"
    if down.chaining == "head-with-sources" and up.kind != "source":
        return 5, f"{down.name!r} is head-with-sources, and {up.name!r} is not a new-style source"
    return None


def _parallelisms(graph: StreamGraph, up: StreamNode, down: StreamNode) -> Refusal | None:
    if up.parallelism != down.parallelism:
        return 6, f"the parallelisms differ, {up.parallelism} and {down.parallelism}"
    most = (up.max_parallelism, down.max_parallelism)
    if graph.options.chains_different_max_parallelism or most[0] == most[1]:
        return None
    shown = " and ".join("unset" if one is None else str(one) for one in most)
    return 6, f"the max parallelisms differ, {shown}, and the options keep such apart"


def _forward(edge: StreamEdge) -> Refusal | None:
    if edge.partitioner != "forward":
        return 7, f"the partitioner is {edge.partitioner}, not forward"
    if edge.partition_type and PARTITION_TYPES[edge.partition_type].is_batch_exchange:
        return 7, f"the exchange mode is BATCH ({edge.partition_type})"
    return None


def _single_edge(graph: StreamGraph, edge: StreamEdge) -> Refusal | None:
    same = [other for other in graph.inputs(edge.target) if other.input == edge.input]
    if len(same) == 1:
        return None
    return 8, f"{len(same)} edges lead to input {edge.input} of {edge.target!r}"


@dataclass(frozen=True, slots=True)
class JobVertex:
    """One or several operators that run in one task."""

    name: str  # Flink's name of the chain, ``A -> (B, C -> D)``
    # Plain names in the order of the chain, the head first; sources that it draws in next.
    operators: tuple[str, ...]
    parallelism: int  # Of the head
    max_parallelism: int | None  # Of the head, even if a later member states one; None: unset
    # Slot sharing group. In batch each pipelined region of the default group is one of its own.
    slot_group: str


@dataclass(frozen=True, slots=True)
class JobEdge:
    """An edge that is not chained: a result of its own, unless the result is shared."""

    source: str  # source, target: names of the vertices
    target: str
    sender: str  # sender, receiver: plain names of the operators
    receiver: str
    input: int  # Input of the receiver
    pattern: str  # POINTWISE or ALL_TO_ALL
    ship: str  # Flink's name of the partitioner
    exchange: str  # Flink's ``ResultPartitionType``


@dataclass(frozen=True, slots=True)
class JobGraph:
    """All vertices and edges of a job."""

    vertices: tuple[JobVertex, ...]  # In Flink's topological order
    edges: tuple[JobEdge, ...]  # In the order in which the scenario has them
    stream: StreamGraph  # What it was made of

    def vertex(self, name: str) -> JobVertex:
        """Return a vertex by its name, or by that of one of its operators.

        Raises KeyError if there is none.
        """
        for vertex in self.vertices:
            if name == vertex.name or name in vertex.operators:
                return vertex
        raise KeyError(name)

    def why_not_chained(self, sender: str, receiver: str) -> Refusal | None:
        """Return why two operators do not run in one task.

        Returns the number of the first condition of the reference's table that does not hold, and
        the reason; None: they are chained. Raises KeyError if no edge leads from one to the
        other.
        """
        ends = self._operators(sender), self._operators(receiver)
        for edge, refusal in zip(self.stream.edges, refusals(self.stream), strict=True):
            if edge.source in ends[0] and edge.target in ends[1]:
                return refusal
        raise KeyError(f"no edge leads from {sender!r} to {receiver!r}")

    def slots_required(self) -> dict[str, int]:
        """Return how many slots each slot sharing group needs: its largest parallelism."""
        found: dict[str, int] = {}
        for vertex in self.vertices:
            most = found.get(vertex.slot_group, 0)
            found[vertex.slot_group] = max(most, vertex.parallelism)
        return found

    def _operators(self, name: str) -> tuple[str, ...]:
        if any(name == node.name for node in self.stream.nodes):
            return (name,)
        return self.vertex(name).operators


def build_job_graph(graph: StreamGraph) -> JobGraph:
    """Return the job graph of a stream graph.

    ``StreamingJobGraphGenerator``.

    Raises ValueError if there are hybrid results and the options do not allow them, or two vertices
    would have one name, by which everything here finds them.
    """
    check_hybrid(graph)
    chains = _Chains(graph)
    heads = [node for node in graph.nodes if chains.head[node.name] == node.name]
    vertices = {head.name: chains.vertex(head) for head in heads}
    _check_names(vertices)
    edges = {
        i: _job_edge(graph, edge, vertices[chains.head[edge.source]], vertices[edge.target])
        for i, edge in enumerate(graph.edges)
        if chains.refusals[i] is not None
    }
    inputs = {head.name: chains.inputs(head.name) for head in heads}
    consumers = {head.name: chains.consumers(head.name) for head in heads}
    order = topological([head.name for head in heads], consumers, inputs)
    made = JobGraph(tuple(vertices[name] for name in order), tuple(edges.values()), graph)
    if graph.options.is_batch:
        made = _with_region_groups(made)
    return _with_index_prefixes(made) if graph.options.index_prefix else made


def _check_names(vertices: dict[str, JobVertex]) -> None:
    heads: dict[str, str] = {}
    for head, vertex in vertices.items():
        if vertex.name in heads:
            raise ValueError(
                f"{heads[vertex.name]!r} and {head!r} become two vertices of one name, "
                f"{vertex.name!r}: rename one of them"
            )
        heads[vertex.name] = head


class _Chains:
    """Who is chained to whom.

    ``head``: by operator, the head of its chain.
    """

    def __init__(self, graph: StreamGraph) -> None:
        self.graph = graph
        self.refusals = refusals(graph)
        self._chained: dict[str, list[StreamEdge]] = {node.name: [] for node in graph.nodes}
        self._drawn: dict[str, list[StreamNode]] = {node.name: [] for node in graph.nodes}
        self._open: dict[str, list[StreamEdge]] = {node.name: [] for node in graph.nodes}
        onto: dict[str, str] = {}
        for edge, refusal in zip(graph.edges, self.refusals, strict=True):
            if refusal is not None:
                self._open[edge.source].append(edge)
            elif may_be_drawn_in(graph, edge):
                self._drawn[edge.target].append(graph.node(edge.source))
                onto[edge.source] = edge.target
            else:
                self._chained[edge.source].append(edge)
                onto[edge.target] = edge.source
        self.head = {node.name: node.name for node in graph.nodes}
        for name in self.head:
            while (upper := onto.get(self.head[name])) is not None:
                self.head[name] = upper

    def vertex(self, head: StreamNode) -> JobVertex:
        """Return the vertex of a chain."""
        return JobVertex(
            self._name(head.name),
            tuple(self._members(head.name)),
            head.parallelism,
            head.max_parallelism,
            head.slot_group,
        )

    def inputs(self, head: str) -> set[str]:
        """Return the heads of the chains that a chain reads."""
        found = zip(self.graph.edges, self.refusals, strict=True)
        return {self.head[e.source] for e, why in found if why is not None and e.target == head}

    def consumers(self, name: str) -> list[str]:
        """Return who reads a chain, in the order of its results: of the members first."""
        found = [one for edge in self._chained[name] for one in self.consumers(edge.target)]
        return found + [edge.target for edge in self._open[name]]

    def _name(self, name: str) -> str:
        node = self.graph.node(name)
        drawn = ", ".join(source.operator_name for source in self._drawn[name])
        own = f"{node.operator_name} [{drawn}]" if drawn else node.operator_name
        after = [self._name(edge.target) for edge in self._chained[name]]
        if not after:
            return own
        return f"{own} -> {after[0]}" if len(after) == 1 else f"{own} -> ({', '.join(after)})"

    def _members(self, name: str) -> list[str]:
        found = [name, *(source.name for source in self._drawn[name])]
        for edge in self._chained[name]:
            found += self._members(edge.target)
        return found


def _job_edge(
    graph: StreamGraph, edge: StreamEdge, source: JobVertex, target: JobVertex
) -> JobEdge:
    partitioner = PARTITIONERS[edge.partitioner]
    kind = edge.partition_type or ("blocking" if graph.options.is_batch else "pipelined")
    return JobEdge(
        source.name,
        target.name,
        edge.source,
        edge.target,
        edge.input,
        "POINTWISE" if partitioner.is_pointwise else "ALL_TO_ALL",
        partitioner.ship,
        PARTITION_TYPES[kind].exchange,
    )


def _with_region_groups(graph: JobGraph) -> JobGraph:
    """In batch each logical pipelined region of the default group is a group."""
    ends = [
        (edge.source, edge.target, "pipelined" if edge.exchange in JOINING else "blocking")
        for edge in graph.edges
    ]
    regions = pipelined_regions(ends, [vertex.name for vertex in graph.vertices])
    plain = [vertex.name for vertex in graph.vertices if vertex.slot_group == DEFAULT_GROUP]
    order = list(dict.fromkeys(regions[name] for name in plain))
    groups = {
        region: DEFAULT_GROUP if place == 0 else f"{DEFAULT_GROUP}-{place + 1}"
        for place, region in enumerate(order)
    }
    return replace(
        graph,
        vertices=tuple(
            replace(vertex, slot_group=groups[regions[vertex.name]])
            if vertex.name in plain
            else vertex
            for vertex in graph.vertices
        ),
    )


def _with_index_prefixes(graph: JobGraph) -> JobGraph:
    names: Mapping[str, str] = {
        vertex.name: f"[vertex-{i}]{vertex.name}" for i, vertex in enumerate(graph.vertices)
    }
    return replace(
        graph,
        vertices=tuple(replace(v, name=names[v.name]) for v in graph.vertices),
        edges=tuple(
            replace(e, source=names[e.source], target=names[e.target]) for e in graph.edges
        ),
    )
