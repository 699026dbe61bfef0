"""An operator beside whatever its service does: nothing is lost, overtaken or waits for ever."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from hypothesis import event, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from flowcontrol.protocol.requests import async_wait
from flowcontrol.protocol.requests.async_wait import ANSWERED, EMPTY, FAILED
from flowcontrol.state.requests import NEVER, NONE
from tests.protocol.requests import waits

HARD = ("waits for a place", "answered behind one that waits", "in a checkpoint")
"""Cases of watermarks that examples have to meet."""
MET = Counter[str]()


class AsyncOperator(RuleBasedStateMachine):
    """Takes records and watermarks; calls are late, fail, have no result, time out."""

    @initialize(
        capacity=st.integers(1, 5),
        ordered=st.booleans(),
        timeout=st.sampled_from([NEVER, 3, 12, 40]),
        retries=st.integers(0, 3),
        empty=st.integers(0, 1),
        delay=st.integers(0, 9),
        multiplier=st.integers(1, 3),
        is_blocking=st.booleans(),
    )
    def begin(
        self, capacity: int, ordered: bool, timeout: int, retries: int, empty: int, delay: int,
        multiplier: int, is_blocking: bool,
    ) -> None:  # fmt: skip
        """Begin with some settings."""
        own = waits.settings(
            1 if is_blocking else capacity, ordered, timeout=timeout, retries_empty=empty,
            is_blocking=int(is_blocking), **waits.exponential(retries, delay, 20, multiplier),
        )  # fmt: skip
        self.delay, self.outcome = 3, ANSWERED
        self.hits, self.restored, self.is_ended = set[int](), 0, False
        self.operator = self.made(own)

    def made(self, own: waits.WaitSettings) -> waits.Operator:
        """Return an operator whose service answers as it does at the moment of the call."""
        return waits.Operator(
            own, lambda value, calls: self.delay, lambda value, calls: self.outcome,
            lambda value: value in self.hits,
        )  # fmt: skip

    def can_put(self) -> bool:
        """Whether the next element may be put in."""
        return self.operator.is_free() and not self.is_ended

    @precondition(can_put)
    @rule(is_mark=st.booleans(), hit=st.integers(0, 4))
    def put(self, is_mark: bool, hit: int) -> None:
        """Put in a watermark, or a record, which a cache may have."""
        value = len(self.operator.values)
        if hit == 0:
            self.hits.add(value)
        self.operator.put(f"W{value}" if is_mark else value)

    @rule(after=st.integers(1, 25))
    def wait(self, after: int) -> None:
        """Let time pass."""
        self.operator.until(self.operator.now + after)

    @rule(delay=st.integers(1, 30), outcome=st.sampled_from([ANSWERED, FAILED, EMPTY]))
    def change(self, delay: int, outcome: int) -> None:
        """Have the service answer otherwise."""
        self.delay, self.outcome = delay, outcome

    @rule()
    def toggle(self) -> None:
        """Take the room of the outputs, or give it back."""
        self.operator.has_room = not self.operator.has_room
        self.operator.run()

    @precondition(can_put)
    @rule()
    def checkpoint(self) -> None:
        """Take a checkpoint, fail, and begin from it: what was in the queue comes again."""
        before = self.operator
        held = before.held()
        after = self.made(before.settings)
        after.now, after.values = before.now, before.values
        after.out, after.numbers = before.out, before.numbers
        self.operator, self.delay = after, min(self.delay, 5)
        MET["in a checkpoint"] += any(isinstance(before.values[one], str) for one in held)
        for number in held:
            after.put_again(number)
        self.restored += len(held)

    @precondition(can_put)
    @rule()
    def end(self) -> None:
        """End the input."""
        self.is_ended = True
        async_wait.begin_end(self.operator, self.operator.state, self.operator.now)
        self.operator.run()

    @invariant()
    def holds(self) -> None:
        """Every element has left once, or is held once; limits hold; nothing is forgotten."""
        own = self.operator
        state, writer = own.state, own.state.requests.writer
        held = own.held()
        if state.queue.hand != NONE:
            held.append(own.number_of(state.elements[state.queue.hand - 1]))
        assert sorted(own.numbers + held) == list(range(len(own.values)))
        assert state.queue.size <= own.settings.capacity
        assert held == sorted(held)
        called = [one for one in own.places() if state.elements[one - 1].is_called]
        assert writer.in_flight == len(called)
        assert writer.sent == writer.acknowledged + writer.failed + writer.in_flight
        self.in_order()
        self.note_marks()
        unanswered = state.queue.size - state.queue.complete
        assert unanswered == 0 or writer.next_at != NEVER
        if own.has_room:
            assert writer.next_at == NEVER or writer.next_at > own.now
            assert state.queue.hand == NONE or state.queue.size == own.settings.capacity
            assert state.queue.has_mail == 0

    def note_marks(self) -> None:
        """Note which cases of watermarks have been met."""
        own, after = self.operator, False
        state = own.state
        if state.queue.hand != NONE and state.elements[state.queue.hand - 1].is_mark == 1:
            MET["waits for a place"] += 1
        for place in own.places():
            element = state.elements[place - 1]
            if after and element.is_mark == 0 and element.completed > 0:
                MET["answered behind one that waits"] += 1
            after |= element.is_mark == 1

    def in_order(self) -> None:
        """Check that records leave in order, or at least on their side of every watermark."""
        own = self.operator
        if own.settings.is_ordered:
            assert own.numbers == sorted(own.numbers)
            return
        for place, number in enumerate(own.numbers):
            if isinstance(own.values[number], str):
                assert set(own.numbers[:place]) == set(range(number))

    def teardown(self) -> None:
        """Whatever has happened, all leaves once the input has ended."""
        if not hasattr(self, "operator"):
            return
        own = self.operator
        own.has_room = True
        self.delay = 5
        own.run()
        own.until_free()
        own.end()
        assert sorted(own.numbers) == list(range(len(own.values)))
        writer = own.state.requests.writer
        assert writer.in_flight == own.state.queue.complete == 0
        event(f"timeouts: {writer.timeouts > 0}, restored: {self.restored > 0}")
        event(f"calls again: {writer.requests > len(own.values)}, hits: {own.state.queue.hits > 0}")


def test_whatever_its_service_does() -> None:
    """Also in the hard cases: no watermark overtakes a record, nor is it overtaken."""
    MET.clear()
    first = int(os.environ.get("FLOWCONTROL_SEED", random.randrange(1 << 32)))
    print(f"FLOWCONTROL_SEED={first}")
    for number in range(30):
        run_state_machine_as_test(
            seed(first + number)(AsyncOperator),
            settings=settings(deadline=None, stateful_step_count=40),
        )
        if all(MET[name] for name in HARD):
            return
    assert {name: MET[name] for name in HARD if not MET[name]} == {}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_run_meets_timeouts_and_retries_together(ordered: bool) -> None:
    own = waits.Operator(
        waits.settings(3, ordered, timeout=25, **waits.fixed(3, 5)),
        latency=lambda value, calls: 4 + value % 7,
        outcome=lambda value, calls: FAILED if value % 3 == 0 else ANSWERED,
    )
    own.put(*range(30)).end()
    writer = own.state.requests.writer
    assert sorted(own.numbers) == list(range(30))
    assert min(writer.timeouts, writer.failed) > 0
    assert writer.requests > 40
