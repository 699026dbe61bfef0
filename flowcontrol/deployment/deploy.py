"""The four graphs of a scenario together: from its operators to the slots that they run in."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from flowcontrol.deployment.options import job_graph
from flowcontrol.deployment.stream import read_graph, stream_graph
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.graphs.chaining import refusals
from flowcontrol.graphs.execution import ExecutionGraph, Subtask, execution_graph
from flowcontrol.scenario.given import Base
from flowcontrol.scenario.models import Cluster, Scenario, ScenarioHead
from flowcontrol.scenario.operators import place
from flowcontrol.scenario.options import NetworkOptions, read_options
from flowcontrol.scenario.problems import known
from flowcontrol.scenario.translate import read_part

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
