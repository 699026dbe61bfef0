"""An asynchronous sink beside whatever its destination does: nothing is lost, nothing waits."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowcontrol.state.requests import NEVER, NONE
from tests.protocol.requests import sinks


class AsyncSink(RuleBasedStateMachine):
    """Writes, lets time pass, takes checkpoints; requests fail, are late, time out."""

    @initialize(
        batch=st.integers(1, 5),
        more=st.integers(1, 9),
        in_flight=st.integers(1, 4),
        batch_bytes=st.integers(100, 260),
        buffer_time=st.integers(1, 30),
        timeout=st.sampled_from([NEVER, 12, 40]),
        has_window=st.integers(0, 1),
        window=st.integers(1, 20),
        latency=st.integers(1, 20),
        rate=st.sampled_from([0, 0, 60, 600]),
        burst=st.integers(0, 9),
    )
    def begin(
        self, batch: int, more: int, in_flight: int, batch_bytes: int, buffer_time: int,
        timeout: int, has_window: int, window: int, latency: int, rate: int, burst: int,
    ) -> None:  # fmt: skip
        """Begin with some settings."""
        own = sinks.settings(
            batch=batch, buffered=batch + more, in_flight=in_flight, batch_bytes=batch_bytes,
            buffer_time=buffer_time, timeout=timeout, has_window=has_window,
        )  # fmt: skip
        self.failing: set[int] = set()
        self.rate, self.burst = rate, batch + burst
        self.sink = sinks.Sink(
            own, latency=latency, window=window, fails=self.fails, capacity=400,
            bucket=sinks.bucket(rate, self.burst),
        )  # fmt: skip
        self.patience = 0
        self.is_ended = False

    def fails(self, values: list[int]) -> list[int]:
        """Have those fail that are to, once."""
        bad = [value for value in values if value in self.failing]
        self.failing -= set(bad)
        return bad

    @precondition(lambda self: self.sink.may_write() and not self.is_ended)
    @rule(large=st.booleans(), fails=st.booleans())
    def write(self, large: bool, fails: bool) -> None:
        """Write a record of 4 or of 100 bytes, which may fail once."""
        value = len(self.sink.values) * 1000 + (201 if large else 1)
        if fails:
            self.failing.add(value)
        self.sink.write(value)

    @rule(after=st.integers(1, 25))
    def wait(self, after: int) -> None:
        """Let time pass."""
        self.sink.until(self.sink.now + after)

    @rule(latency=st.integers(1, 60))
    def change(self, latency: int) -> None:
        """Have the destination answer more quickly, or more slowly."""
        self.sink.latency = latency

    @precondition(lambda self: self.sink.may_write() and not self.is_ended)
    @rule()
    def checkpoint(self) -> None:
        """Take a checkpoint: when it is over nothing is in flight."""
        self.sink.latency = min(self.sink.latency, 8)
        self.sink.flush().until_free()
        assert self.sink.writer.in_flight == 0
        assert self.sink.writer.buffer.records < max(self.sink.settings.batch, 1) or (
            self.sink.settings.has_window == 1 or self.rate > 0
        )

    @invariant()
    def holds(self) -> None:
        """Every record is acknowledged once, or held once; limits hold; nothing is forgotten."""
        sink, writer = self.sink, self.sink.writer
        held = list(sink.buffer)
        for request in sink.state.slots:
            held += sink.held(request.entries) if request.number else []
        if writer.hand != NONE:
            entry = sink.state.entries[writer.hand - 1]
            held += sink.values[entry.first : entry.first + entry.count]
        found = Counter(held) + Counter(sink.values[number] for number in sink.acknowledged)
        assert found == Counter(sink.values)
        assert 0 <= writer.in_flight <= sink.settings.in_flight
        in_flight = sum(request.number > 0 for request in sink.state.slots)
        assert in_flight == writer.in_flight
        most = sink.settings.buffered + sink.settings.batch * sink.settings.in_flight
        assert writer.buffer.records <= most
        if writer.in_flight > 0 or writer.buffer.records > 0:
            assert writer.next_at != NEVER and writer.next_at > sink.now - 1

    def teardown(self) -> None:
        """Whatever has happened, the end of the input has all acknowledged."""
        if not hasattr(self, "sink"):
            return
        sink = self.sink
        sink.latency = 5
        sink.until_free()
        sink.end().until_free()
        assert Counter(sink.acknowledged) == Counter(range(len(sink.values)))
        if self.rate > 0:
            taken = 0
            for at, values in sink.sent:
                taken += len(values)
                assert taken <= self.burst + at * self.rate / 1000
            event(f"a bucket: {len(sink.sent) > 3}")
        for name in ("failed", "timeouts", "doubled"):
            event(f"{name}: {getattr(sink.writer, name) > 0}")


TestAsyncSink = AsyncSink.TestCase
TestAsyncSink.settings = settings(deadline=None, stateful_step_count=40)


def test_a_run_meets_failures_and_timeouts_together() -> None:
    own = sinks.settings(batch=3, buffered=5, in_flight=2, timeout=12, batch_bytes=10**6)
    sink = sinks.Sink(own, latency=20, fails=sinks.once(2, 4, 5)).write(*range(5))
    sink.until(30)
    assert sink.writer.timeouts > 0 and sink.writer.doubled > 0
    sink.latency = 3
    sink.end().until_free()
    assert sink.writer.failed > 3
    assert sorted(sink.acknowledged) == list(range(5))
    assert len(sink.stored) > 5


@pytest.mark.parametrize("in_flight", [1, 2, 7])
@pytest.mark.parametrize(("batch", "latency"), [(10, 100), (25, 40)])
def test_throughput_is_what_is_in_flight_over_the_latency(
    batch: int, in_flight: int, latency: int
) -> None:
    own = sinks.settings(
        batch=batch, in_flight=in_flight, buffered=20 * batch, batch_bytes=10**9,
        buffer_time=10**9,
    )  # fmt: skip
    sink = sinks.Sink(own, latency=latency, capacity=20 * batch + batch * in_flight + 5)
    sink.fill()
    while sink.now < 60 * latency:
        sink.until(sink.writer.next_at)
        sink.fill()
    rounds = sink.now // latency
    assert len(sink.acknowledged) == batch * in_flight * rounds
