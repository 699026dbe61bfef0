"""Routing of records: hashes with published values, patterns against Flink's loops, shares."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network.partitioners import (
    default_max_parallelism,
    integer_weights,
    java_hash,
    key_group,
    murmur,
    next_by_share,
    pointwise_channels,
    pointwise_senders,
    pointwise_subpartition,
    smooth_round_robin,
)

INT32 = st.integers(-(2**31), 2**31 - 1)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, 0x2362F9DE),  # MurmurHash3_x86_32 of four zero bytes with seed 0
        (0xFFFFFFFF, 0x76293B50),  # ... and of four bytes 0xff
        (1, 68075478),
    ],
)
def test_murmur_gives_published_values(code, expected):
    assert murmur(code) == expected


def reference_murmur(code):
    """MurmurHash3 of one block, with signed arithmetic as Java has it."""

    def int32(value):
        value &= 0xFFFFFFFF
        return value - 2**32 if value >= 2**31 else value

    def rotate(value, by):
        value &= 0xFFFFFFFF
        return int32(value << by | value >> (32 - by))

    code = rotate(int32(code * int32(0xCC9E2D51)), 15)
    code = rotate(int32(code * 0x1B873593), 13)
    code = int32(code * 5 + int32(0xE6546B64)) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        code = int32((code ^ (code & 0xFFFFFFFF) >> shift) * int32(factor))
    code = int32(code ^ (code & 0xFFFFFFFF) >> 16)
    return code if code >= 0 else (0 if code == -(2**31) else -code)


@given(INT32)
def test_murmur_equals_the_signed_form_and_is_never_negative(code):
    assert murmur(code) == reference_murmur(code) == murmur(code & 0xFFFFFFFF)
    assert 0 <= murmur(code) < 2**31


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),  # the well-known text whose hash is the smallest
        ("\U0001f600", 31 * 0xD83D + 0xDE00),  # two code units
    ],
)
def test_java_hash_gives_published_values(text, expected):
    assert java_hash(text) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_java_hash_of_a_concatenation(left, right):
    units = len(right.encode("utf-16-be", "surrogatepass")) // 2
    combined = (java_hash(left) * 31**units + java_hash(right)) & 0xFFFFFFFF
    assert java_hash(left + right) & 0xFFFFFFFF == combined


@pytest.mark.parametrize(
    ("parallelism", "expected"),
    [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (172, 512), (32768, 32768)],
)
def test_default_max_parallelism(parallelism, expected):
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize("parallelism", [-1, 0, 32769])
def test_default_max_parallelism_refuses(parallelism):
    with pytest.raises(ValueError, match=str(parallelism)):
        default_max_parallelism(parallelism)


def test_no_key_groups_are_refused():
    with pytest.raises(ValueError, match="max_parallelism is 0"):
        key_group(1, 0)


@pytest.mark.parametrize(
    ("senders", "receivers", "expected"),
    [
        (1, 1, [[0]]),
        (3, 3, [[0], [1], [2]]),
        (2, 4, [[0, 1], [2, 3]]),
        (2, 3, [[0, 1], [2]]),
        (4, 2, [[0], [0], [1], [1]]),
        (3, 2, [[0], [1], [1]]),
        (5, 2, [[0], [0], [1], [1], [1]]),
        (1, 3, [[0, 1, 2]]),
        (3, 1, [[0], [0], [0]]),
    ],
)
def test_pointwise_by_hand(senders, receivers, expected):
    assert [pointwise_channels(s, senders, receivers) for s in range(senders)] == expected


@given(st.integers(1, 30), st.integers(1, 30))
def test_pointwise_equals_the_receivers_view(senders, receivers):
    """Flink computes, per receiver, which partitions it reads."""
    reads = {s: [] for s in range(senders)}
    for r in range(receivers):
        if senders >= receivers:
            block = range(r * senders // receivers, (r + 1) * senders // receivers)
        else:
            block = [r * senders // receivers]
        for s in block:
            reads[s].append(r)
    assert [pointwise_channels(s, senders, receivers) for s in range(senders)] == [
        reads[s] for s in range(senders)
    ]


@given(st.integers(1, 40), st.integers(1, 40))
def test_senders_and_subpartitions_are_the_inverse(senders, receivers):
    """Each channel has one end at either side, and a sender's subpartitions are all read once."""
    reached = {s: pointwise_channels(s, senders, receivers) for s in range(senders)}
    read = {t: list(pointwise_senders(t, senders, receivers)) for t in range(receivers)}
    assert read == {t: [s for s in reached if t in reached[s]] for t in read}
    for channels in reached.values():
        places = [pointwise_subpartition(t, senders, receivers) for t in channels]
        assert sorted(places) == list(range(len(channels)))


