"""Key distributions: where Flink sends each key, and what each subtask gets."""

from __future__ import annotations

from fractions import Fraction
from math import fsum
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.layout.shares import (
    _AT_A_TIME,
    _zipf_weights,
    channels_of_keys,
    hottest,
    shares_of_keys,
    weights_of,
)
from flowcontrol.protocol.network.partitioners import (
    channel_of_key,
    default_max_parallelism,
    integer_weights,
)
from flowcontrol.scenario.key_distribution import KeyDistribution
from staged_runs import run_staged

FIRST_FIVE = [
    33467294920540200,
    15613045149178110,
    9995102004014588,
    7283743111268447,
    5698408852926587,
]
LARGE = (19345664329092367, 26650955267585490, 13095208287941906, 12965766153308103)
"""Of five keys and of three arrays of them, exponent 1.1."""


def distribution(kind: str, keys: int, **parameters: Any) -> KeyDistribution:
    return KeyDistribution.model_validate({"kind": kind, "keys": keys, **parameters})


def one_by_one(weights: dict[str, int], width: int) -> list[int]:
    """What the rules for a single key give."""
    shares = [0] * width
    for key, weight in weights.items():
        shares[channel_of_key(key, width, default_max_parallelism(width))] += weight
    return shares


@given(st.integers(1, 2000) | st.sampled_from([32_768, 5000]), st.integers(1, 10**7))
def test_a_key_goes_where_the_rule_for_one_key_sends_it(width: int, number: int) -> None:
    numbers = np.array([1, 9, 10, 99, 100, number], np.int64)
    found = channels_of_keys(numbers, width).tolist()
    groups = default_max_parallelism(width)
    assert found == [channel_of_key(str(key), width, groups) for key in numbers.tolist()]


@given(st.integers(1, 300), st.integers(1, 20))
def test_uniform_is_a_weight_of_one_for_each_key(keys: int, width: int) -> None:
    expected = one_by_one({str(k): 1 for k in range(1, keys + 1)}, width)
    assert list(shares_of_keys(distribution("uniform", keys), width)) == expected


@given(st.integers(2, 300), st.integers(1, 20), st.floats(0, 1))
def test_hot_is_exact(keys: int, width: int, share: float) -> None:
    hot = Fraction(repr(share))
    weights = {str(k): (1 - hot) / (keys - 1) for k in range(2, keys + 1)} | {"1": hot}
    whole = dict(zip(weights, integer_weights(weights.values()), strict=True))
    found = shares_of_keys(distribution("hot", keys, share=share), width)
    exact = one_by_one(whole, width)
    assert [Fraction(part, sum(found)) for part in found] == [
        Fraction(part, sum(exact)) for part in exact
    ]


@given(st.integers(1, 300), st.floats(0, 30), st.integers(1, 20))
def test_zipf_follows_its_law(keys: int, exponent: float, width: int) -> None:
    found = shares_of_keys(distribution("zipf", keys, exponent=exponent), width)
    expected = [0.0] * width
    for k in range(1, keys + 1):
        expected[channel_of_key(str(k), width, default_max_parallelism(width))] += k**-exponent
    for part, about in zip(found, expected, strict=True):
        assert part / sum(found) == pytest.approx(about / fsum(expected), rel=1e-11, abs=1e-13)
    assert all((part > 0) == (about > 0) for part, about in zip(found, expected, strict=True))


def test_the_integers_of_zipf_are_the_same_on_every_machine() -> None:
    """A run must not depend on the last bit of a processor's ``pow``."""
    [(_, weights)] = _zipf_weights(5, 1.1)
    assert weights.tolist() == FIRST_FIVE
    assert shares_of_keys(distribution("zipf", 3 * _AT_A_TIME), 4) == LARGE


def test_a_million_keys_make_a_whole() -> None:
    found = shares_of_keys(distribution("zipf", 1_000_000), 8)
    assert sum(found) == pytest.approx(2**56, rel=1e-9)
    assert sum(shares_of_keys(distribution("uniform", 1_000_000), 8)) == 1_000_000


def test_records_are_dealt_out_by_it(jobs: ModuleType) -> None:
    edge = ("source", "sink", "hash", {"key_distribution": {"kind": "hot", "keys": 100}})
    made = jobs.job([jobs.source(100), jobs.sink(None, parallelism=4)], [edge], duration_s=10)
    *_, last = run_staged(made)
    counts = [last.state.channel("source->sink", 0, i)[0].routed for i in range(4)]
    assert sum(counts) == 1000
    weights = weights_of(made.links[0].edge, 4) or []
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - 1000 * weight / sum(weights)) < 2
    subtask, share = hottest(made.links[0].edge, 4)
    assert subtask == channel_of_key("1", 4, 128) == counts.index(max(counts))
    assert share > Fraction(1, 2)


def test_an_edge_without_shares_has_no_hottest_subtask(jobs: ModuleType) -> None:
    assert hottest(jobs.two_by_two().links[0].edge, 2) == (0, Fraction(1, 2))
