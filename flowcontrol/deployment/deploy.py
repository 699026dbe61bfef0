"""The four graphs of a scenario together: from its operators to the slots that they run in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.graphs.execution import ExecutionGraph, Subtask, execution_graph
from flowcontrol.graphs.jobgraph import JobGraph, build_job_graph, refusals
from flowcontrol.graphs.stream import GraphOptions, StreamGraph, build_stream_graph
from flowcontrol.scenario.given import Base
from flowcontrol.scenario.models import Cluster, Edge, Scenario, ScenarioHead
from flowcontrol.scenario.operators import edge_of, node_of, place
from flowcontrol.scenario.option_table import ALIASES, OPTIONS
from flowcontrol.scenario.options import NetworkOptions, read_options
from flowcontrol.scenario.problems import known, nearest
from flowcontrol.scenario.stage_models import OperatorKeys, Stage
from flowcontrol.scenario.translate import read_part

# --- Flink's options of the graphs, read from a scenario or given with a call.


_CHAINING = "pipeline.operator-chaining.enabled"
_DIFFERENT = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"
_PREFIX = "pipeline.vertex-name-include-index-prefix"
_MODE = "execution.runtime-mode"
_MAX_PARALLELISM = "pipeline.max-parallelism"

_FIELDS: Final = {
    _CHAINING: "chaining",
    _DIFFERENT: "chains_different_max_parallelism",
    _PREFIX: "index_prefix",
    _MODE: "is_batch",
    _MAX_PARALLELISM: "max_parallelism",
}
"""By option, the field of the graphs' options that it is."""

DEFAULT_PARALLELISM: Final = "parallelism.default"


def job_graph(graph: StreamGraph, options: Mapping[str, Any] | None = None) -> JobGraph:
    """Return the job graph of a stream graph: operators that are chained are one vertex.

    - ``graph``: as :func:`~flowcontrol.deployment.stream_graph` returns it.
    - ``options``: flink's keys and values, over those of the scenario. ``pipeline.max-parallelism``
      is the scenario's: it has no effect here.

    Raises ValueError if an option is unknown or its value is; if Flink refuses the graph.
    """
    return build_job_graph(replace(graph, options=read_graph_options(options, graph.options)))


def read_graph_options(
    raw: Mapping[str, Any] | None, base: GraphOptions | None = None
) -> GraphOptions:
    """Return the options of the graphs, some of them changed; options of other things are left.

    - ``raw``: flink's keys and values; None: none.
    - ``base``: those that hold where nothing is stated; default: Flink's.

    Raises ValueError if a key or a value is unknown.
    """
    found: dict[str, Any] = {}
    for key, value in (raw or {}).items():
        name = ALIASES.get(key, key)
        if name not in OPTIONS:
            hint = nearest(str(key), [*OPTIONS, *ALIASES])
            raise ValueError(f"options: {key!r} is not an option of Flink that is known here{hint}")
        if name in _FIELDS and (name != _MAX_PARALLELISM or base is None):
            try:
                read = OPTIONS[name].read(value)
            except ValueError as error:
                raise ValueError(f"options.{key}: {error}") from error
            found[_FIELDS[name]] = read == "batch" if name == _MODE else read
    return replace(base or GraphOptions(), **found)


def default_parallelism(raw: Mapping[str, Any] | None) -> int:
    """Return the parallelism of an operator that states none.

    Raises ValueError if the option has no such value.
    """
    value = (raw or {}).get(DEFAULT_PARALLELISM, 1)
    try:
        return int(OPTIONS[DEFAULT_PARALLELISM].read(value) or 1)
    except ValueError as error:
        raise ValueError(f"options.{DEFAULT_PARALLELISM}: {error}") from error


# --- From a scenario to its stream graph.


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
                "remove it"
            )


