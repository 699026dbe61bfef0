"""Stamps and marks by hand: what they hold, and what comes back from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol import event_time as m
from flowcontrol.protocol import event_time as s
from flowcontrol.protocol.event_time import ACTIVE, IDLE, WATERMARK
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

LAST = 4_398_046_511_103


@given(st.integers(-LAST - 1, LAST), st.integers(0, 2_097_151))
def test_a_stamp_holds_time_and_id(time: int, number: int) -> None:
    stamp = s.stamp_of(time, number)
    assert (s.time_of(stamp), s.id_of(stamp)) == (time, number)
    assert MIN_TIME <= stamp <= MAX_TIME


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 99)), min_size=2))
def test_stamps_stand_in_the_order_of_time(pairs: list[tuple[int, int]]) -> None:
    assert sorted(s.stamp_of(*pair) for pair in pairs) == [s.stamp_of(*p) for p in sorted(pairs)]


@pytest.mark.parametrize(
    ("time", "kept"),
    [(LAST + 1, LAST), (MAX_TIME, LAST), (-LAST - 2, -LAST - 1), (MIN_TIME, -LAST - 1)],
)
def test_what_a_stamp_cannot_hold_is_at_its_ends(time: int, kept: int) -> None:
    assert s.time_of(s.stamp_of(time, 7)) == kept
    assert s.id_of(s.stamp_of(time, 7)) == 7


@pytest.mark.parametrize(
    ("kind", "nbytes"), [(WATERMARK, 13), (IDLE, 9), (ACTIVE, 9), (m.MARKER, 33)]
)
@pytest.mark.parametrize("channel", [0, 1, 4095])
def test_a_mark_waits_among_channels_of_records(kind: int, nbytes: int, channel: int) -> None:
    """``StreamElementSerializer``: a tag and a long, or a tag and an int, behind the length."""
    entry = m.pending_mark(channel, kind)
    assert m.is_pending_mark(entry) == 1
    assert m.channel_of_mark(entry) == channel
    assert m.bytes_of_mark(entry) == m.mark_bytes(kind) == nbytes


@pytest.mark.parametrize("channel", [0, 1, 4095])
def test_a_channel_of_a_record_is_no_mark(channel: int) -> None:
    assert m.is_pending_mark(channel) == 0
