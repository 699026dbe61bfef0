"""What a controller may scale in a scenario: a stage, or a chain of them, under its head's name."""

from collections.abc import Iterator
from dataclasses import dataclass

from flowcontrol.scenario import Scenario
from flowcontrol.scenario.scaling_models import MOST_PARALLELISM
from flowcontrol.scenario.stage_models import Stage


@dataclass(frozen=True)
class Vertex:
    """A stage with those that are chained to it."""

    name: str  # Of the head
    stages: tuple[str, ...]  # The head first
    inputs: dict[str, str]  # Vertices that send to it, and by which partitioner
    is_source: bool  # Whether nobody does
    # Whether another number of subtasks means something: of a source that reads a log, or whose
    # ``total_rate`` they share.
    scales: bool
    max_parallelism: int  # Most subtasks: as many as Flink gives it key groups


def vertices_of(scenario: Scenario) -> dict[str, Vertex]:
    """Return the vertices of a job by name, senders first."""
    head_of: dict[str, str] = {}
    for stage in scenario.topological():
        onto = next((e.sender for e in scenario.inputs(stage.name) if e.chain), None)
        head_of[stage.name] = stage.name if onto is None else head_of[onto]
    found = {}
    for name in dict.fromkeys(head_of.values()):
        stages = tuple(one for one, head in head_of.items() if head == name)
        inputs = {head_of[e.sender]: str(e.partitioner) for e in scenario.inputs(name)}
        head = scenario.stage(name)
        scales = bool(inputs) or head.reads_log or head.is_total_divided
        most = max(MOST_PARALLELISM, head.parallelism)
        found[name] = Vertex(name, stages, inputs, not inputs, scales, most)
    return found


def outputs_of(scenario: Scenario, vertex: Vertex) -> Iterator[tuple[Stage, float]]:
    """Yield the stages of a vertex whose output leaves it.

    With each, how many records it puts out for each that the vertex takes in.
    """
    ratios: dict[str, float] = {}
    for name in vertex.stages:
        onto = next((e.sender for e in scenario.inputs(name) if e.chain), None)
        before = 1.0 if onto is None else ratios[onto]
        ratios[name] = before * scenario.stage(name).selectivity
        if any(not edge.chain for edge in scenario.outputs(name)):
            yield scenario.stage(name), ratios[name]
