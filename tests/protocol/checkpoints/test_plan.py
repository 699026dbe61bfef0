"""Which subtasks are triggered: tables by hand, and the rule spelt out over single channels."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from flowcontrol.protocol.network.partitioners import pointwise_senders
from flowcontrol.spec.functions import checkpoint_plan

CHAIN = [(0, 1, "all"), (1, 2, "all")]
JOIN = [(0, 2, "all"), (1, 2, "all")]
MIXED = [(0, 2, "pointwise"), (1, 2, "all")]

PLANS = [
    # vertices, edges, plan
    ([(1, ())], [], {0: [0]}),
    ([(2, ()), (3, ()), (1, ())], CHAIN, {0: [0, 1]}),
    ([(2, ()), (3, ()), (1, ())], JOIN, {0: [0, 1], 1: [0, 1, 2]}),
    # All-to-all: one sender that runs is enough for every receiver.
    ([(2, {0}), (3, ()), (1, ())], CHAIN, {0: [1]}),
    ([(2, {0, 1}), (3, ()), (1, ())], CHAIN, {1: [0, 1, 2]}),
    ([(2, {0, 1}), (3, {1}), (1, ())], CHAIN, {1: [0, 2]}),
    ([(2, {0, 1}), (3, {0, 1, 2}), (1, ())], CHAIN, {2: [0]}),
    ([(1, {0}), (1, {0}), (1, {0})], CHAIN, {}),
    ([(2, {0, 1}), (3, ()), (1, ())], JOIN, {1: [0, 1, 2]}),
    ([(2, {0, 1}), (3, {0, 1, 2}), (2, {1})], JOIN, {2: [0]}),
    # Pointwise: each subtask by its own senders.
    ([(3, {1}), (3, ())], [(0, 1, "pointwise")], {0: [0, 2], 1: [1]}),
    ([(3, {1}), (3, {1})], [(0, 1, "pointwise")], {0: [0, 2]}),
    ([(4, {0, 1}), (2, ())], [(0, 1, "pointwise")], {0: [2, 3], 1: [0]}),
    ([(4, {0, 2}), (2, ())], [(0, 1, "pointwise")], {0: [1, 3]}),
    ([(2, {0}), (4, ())], [(0, 1, "pointwise")], {0: [1], 1: [0, 1]}),
    ([(2, {0}), (3, ())], [(0, 1, "pointwise")], {0: [1], 1: [0, 1]}),
    ([(2, {1}), (3, ())], [(0, 1, "pointwise")], {0: [0], 1: [2]}),
    # Both: a running input over either edge is one.
    ([(2, {0}), (1, ()), (2, ())], MIXED, {0: [1], 1: [0]}),
    ([(2, {0}), (1, {0}), (2, ())], MIXED, {0: [1], 2: [0]}),
]


@pytest.mark.parametrize(("vertices", "edges", "plan"), PLANS)
def test_plans(vertices, edges, plan):
    assert checkpoint_plan(vertices, edges) == plan


POINTWISE = [
    # senders, receivers, the senders of each receiver
    (3, 3, [[0], [1], [2]]),
    (4, 2, [[0, 1], [2, 3]]),
    (5, 2, [[0, 1], [2, 3, 4]]),
    (2, 4, [[0], [0], [1], [1]]),
    (2, 5, [[0], [0], [0], [1], [1]]),
    (3, 4, [[0], [0], [1], [2]]),
    (1, 2, [[0], [0]]),
]


@pytest.mark.parametrize(("senders", "receivers", "expected"), POINTWISE)
def test_channels_of_a_pointwise_edge(senders, receivers, expected):
    found = [list(pointwise_senders(i, senders, receivers)) for i in range(receivers)]
    assert found == expected


@given(st.integers(1, 30), st.integers(1, 30))
def test_a_pointwise_edge_leaves_nobody_out(senders, receivers):
    """Flink's ``VertexInputInfoComputationUtils``, from the senders' side where they are fewer."""
    found = [set(pointwise_senders(i, senders, receivers)) for i in range(receivers)]
    assert set.union(*found) == set(range(senders))
    assert all(found)
    if senders < receivers:
        for sender in range(senders):
            begin = (sender * receivers + senders - 1) // senders
            end = ((sender + 1) * receivers + senders - 1) // senders
            assert [i for i in range(receivers) if sender in found[i]] == list(range(begin, end))


@st.composite
def jobs(draw):
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    vertices = [(width, draw(st.sets(st.integers(0, width - 1)))) for width in widths]
    pairs = [(a, b) for b in range(len(widths)) for a in range(b)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return vertices, [(a, b, draw(st.sampled_from(["all", "pointwise"]))) for a, b in chosen]


@given(jobs())
def test_a_barrier_reaches_every_running_subtask(job):
    """From the triggered ones along channels between running subtasks, and nobody starts twice."""
    vertices, edges = job
    running = {(v, i) for v, (n, finished) in enumerate(vertices) for i in range(n)} - {
        (v, i) for v, (_, finished) in enumerate(vertices) for i in finished
    }
    channels = {
        ((a, i), (b, j))
        for a, b, kind in edges
        for j in range(vertices[b][0])
        for i in range(vertices[a][0])
        if kind == "all" or i in pointwise_senders(j, vertices[a][0], vertices[b][0])
    }
    live = {(a, b) for a, b in channels if a in running and b in running}
    plan = checkpoint_plan(vertices, edges)
    triggered = {(vertex, i) for vertex, subtasks in plan.items() for i in subtasks}
    assert triggered <= running
    assert not triggered & {b for _, b in live}
    reached = set(triggered)
    while more := {b for a, b in live if a in reached} - reached:
        reached |= more
    assert reached == running
    event(f"triggered behind a source: {any(v in {b for _, b, _ in edges} for v in plan)}")


@pytest.mark.parametrize(
    ("vertices", "edges", "message"),
    [
        ([(0, ())], [], "parallelism of vertex 0 is 0: needs at least 1"),
        ([(2, {2})], [], r"vertex 0 has finished subtasks \[2\]: needs 0 to 1"),
        ([(2, ())], [(0, 1, "all")], r"edge \(0, 1\): needs vertices from 0 to 0"),
        ([(2, ())] * 2, [(0, 1, "hash")], r"edge \(0, 1\) is 'hash': needs 'all' or 'pointwise'"),
    ],
)
def test_refused(vertices, edges, message):
    with pytest.raises(ValueError, match=message):
        checkpoint_plan(vertices, edges)
