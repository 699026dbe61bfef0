"""Operators instead of stages: chained and placed by Flink's graphs, then run as stages."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcontrol.errors import NotEnoughSlotsError, Problem
from flowcontrol.graphs.execution import (
    ExecutionGraph,
    SlotGroup,
    Subtask,
    assign_slots,
    execution_graph,
    slot_sharing,
)
from flowcontrol.graphs.jobgraph import build_job_graph, refusals
from flowcontrol.graphs.stream import (
    GraphOptions,
    StreamEdge,
    StreamGraph,
    StreamNode,
    build_stream_graph,
)
from flowcontrol.scenario.fields import is_stated
from flowcontrol.scenario.models import Cluster, Edge
from flowcontrol.scenario.option_table import OPTIONS
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.problems import key_path
from flowcontrol.scenario.stage_models import Operator, OperatorKeys

_ITEM = re.compile(r"\bstages(?=\[\d+\])")
_SLOTS = "taskmanager.numberOfTaskSlots"
_DEFAULT = "parallelism.default"


@dataclass(frozen=True)
class OperatorList:
    """The operators of a file, read as its stages."""

    # The file with its operators as ``stages``; without operators as it is.
    mapping: Mapping[str, Any]
    is_there: bool = False  # Whether the file has operators

    def moved(self, problem: Problem) -> Problem:
        """Return a problem of the stages as one of the file."""
        return named(problem) if self.is_there else problem


def named(problem: Problem) -> Problem:
    """Return a problem with the places of stages as those of operators."""
    place = "operators" if problem.place == "stages" else _ITEM.sub("operators", problem.place)
    return Problem(place, _ITEM.sub("operators", problem.message))


def read_operators(mapping: Any, problems: list[Problem]) -> OperatorList:
    """Read the list of operators of a file, if it has one.

    ``problems``: grows by what must not be beside them.
    """
    if not isinstance(mapping, Mapping) or "operators" not in mapping:
        return OperatorList(mapping)
    for key in ("stages", "jobs"):
        if key in mapping:
            problems.append(Problem(key, "cannot be next to operators: keep one of them"))
    kept = {key: value for key, value in mapping.items() if key not in ("operators", "jobs")}
    raw = mapping["operators"]
    parallelism = _default_parallelism(mapping.get("options"))
    if isinstance(raw, list | tuple):
        raw = [
            {"parallelism": parallelism, **one} if isinstance(one, Mapping) else one for one in raw
        ]
    for index, edge in enumerate(_list(mapping, "edges")):
        if isinstance(edge, Mapping) and "chain" in edge:
            text = "which operators are chained follows from their keys: remove it"
            problems.append(Problem(f"edges[{index}].chain", f"{edge['chain']}: {text}"))
    return OperatorList({**kept, "stages": raw}, is_there=True)


def _list(mapping: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = mapping.get(key)
    return value if isinstance(value, list | tuple) else ()


def _default_parallelism(options: object) -> int:
    """Return ``parallelism.default``; 1 if it cannot be read, which is refused elsewhere."""
    stated = options.get(_DEFAULT, 1) if isinstance(options, Mapping) else 1
    try:
        return int(OPTIONS[_DEFAULT].read(stated) or 1)
    except ValueError:
        return 1


@dataclass(frozen=True)
class Placed:
    """The graphs of a job's operators, and where they run."""

    graph: ExecutionGraph  # Subtasks and channels; what it was made of is in it
    slots: list[SlotGroup]  # Vertex and subtask of all that shares a slot
    places: dict[Subtask, tuple[int, int]]  # Task manager and slot of each subtask
    cluster: Cluster  # With as many task managers and slots as there are


