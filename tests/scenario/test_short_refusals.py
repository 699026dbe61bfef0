"""Short descriptions that are refused: each slip with its key, value, limit and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from modules import load

REFUSALS = load("tests/scenario/test_refusals.py")
row, MISSING, HASH = REFUSALS.row, REFUSALS.MISSING, REFUSALS.HASH
UNRATED = ("stages/1/service_rate", MISSING)
TOTAL = "stages/1/total_rate"

TOTALS = [
    row(("stages/0/total_rate", 5), "stages[0].total_rate", "total_rate and emit_rate are both",
     "keep one"),
    row((TOTAL, 5), "stages[1].total_rate", "total_rate and service_rate are both stated"),
    row([UNRATED, (TOTAL, [1, 2, 3])], "stages[1].total_rate",
     "[1, 2, 3] is not a rate of all subtasks together", "service_rate take"),
    row([UNRATED, (TOTAL, [])], "stages[1].total_rate",
     "[] is not a rate of all subtasks together"),
    row([UNRATED, (TOTAL, -1)], "stages[1].total_rate", "-1 is out of range", "at least 0"),
    row([UNRATED, (TOTAL, "5")], "stages[1].total_rate", "'5' is not a number", "without quotes"),
    row([UNRATED, (TOTAL, "5k")], "stages[1].total_rate", "'5k' is not a number", "; write 5000"),
    row([UNRATED, (TOTAL, "1.5M")], "stages[1].total_rate", "'1.5M'", "; write 1500000"),
    row([UNRATED, (TOTAL, "5/s")], "stages[1].total_rate", "write a number alone, in this unit"),
    row(("stages/1/external", True), "stages[1].external", "true: the rate", "total_rate"),
    row([("stages/0/emit_rate", MISSING), ("stages/0/total_rate", 5), ("stages/0/external", True)],
     "stages[0].external", "is a source and calls no service", "remove it"),
    row([UNRATED, (TOTAL, 5), ("stages/1/external", "yes")], "stages[1].external", "true or false"),
    row([UNRATED, (TOTAL, [{"at_s": 1, "rate": 2}])], "stages[1].total_rate[0].at_s", "1 is not 0"),
]  # fmt: skip

KEYS = "edges/0/key_distribution"
ZIPF = {"kind": "zipf", "keys": 10}

KEY_DISTRIBUTIONS = [
    row((KEYS, ZIPF), "edges[0].key_distribution", "rebalance takes no", "hash"),
    row([("edges/0/partitioner", "custom"), (KEYS, ZIPF), ("edges/0/channel_weights", [1, 1, 1])],
     "edges[0].key_distribution", "custom takes no key_distribution"),
    row([HASH, (KEYS, ZIPF), ("edges/0/key_weights", {"a": 1})], "edges[0].key_distribution",
     "key_weights and key_distribution are stated", "exactly one"),
    row([HASH, (KEYS, 3)], "edges[0].key_distribution", "3 is not a mapping", "zipf, uniform"),
    row([HASH, (KEYS, {"keys": 3})], "edges[0].key_distribution.kind", "is missing", "zipf"),
    row([HASH, (KEYS, {"kind": "zipf"})], "edges[0].key_distribution.keys", "is missing", "number"),
    row([HASH, (KEYS, {"kind": "zpf", "keys": 3})], "edges[0].key_distribution.kind", "'zpf'",
     "did you mean 'zipf'"),
    row([HASH, (KEYS, {"kind": ["zipf"], "keys": 3})], "edges[0].key_distribution.kind",
     "is not one of zipf, uniform, hot"),
    row([HASH, (KEYS, {**ZIPF, "keys": 0})], "edges[0].key_distribution.keys", "0", "at least 1"),
    row([HASH, (KEYS, {**ZIPF, "keys": 1e9})], "edges[0].key_distribution.keys",
     "at most 10000000"),
    row([HASH, (KEYS, {**ZIPF, "keys": 1.5})], "edges[0].key_distribution.keys", "whole number"),
    row([HASH, (KEYS, {**ZIPF, "exponent": -1})], "edges[0].key_distribution.exponent",
     "-1 is out of range", "at least 0"),
    row([HASH, (KEYS, {**ZIPF, "share": 0.5})], "edges[0].key_distribution.share",
     "0.5: zipf takes no share", "kind: hot"),
    row([HASH, (KEYS, {"kind": "uniform", "keys": 5, "exponent": 2})],
     "edges[0].key_distribution.exponent", "uniform takes no exponent", "kind: zipf"),
    row([HASH, (KEYS, {"kind": "hot", "keys": 5, "share": 1.5})],
     "edges[0].key_distribution.share", "1.5 is out of range", "at most 1"),
    row([HASH, (KEYS, {"kind": "hot", "keys": 1})], "edges[0].key_distribution.keys",
     "1 is too few", "at least 2 keys"),
    row([HASH, (KEYS, {**ZIPF, "exponents": 1})], "edges[0].key_distribution.exponents",
     "did you mean 'exponent'"),
]  # fmt: skip

TABLE = [*TOTALS, *KEY_DISTRIBUTIONS]


@pytest.mark.parametrize(("changes", "place", "texts"), TABLE)
def test_refused(changed: Any, changes: list[Any], place: str, texts: list[str]) -> None:
    REFUSALS.test_refused(changed, changes, place, texts)
