"""Which channel each record goes to, one partitioner after the other."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.job import build_physical_graph
from flowcontrol.job.routing import Router, mix
from flowcontrol.protocol.partitioners import channel_of_key
from flowcontrol.scenario import parse_scenario


def router(
    jobs: ModuleType,
    partitioner: str,
    receivers: int = 3,
    sender: int = 0,
    seed: int = 1,
    senders: int = 1,
    **edge: Any,
) -> Router:
    stages = [jobs.source(10, parallelism=senders), jobs.sink(10, parallelism=receivers)]
    made = jobs.job(stages, [("source", "sink", partitioner, edge)], seed=seed)
    return Router(made.links[0], sender, seed)


def routed(found: Router, records: int, first: int = 0) -> list[int]:
    channels = []
    for number in range(first, first + records):
        channels.append(found.next_channel(number))
        found.advance(channels[-1])
    return channels


@pytest.mark.parametrize(
    ("partitioner", "sender", "expected"),
    [
        ("rebalance", 0, [0, 1, 2, 0, 1]),
        ("rebalance", 1, [1, 2, 0, 1, 2]),
        ("rebalance", 4, [1, 2, 0, 1, 2]),
        ("global", 1, [0, 0, 0, 0, 0]),
    ],
)
def test_records_in_order(
    jobs: ModuleType, partitioner: str, sender: int, expected: list[int]
) -> None:
    assert routed(router(jobs, partitioner, sender=sender, senders=5), 5) == expected


def test_rescale_goes_round_its_own_channels_only(jobs: ModuleType) -> None:
    found = router(jobs, "rescale", receivers=4, sender=1, senders=2)
    assert found.width == 2
    assert routed(found, 5) == [0, 1, 0, 1, 0]


def test_forward_has_one_channel(jobs: ModuleType) -> None:
    found = router(jobs, "forward", receivers=3, sender=2, senders=3)
    assert found.width == 1
    assert routed(found, 3) == [0, 0, 0]


# Shares are spread evenly: the channel furthest behind its share is next, the lowest first.
@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1, 1, 1], [0, 1, 2, 0, 1, 2]),
        ([2, 1, 1], [0, 1, 2, 0, 0, 1, 2, 0]),
        ([0, 1, 0], [1, 1, 1]),
        ([0.1, 0.8, 0.1], [1, 1, 1, 1, 0, 2, 1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("partitioner", ["custom", "hash"])
def test_shares_are_spread_evenly(
    jobs: ModuleType, partitioner: str, weights: list[float], expected: list[int]
) -> None:
    found = router(jobs, partitioner, channel_weights=weights)
    channels = routed(found, len(expected))
    assert Counter(channels) == Counter(expected)
    assert channels[0] == expected[0]


@given(
    weights=st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
    records=st.integers(1, 60),
)
def test_no_channel_is_a_record_away_from_its_share(
    jobs: ModuleType, weights: list[int], records: int
) -> None:
    found = router(jobs, "custom", channel_weights=weights)
    routed(found, records)
    assert sum(found.counts) == records
    for count, weight in zip(found.counts, weights, strict=True):
        assert abs(count - records * weight / sum(weights)) < 2
        assert weight > 0 or count == 0
        assert count < records * weight / sum(weights) + 1


def test_keys_go_where_flinks_key_groups_send_them(jobs: ModuleType) -> None:
    keys = {"apple": 3, "pear": 1, "plum": 2, "fig": 4}
    found = router(jobs, "hash", key_weights=keys)
    routed(found, 1000)
    expected = [0, 0, 0]
    for key, weight in keys.items():
        expected[channel_of_key(key, 3, 128)] += 100 * weight
    assert found.counts == expected


def test_shuffle_is_uniform_and_a_function_of_seed_and_sender(jobs: ModuleType) -> None:
    first = routed(router(jobs, "shuffle"), 3000)
    assert routed(router(jobs, "shuffle"), 3000) == first
    assert routed(router(jobs, "shuffle", seed=2), 3000) != first
    assert routed(router(jobs, "shuffle", sender=1, senders=2), 3000) != first
    counts = Counter(first)
    # Four standard deviations of a third of 3,000: 4 x sqrt(3000 x 1/3 x 2/3) = 103.
    assert all(abs(counts[channel] - 1000) < 104 for channel in range(3))
    pairs = Counter(pairwise(first))
    assert all(abs(count - 333) < 4 * 18 for count in pairs.values())
    assert len(pairs) == 9


def test_a_table_says_where_replayed_rows_go(jobs: ModuleType) -> None:
    link = jobs.two_by_two().links[0]
    found = Router(link, 0, 1, np.array([1, 1, 0, 1]))
    assert routed(found, 4) == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("partitioner", "edge"),
    [("rebalance", {}), ("shuffle", {}), ("custom", {"channel_weights": [1, 2, 4]})],
)
def test_a_restored_router_goes_on(jobs: ModuleType, partitioner: str, edge: Any) -> None:
    whole = routed(router(jobs, partitioner, **edge), 30)
    stopped, restored = router(jobs, partitioner, **edge), router(jobs, partitioner, **edge)
    routed(stopped, 17)
    counts = list(stopped.counts)
    assert restored.restore(counts) == 17
    assert routed(restored, 13, 17) == whole[17:]
    assert counts == stopped.counts


def test_asking_for_a_channel_does_not_move_on(jobs: ModuleType) -> None:
    found = router(jobs, "custom", channel_weights=[1, 2, 4])
    assert [found.next_channel(0), found.next_channel(0)] == [2, 2]
    found.advance(2)
    assert (found.counts, found.next_channel(1)) == ([0, 0, 1], 1)


@given(seed=st.integers(0, 2**63), stream=st.integers(0, 2**32), number=st.integers(0, 2**40))
def test_mixing_is_pure_and_stays_in_64_bits(seed: int, stream: int, number: int) -> None:
    assert mix(seed, stream, number) == mix(seed, stream, number)
    assert 0 <= mix(seed, stream, number) < 2**64


def test_mixing_is_splitmix64() -> None:
    """The published first outputs for the seed 0; seed and stream move the state far apart."""
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert [mix(0, 0, number) for number in range(3)] == first
    assert mix(1, 0, 5) == mix(0, 0, 5 + 0x9E3779B97F4A7C15)
    assert mix(0, 1, 5) == mix(0, 0, 5 + 0xBF58476D1CE4E5B9)


def test_mixing_changes_half_of_the_bits() -> None:
    """One step in any of the three numbers turns about 32 of 64 bits."""
    for step in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        turned = [
            (mix(s, 7, n) ^ mix(s + step[0], 7 + step[1], n + step[2])).bit_count()
            for s in range(10)
            for n in range(50)
        ]
        assert 31 < sum(turned) / len(turned) < 33


def test_a_broadcast_counts_on_every_channel() -> None:
    mapping = {
        "schema": 1,
        "name": "broadcast",
        "duration_s": 1,
        "stages": [{"name": "one", "emit_rate": 1}, {"name": "three", "parallelism": 3}],
        "edges": [{"from": "one", "to": "three", "partitioner": "broadcast"}],
    }
    found = Router(build_physical_graph(parse_scenario(mapping)).links[0], 0, 1)
    routed(found, 4)
    assert found.counts == [4, 4, 4]
    again = Router(build_physical_graph(parse_scenario(mapping)).links[0], 0, 1)
    assert again.restore(found.counts) == 4
    assert again.counts == [4, 4, 4]
