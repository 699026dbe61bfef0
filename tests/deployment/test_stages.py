"""The graphs of stages are those of the job that runs: the same chains, channels and places."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.deployment import execution_graph, job_graph, stream_graph
from flowcontrol.deployment.deploy import deployment_of
from flowcontrol.layout.graph import graph_of
from flowcontrol.scenario import load_scenario
from flowcontrol.scenario.given import as_base
from modules import ROOT

FILES = sorted(path for path in (ROOT / "conf").glob("*.yaml") if path.stem != "two-jobs")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_of_conf(path: Path) -> None:
    scenario = load_scenario(path)
    links, tasks = graph_of(scenario)
    graph = execution_graph(job_graph(stream_graph(scenario)))
    found = {tuple(vertex.operators) for vertex in graph.job.vertices}
    assert found == {tuple(member.stage.name for member in task.members) for task in tasks}
    assert len(links) == len(graph.edges)
    for link, edge in zip(links, graph.edges, strict=True):
        assert (edge.sender, edge.receiver) == (link.edge.sender, link.edge.receiver)
        receivers = range(graph.vertex(edge.target).parallelism)
        pairs = {(sender, t) for t in receivers for sender, _ in graph.gate(edge, t)}
        assert pairs == {(channel.sender, channel.receiver) for channel in link.channels}
    slots = deployment_of(as_base(scenario)).slots
    placed = {task: slot.task_manager for slot in slots for task in slot.tasks}
    for task in tasks:
        vertex = graph.vertex(task.name)
        own = tuple(placed[vertex.name, i] for i in range(vertex.parallelism))
        assert own == task.stage.placement
