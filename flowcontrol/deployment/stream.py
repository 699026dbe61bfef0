"""From a scenario to its stream graph."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowcontrol.deployment.options import default_parallelism, read_graph_options
from flowcontrol.errors import Problem
from flowcontrol.graphs.stream import StreamGraph, build_stream_graph
from flowcontrol.scenario.models import Edge, Scenario
from flowcontrol.scenario.operators import edge_of, node_of
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.stage_models import OperatorKeys, Stage
from flowcontrol.scenario.translate import read_part

_GRAPH_KEYS = tuple(OperatorKeys.model_fields)
_STAGE_KEYS = tuple(field.alias or name for name, field in Stage.model_fields.items())
_KEYS = {"operators": tuple(dict.fromkeys(_GRAPH_KEYS + _STAGE_KEYS)), "stages": _STAGE_KEYS}


def stream_graph(scenario: Scenario | Mapping[str, Any]) -> StreamGraph:
    """Return the stream graph of a scenario: a node per operator, an edge per pair of them.

    ``scenario``: a scenario as read; or keys and values of its file, of which only ``operators``
    (or ``stages``), ``edges`` and ``options`` are looked at, so that the others may be left out. A
    stage is an operator that begins a chain, unless its edge says ``chain: true``. Stages that were
    read and have hybrid results are a batch job, whose edges all state their type.

    Raises ValueError if Flink refuses to build it (an explicit forward between unequal
    parallelisms, a hybrid result in streaming or beside a slot sharing group), or if a key or value
    is wrong.

    Examples
    --------
    >>> graph = stream_graph({
    ...     "operators": [{"name": "words"}, {"name": "count"}],
    ...     "edges": [{"from": "words", "to": "count", "partitioner": "hash"}],
    ... })
    >>> [node.operator_name for node in graph.nodes]
    ['Source: words', 'count']
    """
    mapping = scenario.canonical() if isinstance(scenario, Scenario) else scenario
    operators, edges = read_graph(mapping)
    nodes = [node_of(one) for one in operators]
    if "operators" not in mapping:
        chained = {edge.receiver for edge in edges if edge.chain}
        nodes = [
            replace(node, chaining="always" if node.name in chained else "head") for node in nodes
        ]
    options = read_graph_options(mapping.get("options"))
    if isinstance(scenario, Scenario) and not scenario.operators:
        hybrid = any(edge.partition_type.startswith("hybrid") for edge in edges)
        options = replace(options, is_batch=options.is_batch or hybrid)
    return build_stream_graph(nodes, [edge_of(edge) for edge in edges], options)


def read_graph(mapping: Mapping[str, Any]) -> tuple[list[OperatorKeys], list[Edge]]:
    """Read what the graphs depend on of a scenario's operators, or stages, and of its edges.

    Raises ValueError if a key or value is wrong.
    """
    if "jobs" in mapping:
        raise ValueError("jobs: a stream graph is that of one job: state its operators and edges")
    kind = "stages" if "operators" not in mapping else "operators"
    if kind == "operators" and "stages" in mapping:
        raise ValueError("stages: must not be next to operators: keep one of them")
    problems: list[Problem] = []
    items, links = _items(mapping, kind), _items(mapping, "edges")
    default = default_parallelism(mapping.get("options"))
    operators = [_operator(kind, i, raw, default, problems) for i, raw in enumerate(items)]
    edges = [read_part(Edge, raw, ("edges", i), problems) for i, raw in enumerate(links)]
    if problems:
        raise ValueError("\n".join(map(str, problems)))
    read = [edge for edge in edges if edge is not None]
    if kind == "operators":
        _check_chains(read)
    return [one for one in operators if one is not None], read


def _items(mapping: Mapping[str, Any], key: str) -> Sequence[Any]:
    items = mapping.get(key, ())
    if not isinstance(items, list | tuple):
        raise ValueError(f"{key}: {items!r} is not a list")
    return items


def _operator(
    kind: str, index: int, raw: object, parallelism: int, problems: list[Problem]
) -> OperatorKeys | None:
    """Read the keys of an operator that its graphs depend on."""
    own: Mapping[Any, Any] = raw if isinstance(raw, Mapping) else {}
    for key in own:
        if key not in _KEYS[kind]:
            text = known(str(key), _KEYS[kind], "key")
            problems.append(Problem(f"{kind}[{index}]", text))
    kept = {key: own[key] for key in _GRAPH_KEYS if key in own}
    stated = {"parallelism": parallelism, **kept} if isinstance(raw, Mapping) else raw
    return read_part(OperatorKeys, stated, (kind, index), problems)


def _check_chains(edges: Sequence[Edge]) -> None:
    for index, edge in enumerate(edges):
        if edge.chain:
            raise ValueError(
                f"edges[{index}].chain: true: which operators are chained follows from their keys: "
                "take it out"
            )
