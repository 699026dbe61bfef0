"""The rules of alignment, compiled: step for step what they are in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flowcontrol.kernel.compiled import RULES, _register, is_compiled
from flowcontrol.memory.cells import cells_of, queue_view, view, views
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints import barriers as t
from flowcontrol.state.declared import width
from flowcontrol.state.network import AlignedChannel, Alignment, Ring, TrackedCheckpoint
from flowcontrol.state.queues import new_queue

pytestmark = pytest.mark.skipif(not is_compiled(), reason="needs numba")

CHANNELS, SLOTS = 4, 3
BARRIER, ANNOUNCE, CANCEL, END, TIMER, DATA = range(6)
FIELDS = 6
"""Of a step: what, channel, time, checkpoint, kind, what it returned."""
PLACES = (0, width(Alignment), width(Alignment) + CHANNELS * width(AlignedChannel))
CELLS = PLACES[2] + width(Ring) + SLOTS * width(TrackedCheckpoint)


def run(own: Any, channels: Any, pending: Any, steps: Any) -> None:
    """Do the steps, one behind the other."""
    for i in range(0, len(steps), 6):
        what, index, now = steps[i], steps[i + 1], steps[i + 2]
        number, more = steps[i + 3], steps[i + 4]
        created = 10 * number
        done = 0
        if what == 5:
            done = a.must_persist(own, channels[index])
        elif own.mode == a.AT_LEAST_ONCE:
            if what == 0:
                done = t.track_barrier(own, channels, pending, index, now, number, created)
            elif what == 2:
                done = t.track_cancel(own, channels, pending, index, number)
            elif what == 3:
                done = t.track_end_of_partition(own, channels, pending, index, now)
        elif what == 0:
            done = a.on_barrier(own, channels, index, now, number, created, more)
        elif what == 1:
            done = a.on_announcement(own, channels, index, now, number, created, more)
        elif what == 2:
            done = a.on_cancel(own, channels, index, number)
        elif what == 3:
            done = a.on_end_of_partition(own, channels, index, now)
        else:
            done = a.on_timer(own, channels, now)
        steps[i + 5] = done


@pytest.fixture(scope="module")
def entry() -> Any:
    """Compile the steps, on one memory of integers."""
    from numba import njit

    from flowcontrol.kernel.lowered_state import QueueType, placed_at, rows_type, state_type

    def own_at(memory: Any, place: int) -> Any:
        return view(Alignment, memory, place)

    def channels_at(memory: Any, place: int, count: int) -> Any:
        return views(AlignedChannel, memory, place, count)

    def pending_at(memory: Any, place: int, most: int) -> Any:
        return queue_view(TrackedCheckpoint, memory, place, most)

    RULES.setdefault("protocol.checkpoints", "alignment tracker")
    _register()
    placed_at(own_at, lambda memory: state_type(Alignment))
    placed_at(channels_at, lambda memory: rows_type(AlignedChannel))
    placed_at(pending_at, lambda memory: QueueType(TrackedCheckpoint))
    compiled = njit(run)
    first, second, third = PLACES
    channels, slots = CHANNELS, SLOTS

    @njit
    def found(cells, steps):  # type: ignore[no-untyped-def]
        own = own_at(cells, first)
        pending = pending_at(cells, third, slots)
        compiled(own, channels_at(cells, second, channels), pending, steps)

    return found


def random_steps(rng: random.Random, mode: int) -> list[int]:
    """Return steps; ids and times mostly grow, ends come late."""
    steps, now, number, ended = [], 0, 1, set[int]()
    for i in range(60):
        now += rng.choice((0, 1, 5))
        number += rng.random() < 0.2
        what = rng.choices(range(6), (12, 4, 1, i > 30, 3, 6))[0]
        channel = rng.choice([c for c in range(CHANNELS) if c not in ended])
        if what == END:
            if len(ended) == CHANNELS - 1:
                continue
            ended.add(channel)
        kind = min(mode, rng.choice((mode, mode, a.ALIGNED, a.UNALIGNED)))
        steps += [what, channel, now, max(0, number - rng.choice((0, 0, 0, 1, 2))), kind, 0]
    return steps


def test_compiled_rules_do_what_they_do_in_plain_python(entry: Any) -> None:
    rng = random.Random(1)
    met: Counter[int] = Counter()
    for case in range(400):
        mode = case % 4
        start = {"timeout": 20, "tasks_finish": case // 4 % 4 > 0, "open_channels": CHANNELS}
        own = Alignment(mode=mode, **{name: int(value) for name, value in start.items()})
        channels = [AlignedChannel() for _ in range(CHANNELS)]
        pending = new_queue(SLOTS, TrackedCheckpoint)
        states = (own, *channels, pending.ends, *pending.slots)
        cells = np.concatenate([cells_of(state) for state in states])
        assert len(cells) == CELLS
        plain = random_steps(rng, mode)
        steps = np.array(plain)
        entry(cells, steps)
        run(own, channels, pending, plain)
        assert steps.tolist() == plain
        assert cells.tolist() == np.concatenate([cells_of(state) for state in states]).tolist()
        for done in plain[5::FIELDS]:
            met.update(bit for bit in (1 << i for i in range(8)) if done & bit)
    assert set(met) == {1 << i for i in range(8)}  # every bit: TRIGGER ... AGAIN
    assert min(met.values()) >= 20, met
