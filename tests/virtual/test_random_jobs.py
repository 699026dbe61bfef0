"""Random jobs of every stratum: the kernel's state is that of stages apart after every round.

Stages of jobs that cannot fail begin anew every few rounds, from what they have published. Each
part that a job has is watched: its laws must hold after every round.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import random_jobs as draws
from flowcontrol.layout.job import Job
from flowcontrol.memory import parts as k
from flowcontrol.memory.parts import parts_of
from flowcontrol.trace.round_state import RoundState
from modules import load

pytestmark = pytest.mark.usefixtures("whole_kernel")

QUICK = settings.default.max_examples // 6
"""Jobs of a stratum that the quick form compares, whatever they show."""
EXAMPLES = settings.default.max_examples
MOST_RUNS = 24
"""Runs until what is seldom has happened."""

witness = load("tests/virtual/witness.py")
alignment = load("tests/virtual/watch_alignment.py")
batches = load("tests/virtual/watch_batches.py")
checkpoints = load("tests/virtual/watch_checkpoints.py")
event_time = load("tests/virtual/watch_event_time.py")
failures = load("tests/virtual/watch_failures.py")
markers = load("tests/virtual/watch_markers.py")
processors = load("tests/virtual/watch_processors.py")
replayed = load("tests/virtual/watch_rows.py")
windows = load("tests/virtual/watch_windows.py")

Seen = Counter[str]
Look = Callable[[RoundState], None]


def _each_task(module: ModuleType) -> Callable[[Job, Seen], Look]:
    """Watch the tasks of a job with what a module says of one."""

    def watch(job: Job, seen: Seen) -> Look:
        def look(state: RoundState) -> None:
            for task in state.tasks:
                if task.window is not None:
                    seen.update(module.happened(job, task))
                    assert task.window.store.fired == task.operators[0].records_out

        return look

    return watch


def _each_state(module: ModuleType) -> Callable[[Job, Seen], Look]:
    return lambda job, seen: lambda state: seen.update(module.happened(state))


def _processors(job: Job, seen: Seen) -> Look:
    kinds = processors.kinds_of(job)
    return lambda state: seen.update(set(processors.happened(job, kinds, state)))


class Failing:
    """Notes what tasks are there."""

    def __init__(self, job: Job, seen: Seen) -> None:
        self._seen, self._was_gone = seen, False

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        found = set(failures.happened(state))
        self._seen.update(found)
        if self._was_gone and "gone" not in found:
            self._seen["runs again"] += 1
        self._was_gone = "gone" in found


@dataclass(frozen=True)
class Watched:
    """What is looked at where a job has some parts, and what must be met in jobs drawn for them."""

    part: int
    watch: Callable[[Job, Seen], Look]
    events: AbstractSet[str]
    without: int = 0


WATCHES = {
    "event time": Watched(k.EVENT_TIME, event_time.Laws, event_time.EVENTS, without=k.BATCHES),
    "aligned sources": Watched(k.ALIGNMENT, alignment.Laws, alignment.EVENTS),
    "latency markers": Watched(k.MARKERS, markers.Laws, markers.EVENTS),
    "windows": Watched(k.WINDOWS, windows.Laws, windows.EVENTS, without=k.BATCHES | k.FAILURES),
    "batches": Watched(k.BATCHES, _each_task(batches), batches.EVENTS),
    "checkpoints": Watched(k.CHECKPOINTS, _each_state(checkpoints), checkpoints.EVENTS),
    "failures": Watched(k.FAILURES, Failing, failures.EVENTS),
    "processors": Watched(k.CORES, _processors, processors.EVENTS),
}
"""By stratum. Laws of one run of a task are not looked at where it may fail."""

OF_ONE_RUN = k.EVENT_TIME | k.ALIGNMENT | k.MARKERS

BESIDE_PROCESSORS = sorted({*WATCHES, "throttles", *draws.TRANSPORTS} - {"processors"})

SOUGHT = {"windows", "batches", "processors"}
"""Strata of which the quick form, too, goes on until all has been met."""

OF_CREDITS = {
    "local",
    "remote",
    "no credit",
    "backlog announced",
    "floating",
    "waiting",
    "competition",
    "overdraft",
    "quota",
    "blocked",
    "blocked inside a record",
    "pending output",
    "long service",
    "stands still",
    "large records",
    "broadcast",
    "long period",
    "chained source",
    "chained stage",
    "end of partition",
    "end without credit",
    "end passed on",
    "exponential source",
    "lognormal source",
    "exponential stage",
    "lognormal stage",
    "caught up with a log",
    "behind in a log",
    "blocked before a log",
    "under way for several rounds",
}
"""What must have happened in some of the runs; :mod:`witness` says what each means."""


def watching(job: Job, seen: Seen) -> Look:
    """Return what looks at a job after every round, with all that watches one of its parts."""
    parts = parts_of(job)
    own = [
        one.watch(job, seen)
        for one in WATCHES.values()
        if parts & one.part and not parts & one.without
        if not (parts & k.FAILURES and one.part & OF_ONE_RUN)
    ]

    def look(state: RoundState) -> None:
        for watch in own:
            watch(state)

    return look


def shows(clocks: ModuleType, job: Job, missing: AbstractSet[str]) -> bool:
    """Tell whether a run of the kernel alone shows what no comparison has met yet."""
    seen: Seen = Counter()
    look = watching(job, seen)
    for state in clocks.kernel_states(job) if missing else ():
        look(state)
    return not missing.isdisjoint(+seen)


def drawn(need: int) -> st.SearchStrategy[Job]:
    """Draw a job of a stratum, with or without other parts."""
    return st.one_of(draws.jobs(need, beside=0), draws.jobs(need))


@pytest.mark.holds(
    "credit", "virtual", "stages apart: the whole state after every round, random jobs"
)
def test_what_is_seldom_happens_under_credits(clocks: ModuleType, draw_until: Any) -> None:
    seen: Seen = Counter()
    others = k.EVERYTHING & ~(k.BUFFERS | k.LOGS | k.BROADCASTS)

    @settings(max_examples=EXAMPLES)
    @given(job=draws.jobs(k.BUFFERS, others, beside=0), every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Job, every: int) -> None:
        watch = witness.Witness(job)
        clocks.compare(job, every=(1, every), watch=watch)
        seen.update(watch.seen)
        seen["under way for several rounds"] += job.latency > 1

    draw_until(look, lambda: set(+seen) >= OF_CREDITS, MOST_RUNS)
    print(dict(seen))
    assert OF_CREDITS - set(+seen) == set()


@pytest.mark.holds("credit", "virtual", "stages apart: event times and watermarks, every round")
@pytest.mark.holds("credit", "virtual", "stages apart: sources that wait for one another")
@pytest.mark.holds("credit", "virtual", "stages apart: latency markers in the channels")
@pytest.mark.holds("credit", "virtual", "stages apart: windows after every round")
@pytest.mark.holds("credit", "virtual", "stages apart: Spark's windows after every round")
@pytest.mark.holds("unbounded", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("blocking_queue", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("half_return_credit", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("batched_credit", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("cumulative_credit", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("rate_window", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("bdp_window", "virtual", "stages apart: every state, random jobs")
@pytest.mark.holds("hop_hysteresis", "virtual", "stages apart: every state, random jobs")
@pytest.mark.parametrize("name", draws.STRATA)
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, draw_until: Any, is_long: bool, name: str
) -> None:
    need, seen, done = draws.STRATA[name], Counter[str](), Counter[str]()
    sought = WATCHES[name].events if name in WATCHES and (is_long or name in SOUGHT) else set()

    @settings(max_examples=EXAMPLES if sought else QUICK)
    @given(
        job=drawn(need),
        every=st.sampled_from([2, 3, 10, 1000]),
        restarts=st.sampled_from([1, 3, 4, 7]),
    )
    def look(job: Job, every: int, restarts: int) -> None:
        done["jobs"] += 1
        missing = sought - set(+seen)
        if done["jobs"] > QUICK and not shows(clocks, job, missing):
            return
        parts = parts_of(job)
        compare(clocks, job, every, restarts, watching(job, seen))
        done.update(f"part {place}" for place in range(need.bit_length()) if parts >> place & 1)

    draw_until(look, lambda: set(+seen) >= sought, MOST_RUNS)
    print(dict(done), dict(seen))
    assert sought - set(+seen) == set()
    assert all(done[f"part {place}"] for place in range(need.bit_length()) if need >> place & 1)


def compare(clocks: ModuleType, job: Job, every: int, restarts: int, look: Look) -> None:
    """Compare both; where a controller looks after every round, or a job fails, in one way only."""
    parts = parts_of(job)
    ways = 1 if parts & k.THROTTLES else (1, every)
    clocks.compare(job, every=ways, restarts=0 if parts & k.FAILURES else restarts, look=look)


@pytest.mark.holds("credit", "virtual", "stages apart: replayed rows in windows, each round")
def test_replayed_rows_in_windows(clocks: ModuleType, draw_until: Any, tmp_path: Path) -> None:
    seen: Seen = Counter()
    strategy = draws.jobs(k.WINDOWS, k.BATCHES, rows=tmp_path, beside=0)

    @settings(max_examples=QUICK, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(job=strategy, every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Job, every: int) -> None:
        def watch(state: RoundState) -> None:
            for task in state.tasks:
                seen.update(replayed.happened(job, task))

        clocks.compare(job, every=(1, every), look=watch)

    draw_until(look, lambda: set(seen) >= replayed.EVENTS, 6 * MOST_RUNS)
    print(dict(seen))
    assert replayed.EVENTS - set(seen) == set()


def test_a_window_that_is_held_up(clocks: ModuleType) -> None:
    job = load("tests/job/held_up.py").windows_of_the_clock()
    clocks.compare(job, every=(1, 3), look=watching(job, Counter()))


@pytest.mark.holds("static_admission", "virtual", "stages apart: Spark's windows")
def test_batches_of_a_throttle_end_in_the_same_rounds(clocks: ModuleType, draw_until: Any) -> None:
    seen: Seen = Counter()
    random_batches = load("tests/job/random_batches.py")
    shape = draws.base.Shape(rounds=(25, 40), is_virtual=True)
    wanted = {"unbounded", "credit"}

    @settings(max_examples=QUICK)
    @given(job=random_batches.jobs(draws.base, shape, is_throttled=True))
    def look(job: Job) -> None:
        note(job.scenario.to_yaml())

        def watch(state: RoundState) -> None:
            for task in state.tasks:
                if task.window is not None:
                    seen[job.scenario.system.transport] += len(task.window.results)

        clocks.compare(job, look=watch)

    draw_until(look, lambda: set(+seen) >= wanted, MOST_RUNS)
    assert wanted - set(+seen) == set()


@pytest.mark.long
@pytest.mark.parametrize("name", BESIDE_PROCESSORS)
def test_processors_are_waited_for_beside(clocks: ModuleType, draw_until: Any, name: str) -> None:
    seen: Seen = Counter()

    @settings(max_examples=EXAMPLES // 3)
    @given(job=draws.jobs(draws.STRATA[name] | k.CORES, beside=0))
    def look(job: Job) -> None:
        clocks.compare(job, look=watching(job, seen))

    draw_until(look, lambda: seen["waits for most of a round"] > 50, MOST_RUNS)
    assert seen["waits for most of a round"] > 50


@pytest.fixture(scope="session")
def is_long() -> bool:
    """Tell whether this is the long form."""
    return "FLOWCONTROL_LONG" in os.environ
