"""Generators, splits and groups of sources under random calls, against what defines them.

All numbers must fit into 64 bits, the ends of time among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from flowcontrol.protocol import event_time as alignment
from flowcontrol.spec import SourceAlignment, SplitWatermarks, WatermarkGenerator
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME, AlignedSource
from narrow import Narrow

TIME = st.one_of(
    st.integers(-20, 40),
    st.sampled_from((MIN_TIME, MIN_TIME + 1, MIN_TIME + 11, MAX_TIME - 1, MAX_TIME)),
).map(Narrow)
DURATION = st.one_of(st.integers(0, 15), st.just(MAX_TIME)).map(Narrow)
SPLIT = st.sampled_from("abcd")

Draw = Callable[[Callable[[], None], Callable[[], bool], int], None]


class Generating(RuleBasedStateMachine):
    """A generator, all events and probes of which are remembered."""

    @initialize(bound=DURATION, punctuated=st.booleans(), timeout=st.sampled_from([None, 1, 9]))
    def start(self, bound: int, punctuated: bool, timeout: int | None) -> None:
        self.generator = WatermarkGenerator(bound, punctuated, idle_ms=timeout)
        self.bound, self.punctuated, self.timeout = int(bound), punctuated, timeout
        self.events: list[int] = []
        self.quiet: list[int] = []
        """Times of the probes since the last that met new events."""
        self.is_fresh = False
        self.now, self.given = Narrow(0), [MIN_TIME]

    def expect(self, found: int | str | None, due: int) -> None:
        """A watermark if it is later than all before: they never go back."""
        assert found == (due if due > self.given[-1] else None)
        if isinstance(found, int):
            self.given.append(int(found))
            assert not self.generator.is_idle
        assert self.generator.watermark == self.given[-1]

    @rule(timestamp=TIME)
    def event(self, timestamp: int) -> None:
        self.events.append(int(timestamp))
        self.is_fresh = True
        due = timestamp if self.punctuated else MIN_TIME
        self.expect(self.generator.event(self.now, timestamp), due)

    @rule(passed=st.integers(0, 6))
    def probe(self, passed: int) -> None:
        self.now += passed
        was_found = self.is_over()
        self.quiet = [] if self.is_fresh else [*self.quiet, int(self.now)]
        was_fresh, self.is_fresh = self.is_fresh, False
        found = self.generator.probe(self.now)
        if self.is_over():
            assert found in (("idle", None) if was_found and not was_fresh else ("idle",))
            assert self.generator.is_idle
            return
        bounded = max([MIN_TIME, *(time - self.bound - 1 for time in self.events)])
        self.expect(found, MIN_TIME if self.punctuated else bounded)

    def is_over(self) -> bool:
        """Whether the last probe was more than the timeout after the first quiet one."""
        return self.timeout is not None and bool(self.quiet) and (
            self.quiet[-1] - self.quiet[0] > self.timeout
        )  # fmt: skip


class Splitting(RuleBasedStateMachine):
    """Splits of a source: what it gives out is the least of those that are not idle."""

    def __init__(self) -> None:
        super().__init__()
        self.splits = SplitWatermarks()
        self.known: dict[str, int] = {}
        self.idle_ones: set[str] = set()
        self.last, self.is_idle = MIN_TIME, False

    def combined(self) -> list[int | str]:
        """Return what looking at all splits gives out."""
        active = [at for split, at in self.known.items() if split not in self.idle_ones]
        if self.known and not active:
            was_idle, self.is_idle = self.is_idle, True
            return [] if was_idle else ["idle"]
        if not active or min(active) <= self.last:
            return []
        self.last, was_idle, self.is_idle = min(active), self.is_idle, False
        return ["active", self.last] if was_idle else [self.last]

    @rule(split=SPLIT)
    def add(self, split: str) -> None:
        if split not in self.known:
            self.known[split] = MIN_TIME
            self.splits.add(split)

    @rule(split=SPLIT)
    def remove(self, split: str) -> None:
        assert self.splits.remove(split) == (split in self.known)
        self.known.pop(split, None)
        self.idle_ones.discard(split)
        self.look()

    @rule(split=SPLIT, watermark=TIME, deferred=st.booleans())
    def update(self, split: str, watermark: int, deferred: bool) -> None:
        if split not in self.known:
            return
        self.idle_ones.discard(split)
        is_later = watermark > self.known[split]
        self.known[split] = max(self.known[split], int(watermark))
        due = self.combined() if is_later and watermark > self.last and not deferred else []
        assert self.splits.update(split, watermark, deferred) == due
        self.look()

    @rule(split=SPLIT)
    def idle(self, split: str) -> None:
        if split in self.known:
            self.idle_ones.add(split)
            assert self.splits.idle(split) == self.combined()
            self.look()

    @rule()
    def probe(self) -> None:
        assert self.splits.probe() == self.combined()
        self.look()
        assert self.splits.probe() == []

    def look(self) -> None:
        assert (self.splits.watermark, self.splits.is_idle) == (self.last, self.is_idle)


class Aligning(RuleBasedStateMachine):
    """A group: allowed is the least of the last reports, and the drift."""

    @initialize(drift=DURATION)
    def start(self, drift: int) -> None:
        self.group, self.drift = SourceAlignment(drift), int(drift)
        self.reports: dict[str, int] = {}
        self.sources: dict[str, AlignedSource] = {}

    @rule(subtask=SPLIT, watermark=TIME)
    def report(self, subtask: str, watermark: int) -> None:
        self.reports[subtask] = int(watermark)
        allowed = min(MAX_TIME, min(self.reports.values()) + self.drift)
        assert self.group.report(subtask, watermark) == self.group.allowed == allowed
        ahead = {one for one, at in self.reports.items() if self.group.is_paused(one, at)}
        assert ahead == {one for one, at in self.reports.items() if at > allowed}
        assert len(ahead) < len(self.reports), "the last one is never paused"

    @rule(subtask=SPLIT, watermark=TIME, hears=st.booleans())
    def move(self, subtask: str, watermark: int, hears: bool) -> None:
        """A subtask pauses and resumes in turns, by what it heard last."""
        source = self.sources.setdefault(subtask, AlignedSource())
        was_paused = source.is_paused == 1
        if hears:
            done = alignment.on_allowed(source, watermark, self.group.allowed)
            assert source.is_paused == self.group.is_paused(subtask, watermark)
        else:
            done = alignment.check_watermark(source, watermark)
        assert source.is_paused == (watermark > source.allowed)
        turns = {(False, True): alignment.PAUSE, (True, False): alignment.RESUME}
        assert done == turns.get((was_paused, source.is_paused == 1), 0)


def run(machine: type[RuleBasedStateMachine], share: int = 2) -> None:
    examples = share * settings.default.max_examples
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30)
    )


def test_whatever_a_generator_hears() -> None:
    run(Generating)


def test_whatever_splits_do() -> None:
    run(Splitting)


def test_whatever_a_group_reports() -> None:
    run(Aligning)


def test_a_split_or_several_give_the_same(draw_until: Draw) -> None:
    """What a source gives out does not depend on the order of splits that move between probes."""
    met: Counter[str] = Counter()

    @settings(database=None)
    @given(
        st.lists(st.lists(st.tuples(SPLIT, st.integers(0, 60)), max_size=8), max_size=6),
        st.randoms(use_true_random=False),
    )
    def look(intervals, rng):  # type: ignore[no-untyped-def]
        one, other = SplitWatermarks(), SplitWatermarks()
        for split in "abcd":
            one.add(split)
            other.add(split)
        for interval in intervals:
            shuffled = rng.sample(interval, len(interval))
            for moves, splits in ((interval, one), (shuffled, other)):
                for split, watermark in moves:
                    assert splits.update(split, watermark, deferred=True) == []
            found = one.probe()
            assert other.probe() == found
            met["later"] += bool(found) and shuffled != interval

    draw_until(look, lambda: met["later"] > 0, 20)
    assert met["later"] > 0