MOST_CHANNELS: Final = 10_000
"""Channels of an edge that are listed one by one; of more, their number is."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot of a task manager, with its share of the memory."""

    task_manager: int  # task_manager, slot: both from 0
    slot: int
    group: str  # Slot sharing group of what runs in it
    tasks: tuple[Subtask, ...]  # Vertex and subtask of each
    # The task manager's network memory, divided evenly; the buffers are all the same those of the
    # task manager, whoever asks first.
    network_bytes: int
    # Likewise its managed memory; None: no size was stated that it could be a share of.
    managed_bytes: int | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """A job from its operators to its slots."""

    name: str  # Of the scenario
    graph: ExecutionGraph  # Subtasks and channels, with job graph and stream graph in it
    slots: tuple[Slot, ...]  # Those in use, by task manager and slot
    task_managers: int  # task_managers, slots_each: how many there are
    slots_each: int

    @property
    def channel_count(self) -> int:
        """Channels of all edges."""
        return sum(map(self.graph.channel_count, self.graph.edges))

    def to_json(self) -> dict[str, Any]:
        """Return the four graphs as plain JSON: what ``graphs.json`` holds."""
        job, graph = self.graph.job, self.graph
        return {
            "stream_graph": {
                "nodes": [
                    {**asdict(node), "operator_name": node.operator_name}
                    for node in job.stream.nodes
                ],
                "edges": list(map(asdict, job.stream.edges)),
            },
            "job_graph": {
                "vertices": list(map(asdict, job.vertices)),
                "edges": list(map(asdict, job.edges)),
                "not_chained": self.not_chained(),
                "slots_required": job.slots_required(),
            },
            "execution_graph": {
                "vertices": list(map(asdict, graph.vertices)),
                "results": list(map(asdict, graph.results)),
                "edges": [self._channels(position) for position in range(len(graph.edges))],
                "regions": [[t for t in graph.subtasks if t in r] for r in graph.regions()],
            },
            "slots": list(map(asdict, self.slots)),
        }

    def not_chained(self) -> list[dict[str, Any]]:
        """Return each edge that is not chained with the first condition that does not hold."""
        stream = self.graph.job.stream
        found = zip(stream.edges, refusals(stream), strict=True)
        return [
            {"source": edge.source, "target": edge.target, "condition": why[0], "text": why[1]}
            for edge, why in found
            if why is not None
        ]

    def _channels(self, position: int) -> dict[str, Any]:
        edge = self.graph.edges[position]
        count = self.graph.channel_count(edge)
        receivers = self.graph.vertex(edge.target).parallelism
        listed = [
            {"sender": sender, "subpartition": place, "receiver": receiver}
            for receiver in range(receivers if count <= MOST_CHANNELS else 0)
            for sender, place in self.graph.gate(edge, receiver)
        ]
        ends = {"source": edge.source, "target": edge.target, "channel_count": count}
        return {**ends, "channels": listed if count <= MOST_CHANNELS else None}


def deployment_of(base: Base) -> Deployment:
    """Return the graphs and slots of a scenario.

    ``base``: the scenario. Of one with ``operators`` only these, ``edges``, ``options`` and
    ``cluster`` are read, so rates and keys may be missing. One with ``stages`` is read whole; its
    subtasks keep their placement, those of a stage on one task manager a slot each.

    Raises ScenarioError if the scenario is refused, for too few slots among others.
    """
    mapping = base.mapping
    if "operators" not in mapping:
        return _of_stages(base.scenario())
    problems: list[Problem] = []
    heads = [field.alias or name for name, field in ScenarioHead.model_fields.items()]
    problems += [
        Problem(str(key), known(str(key), heads, "key")) for key in mapping if key not in heads
    ]
    options = read_options(mapping.get("options") or {}, problems)
    cluster = read_part(Cluster, mapping.get("cluster", {}), ("cluster",), problems)
    try:
        operators, edges = read_graph(mapping)
    except ValueError as error:
        problems.append(Problem("operators", str(error)))
    placed = None
    if not problems and options is not None and cluster is not None:
        placed = place(operators, edges, cluster, options, problems)
    if placed is None or problems or options is None:
        raise ScenarioError(problems, base.source)
    slots = [(placed.places[group[0]], group) for group in placed.slots]
    managers, each = placed.cluster.task_managers, placed.cluster.slots or 1
    name = str(mapping.get("name", "job"))
    return _deployment(name, placed.graph, slots, (managers, each), options)


def _of_stages(scenario: Scenario) -> Deployment:
    if scenario.jobs:
        text = f"the graphs are those of one job, not of {len(scenario.jobs)}: keep one of them"
        raise ScenarioError([Problem("jobs", f"{text}, as stages and edges")], scenario.name)
    try:
        graph = execution_graph(job_graph(stream_graph(scenario)))
    except ValueError as error:
        raise ScenarioError([Problem("stages", str(error))], scenario.name) from error
    slots: dict[tuple[int, int], list[Subtask]] = {}
    taken: Counter[tuple[str, int]] = Counter()
    for name, subtask in graph.subtasks:
        head = graph.job.vertex(name).operators[0]
        manager = scenario.stage(head).placement[subtask]
        slots.setdefault((manager, taken[name, manager]), []).append((name, subtask))
        taken[name, manager] += 1
    each = scenario.cluster.slots or max(slot for _, slot in slots) + 1
    machines = (scenario.cluster.task_managers, each)
    return _deployment(scenario.name, graph, list(slots.items()), machines, scenario.options)


def _deployment(
    name: str,
    graph: ExecutionGraph,
    slots: Sequence[tuple[tuple[int, int], Sequence[Subtask]]],
    machines: tuple[int, int],
    options: NetworkOptions,
) -> Deployment:
    """Give each slot its share of the memory (``SlotManagerUtils.generateDefaultSlotResource``)."""
    managers, each = machines
    network = options.network_buffers * options.segment_bytes // each
    managed = None if options.managed_bytes is None else options.managed_bytes // each
    groups: Mapping[str, str] = {vertex.name: vertex.slot_group for vertex in graph.vertices}
    found = [
        Slot(manager, slot, groups[tasks[0][0]], tuple(tasks), network, managed)
        for (manager, slot), tasks in slots
    ]
    found.sort(key=lambda one: (one.task_manager, one.slot))
    return Deployment(name, graph, tuple(found), managers, each)
