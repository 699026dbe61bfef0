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

from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import ROUTED
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import Replayed
from flowcontrol.layout.shares import mix
from flowcontrol.protocol.network.partitioners import channel_of_key
from flowcontrol.scenario import parse_scenario
from modules import load
from staged_runs import staged

jobs = load("tests/job/small_jobs.py")


def laid_out(
    jobs: ModuleType,
    partitioner: str,
    receivers: int = 3,
    senders: int = 1,
    seed: int = 1,
    **edge: Any,
) -> Job:
    """Sources that emit 100 records a round each."""
    stages = [jobs.source(1000, parallelism=senders), jobs.sink(None, parallelism=receivers)]
    made: Job = jobs.job(stages, [("source", "sink", partitioner, edge)], seed=seed, duration_s=20)
    return made


def routed(
    made: Job, records: int, sender: int = 0, replayed: Replayed | None = None, restarts: int = 0
) -> list[int]:
    """Channels of the first records of a source, begun anew before each of so many rounds."""
    own, found = staged(made, replayed), list[int]()
    for number in range(made.rounds):
        if 0 < number <= restarts:
            own.restart()
        own.run()
        replica, _ = own._stages[0]
        m = replica.memory.head
        first = v.partition_row(m, v.task_row(m, sender).first_partition).first_channel
        for move in replica.moves:
            if (move.kind, move.task) == (ROUTED, sender):
                found += [move.first - first] * move.records
        if len(found) >= records:
            break
    return found[:records]


@pytest.mark.parametrize(
    ("partitioner", "sender", "expected"),
    [
        ("rebalance", 0, [0, 1, 2, 0, 1]),
        ("rebalance", 1, [1, 2, 0, 1, 2]),
        ("rebalance", 4, [1, 2, 0, 1, 2]),
        ("global", 1, [0, 0, 0, 0, 0]),
    ],
)
def test_records_in_order(partitioner: str, sender: int, expected: list[int]) -> None:
    assert routed(laid_out(jobs, partitioner, senders=5), 5, sender) == expected


def test_rescale_goes_round_its_own_channels_only() -> None:
    assert routed(laid_out(jobs, "rescale", 4, 2), 5, sender=1) == [0, 1, 0, 1, 0]


def test_forward_has_one_channel() -> None:
    assert routed(laid_out(jobs, "forward", senders=3), 3, sender=2) == [0, 0, 0]


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
    partitioner: str, weights: list[float], expected: list[int]
) -> None:
    channels = routed(laid_out(jobs, partitioner, channel_weights=weights), len(expected))
    assert Counter(channels) == Counter(expected)
    assert channels[0] == expected[0]


@given(
    weights=st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any),
    records=st.integers(1, 60),
)
def test_no_channel_is_a_record_away_from_its_share(weights: list[int], records: int) -> None:
    counts = Counter(routed(laid_out(jobs, "custom", channel_weights=weights), records))
    assert counts.total() == records
    for channel, weight in enumerate(weights):
        count = counts[channel]
        assert abs(count - records * weight / sum(weights)) < 2
        assert weight > 0 or count == 0
        assert count < records * weight / sum(weights) + 1


def test_keys_go_where_flinks_key_groups_send_them() -> None:
    keys = {"apple": 3, "pear": 1, "plum": 2, "fig": 4}
    expected = Counter[int]()
    for key, weight in keys.items():
        expected[channel_of_key(key, 3, 128)] += 100 * weight
    assert Counter(routed(laid_out(jobs, "hash", key_weights=keys), 1000)) == expected


def test_shuffle_is_uniform_and_a_function_of_seed_and_sender() -> None:
    first = routed(laid_out(jobs, "shuffle"), 3000)
    assert routed(laid_out(jobs, "shuffle"), 3000) == first
    assert routed(laid_out(jobs, "shuffle", seed=2), 300) != first[:300]
    assert routed(laid_out(jobs, "shuffle", senders=2), 300, sender=1) != first[:300]
    counts = Counter(first)
    # Four standard deviations of a third of 3,000: 4 x sqrt(3000 x 1/3 x 2/3) = 103.
    assert all(abs(counts[channel] - 1000) < 104 for channel in range(3))
    pairs = Counter(pairwise(first))
    assert all(abs(count - 333) < 4 * 18 for count in pairs.values())
    assert len(pairs) == 9


def test_a_table_says_where_replayed_rows_go() -> None:
    table = np.array([1, 1, 0, 1, 0, 0, 1])
    rows = Replayed(limits={("source", 0): 7}, tables={("source->sink", 0): table})
    assert routed(jobs.two_by_two(), 100, replayed=rows) == table.tolist()


@pytest.mark.parametrize(
    ("partitioner", "edge"),
    [("rebalance", {}), ("shuffle", {}), ("custom", {"channel_weights": [1, 2, 4]})],
)
def test_a_source_that_begins_anew_goes_on(partitioner: str, edge: Any) -> None:
    made = laid_out(jobs, partitioner, **edge)
    assert routed(made, 500, restarts=4) == routed(made, 500)


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
        "round_ms": 100,
        "stages": [{"name": "one", "emit_rate": 40}, {"name": "three", "parallelism": 3}],
        "edges": [{"from": "one", "to": "three", "partitioner": "broadcast"}],
    }
    state = staged(build_physical_graph(parse_scenario(mapping))).run()
    assert [state.channel("one->three", 0, i)[0].routed for i in range(3)] == [4, 4, 4]
