"""Rings that go round in their first slots: what is in them when they get wider."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.memory.cells import queue_view, ring_view, slot_cells, view
from flowcontrol.memory.fields import KernelRing
from flowcontrol.state.declared import width
from flowcontrol.state.network import ReceivedMessage, Ring
from flowcontrol.state.queues import (
    FIRST_SPAN,
    Queue,
    append,
    drop,
    in_order,
    new_queue,
    next_slot,
    use_all,
)

SLOTS = 21


def of_objects() -> Queue[ReceivedMessage]:
    return new_queue(SLOTS, ReceivedMessage)


def of_cells() -> Queue[ReceivedMessage]:
    cells = np.zeros(width(Ring) + SLOTS * width(ReceivedMessage), np.int64)
    return queue_view(ReceivedMessage, cells, 0, SLOTS)


def of_ring() -> Queue[ReceivedMessage]:
    """The ring of a channel: its slots move to their room when it needs more than a few."""
    ends, each = width(KernelRing), slot_cells(ReceivedMessage)
    cells = np.zeros(ends + (FIRST_SPAN + SLOTS) * each, np.int64)
    ring = view(KernelRing, cells)
    ring.place, ring.room = ends, ends + FIRST_SPAN * each
    return ring_view(ReceivedMessage, cells, 0, SLOTS)


def push(queue: Queue[ReceivedMessage], number: int) -> None:
    slot = next_slot(queue)
    slot.records, slot.backlog, slot.buffer = number, -number, 2 * number
    append(queue)


def seen(message: Any) -> tuple[int, int, int]:
    return message.records, message.backlog, message.buffer


@pytest.mark.parametrize("made", [of_objects, of_cells, of_ring])
@given(runs=st.lists(st.tuples(st.integers(0, SLOTS), st.integers(0, SLOTS)), max_size=12))
def test_a_ring_is_first_in_first_out_however_wide(made: Any, runs: list[tuple[int, int]]) -> None:
    queue, model, number, most = made(), deque[int](), 0, 0
    for pushes, drops in runs:
        for _ in range(min(pushes, SLOTS - len(model))):
            number += 1
            push(queue, number)
            model.append(number)
        most = max(most, len(model))
        assert [seen(one) for one in in_order(queue)] == [(n, -n, 2 * n) for n in model]
        for _ in range(min(drops, len(model))):
            assert drop(queue).records == model.popleft()
        assert queue.ends.span <= max(FIRST_SPAN, 2 * most)


@pytest.mark.parametrize("made", [of_objects, of_cells, of_ring])
@pytest.mark.parametrize("turns", range(FIRST_SPAN))
def test_what_is_in_a_ring_that_has_turned_stays_in_order_when_it_gets_wider(
    made: Any, turns: int
) -> None:
    queue = made()
    for number in range(FIRST_SPAN):
        push(queue, number)
    for _ in range(turns):
        drop(queue)
    for number in range(FIRST_SPAN, SLOTS + turns):  # until it is full
        push(queue, number)
        assert [one.records for one in in_order(queue)] == list(range(turns, number + 1))
    assert queue.ends.span == queue.ends.count == SLOTS
    next_slot(queue)  # that there is none changes nothing
    assert [one.records for one in in_order(queue)] == list(range(turns, SLOTS + turns))


def test_nothing_moves_in_a_ring_that_goes_round_in_all_its_slots() -> None:
    queue = of_objects()
    use_all(queue.ends, queue.slots)
    places = []
    for number in range(SLOTS):
        places.append(next_slot(queue))
        push(queue, number)
    assert [one.records for one in places] == list(range(SLOTS))
