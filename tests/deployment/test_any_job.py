"""What holds of the graphs of every job, drawn at random."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.deployment import (
    assign_slots,
    execution_graph,
    job_graph,
    slot_sharing,
    stream_graph,
)

MODES = st.sampled_from(["none", "slots", "min_resources", "tasks"])
PARTITIONERS = ["", "", "", "", "rebalance", "rescale", "hash", "broadcast", "global"]


@st.composite
def jobs(draw: Any) -> dict[str, Any]:
    """One to six operators, edges from earlier to later ones, some unions and slot groups."""
    count = draw(st.integers(1, 6))
    sizes = st.integers(1, 5) if draw(st.booleans()) else st.sampled_from([2, 2, 2, 4])
    operators, edges = [], []
    for place in range(count):
        one: dict[str, Any] = {"name": f"n{place}", "parallelism": draw(sizes)}
        if draw(st.integers(0, 3)) == 0:
            one["slot_group"] = draw(st.sampled_from(["g", "h", "default"]))
        if draw(st.integers(0, 3)) == 0:
            one["chaining"] = draw(st.sampled_from(["never", "head", "head-with-sources"]))
        operators.append(one)
    for receiver in range(1, count):
        most = draw(st.sampled_from([1, 1, 1, 3]))  # one input, as chains need
        for sender in draw(st.lists(st.integers(0, receiver - 1), max_size=most)):
            edge: dict[str, Any] = {"from": f"n{sender}", "to": f"n{receiver}"}
            partitioner = draw(st.sampled_from(PARTITIONERS))
            edge |= {"partitioner": partitioner} if partitioner else {}
            edge |= {"input": draw(st.integers(0, 1))}
            edge |= {"partition_type": "blocking"} if draw(st.integers(0, 5)) == 0 else {}
            edges.append(edge)
    if draw(st.booleans()):  # a pair that is chained, whatever else there is
        pair = [{"name": name, "parallelism": 3} for name in ("first", "second")]
        return {
            "operators": [*operators, *pair],
            "edges": [*edges, {"from": "first", "to": "second"}],
        }
    return {"operators": operators, "edges": edges}


def channels_asked(job: Any) -> int:
    """Count the channels that the edges ask for: all pairs, or those of the nearest subtasks."""
    size = {vertex.name: vertex.parallelism for vertex in job.vertices}
    ends = [(size[edge.source], size[edge.target], edge.ship) for edge in job.edges]
    return sum(max(p, q) if ship in ("FORWARD", "RESCALE") else p * q for p, q, ship in ends)


def test_any_job(draw_until: Any) -> None:
    met: Counter[str] = Counter()

    @given(mapping=jobs(), sharing=st.sampled_from(["local", "tasks"]), mode=MODES)
    def look(mapping: dict[str, Any], sharing: str, mode: str) -> None:
        stream = stream_graph(mapping)
        job = job_graph(stream)
        members = [name for vertex in job.vertices for name in vertex.operators]
        assert sorted(members) == sorted(node.name for node in stream.nodes)
        graph = execution_graph(job)
        gates = {task: graph.channels(*task) for task in graph.subtasks}
        assert sum(map(len, gates.values())) == channels_asked(job)
        assert sum(map(graph.channel_count, graph.edges)) == channels_asked(job)
        one_end(graph)
        regions = graph.regions()
        assert sorted(task for region in regions for task in region) == sorted(graph.subtasks)
        for region in regions:
            assert all(region <= graph.restart_set(task) for task in region)
        slots = slot_sharing(graph, sharing)
        assert sorted(task for slot in slots for task in slot) == sorted(graph.subtasks)
        groups = {vertex.name: vertex.slot_group for vertex in job.vertices}
        for slot in slots:
            assert len({name for name, _ in slot}) == len(slot)
            assert len({groups[name] for name, _ in slot}) == 1
        assert len(slots) == sum(job.slots_required().values())
        placed = assign_slots(slots, task_managers=len(slots), slots=2, mode=mode)
        used = [placed[slot[0]] for slot in slots]
        assert len(set(used)) == len(slots)
        assert all(placed[task] == used[i] for i, slot in enumerate(slots) for task in slot)
        met["chained"] += len(job.vertices) < len(stream.nodes)
        met["groups"] += len(job.slots_required()) > 1
        met["regions"] += 1 < len(regions) < len(graph.subtasks)
        met["unequal"] += len({vertex.parallelism for vertex in job.vertices}) > 1

    rare = ("chained", "groups", "regions", "unequal")
    draw_until(look, lambda: all(met[name] > 3 for name in rare), 5)
    assert all(met[name] > 3 for name in rare), met


def one_end(graph: Any) -> None:
    """Each subpartition of each partition is read by exactly one channel of an edge."""
    for edge in graph.edges:
        receivers = graph.vertex(edge.target).parallelism
        senders = graph.vertex(edge.source).parallelism
        read = [channel for t in range(receivers) for channel in graph.gate(edge, t)]
        made = [(s, k) for s in range(senders) for k in range(graph.subpartitions(edge, s))]
        assert sorted(read) == made


@pytest.mark.parametrize(
    ("names", "edges", "vertex"),
    [
        (["s", "Source: s"], [("s", "Source: s", "hash")], "Source: s"),
        (["s", "a", "b", "a -> b"], [("s", "a", "hash"), ("a", "b", "forward"),
                                     ("b", "a -> b", "hash")], "a -> b"),
    ],
)  # fmt: skip
def test_two_vertices_of_one_name_are_refused(
    names: list[str], edges: list[tuple[str, str, str]], vertex: str
) -> None:
    """An operator may have the name that a source, or a chain, gets as a vertex."""
    graph = {
        "operators": [{"name": name} for name in names],
        "edges": [{"from": a, "to": b, "partitioner": kind} for a, b, kind in edges],
    }
    with pytest.raises(ValueError, match=f"two vertices of one name, '{vertex}': rename one"):
        job_graph(stream_graph(graph))
