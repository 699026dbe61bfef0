"""The stream graph: a node an operator, an edge a pair of operators, as the program states them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

# --- The order in which Flink walks the vertices of a job.


def topological(
    vertices: Sequence[str],
    consumers: Mapping[str, Sequence[str]],
    inputs: Mapping[str, Iterable[str]],
) -> list[str]:
    """Return vertices in Flink's topological order.

    ``JobGraph.getVerticesSortedTopologicallyFromSources``. Index prefixes, slot sharing and its
    order of creation follow it.

    - ``vertices``: names, in the order in which they were declared.
    - ``consumers``: who reads the results of a vertex, in the order of its results; none may be
      left out.

    Returns all vertices without inputs; then, from each vertex in the list, depth first, every
    consumer whose inputs are all listed. Raises ValueError if some are in a cycle.
    """
    missing = {name: set(inputs.get(name, ())) for name in vertices}
    found = [name for name in vertices if not missing[name]]
    listed = set(found)
    for start in found:  # grows as it goes
        path: list[Iterator[str]] = [iter(consumers.get(start, ()))]
        while path:
            name = next(path[-1], None)
            if name is None:
                path.pop()
            elif name not in listed and missing[name] <= listed:
                listed.add(name)
                found.append(name)
                path.append(iter(consumers.get(name, ())))
    if len(found) < len(vertices):
        left = ", ".join(repr(name) for name in vertices if name not in listed)
        raise ValueError(
            f"{left}: in a cycle, or behind one: a job flows from sources to sinks; take one of "
            "the edges out"
        )
    return found


# --- The words of the graphs: kinds of operators, chaining strategies, partitioners, results.


class Kind(NamedTuple):
    """One kind of operator."""

    title: str  # Its name in a vertex, with ``{}`` for the plain one
    chaining: str = "always"  # Chaining strategy unless it states another
    # Whether no edge leads to it, and whether none leaves it.
    is_source: bool = False
    is_sink: bool = False


KINDS: Final = {
    "source": Kind("Source: {}", is_source=True),
    "legacy-source": Kind("Source: {}", "head", is_source=True),
    "operator": Kind("{}"),
    "sink": Kind("{}: Writer", is_sink=True),
    "classic-sink": Kind("Sink: {}", is_sink=True),
    "yielding": Kind("{}"),
}
"""A yielding operator gives its mailbox up while it waits: async wait, file reader."""

CHAINING: Final = ("always", "head", "head-with-sources", "never")
"""Chaining strategies (``ChainingStrategy``)."""


class Partitioner(NamedTuple):
    """One partitioner."""

    ship: str  # Flink's name of it in a plan
    is_pointwise: bool = False  # A subtask reaches only some subtasks of its receiver
    forces_alignment: bool = False  # No unaligned checkpoints on any input of its receiver


PARTITIONERS: Final = {
    "forward": Partitioner("FORWARD", is_pointwise=True, forces_alignment=True),
    "rebalance": Partitioner("REBALANCE"),
    "rescale": Partitioner("RESCALE", is_pointwise=True, forces_alignment=True),
    "shuffle": Partitioner("SHUFFLE"),
    "hash": Partitioner("HASH"),
    "broadcast": Partitioner("BROADCAST", forces_alignment=True),
    "global": Partitioner("GLOBAL"),
    "custom": Partitioner("CUSTOM"),
}


class PartitionType(NamedTuple):
    """One kind of result."""

    exchange: str  # ``ResultPartitionType`` of Flink
    is_batch_exchange: bool = False  # Stating it is the exchange mode BATCH, which is never chained
    # Edges with one partitioner to receivers of one parallelism read one result.
    is_shared: bool = False


PARTITION_TYPES: Final = {
    "pipelined": PartitionType("PIPELINED_BOUNDED"),
    "pipelined_bounded": PartitionType("PIPELINED_BOUNDED"),
    "pipelined_approximate": PartitionType("PIPELINED_APPROXIMATE"),
    "blocking": PartitionType("BLOCKING", is_batch_exchange=True, is_shared=True),
    "sort_merge": PartitionType("BLOCKING", is_batch_exchange=True, is_shared=True),
    "hybrid_full": PartitionType("HYBRID_FULL", is_shared=True),
    "hybrid_selective": PartitionType("HYBRID_SELECTIVE", is_shared=True),
}

JOINING: Final = frozenset({"PIPELINED", "PIPELINED_BOUNDED"})
"""Results that join the subtasks at their ends to one pipelined region."""


DEFAULT_GROUP: Final = "default"
"""Slot sharing group of an operator that neither states one nor inherits one."""


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """Options of Flink that shape the graphs."""

    chaining: bool = True  # ``pipeline.operator-chaining.enabled``
    # ``pipeline.operator-chaining.chain-operators-with-different-max-parallelism``.
    chains_different_max_parallelism: bool = True
    index_prefix: bool = False  # ``pipeline.vertex-name-include-index-prefix``
    is_batch: bool = False  # ``execution.runtime-mode: BATCH``
    # ``pipeline.max-parallelism``, for operators without their own; None: unset.
    max_parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class StreamNode:
    """One operator."""

    name: str  # Plain name, unlike every other operator's
    parallelism: int = 1  # Number of subtasks
    max_parallelism: int | None = None  # Number of key groups; None: unset
    # Strategy: always, head, head-with-sources or never. Empty: that of its kind.
    chaining: str = ""
    # Slot sharing group. Empty: that of its inputs, if they agree, else ``default``.
    slot_group: str = ""
    # source, legacy-source, operator, sink, classic-sink or yielding. Empty: source without an edge
    # to it, else operator.
    kind: str = ""
    uid: str | None = None  # Stated identity; None: worked out by Flink

    @property
    def operator_name(self) -> str:
        """Name with what Flink adds to it: ``Source: X``, ``X: Writer``, ``Sink: X``."""
        return KINDS[self.kind].title.format(self.name)


@dataclass(frozen=True, slots=True)
class StreamEdge:
    """One operator to another."""

    source: str  # source, target: names of the operators
    target: str
    input: int = 0  # Input of the target, 0 or 1; edges to one input are a union
    # How records choose a channel. Empty: forward between equal parallelisms, else rebalance.
    partitioner: str = ""
    partition_type: str = ""  # Stated exchange mode or type of result; empty: that of the job
    # Whether barriers may overtake on it: not on any edge to an operator with a pointwise or a
    # broadcast one.
    supports_unaligned: bool = True

    @property
    def name(self) -> str:
        """``source->target``."""
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class StreamGraph:
    """All operators and edges of a job, with nothing left open."""

    nodes: tuple[StreamNode, ...]  # In declared order
    edges: tuple[StreamEdge, ...]  # In declared order
    options: GraphOptions = GraphOptions()  # Those of the job

    def node(self, name: str) -> StreamNode:
        """Return the operator of that name; KeyError if there is none."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def in_order(self) -> list[StreamNode]:
        """Return the operators, senders before receivers."""
        inputs = {node.name: [e.source for e in self.inputs(node.name)] for node in self.nodes}
        readers = {node.name: [e.target for e in self.outputs(node.name)] for node in self.nodes}
        names = topological([node.name for node in self.nodes], readers, inputs)
        return [self.node(name) for name in names]

    def inputs(self, name: str) -> list[StreamEdge]:
        """Return the edges to an operator, in declared order."""
        return [edge for edge in self.edges if edge.target == name]

    def outputs(self, name: str) -> list[StreamEdge]:
        """Return the edges out of an operator, in declared order."""
        return [edge for edge in self.edges if edge.source == name]


