"""The job graph is drawn properly: no box on another, no edge through a box."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.report.graph import DOWN, NODE_HEIGHT, NODE_WIDTH, Layout, layered


@st.composite
def jobs(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Draw a graph without cycles in which every stage has an edge."""
    stages = [f"s{n}" for n in range(draw(st.integers(2, 9)))]
    edges = set()
    for index, stage in enumerate(stages[1:], start=1):
        senders = st.sets(st.integers(0, index - 1), min_size=1, max_size=3)
        edges |= {(stages[sender], stage) for sender in draw(senders)}
    return stages, sorted(edges)


def test_a_chain_stands_in_one_row() -> None:
    layout = layered(["a", "b", "c"], [("a", "b"), ("b", "c")])
    (ax, ay), (bx, by), (cx, cy) = (layout.nodes[name] for name in "abc")
    assert ax < bx < cx
    assert ay == by == cy
    assert layout.edges[0] == [(ax + NODE_WIDTH, ay + NODE_HEIGHT / 2), (bx, by + NODE_HEIGHT / 2)]


def test_fan_in_ends_at_different_heights_and_does_not_cross() -> None:
    layout = layered(["a", "b", "c"], [("a", "c"), ("b", "c")])
    (first, second) = (route[-1] for route in layout.edges)
    assert layout.nodes["a"][1] < layout.nodes["b"][1]
    assert first[1] < second[1]


def test_fan_out_starts_at_different_heights() -> None:
    layout = layered(["a", "b", "c"], [("a", "b"), ("a", "c")])
    assert layout.edges[0][0][1] < layout.edges[1][0][1]


def test_edges_leave_in_the_order_of_where_they_go() -> None:
    layout = layered(["a", "b", "c"], [("a", "c"), ("a", "b")])
    assert layout.nodes["b"][1] < layout.nodes["c"][1]
    assert layout.edges[0][0][1] > layout.edges[1][0][1]


def test_an_edge_over_a_column_goes_round_the_stage_in_it() -> None:
    layout = layered(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    assert len(layout.edges[2]) == 4
    top = layout.nodes["b"][1]
    assert all(not top <= y <= top + NODE_HEIGHT for _, y in layout.edges[2][1:-1])


def test_crossing_chains_are_untangled() -> None:
    layout = layered(["a", "b", "x", "y"], [("a", "y"), ("b", "x")])
    assert layout.nodes["y"][1] < layout.nodes["x"][1]


@given(jobs())
def test_boxes_are_apart_and_inside(job: tuple[list[str], list[tuple[str, str]]]) -> None:
    layout = layered(*job)
    for x, y in layout.nodes.values():
        assert 0 <= x <= layout.width - NODE_WIDTH
        assert 0 <= y <= layout.height - NODE_HEIGHT
    for (ax, ay), (bx, by) in combinations(layout.nodes.values(), 2):
        assert abs(ax - bx) >= NODE_WIDTH or abs(ay - by) >= NODE_HEIGHT


@given(jobs())
def test_edges_run_from_box_to_box_and_through_none(
    job: tuple[list[str], list[tuple[str, str]]],
) -> None:
    layout = layered(*job)
    assert len(layout.edges) == len(job[1])
    for (sender, receiver), route in zip(job[1], layout.edges, strict=True):
        assert on_side(layout, sender, route[0], NODE_WIDTH)
        assert on_side(layout, receiver, route[-1], 0)
        for (x, y), (to_x, _) in pairwise(route):
            assert to_x > x
            for left, top in layout.nodes.values():
                inside = left == x and to_x == left + NODE_WIDTH
                assert not (inside and top <= y <= top + NODE_HEIGHT)


@given(jobs())
def test_a_graph_from_top_to_bottom_is_drawn_as_properly(
    job: tuple[list[str], list[tuple[str, str]]],
) -> None:
    layout = layered(*job, DOWN)
    for x, y in layout.nodes.values():
        assert 0 <= x <= layout.width - NODE_WIDTH
        assert 0 <= y <= layout.height - NODE_HEIGHT
    for (ax, ay), (bx, by) in combinations(layout.nodes.values(), 2):
        assert abs(ax - bx) >= NODE_WIDTH or abs(ay - by) >= NODE_HEIGHT
    for (sender, receiver), route in zip(job[1], layout.edges, strict=True):
        for stage, (x, y), offset in ((sender, route[0], NODE_HEIGHT), (receiver, route[-1], 0)):
            left, top = layout.nodes[stage]
            assert y == top + offset
            assert left < x < left + NODE_WIDTH
        assert all(to_y > y for (_, y), (_, to_y) in pairwise(route))


@given(jobs())
def test_the_same_graph_is_drawn_the_same(job: tuple[list[str], list[tuple[str, str]]]) -> None:
    assert layered(*job) == layered(*job)


def on_side(layout: Layout, stage: str, point: tuple[float, float], offset: float) -> bool:
    left, top = layout.nodes[stage]
    return point[0] == left + offset and top < point[1] < top + NODE_HEIGHT