def place(
    operators: Sequence[OperatorKeys],
    edges: Sequence[Edge],
    cluster: Cluster,
    options: NetworkOptions,
    problems: list[Problem],
) -> Placed | None:
    """Chain operators, share slots and take them of task managers.

    - ``cluster``: the machines; as many task managers as needed unless it states how many.
    - ``problems``: grows by what Flink would refuse, too few slots among it.

    Returns None if something is wrong.
    """
    try:
        stream = stream_graph_of(operators, edges, options)
        graph = execution_graph(build_job_graph(stream))
    except ValueError as error:
        problems.append(Problem("operators", str(error)))
        return None
    slots = slots_of(cluster, options, problems)
    groups, mode = shared(graph, options)
    needed = -(-len(groups) // slots)
    managers = cluster.task_managers if "task_managers" in cluster.model_fields_set else needed
    try:
        placed = assign_slots(groups, managers, slots, mode)
    except NotEnoughSlotsError as error:
        timeout_s = options.slot_request_timeout_us / 1e6
        what = NotEnoughSlotsError(error.required, error.available, timeout_s)
        text = f"{managers} with {slots} slots each: {what} Task managers needed: {needed}."
        problems.append(Problem("cluster.task_managers", text))
        return None
    whole = cluster.model_copy(update={"task_managers": managers, "slots": slots})
    return Placed(graph, groups, placed, whole)


@dataclass(frozen=True)
class Lowered:
    """What the graphs say of a job's operators."""

    edges: list[tuple[int, Edge]]  # With ``chain`` where the rules yield it
    # Task manager of each subtask, by operator; those that are chained to another left out.
    placement: dict[str, tuple[int, ...]]
    cluster: Cluster  # With as many task managers and slots as there are


def lower(
    operators: Sequence[Operator],
    edges: Sequence[tuple[int, Edge]],
    cluster: Cluster,
    options: NetworkOptions,
    problems: list[Problem],
) -> Lowered | None:
    """Return the operators as stages: who is chained, and where each subtask runs.

    ``operators``, ``cluster``, ``options``, ``problems``: as of :func:`place`.

    Returns None if something is wrong.
    """
    by_name = {one.name: one for one in operators}
    for _, edge in edges:
        ends = {by_name[name].parallelism for name in (edge.sender, edge.receiver)}
        if is_stated(edge, "partitioner") and edge.partitioner == "forward" and len(ends) > 1:
            return None  # refused where partitioners are
    keys, links = [one.keys for one in operators], [edge for _, edge in edges]
    placed = place(keys, links, cluster, options, problems)
    if placed is None:
        return None
    chained = _chained(placed.graph.job.stream, edges)
    onto = {edge.receiver for _, edge in chained if edge.chain}
    placement = {
        name: tuple(placed.places[vertex.name, i][0] for i in range(by_name[name].parallelism))
        for vertex in placed.graph.job.vertices
        for name in vertex.operators
        if name not in onto
    }
    return Lowered(chained, placement, placed.cluster)


def stream_graph_of(
    operators: Sequence[OperatorKeys], edges: Sequence[Edge], options: NetworkOptions
) -> StreamGraph:
    """Return the stream graph of operators as they were read.

    Raises ValueError if Flink refuses to build it.
    """
    nodes = [node_of(one) for one in operators]
    links = [edge_of(edge) for edge in edges]
    given = GraphOptions(
        options.operator_chaining,
        options.chains_different_max_parallelism,
        options.index_prefix,
        options.runtime_mode == "batch",
        options.max_parallelism,
    )
    return build_stream_graph(nodes, links, given)


def node_of(one: OperatorKeys) -> StreamNode:
    """Return an operator as the graphs take it."""
    return StreamNode(
        one.name,
        one.parallelism,
        one.max_parallelism,
        one.chaining or "",
        one.slot_group or "",
        one.kind or "",
        one.uid,
    )


def edge_of(edge: Edge) -> StreamEdge:
    """Return an edge as the graphs take it."""
    stated = edge.partition_type if "partition_type" in edge.model_fields_set else ""
    partitioner = edge.partitioner if is_stated(edge, "partitioner") else ""
    return StreamEdge(edge.sender, edge.receiver, edge.input, partitioner, stated)


def slots_of(cluster: Cluster, options: NetworkOptions, problems: list[Problem]) -> int:
    """Return the slots of a task manager: ``cluster.slots``, or Flink's option, or 1."""
    if cluster.slots is not None and options.task_slots not in (None, cluster.slots):
        text = f"{options.task_slots} is not cluster.slots, {cluster.slots}: state only one of them"
        problems.append(Problem(key_path(["options", _SLOTS]), text))
    return cluster.slots or options.task_slots or 1


def shared(graph: ExecutionGraph, options: NetworkOptions) -> tuple[list[SlotGroup], str]:
    """Return what each slot holds, and the mode by which slots are taken of task managers."""
    mode = options.load_balance_mode
    if mode == "none" and options.evenly_spread_out_slots:
        mode = "slots"
    return slot_sharing(graph, "tasks" if mode == "tasks" else "local"), mode


def _chained(stream: StreamGraph, edges: Sequence[tuple[int, Edge]]) -> list[tuple[int, Edge]]:
    """Return the edges with ``chain`` where it holds.

    An operator that draws in several sources stays a task of its own, in their slot: nothing runs
    that yet.
    """
    found = []
    for (index, edge), refusal in zip(edges, refusals(stream), strict=True):
        is_alone = len(stream.inputs(edge.receiver)) == 1
        chain = edge.chain or (refusal is None and is_alone)
        found.append((index, edge.model_copy(update={"chain": chain})))
    return found
