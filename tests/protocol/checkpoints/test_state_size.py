"""Size of a state and of what a checkpoint writes: tables by hand and bounds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.checkpoints.snapshots import full_bytes, written_bytes
from flowcontrol.spec.functions import StateSize

MB = 1_000_000
TENTH = Fraction(1, 10)


@pytest.mark.parametrize(
    ("state", "keys", "records", "size"),
    [
        ({}, 9, 9, 0),
        ({"bytes": 200 * MB}, 9, 9, 200 * MB),
        ({"bytes_per_key": 100}, 9, 9999, 900),
        ({"bytes_per_record": 8}, 9, 1000, 8000),
        ({"bytes": 5, "bytes_per_key": 10, "bytes_per_record": 1}, 3, 7, 42),
        ({"bytes_per_record": 0.1}, 0, 30, 3),  # a tenth, not its double
        ({"bytes_per_record": 0.1}, 0, 29, 2),
        ({"bytes_per_key": 0.5, "bytes_per_record": 0.5}, 1, 1, 1),  # rounded once
        ({"bytes": 1e6, "sync_ms": 5}, 0, 0, MB),
    ],
)
def test_full_size(state: dict[str, Any], keys: int, records: int, size: int) -> None:
    assert StateSize.of(state).full(keys, records) == size


WRITTEN = [
    # full, full at the last completed checkpoint, share, written
    (1000, None, Fraction(1), 1000),
    (1000, None, TENTH, 1000),  # the first one whole
    (1000, None, Fraction(0), 1000),
    (1000, 1000, Fraction(1), 1000),
    (1000, 1000, TENTH, 100),
    (1000, 1000, Fraction(0), 0),
    (1001, 1001, TENTH, 101),  # rounded up
    (1600, 1000, TENTH, 700),  # growth is new
    (1600, 1000, Fraction(0), 600),
    (1600, 1000, Fraction(1), 1600),
    (600, 1000, TENTH, 60),  # it has shrunk
    (600, 0, TENTH, 600),
    (0, 1000, Fraction(1), 0),
]


@pytest.mark.parametrize(("full", "last", "share", "written"), WRITTEN)
def test_written(full: int, last: int | None, share: Fraction, written: int) -> None:
    assert written_bytes(full, last, share) == written
    assert StateSize(incremental_share=share).written(full, last) == written


@given(
    full=st.integers(0, 10**12),
    last=st.none() | st.integers(0, 10**12),
    share=st.fractions(0, 1, max_denominator=1000),
)
def test_what_is_written_lies_between_growth_and_all(
    full: int, last: int | None, share: Fraction
) -> None:
    found = written_bytes(full, last, share)
    assert max(0, full - (last or 0)) <= found <= full
    assert found == full or last is not None
    if last is not None:
        exact = max(0, full - last) + share * min(full, last)
        assert exact <= found < exact + 1


@given(keys=st.lists(st.integers(0, 9), max_size=40))
def test_a_state_never_shrinks_with_its_input(keys: list[int]) -> None:
    sizes = [
        full_bytes(7, Fraction(5, 3), len(set(keys[:n])), Fraction(1, 3), n)
        for n in range(len(keys) + 1)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == 7


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: StateSize(fixed=-1), "fixed is -1 bytes"),
        (lambda: StateSize.of({"bytes_per_key": -0.5}), "per_key is -1/2 bytes"),
        (lambda: StateSize.of({"bytes_per_record": -1}), "per_record is -1 bytes"),
        (lambda: StateSize.of({"incremental_share": 1.01}), "needs 0 to 1"),
        (lambda: StateSize.of({"incremental_share": -0.1}), "needs 0 to 1"),
    ],
)
def test_bad_numbers_are_refused(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()
