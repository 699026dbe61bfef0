"""Which edges are chained: the conditions of ``StreamingJobGraphGenerator``, in their order."""

from flowcontrol.graphs.kinds import PARTITION_TYPES
from flowcontrol.graphs.stream import StreamEdge, StreamGraph, StreamNode

Refusal = tuple[int, str]
"""Number of a condition in the reference's table, and why it does not hold."""


def refusals(graph: StreamGraph) -> tuple[Refusal | None, ...]:
    """Return for each edge the first condition of chaining that does not hold.

    Condition 2 does not count where a new-style source with one output leads to an operator that is
    head-with-sources: that one draws the source into its task.

    Returns number and text, with the values; None: the edge is chained (shape (edges,)).
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
