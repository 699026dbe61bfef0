"""Keys of records: each id has one key, each key its ids, in the shares that are stated."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowcontrol.layout.replay import LEAST_GUIDED, LinkKeys
from flowcontrol.protocol.event_time import IDS
from flowcontrol.protocol.windows.contents import id_of_key, key_by_table, key_of

weights = st.lists(st.integers(0, 1000), min_size=1, max_size=30).filter(any)


def first_ids(shares: list[int]) -> list[int]:
    total = sum(shares)
    return [before * IDS // total for before in [0, *accumulate(shares)][:-1]]


@pytest.mark.parametrize(
    ("number", "keys", "key"),
    [(0, 1, 0), (IDS - 1, 1, 0), (0, 4, 0), (IDS // 4 - 1, 4, 0), (IDS // 4, 4, 1),
     (IDS - 1, 4, 3), (IDS // 3, 3, 0), (IDS // 3 + 1, 3, 1), (77, IDS, 77)],
)  # fmt: skip
def test_keys_alike_have_ids_alike(number: int, keys: int, key: int) -> None:
    assert key_of(number, keys, [], []) == key


@pytest.mark.parametrize(("number", "key"), [(0, 0), (4, 0), (5, 2), (8, 2), (9, 3), (IDS - 1, 3)])
def test_a_key_has_the_ids_from_its_first_one_on(number: int, key: int) -> None:
    """Key 1 begins where key 2 does, so it has none."""
    assert key_of(number, 4, [0, 5, 5, 9], []) == key


@given(keys=st.integers(1, IDS), number=st.integers(0, IDS - 1))
def test_the_id_of_a_key_is_its_first(keys: int, number: int) -> None:
    key = key_of(number, keys, [], [])
    first = id_of_key(key, keys, [], [])
    assert first <= number
    assert key_of(first, keys, [], []) == key
    assert first == 0 or key_of(first - 1, keys, [], []) == key - 1


@given(shares=weights, number=st.integers(0, IDS - 1))
def test_so_it_is_where_keys_have_shares(shares: list[int], number: int) -> None:
    firsts = first_ids(shares)
    key = key_of(number, len(shares), firsts, [])
    assert shares[key] > 0
    assert firsts[key] == id_of_key(key, len(shares), firsts, []) <= number
    assert key == len(shares) - 1 or number < firsts[key + 1]


@given(
    shares=st.lists(st.sampled_from([0, 1, 3, 900]), min_size=LEAST_GUIDED, max_size=400),
    number=st.integers(0, IDS - 1),
)
def test_a_guide_leads_to_the_same_key(shares: list[int], number: int) -> None:
    assume(any(shares))
    keys = LinkKeys(len(shares), np.array(first_ids(shares)))
    assert len(keys.guide) > 0
    for each in (number, 0, IDS - 1, *(keys.firsts[number % len(shares)] - np.arange(2))):
        if 0 <= each < IDS:
            found = key_of(int(each), keys.keys, keys.firsts, keys.guide)
            assert found == key_of(int(each), keys.keys, keys.firsts, [])


@pytest.mark.parametrize("number", range(4))
def test_rows_have_their_keys_in_a_table(number: int) -> None:
    """And results the first id of their key, which need not follow the order of keys."""
    numbers, firsts = [2, 0, 2, 1], [1, 3, 0]
    key = key_by_table(number, 3, firsts, [], numbers)
    assert key == numbers[number]
    assert numbers[id_of_key(key, 3, firsts, numbers)] == key
    assert id_of_key(key, 3, firsts, numbers) <= number


@pytest.mark.parametrize(
    ("key", "number"), [(0, 0), (1, (IDS + 3) // 4), (2, 5), (3, (3 * IDS + 3) // 4)]
)
def test_a_key_that_only_other_inputs_have_gets_an_id_all_the_same(key: int, number: int) -> None:
    """Keys 1 and 3 begin where the next one, and the ids, end."""
    assert id_of_key(key, 4, [0, 5, 5, IDS], []) == number


def test_made_records_have_none() -> None:
    assert key_by_table(5, 4, [0, 5, 5, 9], [], []) == key_of(5, 4, [0, 5, 5, 9], []) == 2