@pytest.mark.parametrize(
    ("senders", "receivers", "expected"),
    [(2, 5, [0, 1, 2, 1, 0]), (2, 3, [0, 1, 0]), (3, 3, [0, 0, 0]), (4, 2, [0, 0])],
)
def test_a_subpartition_is_the_index_modulo_their_number(senders, receivers, expected):
    assert [pointwise_subpartition(t, senders, receivers) for t in range(receivers)] == expected


@pytest.mark.parametrize(("receiver", "senders", "receivers"), [(0, 0, 1), (0, 1, 0), (2, 3, 2)])
def test_senders_of_nobody_are_refused(receiver, senders, receivers):
    with pytest.raises(ValueError, match=r"must be at least 1|does not exist"):
        pointwise_senders(receiver, senders, receivers)


@pytest.mark.parametrize(
    ("sender", "senders", "receivers"), [(0, 0, 1), (0, 1, 0), (1, 1, 1), (-1, 1, 1)]
)
def test_pointwise_refuses(sender, senders, receivers):
    with pytest.raises(ValueError, match=r"sender|parallelism"):
        pointwise_channels(sender, senders, receivers)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1], [0, 0, 0, 0]),
        ([1, 1, 1], [0, 1, 2, 0, 1, 2]),
        ([3, 1, 1], [0, 1, 0, 2, 0, 0, 1, 0, 2, 0]),
        ([0, 1], [1, 1, 1]),
        ([1, 9], [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]),
    ],
)
def test_spread_by_hand(weights, expected):
    assert smooth_round_robin(len(expected), weights) == expected


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8).filter(any), st.integers(0, 300))
def test_no_channel_is_a_record_ahead_and_a_full_turn_is_exact(weights, records):
    total = sum(weights)
    channels = smooth_round_robin(max(records, total), weights)
    assert [channels[:total].count(c) for c in range(len(weights))] == weights
    for taken in range(len(channels) + 1):
        for c, weight in enumerate(weights):
            assert channels[:taken].count(c) * total < weight * taken + total


def test_the_next_channel_changes_nothing():
    behind = [-1, 1]  # one has had 2 of 3 records
    assert next_by_share(behind, [1, 1]) == 1
    assert behind == [-1, 1]


@pytest.mark.parametrize(("records", "weights"), [(-1, [1]), (1, [0, 0]), (1, [2, -1]), (1, [])])
def test_spread_refuses(records, weights):
    with pytest.raises(ValueError, match=r"records|weights"):
        smooth_round_robin(records, weights)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.1, 0.2, 0.7], [1, 2, 7]),
        ([Fraction(1, 3), Fraction(1, 2)], [2, 3]),
        ([4, 0, 6.0], [2, 0, 3]),
        ([1e-3, 1], [1, 1000]),
    ],
)
def test_integer_weights(weights, expected):
    assert integer_weights(weights) == expected


@pytest.mark.parametrize("weights", [[], [0.0], [1, -1], [float("nan")], [float("inf")]])
def test_integer_weights_refuses(weights):
    with pytest.raises(ValueError, match=r"weights|Invalid literal"):
        integer_weights(weights)
