"""Region failover: tables by hand, and closure for any graph."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.spec.functions import failover_tasks, pipelined_regions

P, B = "pipelined", "blocking"
CHAIN = [("a", "b", P), ("b", "c", P)]
STAGES = [("a", "b", B), ("b", "c", B)]
MIXED = [("a", "b", P), ("b", "c", B), ("c", "d", P)]
LANES = [("a0", "b0", P), ("a1", "b1", P)]
DIAMOND = [("a", "b", B), ("a", "c", B), ("b", "d", B), ("c", "d", B)]

BY_HAND = [
    (CHAIN, "a", "", "abc"),
    (CHAIN, "b", "", "abc"),  # the producer too, though it is upstream
    (CHAIN, "c", "", "abc"),
    (CHAIN, "c", "a", "abc"),
    (STAGES, "a", "", "abc"),
    (STAGES, "b", "", "bc"),
    (STAGES, "c", "", "c"),
    (STAGES, "c", "b", "bc"),
    (STAGES, "c", "a", "c"),  # nobody reads it again: b's result is there
    (STAGES, "c", "ab", "abc"),
    (STAGES, "b", "a", "abc"),
    (MIXED, "d", "", "cd"),
    (MIXED, "c", "", "cd"),
    (MIXED, "a", "", "abcd"),
    (MIXED, "d", "b", "abcd"),  # the region of the producer restarts whole
    (DIAMOND, "b", "", "bd"),
    (DIAMOND, "d", "", "d"),
    (DIAMOND, "d", "c", "cd"),
    (DIAMOND, "b", "c", "bcd"),  # d restarts, and needs c's result
    (DIAMOND, "d", "ca", "abcd"),  # c needs a, and everything is downstream of a
    ([], "x", "", "x"),
    ([("a", "b", P), ("a", "b", B)], "b", "", "ab"),
]


@pytest.mark.parametrize(("edges", "failed", "lost", "restarted"), BY_HAND)
def test_by_hand(edges: Any, failed: str, lost: str, restarted: str) -> None:
    assert failover_tasks(edges, failed, list(lost)) == set(restarted)


def test_pointwise_lanes_are_regions_of_their_own() -> None:
    assert failover_tasks(LANES, "a1") == {"a1", "b1"}
    joined = [*LANES, ("b0", "c", P), ("b1", "c", P)]
    assert failover_tasks(joined, "a1") == {"a0", "b0", "a1", "b1", "c"}


def test_tasks_may_be_pairs_and_lost_an_iterator() -> None:
    edges = iter([(("map", 0), ("sink", 1), B)])
    found = failover_tasks(edges, ("sink", 1), lost=iter([("map", 0)]))
    assert found == {("map", 0), ("sink", 1)}


def test_regions() -> None:
    found = pipelined_regions(MIXED, ["alone"])
    assert found == {
        "a": {"a", "b"}, "b": {"a", "b"}, "c": {"c", "d"}, "d": {"c", "d"}, "alone": {"alone"}
    }  # fmt: skip


CYCLES = [
    # Lanes that a shuffle joins crosswise.
    ([("a0", "b0", P), ("a1", "b1", P), ("a0", "b1", B), ("a1", "b0", B)], ["a0 a1 b0 b1"]),
    # A cycle of three regions, one behind it and one before it.
    (
        [("x", "a", B), ("a", "b", B), ("b", "c", B), ("c", "a", B), ("c", "y", B)],
        ["x", "a b c", "y"],
    ),
    # Two ways to one region are no cycle.
    ([("a", "b", B), ("a", "c", B), ("b", "d", B), ("c", "d", B)], ["a", "b", "c", "d"]),
    # Two cycles, one behind the other.
    ([("a", "b", B), ("b", "a", B), ("b", "c", B), ("c", "d", B), ("d", "c", B)], ["a b", "c d"]),
]


@pytest.mark.parametrize(("edges", "regions"), CYCLES)
def test_regions_in_a_cycle_are_one(edges: Any, regions: list[str]) -> None:
    assert set(pipelined_regions(edges).values()) == {frozenset(one.split()) for one in regions}


@pytest.mark.parametrize("kind", ["forward", "", None])
def test_an_unknown_kind_is_refused(kind: Any) -> None:
    with pytest.raises(ValueError, match="needs 'pipelined' or 'blocking'"):
        failover_tasks([("a", "b", kind)], "a")


@st.composite
def graphs(draw: Any) -> tuple[list[tuple[int, int, str]], int, set[int]]:
    """Edges from lower to higher numbers, a failed task, lost results."""
    size = draw(st.integers(4, 7))
    pairs = list(combinations(range(size), 2))
    kinds = st.sampled_from([None, P, B, None, B])
    drawn = zip(pairs, draw(st.tuples(*[kinds for _ in pairs])), strict=True)
    edges = [(a, b, kind) for (a, b), kind in drawn if kind is not None]
    return edges, draw(st.integers(0, size - 1)), draw(st.sets(st.integers(0, size - 1)))


def test_any_graph(draw_until: Any) -> None:
    """The least set that is closed under Flink's three rules, found a task at a time."""
    met: Counter[str] = Counter()

    @given(drawn=graphs())
    def look(drawn: tuple[list[tuple[int, int, str]], int, set[int]]) -> None:
        edges, failed, lost = drawn
        expected, before = {failed}, set()
        while expected != before:
            before = set(expected)
            for a, b, kind in edges:
                if a in before:  # downstream, or the same region
                    expected.add(b)
                if b in before and (kind == P or a in lost):
                    expected.add(a)
        found = failover_tasks(edges, failed, lost)
        assert found == expected
        everything = {failed, *(task for edge in edges for task in edge[:2])}
        met["some"] += 1 < len(found) < len(everything)
        met["by loss"] += found != failover_tasks(edges, failed)
        assert failover_tasks(edges, failed) <= found

    draw_until(look, lambda: min(met["some"], met["by loss"]) > 5, 5)
    assert min(met["some"], met["by loss"]) > 5
