"""A task's barriers under random deliveries: what holds whatever order they come in.

Each channel delivers checkpoints in the order of their ids, and nothing while it is blocked. What
is expected is worked out from the actions and the definitions alone, not from the rules.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flowcontrol.spec import BarrierAligner

TIMEOUT, PERIOD = 30, 40
MET: Counter[str] = Counter()
"""How often each hard case came up."""

CHANNEL = st.integers(0, 4)


class Deliveries(RuleBasedStateMachine):
    """Channels that deliver data, barriers, cancel markers and their end."""

    @initialize(
        channels=st.integers(1, 4),
        mode=st.sampled_from(["aligned", "timeoutable", "unaligned", "at_least_once"]),
        finish=st.sampled_from([True, True, False]),
    )
    def start(self, channels: int, mode: str, finish: bool) -> None:
        self.aligner = BarrierAligner(channels, mode, timeout_ms=TIMEOUT, tasks_finish=finish)
        self.mode, self.finish, self.now = mode, finish, 0
        self.last = [0] * channels
        self.announced: list[int | None] = [None] * channels
        self.open = set(range(channels))
        self.blocked: set[int] = set()
        self.triggered: dict[int, str] = {}
        self.aborted: list[int] = []
        self.first: dict[int, int] = {}
        self.target: dict[int, set[int]] = {}
        self.arrived: dict[int, dict[int, int]] = {}
        self.between: dict[int, int] = {}
        self.persisted: dict[tuple[int, int], int] = {}

    def at(self, channel: int, *, may_be_blocked: bool = False) -> int | None:
        """Return an open channel by a number, or None."""
        able = sorted(self.open if may_be_blocked else self.open - self.blocked)
        return able[channel % len(able)] if able else None

    def see(self, number: int) -> None:
        """Take note of a checkpoint at first sight."""
        if number not in self.target and number > max(self.target, default=0):
            self.target[number], self.first[number] = set(self.open), self.now
            self.arrived[number] = {}
            self.between[number] = 0

    def note(self, actions: list[Any], cause: str) -> None:
        """Check actions, and keep what they mean."""
        for what, number, *more in actions:
            if what == "trigger":
                assert number not in self.triggered, "an id triggers once"
                assert number not in self.aborted, "what was aborted does not trigger"
                assert number > max(self.triggered, default=0)
                self.triggered[number] = more[0]
                MET[f"{self.mode} triggered {more[0]} by {cause}"] += 1
            elif what == "abort":
                assert number not in self.aborted, "an id is aborted once"
                self.aborted.append(number)
                MET[f"abort {more[0].rsplit('DECLINED_', 1)[1]}"] += 1
            elif what == "resume":
                MET["resumed beyond the blocked" if number not in self.blocked else "resumed"] += 1
                self.blocked.discard(number)
            else:
                assert self.announced[number] is not None, "only what was announced overtakes"
                MET["overtaken"] += 1

    @rule(passed=st.integers(0, 25), looks=st.booleans())
    def wait(self, passed: int, looks: bool) -> None:
        self.now += passed
        due = self.aligner.deadline
        if looks and due is not None and self.now >= due:
            before = self.aligner.latest_id
            self.note(self.aligner.tick(self.now), "timer")
            assert self.aligner.deadline is None and self.aligner.latest_id == before
            MET["switched by the timer"] += 1
        elif looks:
            assert self.aligner.tick(self.now) == []

    @rule(channel=CHANNEL, nbytes=st.integers(1, 1000))
    def data(self, channel: int, nbytes: int) -> None:
        own = self.at(channel)
        if own is None:
            return
        latest = self.aligner.latest_id
        kept = self.aligner.data(self.now, own, nbytes)
        arrived = self.arrived.get(latest, {})
        is_current = self.aligner.is_pending and latest not in self.aborted
        is_before = is_current and self.triggered.get(latest) == "unaligned" and own not in arrived
        assert kept == is_before, "bytes between the switch and the channel's barrier are persisted"
        if kept:
            self.persisted[latest, own] = self.persisted.get((latest, own), 0) + nbytes
            MET["persisted"] += 1
        if arrived and self.target[latest] - set(arrived):
            self.between[latest] += nbytes

    def arrive(self, channel: int, number: int) -> None:
        arrived = self.arrived.get(number)
        if arrived is not None and channel in self.target[number]:
            arrived.setdefault(channel, self.now)

    @rule(channel=CHANNEL, skipped=st.sampled_from([0, 0, 0, 0, 1]))
    def barrier(self, channel: int, skipped: int) -> None:
        own = self.at(channel)
        if own is None:
            return
        number = self.announced[own] or self.last[own] + 1 + skipped
        savepoint = number % 5 == 0  # one checkpoint is one kind on all channels
        latest, pending = self.aligner.latest_id, self.aligner.is_pending
        is_obsolete = number < latest or (number == latest and not pending)
        self.see(number)
        is_switched = self.triggered.get(number) == "unaligned"
        if number == latest and not self.aligner.deadline and self.mode == "timeoutable":
            is_switched = not savepoint
        self.arrive(own, number)
        self.last[own] = number
        blocks = self.mode == "aligned" or (self.mode == "timeoutable" and not is_switched)
        blocks = (blocks or savepoint) and self.mode != "at_least_once"
        if blocks:
            self.blocked.add(own)
        kind = "savepoint" if savepoint else "checkpoint"
        actions = self.aligner.barrier(self.now, own, number, PERIOD * number, kind=kind)
        self.announced[own] = None
        if is_obsolete and self.mode != "at_least_once":
            assert actions == ([("resume", own)] if self.mode != "unaligned" or savepoint else [])
            MET["obsolete"] += 1
        self.note(actions, "barrier")

    @precondition(lambda self: self.mode == "timeoutable")
    @rule(channel=CHANNEL)
    def announce(self, channel: int) -> None:
        own = self.at(channel)
        if own is None or self.announced[own] is not None or (self.last[own] + 1) % 5 == 0:
            return
        number = self.announced[own] = self.last[own] + 1
        self.see(number)
        actions = self.aligner.announce(self.now, own, number, PERIOD * number)
        assert all(what != "trigger" for what, *_ in actions), "an announcement never switches"
        self.note(actions, "announcement")

    @rule(channel=CHANNEL, rare=st.integers(0, 4))
    def cancel(self, channel: int, rare: int) -> None:
        own = self.at(channel)
        if own is None or self.announced[own] is not None or rare:
            return
        number = self.last[own] = self.last[own] + 1
        latest, had = self.aligner.latest_id, self.aligner.is_pending
        actions = self.aligner.cancel(self.now, own, number)
        if number > latest:
            assert actions[0][0] == "abort" and not (had and self.aligner.persisted)
        self.target.setdefault(number, set())
        self.note(actions, "cancel")

    @rule(channel=CHANNEL, rare=st.integers(0, 7))
    def end(self, channel: int, rare: int) -> None:
        own = self.at(channel)
        if own is None or self.announced[own] is not None or rare:
            return
        self.open.discard(own)
        for number in self.target:
            if self.finish:
                self.arrive(own, number)
        self.note(self.aligner.end_of_partition(self.now, own), "end")
        assert self.aligner.open_channels == len(self.open)

    @invariant()
    def what_is_blocked_has_a_reason(self) -> None:
        if not hasattr(self, "aligner"):
            return
        aligner = self.aligner
        assert set(aligner.blocked) == self.blocked
        assert aligner.is_pending or not aligner.blocked, "what is over blocks nobody"
        if self.mode == "at_least_once":
            assert not aligner.blocked and len(aligner.pending_ids) <= 50
            return
        latest = aligner.latest_id
        if aligner.is_pending:
            missing = self.target[latest] - set(self.arrived[latest])
            assert missing, "a checkpoint that all have delivered is over"
            assert not missing & self.blocked, "a channel that has not delivered is not blocked"

    @invariant()
    def figures_are_as_defined(self) -> None:
        if not hasattr(self, "aligner") or self.mode == "at_least_once":
            return
        aligner, latest = self.aligner, self.aligner.latest_id
        kept = sum(n for (number, _), n in self.persisted.items() if number == latest)
        assert aligner.persisted == (0 if latest in self.aborted else kept)
        if latest not in self.first or latest in self.aborted:
            return
        assert aligner.start_delay == max(0, self.first[latest] - PERIOD * latest)
        arrived = self.arrived[latest]
        if not arrived:
            return
        lasted = max(arrived.values()) - min(arrived.values())
        assert aligner.alignment == (0 if aligner.is_pending else lasted)
        assert aligner.bytes_processed == self.between[latest]
        MET["measured"] += not aligner.is_pending and lasted > 0

    def teardown(self) -> None:
        """All channels deliver a new checkpoint or end: none is blocked, nothing is pending."""
        if not hasattr(self, "aligner"):
            return
        newest = max([self.aligner.latest_id, *self.last, 0]) + 1
        newest += newest % 5 == 0
        for own in sorted(self.open):
            if own % 2 and len(self.open) > 1 and own not in self.blocked:
                self.note(self.aligner.end_of_partition(self.now, own), "end")
                self.open.discard(own)
        for own in sorted(self.open):
            actions = self.aligner.barrier(self.now, own, newest, PERIOD * newest)
            self.note(actions, "barrier")
        assert self.aligner.blocked == () and not self.aligner.is_pending
        assert (newest in self.triggered) == bool(self.open)


def test_whatever_is_delivered() -> None:
    examples = 4 * settings.default.max_examples
    run_state_machine_as_test(
        Deliveries, settings=settings(max_examples=examples, stateful_step_count=40)
    )


def test_the_hard_cases_come_up() -> None:
    """The same machine, driven by seeds: what it meets is the same in every run."""
    MET.clear()
    rng = random.Random(3)
    for case in range(300):
        machine = Deliveries()
        modes = ("aligned", "timeoutable", "unaligned", "at_least_once")
        machine.start(channels=rng.randint(1, 4), mode=modes[case % 4], finish=case % 3 > 0)
        for _ in range(60):
            machine.wait(passed=rng.randint(0, 12), looks=rng.random() < 0.7)
            step = rng.choices(("data", "barrier", "announce", "cancel", "end"), (4, 5, 3, 1, 1))[0]
            channel = rng.randint(0, 4)
            if step == "data":
                machine.data(channel=channel, nbytes=rng.randint(1, 1000))
            elif step == "barrier":
                machine.barrier(channel=channel, skipped=int(rng.random() < 0.2))
            elif step == "announce" and machine.mode == "timeoutable":
                machine.announce(channel=channel)
            elif step == "cancel":
                machine.cancel(channel=channel, rare=rng.randint(0, 4))
            elif step == "end":
                machine.end(channel=channel, rare=rng.randint(0, 7))
            machine.what_is_blocked_has_a_reason()
            machine.figures_are_as_defined()
        machine.teardown()
    for case in (
        "abort SUBSUMED",
        "abort ON_CANCELLATION_BARRIER",
        "abort INPUT_END_OF_STREAM",
        "aligned triggered aligned by barrier",
        "aligned triggered aligned by end",
        "timeoutable triggered unaligned by timer",
        "timeoutable triggered unaligned by barrier",
        "unaligned triggered unaligned by barrier",
        "unaligned triggered aligned by barrier",
        "at_least_once triggered at_least_once by barrier",
        "switched by the timer",
        "overtaken",
        "obsolete",
        "persisted",
        "measured",
    ):
        assert MET[case] >= 5, (case, MET)
