"""A valve under random watermarks and statuses, against a model of sets and a minimum.

All numbers must fit into 64 bits, the ends of time among them.
"""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from flowcontrol.spec.event_time import WatermarkValve
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from narrow import Narrow

MET: Counter[str] = Counter()
"""How often each hard case came up."""

CHANNEL = st.integers(0, 3)
STEP = st.integers(-2, 6)
ENDS = (MIN_TIME, MIN_TIME + 1, MAX_TIME - 1, MAX_TIME)


class Plain:
    """What a valve gives out, as the reference says it: no counts, everything looked at anew."""

    def __init__(self, channels: int) -> None:
        self.watermarks = [MIN_TIME] * channels
        self.active = set(range(channels))
        self.aligned = set(range(channels))
        self.last = MIN_TIME

    def least(self) -> list[int]:
        found = min((self.watermarks[c] for c in self.aligned), default=MIN_TIME)
        if found <= self.last:
            return []
        self.last = found
        return [found]

    def watermark(self, channel: int, w: int) -> list[int | str]:
        if channel not in self.active or w <= self.watermarks[channel]:
            MET["ignored"] += 1
            return []
        self.watermarks[channel] = w
        if channel not in self.aligned:
            MET["caught up" if w >= self.last else "still behind"] += 1
        if w >= self.last:
            self.aligned.add(channel)
        return [*self.least()]

    def idle(self, channel: int) -> list[int | str]:
        if channel not in self.active:
            return []
        self.active.discard(channel)
        self.aligned.discard(channel)
        is_holding = self.watermarks[channel] == self.last
        if self.active:
            MET["idle with the watermark of the valve"] += is_holding
            MET["idle ahead or behind"] += not is_holding
            return [*self.least()] if is_holding else []
        if not is_holding:
            MET["no flush"] += 1
            return ["idle"]
        before, self.last = self.last, max(self.watermarks)
        MET["flush"] += self.last > before
        return [self.last, "idle"] if self.last > before else ["idle"]

    def resume(self, channel: int) -> list[int | str]:
        if channel in self.active:
            return []
        was_idle = not self.active
        self.active.add(channel)
        if self.watermarks[channel] >= self.last:
            self.aligned.add(channel)
            MET["active ahead of the valve"] += self.watermarks[channel] > self.last
        return ["active"] if was_idle else []


class Marks(RuleBasedStateMachine):
    """Channels that deliver watermarks and statuses."""

    @initialize(channels=st.integers(1, 4))
    def start(self, channels: int) -> None:
        self.valve, self.plain = WatermarkValve(channels), Plain(channels)
        self.channels = channels
        self.given: list[int | str] = []

    def compare(self, found: list[int | str], expected: list[int | str]) -> None:
        assert found == expected
        self.given += found
        kinds = [one if isinstance(one, str) else "watermark" for one in found]
        assert kinds in ([], ["watermark"], ["active"], ["idle"], ["watermark", "idle"])

    @rule(channel=CHANNEL, step=STEP)
    def watermark(self, channel: int, step: int) -> None:
        """Near the valve's own, where the cases are; the first ones near 0."""
        own = channel % self.channels
        near = int(self.valve.last) if self.valve.last > MIN_TIME else 0
        w = Narrow(max(MIN_TIME, min(MAX_TIME, near + step)))
        self.compare(self.valve.watermark(own, w), self.plain.watermark(own, w))

    @rule(channel=CHANNEL, w=st.sampled_from(ENDS), rare=st.integers(0, 9))
    def end_of_time(self, channel: int, w: int, rare: int) -> None:
        if rare == 0:
            own = channel % self.channels
            self.compare(self.valve.watermark(own, Narrow(w)), self.plain.watermark(own, w))

    @rule(channel=CHANNEL)
    def idle(self, channel: int) -> None:
        own = channel % self.channels
        self.compare(self.valve.status(own, idle=True), self.plain.idle(own))

    @rule(channel=CHANNEL)
    def active(self, channel: int) -> None:
        own = channel % self.channels
        self.compare(self.valve.status(own, idle=False), self.plain.resume(own))

    @invariant()
    def it_never_goes_back_and_waits_for_nobody_idle(self) -> None:
        if not hasattr(self, "valve"):
            return
        watermarks = [one for one in self.given if isinstance(one, int)]
        assert watermarks == sorted(set(watermarks))
        assert self.valve.last == (watermarks or [MIN_TIME])[-1] == self.plain.last
        statuses = [one for one in self.given if isinstance(one, str)]
        assert statuses == ["idle", "active"] * (len(statuses) // 2) + ["idle"] * (
            len(statuses) % 2
        )
        assert self.valve.is_idle == (not self.plain.active) == (len(statuses) % 2 == 1)
        if self.valve.is_idle:
            assert self.given[-1] == "idle", "an idle valve gives nothing out"

    @invariant()
    def the_counts_are_those_of_the_channels(self) -> None:
        if not hasattr(self, "valve"):
            return
        state, plain = self.valve._state, self.plain
        assert set(self.valve.aligned) == plain.aligned <= plain.active
        assert state.idle == self.channels - len(plain.active)
        assert state.unaligned == self.channels - len(plain.aligned)
        assert state.ahead == sum(plain.watermarks[c] > plain.last for c in plain.aligned)
        assert all(plain.watermarks[c] >= plain.last for c in plain.aligned)


def test_whatever_comes() -> None:
    examples = 2 * settings.default.max_examples
    run_state_machine_as_test(
        Marks, settings=settings(max_examples=examples, stateful_step_count=40)
    )


def test_the_hard_cases_come_up() -> None:
    """The same machine, driven by seeds: what it meets is the same in every run."""
    MET.clear()
    rng = random.Random(5)
    for case in range(150):
        machine = Marks()
        machine.start(channels=1 + case % 4)
        for _ in range(60):
            channel = rng.randrange(4)
            step = rng.choices(("watermark", "idle", "active", "end"), (6, 3, 3, 1))[0]
            if step == "watermark":
                machine.watermark(channel=channel, step=rng.randint(-2, 6))
            elif step == "end":
                machine.end_of_time(channel=channel, w=rng.choice(ENDS), rare=rng.randint(0, 9))
            else:
                getattr(machine, step)(channel=channel)
            machine.it_never_goes_back_and_waits_for_nobody_idle()
            machine.the_counts_are_those_of_the_channels()
    for case in (
        "ignored",
        "caught up",
        "still behind",
        "idle with the watermark of the valve",
        "idle ahead or behind",
        "flush",
        "no flush",
        "active ahead of the valve",
    ):
        assert MET[case] >= 5, (case, MET)
