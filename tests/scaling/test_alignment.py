"""Alignment to key groups and partitions, by tables worked out by hand from the reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scaling import align_parallelism

# current, target, partitions, max parallelism, mode, lower, upper: head's answer.
HEAD = [
    # up, N = 128: 24..31 leave 5 to 4 key groups; 128 // 24 = 5, 25 still leaves 5, 26 leaves 4.
    (16, 24, 0, 128, "balanced", 1, 200, 26),
    (16, 24, 0, 128, "evenly_spread", 1, 200, 32),
    (16, 24, 0, 128, "off", 1, 200, 24),
    # 32 divides
    (16, 32, 0, 128, "balanced", 1, 200, 32),
    # 128 // 33 = 3; 43 is the first with 2
    (16, 33, 0, 128, "balanced", 1, 200, 43),
    (16, 33, 0, 128, "evenly_spread", 1, 200, 64),
    # the limit stops the search before 32: the target stays
    (16, 24, 0, 128, "evenly_spread", 1, 30, 24),
    (16, 24, 0, 128, "balanced", 1, 25, 24),
    # from 65 on only 128 divides
    (16, 65, 0, 128, "evenly_spread", 1, 200, 128),
    (16, 65, 0, 128, "evenly_spread", 1, 100, 65),
    # down from 30 to 20: 128 // 20 = 6; 22 leaves 5
    (30, 20, 0, 128, "balanced", 1, 200, 22),
    # 32 would divide, beyond the current 30: the target stays
    (30, 20, 0, 128, "evenly_spread", 1, 200, 20),
    # the current one divides and is the first: nothing is scaled
    (32, 20, 0, 128, "evenly_spread", 1, 200, 32),
    (32, 16, 0, 128, "balanced", 1, 200, 16),
    # partitions: 10 of them; 10 // 3 = 3, 4 leaves 2
    (2, 3, 10, 128, "balanced", 1, 200, 4),
    (2, 3, 10, 128, "evenly_spread", 1, 200, 5),
    (2, 6, 10, 128, "balanced", 1, 200, 10),
    # more than there are partitions: as many as there are (FLINK-40389), but without alignment
    (2, 12, 10, 128, "balanced", 1, 200, 10),
    (2, 12, 10, 128, "off", 1, 200, 12),
    # FLINK-40389's table: 15 partitions, 100 subtasks now. 10 leave a subtask one partition, as
    # 11 to 15 do, and only 15 divides
    (100, 180, 15, 180, "balanced", 1, 200, 15),
    (100, 50, 15, 180, "balanced", 1, 200, 15),
    (100, 10, 15, 180, "balanced", 1, 200, 15),
    (100, 10, 15, 180, "evenly_spread", 1, 200, 15),
    (100, 10, 15, 180, "off", 1, 200, 10),
    # as in the operator's testNumPartitionsAdjustment: 9 of 15 become 15, 3 divide and stay
    (7, 9, 15, 128, "evenly_spread", 1, 200, 15),
    (6, 3, 15, 128, "evenly_spread", 1, 200, 3),
    (100, 180, 15, 180, "evenly_spread", 1, 200, 15),
    (100, 180, 15, 180, "maximise_utilisation", 1, 200, 15),
    # the least is above the partitions: they count
    (100, 50, 15, 180, "balanced", 20, 200, 15),
    # one partition more than subtasks, as many, one fewer
    (10, 14, 15, 180, "balanced", 1, 200, 15),
    (10, 15, 15, 180, "balanced", 1, 200, 15),
    (10, 16, 15, 180, "balanced", 1, 200, 15),
    # it has as many as there are
    (15, 53, 15, 180, "balanced", 1, 200, 15),
    # no change: nothing to align
    (9, 9, 0, 128, "evenly_spread", 1, 200, 9),
    # a prime number of partitions
    (2, 5, 13, 128, "evenly_spread", 1, 200, 13),
    (2, 5, 13, 128, "balanced", 1, 200, 7),
    (12, 5, 13, 128, "evenly_spread", 1, 200, 5),
    # a target beyond the limits is taken within them
    (16, 300, 0, 128, "off", 1, 200, 128),
    (4, 1, 0, 128, "off", 2, 200, 2),
]

OLD = [
    # 1.15 has FLINK-40389's fault: 15 of 15 partitions would turn the scale-up
    (100, 180, 15, 180, "evenly_spread", 1, 200, 100),
    (100, 50, 15, 180, "evenly_spread", 1, 200, 15),
    (100, 10, 15, 180, "evenly_spread", 1, 200, 15),
    (7, 9, 15, 128, "evenly_spread", 1, 200, 15),
    # evenly spread: 32 divides
    (16, 24, 0, 128, "evenly_spread", 1, 200, 32),
    # not within 30: down from 24, 128 // 24 = 5; 21 leaves 6, and does not divide: 22
    (16, 24, 0, 128, "evenly_spread", 1, 30, 22),
    # maximise: 26 leaves 4
    (16, 24, 0, 128, "maximise_utilisation", 1, 200, 26),
    # not within 25: down to 22 again
    (16, 24, 0, 128, "maximise_utilisation", 1, 25, 22),
    # down to 22 would be a scale-down from 23: it stays
    (23, 24, 0, 128, "maximise_utilisation", 1, 25, 23),
    # 65 up to 100: 128 // 65 = 1; 64 leaves 2 and divides: 64
    (16, 65, 0, 128, "evenly_spread", 1, 100, 64),
    # 64 is where it is: it stays
    (64, 65, 0, 128, "evenly_spread", 1, 100, 64),
    # down from 30 to 20: no divisor to 30; 128 // 20 = 6, 18 leaves 7 and does not divide: 19
    (30, 20, 0, 128, "evenly_spread", 1, 200, 19),
    (30, 20, 0, 128, "maximise_utilisation", 1, 200, 22),
    # the lower limit holds on the way down: 20 is not below 20
    (30, 20, 0, 128, "evenly_spread", 20, 200, 20),
    # at the current one: nothing is scaled
    (32, 20, 0, 128, "evenly_spread", 1, 200, 32),
    # partitions
    (2, 3, 10, 128, "evenly_spread", 1, 200, 5),
    (2, 3, 10, 128, "maximise_utilisation", 1, 200, 4),
    # 12 of 10 partitions: as many as there are
    (2, 12, 10, 128, "evenly_spread", 1, 200, 10),
    # 7 of 13 within 9: 13 // 7 = 1; 6 leaves 2, does not divide: 7
    (2, 7, 13, 128, "evenly_spread", 1, 9, 7),
    # 9: one up from 6 is 7
    (2, 9, 13, 128, "evenly_spread", 1, 9, 7),
    (8, 9, 13, 128, "evenly_spread", 1, 9, 8),
    # the default of 1.15
    (16, 24, 0, 128, "balanced", 1, 200, 32),
    (9, 9, 0, 128, "evenly_spread", 1, 200, 9),
    (4, 2, 9, 128, "evenly_spread", 1, 200, 3),
    # the other spelling, and capitals
    (16, 24, 0, 128, "MAXIMIZE_UTILISATION", 1, 200, 26),
]


@pytest.mark.parametrize("row", HEAD)
def test_head_follows_the_table(row):
    *arguments, expected = row
    assert align_parallelism(*arguments) == expected


@pytest.mark.parametrize("row", OLD)
def test_1_15_follows_the_table(row):
    *arguments, expected = row
    assert align_parallelism(*arguments, version="1.15") == expected


def test_the_old_keys_mode_has_the_old_rules_in_head():
    assert align_parallelism(16, 24, mode="maximise_utilisation", upper=25) == 22


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"lower": 5, "upper": 4}, "lower: 5 is more than upper, 4"),
        ({"target": 0}, "target: 0 is out of range"),
        ({"partitions": -1}, "partitions: -1"),
        ({"mode": "even"}, "mode: 'even' is not one of balanced, evenly_spread, off"),
        ({"mode": "off", "version": "1.15"}, "mode: 'off' is not one of evenly_spread"),
        ({"version": "1.16"}, "version: '1.16' is not one of head, 1.15"),
    ],
)
def test_it_refuses_with_name_and_value(arguments, text):
    with pytest.raises(ValueError) as error:
        align_parallelism(**{"current": 2, "target": 3, **arguments})
    assert text in str(error.value)


MODE = st.sampled_from(
    [
        ("balanced", "head"),
        ("evenly_spread", "head"),
        ("evenly_spread", "1.15"),
        ("maximise_utilisation", "1.15"),
    ]
)


def test_it_never_turns_and_keeps_to_the_limits(draw_until):
    met = set()

    @given(
        current=st.integers(1, 130),
        target=st.integers(1, 130),
        units=st.integers(1, 130),
        limits=st.tuples(st.integers(1, 130), st.integers(1, 130)).map(sorted),
        mode=MODE,
    )
    def look(current, target, units, limits, mode):
        lower, upper = limits
        current = min(max(current, lower), upper)
        wanted = min(max(target, lower), upper)
        found = align_parallelism(current, target, units, 130, mode[0], lower, upper, mode[1])
        if mode[1] == "head" and wanted != current:
            wanted, lower = min(wanted, units), min(lower, units)
        assert lower <= found <= upper
        if wanted > current:
            assert found >= current
        elif wanted < current:
            assert found <= current
        else:
            assert found == current
        if found > wanted:
            assert units % found == 0 or units // found < units // wanted
        met.add((mode, "up" if wanted > current else "down", found == wanted, found < wanted))

    draw_until(look, lambda: len(met) > 15, 10)
    assert len(met) > 15
