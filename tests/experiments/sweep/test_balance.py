"""Chunks: every variant once, costs alike, shrinking, the heaviest first."""

from __future__ import annotations

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.experiments.sweep.variants import Variant, estimated_cost, into_chunks
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario


def variants(costs):
    return [Variant(f"{number:04d}", (number,), 0, 1, cost) for number, cost in enumerate(costs)]


def cost(chunk):
    return sum(variant.cost for variant in chunk)


def makespan(chunks, workers):
    """Time until all is done if each worker takes the next chunk when it is free."""
    free = [0.0] * workers
    for chunk in chunks:
        heapq.heappush(free, heapq.heappop(free) + cost(chunk))
    return max(free)


costs = st.lists(st.floats(1, 1000), max_size=200)


@given(costs=costs, workers=st.integers(1, 32), seed=st.integers(0, 5))
def test_every_variant_is_in_exactly_one_chunk(costs, workers, seed):
    chunks = into_chunks(variants(costs), workers, seed)
    assert all(chunks)
    handed = sorted(variant.id for chunk in chunks for variant in chunk)
    assert handed == [variant.id for variant in variants(costs)]


@given(costs=st.lists(st.floats(1, 50), min_size=1, max_size=300), workers=st.integers(1, 8))
def test_the_slowest_worker_is_near_the_mean(costs, workers):
    """By no more than the largest variant, or the last chunk: a tenth of a worker's share."""
    chunks = into_chunks(variants(costs), workers, 1)
    share = sum(costs) / workers
    assert makespan(chunks, workers) <= share + max(max(costs), 0.3 * share)


@pytest.mark.parametrize("workers", [2, 4, 16])
def test_a_thousand_variants_of_all_costs_leave_no_worker_behind(workers):
    made = variants([1 + number % 40 for number in range(1000)])
    chunks = into_chunks(made, workers, 1)
    assert makespan(chunks, workers) <= 1.03 * sum(v.cost for v in made) / workers
    assert len(chunks) <= 80 * workers


def test_the_heaviest_goes_first():
    chunks = into_chunks(variants([1] * 50 + [1000] + [1] * 50), 2, 1)
    assert [variant.cost for variant in chunks[0]] == [1000]


def test_chunks_shrink():
    sizes = [len(chunk) for chunk in into_chunks(variants([1.0] * 1000), 2, 1)]
    assert sizes[0] > 10 * sizes[-1]
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)


def test_neighbours_do_not_go_together():
    chunks = into_chunks(variants([1.0] * 1000), 2, 1)
    numbers = [variant.point[0] for variant in chunks[0]]
    assert max(numbers) - min(numbers) > 500
    assert numbers != sorted(numbers)


def test_the_order_comes_from_the_seed_alone():
    made = variants([1.0] * 100)
    assert into_chunks(made, 2, 1) == into_chunks(list(reversed(made)), 2, 1)
    assert into_chunks(made, 2, 1) != into_chunks(made, 2, 2)


def test_nothing_makes_no_chunk():
    assert into_chunks([], 4, 1) == []


@pytest.mark.parametrize(
    ("change", "at_least"),
    [({"duration_s": 20}, 1.9), ({"round_ms": 50}, 1.4), ({"stages": ("parallelism", 4)}, 4)],
)
def test_what_takes_longer_is_estimated_to_cost_more(chain, change, at_least):
    base = estimated_cost(build_physical_graph(parse_scenario(chain)))
    if "stages" in change:
        key, value = change["stages"]
        for stage in chain["stages"]:
            stage[key] = value
    else:
        chain |= change
    assert estimated_cost(build_physical_graph(parse_scenario(chain))) >= at_least * base > 0