def build_stream_graph(
    nodes: Sequence[StreamNode], edges: Sequence[StreamEdge], options: GraphOptions
) -> StreamGraph:
    """Return the stream graph of what a program states.

    ``StreamGraphGenerator``: a slot sharing group is that of the inputs if all agree; a max
    parallelism is the operator's own, else the job's.

    ``nodes``: operators, with empty texts where nothing is stated.

    Raises ValueError if Flink refuses to build it: an explicit forward between unequal
    parallelisms, a hybrid result in streaming or beside a slot sharing group; or if it is not a job
    at all.
    """
    _check_names(nodes, edges)
    fed, feeding = {edge.target for edge in edges}, {edge.source for edge in edges}
    kinds = [_with_kind(node, node.name in fed, node.name in feeding) for node in nodes]
    stated = StreamGraph(tuple(kinds), tuple(edges), options)
    by_name: dict[str, StreamNode] = {}
    for node in stated.in_order():
        above = {by_name[edge.source].slot_group for edge in stated.inputs(node.name)}
        inherited = above.pop() if len(above) == 1 else DEFAULT_GROUP
        most = options.max_parallelism if node.max_parallelism is None else node.max_parallelism
        by_name[node.name] = replace(
            node, slot_group=node.slot_group or inherited, max_parallelism=most
        )
    found = [_with_partitioner(edge, by_name) for edge in edges]
    aligned = {edge.target for edge in found if PARTITIONERS[edge.partitioner].forces_alignment}
    whole = tuple(replace(e, supports_unaligned=e.target not in aligned) for e in found)
    graph = StreamGraph(tuple(by_name[node.name] for node in nodes), whole, options)
    check_hybrid(graph)
    return graph


