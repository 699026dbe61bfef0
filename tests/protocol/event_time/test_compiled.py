"""The rules of event time, compiled: step for step what they are in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flowcontrol.kernel.compiled import _register, is_compiled
from flowcontrol.memory.cells import cells_of, view, views
from flowcontrol.protocol import event_time as alignment
from flowcontrol.protocol import event_time as generation
from flowcontrol.protocol import event_time as output
from flowcontrol.protocol import event_time as valves
from flowcontrol.state.declared import width
from flowcontrol.state.tasks import (
    MAX_TIME,
    MIN_TIME,
    ActivityClock,
    AlignedSource,
    Generator,
    Valve,
    ValveChannel,
)

pytestmark = pytest.mark.skipif(not is_compiled(), reason="needs numba")

EACH = 3
STATES = (*(Valve, *[ValveChannel] * EACH), *(Generator, ActivityClock), *[AlignedSource] * EACH)
PLACES = [sum(map(width, STATES[:i])) for i in range(len(STATES))]
FIRST = (Valve, Generator, AlignedSource)
VALVE, GENERATOR, SOURCES = map(STATES.index, FIRST)
FIELDS = 5
"""Of a step: what, index, a time, a flag, what it returned."""
OWNERS = ["valve"] * 2 + ["generator"] * 2 + ["clock"] + ["source"] * 3
"""Whose rules a step calls, by what it is."""


def on_task(valve: Any, channels: Any, steps: Any, i: int) -> int:
    """Do a step of a valve."""
    what, index, at, flag = steps[i], steps[i + 1], steps[i + 2], steps[i + 3]
    if what == 0:
        return valves.on_watermark(valve, channels, index, at)
    return valves.on_status(valve, channels, index, flag)


def on_source(generator: Any, clock: Any, sources: Any, steps: Any, i: int) -> int:
    """Do a step of a generator, its clock, or a source of a group."""
    what, index, at, flag = steps[i], steps[i + 1], steps[i + 2], steps[i + 3]
    if what == 2:
        return generation.on_event(generator, at)
    if what == 3:
        return generation.on_probe(generator, generation.activity_time(clock, i))
    if what == 4:
        clock.stood += index
        return 0
    if what == 5:
        alignment.note_report(sources[index], alignment.report_of(at, flag, 0))
        return 0
    if what == 6:
        limit = alignment.allowed_watermark(sources, at if at >= 0 else 0)
        return alignment.on_allowed(sources[index], sources[index].reported, limit)
    return alignment.check_watermark(sources[index], at)


def run(a: Any, b: Any, c: Any, d: Any, e: Any, steps: Any) -> None:
    """Do the steps, one behind the other."""
    for i in range(0, len(steps), 5):
        if steps[i] < 2:
            steps[i + 4] = on_task(a, b, steps, i)
        else:
            steps[i + 4] = on_source(c, d, e, steps, i)


@pytest.fixture(scope="module")
def entry() -> Any:
    """Compile the steps, on one memory of integers."""
    from numba import njit
    from numba.extending import register_jitable

    from flowcontrol.kernel.lowered_state import placed_at, rows_type, state_type

    def single(cls: Any) -> Any:
        def at(memory: Any, place: int) -> Any:
            return view(cls, memory, place)

        placed_at(at, lambda memory: state_type(cls))
        return at

    def several(cls: Any) -> Any:
        def at(memory: Any, place: int, count: int) -> Any:
            return views(cls, memory, place, count)

        placed_at(at, lambda memory: rows_type(cls))
        return at

    _register()
    register_jitable(on_task)
    register_jitable(on_source)
    compiled = njit(run)
    valve, generator, clock = map(single, (Valve, Generator, ActivityClock))
    channels, sources = map(several, (ValveChannel, AlignedSource))
    first, second, last = (PLACES[i] for i in (VALVE, GENERATOR, SOURCES))
    behind, beside, each = PLACES[1], PLACES[GENERATOR + 1], EACH

    @njit
    def found(cells, steps):  # type: ignore[no-untyped-def]
        own, all_channels = valve(cells, first), channels(cells, behind, each)
        made_by, timer = generator(cells, second), clock(cells, beside)
        compiled(own, all_channels, made_by, timer, sources(cells, last, each), steps)

    return found


def random_steps(rng: random.Random) -> list[int]:
    """Return steps; times mostly grow, some are the ends of time."""
    steps, now = [], 0
    for _ in range(150):
        now += rng.randrange(6)
        at = now - rng.randrange(8)
        if rng.random() < 0.02:
            at = rng.choice((MIN_TIME, MAX_TIME, MIN_TIME + 5, MAX_TIME - 5))
        steps += [rng.randrange(len(OWNERS)), rng.randrange(EACH), at, rng.randrange(2), 0]
    return steps


def test_compiled_rules_do_what_they_do_in_plain_python(entry: Any) -> None:
    rng = random.Random(1)
    met: Counter[tuple[str, int]] = Counter()
    for case in range(400):
        states = [cls() for cls in STATES]
        states[GENERATOR] = Generator(
            out_of_orderness=rng.choice((0, 3, MAX_TIME)),
            is_punctuated=int(case % 5 == 0),
            idle_after=rng.choice((0, 5, 100)),
        )
        cells = np.concatenate([cells_of(state) for state in states])
        plain = random_steps(rng)
        steps = np.array(plain)
        entry(cells, steps)
        channels, group = (states[at : at + EACH] for at in (1, SOURCES))
        run(states[VALVE], channels, states[GENERATOR], states[GENERATOR + 1], group, plain)
        assert steps.tolist() == plain
        assert cells.tolist() == np.concatenate([cells_of(state) for state in states]).tolist()
        for what, done in zip(plain[::FIELDS], plain[4::FIELDS], strict=True):
            met[OWNERS[what], done] += 1
    both, flush = output.ACTIVE | output.WATERMARK, output.WATERMARK | output.IDLE
    for case in (
        *(("valve", done) for done in (output.ACTIVE, output.WATERMARK, output.IDLE, flush)),
        *(("generator", done) for done in (output.WATERMARK, output.IDLE, both)),
        *(("source", done) for done in (alignment.PAUSE, alignment.RESUME)),
    ):
        assert met[case] >= 20, (case, met)