def check_hybrid(graph: StreamGraph) -> None:
    """Refuse hybrid results where Flink does.

    Raises ValueError in streaming, or beside a slot sharing group that is not the default one.
    """
    hybrid = [edge for edge in graph.edges if edge.partition_type.startswith("hybrid")]
    if not hybrid:
        return
    first = f"edge {hybrid[0].name}: {hybrid[0].partition_type}"
    if not graph.options.is_batch:
        raise ValueError(
            f"{first} is for batch jobs only: set execution.runtime-mode: BATCH, or use pipelined"
        )
    for node in graph.nodes:
        if node.slot_group != DEFAULT_GROUP:
            raise ValueError(
                f"{first} does not go with the slot sharing group {node.slot_group!r} of "
                f"{node.name!r}: remove the group, or use blocking"
            )


def _check_names(nodes: Sequence[StreamNode], edges: Sequence[StreamEdge]) -> None:
    if not nodes:
        raise ValueError("a job needs at least one operator: name it in operators")
    for problem in (*_twice([n.name for n in nodes], "name"), *_twice(_uids(nodes), "uid")):
        raise ValueError(problem)
    names = [node.name for node in nodes]
    for edge in edges:
        for name in (edge.source, edge.target):
            if name not in names:
                listed = ", ".join(names)
                raise ValueError(
                    f"edge {edge.name}: there is no operator {name!r} (there are {listed})"
                )


def _uids(nodes: Sequence[StreamNode]) -> list[str]:
    return [node.uid for node in nodes if node.uid is not None]


def _twice(words: Sequence[str], what: str) -> Iterator[str]:
    for word in dict.fromkeys(words):
        if words.count(word) > 1:
            yield f"two operators have the {what} {word!r}: give each its own"


def _with_kind(node: StreamNode, is_fed: bool, is_feeding: bool) -> StreamNode:
    """Return an operator with its kind and its chaining strategy."""
    kind = node.kind or ("operator" if is_fed else "source")
    if kind not in KINDS:
        raise ValueError(f"operator {node.name!r}: kind {kind!r} is not one of {', '.join(KINDS)}")
    if KINDS[kind].is_source == is_fed:
        found = "edges lead to it" if is_fed else "no edge leads to it"
        raise ValueError(f"operator {node.name!r} is a {kind}, but {found}: change one of them")
    if KINDS[kind].is_sink and is_feeding:
        raise ValueError(f"operator {node.name!r} is a {kind}, but has edges out of it: drop them")
    chaining = node.chaining or KINDS[kind].chaining
    if chaining not in CHAINING:
        known = ", ".join(CHAINING)
        raise ValueError(f"operator {node.name!r}: chaining {chaining!r} is not one of {known}")
    return replace(node, kind=kind, chaining=chaining)


def _with_partitioner(edge: StreamEdge, nodes: dict[str, StreamNode]) -> StreamEdge:
    sender, receiver = nodes[edge.source], nodes[edge.target]
    is_equal = sender.parallelism == receiver.parallelism
    partitioner = edge.partitioner or ("forward" if is_equal else "rebalance")
    if partitioner not in PARTITIONERS:
        known = ", ".join(PARTITIONERS)
        raise ValueError(f"edge {edge.name}: partitioner {partitioner!r} is not one of {known}")
    if edge.partition_type and edge.partition_type not in PARTITION_TYPES:
        known = ", ".join(PARTITION_TYPES)
        raise ValueError(f"edge {edge.name}: {edge.partition_type!r} is not one of {known}")
    if partitioner == "forward" and not is_equal:
        raise ValueError(
            f"edge {edge.name}: forward from {sender.parallelism} subtasks to "
            f"{receiver.parallelism}: needs equal parallelism on both sides; set it, or use "
            "rebalance or rescale"
        )
    return replace(edge, partitioner=partitioner)
