"""Senders that wait for each other in event time, and watermarks that survive a kill."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from flowcontrol.ledger.link_ledger import LinkLedgerView
from flowcontrol.link import event_time
from flowcontrol.link import source as source_module
from flowcontrol.link.members import senders_of

BATCH = 20
"""Rows of a source batch; a row a ms, dealt out to two channels in turn."""

BATCHES = 10
"""Source batches of a sender."""

LAST = BATCHES * BATCH - 1
"""Number of its last row."""


class Clock:
    """What members read as the time."""

    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(event_time, "time", SimpleNamespace(time=lambda: clock.now))
    return clock


def skewed(make, dry, **settings):
    """Two senders with the same event times, of which the slow one has most of its rows later."""
    pipeline = make(event_time_column="number", **settings)
    pipeline.sender("fast", dry.batches_of(BATCHES, BATCH, name="fast"))
    pipeline.sender("slow", dry.batches_of(2, BATCH, name="slow"))
    pipeline.receiver()
    return pipeline


def reach(receiver):
    """Return the latest number of each sender that the sink has."""
    rows = receiver.rows
    found = {"fast": -1, "slow": -1}
    for name in found:
        own = rows.filter(pa.compute.equal(rows["source"], name))["number"]
        found[name] = max(own.to_pylist(), default=-1)
    return found


def drift(pipeline, dry, more=16, most=900):
    """Run both senders to their end, the slow one by a batch now and then; return the drift."""
    slow, (receiver,) = pipeline.senders["slow"], pipeline.receivers
    found, at, done = [], {"fast": -1, "slow": -1}, -1
    for step in range(most):
        for query in pipeline.queries:
            query.advance()
        if step % more == 0 and len(slow.batches) < BATCHES:
            first = len(slow.batches)
            slow.batches += dry.batches_of(first + 1, BATCH, first=first, name="slow")
        if receiver.done > done:
            at, done = reach(receiver), receiver.done
        found.append(at["fast"] - at["slow"] if at["slow"] >= 0 else 0)
        if min(at.values()) == LAST:
            return found
    raise AssertionError(f"still not at the end: {reach(receiver)}")


def watermarks(pipeline):
    """Return the watermark of each channel: of each sender, and of the receiver."""
    view = LinkLedgerView(pipeline.storage.child("ledger"))
    view.refresh()
    senders = {sender.name: sender.watermarks for sender in senders_of(view)}
    receiver = pipeline.receivers[0].open()._made().input
    names = {sender.number: sender.name for sender in senders_of(view)}
    own = {(names[n], c): receiver.times.watermark((n, c)) for n, c in receiver.numbers}
    return senders, own


# ---------------------------------------------------------------------- alignment


def test_with_align_s_the_drift_is_bounded_and_without_it_grows(make, dry, verify, clock):
    free = skewed(make, dry)
    assert max(drift(free, dry)) > 30 + 7 * 8
    verify.check_pipeline(free)
    bound = skewed(make, dry, align_s=0.03)
    found = drift(bound, dry)
    # A batch of the receiver takes at most what its buffers hold: 7 messages of about 8 rows.
    assert max(found) <= 30 + 7 * 8
    assert max(found) > 30, "never ahead: nothing was shown"
    verify.check_pipeline(bound)


def test_a_single_sender_is_never_paused(make, dry, verify, clock):
    pipeline = make(event_time_column="number", align_s=0)
    pipeline.sender("a", dry.batches_of(6, BATCH))
    receiver = pipeline.receiver()
    pipeline.drain()
    verify.check_pipeline(pipeline)
    assert receiver.rows.num_rows == 6 * BATCH


def test_a_paused_sender_gets_no_credit_and_what_was_sent_is_received(make, dry, clock):
    pipeline = skewed(make, dry, align_s=0.03)
    (receiver,) = pipeline.receivers
    pipeline.drain()
    own = receiver.open()._made().input
    fast = [(sender, channel) for sender, channel in own.numbers if sender in own.paused]
    assert len(fast) == 2
    gate = own._gate
    numbers = [own.numbers[channel] for channel in fast]
    for number in numbers:
        assert gate.sent(number) == gate.consumed(number)  # nothing lies about half read
    # What they may still take are buffers of before: what they gave back was not announced.
    assert all(gate.credit(number) > 0 for number in numbers)
    assert any(gate._channels[number].unannounced > 0 for number in numbers)
    assert pipeline.senders["fast"].sender.waiting_bytes() > 0


def test_it_goes_on_once_the_others_are_idle(make, dry, verify, clock):
    pipeline = skewed(make, dry, align_s=0.03, idle_after_s=60)
    (receiver,) = pipeline.receivers
    pipeline.drain()
    assert reach(receiver)["fast"] < LAST
    clock.now += 60
    pipeline.drain()
    held = reach(receiver)["fast"]
    clock.now += 0.001  # more than idle_after_s
    pipeline.drain()
    assert reach(receiver) == {"fast": LAST, "slow": 2 * BATCH - 1}
    assert held < LAST
    verify.check_pipeline(pipeline)


def test_a_sender_that_died_with_rows_unreleased_holds_nobody_up_for_ever(make, dry, clock):
    pipeline = make(event_time_column="number", align_s=0, floating_buffers=1)
    slow = pipeline.sender("slow", dry.batches_of(1, 200, name="slow"))
    receiver = pipeline.receiver()
    while receiver.done < 0:
        slow.advance()
        receiver.advance()
    slow.kill()
    del pipeline.senders["slow"]
    pipeline.sender("fast", dry.batches_of(BATCHES, BATCH, first=BATCHES - 4, name="fast"))
    pipeline.drain()
    assert 0 < reach(receiver)["slow"] < 199
    assert reach(receiver)["fast"] < LAST
    clock.now += 61
    pipeline.drain()
    assert reach(receiver)["fast"] == LAST


def test_a_removed_sender_does_not_count(make, dry, clock):
    pipeline = skewed(make, dry, align_s=0.03)
    pipeline.drain()
    pipeline.senders.pop("slow").kill()
    pipeline.link.remove_sender("slow")
    pipeline.drain()
    assert reach(pipeline.receivers[0])["fast"] == LAST


def test_a_query_that_ends_reads_all_that_was_there(make, dry, verify, clock, monkeypatch):
    """The sender that is behind has no more: it holds the other back no longer."""
    monkeypatch.setattr(source_module, "PATIENCE_S", 0.0)
    pipeline = skewed(make, dry, align_s=0.03, spill_bytes=1 << 20)
    (receiver,) = pipeline.receivers
    for sender in pipeline.senders.values():
        while sender.done + 1 < len(sender.batches):
            sender.advance()
    receiver.open().prepareForTriggerAvailableNow()
    pipeline.drain()
    assert reach(receiver) == {"fast": LAST, "slow": 2 * BATCH - 1}
    verify.check_pipeline(pipeline)


def test_a_query_that_ends_waits_until_a_dead_sender_is_idle(make, dry, monkeypatch):
    """Its patience is over sooner, and rows of the other sender would stay."""
    monkeypatch.setattr(source_module, "PATIENCE_S", 0.2)
    pipeline = make(event_time_column="number", align_s=0, floating_buffers=1, idle_after_s=1)
    slow = pipeline.sender("slow", dry.batches_of(1, 200, name="slow"))
    receiver = pipeline.receiver()
    while receiver.done < 0:
        slow.advance()
        receiver.advance()
    slow.kill()
    del pipeline.senders["slow"]
    fast = pipeline.sender("fast", [dry.source_rows("fast", n, [0, 1] * 4) for n in (300, 308)])
    while fast.done < 0:
        fast.advance()
        receiver.advance()
    while fast.done < 1:  # it fits into the buffers, and is not read
        fast.advance()
    receiver.open().prepareForTriggerAvailableNow()
    while receiver.advance():
        pass
    assert reach(receiver)["fast"] == 315
    assert reach(receiver)["slow"] < 199


def test_align_s_can_be_altered_in_use(make, dry, clock):
    pipeline = skewed(make, dry, align_s=0.03)
    (receiver,) = pipeline.receivers
    pipeline.drain()
    assert reach(receiver)["fast"] < LAST
    pipeline.link.alter(align_s=None)
    pipeline.drain()
    assert reach(receiver)["fast"] == LAST


# ---------------------------------------------------------------------- watermarks


def test_watermarks_of_senders_and_receivers(make, dry, clock):
    pipeline = make(event_time_column="number", watermark_delay_s=0.005)
    pipeline.sender("a", dry.batches_of(2, BATCH))
    pipeline.receiver()
    pipeline.drain()
    senders, own = watermarks(pipeline)
    assert senders == {"a": (38 - 5 - 1, 39 - 5 - 1)}
    assert own == {("a", 0): 32, ("a", 1): 33}
    clock.now += 1
    pipeline.senders["a"].batches += [dry.source_rows("a", 0, [0] * 4)]  # late rows
    pipeline.drain()
    assert watermarks(pipeline) == (senders, own)


def test_a_receiver_does_not_count_what_it_has_not_handed_on(make, dry, clock):
    pipeline = make(event_time_column="number", floating_buffers=0, exclusive_buffers=1)
    pipeline.sender("a", dry.batches_of(1, 400))
    receiver = pipeline.receiver()
    while receiver.done < 1:
        for query in pipeline.queries:
            query.advance()
    senders, own = watermarks(pipeline)
    assert senders == {"a": (397, 398)}
    read = receiver.rows
    for channel in (0, 1):
        numbers = read.filter(pa.compute.equal(read["channel"], channel))["number"].to_pylist()
        assert 0 < own["a", channel] < max(numbers)
        assert own["a", channel] + 1 in numbers


@pytest.mark.parametrize(
    "place", [("a", "after exchange"), ("a", "after ledger"), ("main", "sunk")]
)
def test_a_kill_keeps_watermarks(make, dry, verify, clock, place):
    """Also that of rows which were in the log and not in the ledger."""
    pipeline = make(event_time_column="number", watermark_delay_s=0.001, align_s=5)
    pipeline.sender("a", dry.batches_of(6, BATCH))
    pipeline.receiver()
    least = watermark_floor(pipeline)
    for passes in range(1, 4):
        while pipeline.passed.count(place) < passes * 2:
            for query in pipeline.queries:
                query.advance()
        pipeline.arm(*place)
        pipeline.drain()
        least = watermark_floor(pipeline, least)
    assert pipeline.kills >= 1
    pipeline.disarm()
    for query in pipeline.queries:
        query.kill()
    assert watermarks(pipeline)[0] == {"a": (116, 117)}
    pipeline.drain()
    assert watermarks(pipeline) == ({"a": (116, 117)}, {("a", 0): 116, ("a", 1): 117})
    verify.check_pipeline(pipeline)


def test_rows_that_a_kill_left_out_of_the_ledger_count_at_the_next_start(make, dry, clock):
    pipeline = make(event_time_column="number")
    sender = pipeline.sender("a", dry.batches_of(2, BATCH))
    pipeline.receiver()
    while pipeline.passed.count(("a", "after exchange")) < 1:
        for query in pipeline.queries:
            query.advance()
    pipeline.arm("a", "after exchange")  # of the second and last batch
    while pipeline.is_armed:
        for query in pipeline.queries:
            query.advance()
    assert max(watermark_floor(pipeline)) < 2 * BATCH - 3
    sender.open()
    assert watermark_floor(pipeline) == (37, 38)


def watermark_floor(pipeline, least=()):
    """Return the sender's watermarks; they never fall."""
    view = LinkLedgerView(pipeline.storage.child("ledger"))
    if not view.is_there():
        return least
    view.refresh()
    found = [sender.watermarks for sender in senders_of(view)]
    now = found[0] if found else ()
    assert not least or all(
        one is not None and one >= before
        for one, before in zip(now, least, strict=True)
        if before is not None
    )
    return now


def test_event_time_can_be_switched_on_in_use(make, dry, clock):
    pipeline = make()
    pipeline.sender("a", dry.batches_of(2, BATCH))
    pipeline.receiver()
    pipeline.drain()
    assert watermarks(pipeline)[0] == {"a": ()}
    pipeline.link.alter(event_time_column="number", watermark_delay_s=0.002)
    pipeline.drain()
    pipeline.senders["a"].batches += dry.batches_of(3, BATCH, first=2)
    pipeline.drain()
    assert watermarks(pipeline) == ({"a": (55, 56)}, {("a", 0): 55, ("a", 1): 56})
    pipeline.link.alter(event_time_column=None, watermark_delay_s=None)
    pipeline.drain()
    pipeline.senders["a"].batches += dry.batches_of(4, BATCH, first=3)
    pipeline.drain()
    assert watermarks(pipeline)[0] == {"a": ()}


@pytest.mark.parametrize(
    "place",
    [
        ("fast", "after exchange"),
        pytest.param(("slow", "before ledger"), marks=pytest.mark.long),
        ("main", "noted"),
    ],
    ids=" ".join,
)
def test_a_kill_while_one_waits_loses_and_doubles_nothing(make, dry, verify, clock, place):
    pipeline = skewed(make, dry, align_s=0.03)
    (receiver,) = pipeline.receivers
    pipeline.drain()
    assert reach(receiver)["fast"] < LAST
    for first in range(2, BATCHES, 4):
        pipeline.arm(*place)
        slow = pipeline.senders["slow"]
        slow.batches += dry.batches_of(first + 4, BATCH, first=first, name="slow")
        pipeline.drain()
    assert pipeline.kills > 0
    assert reach(receiver)["fast"] == LAST
    pipeline.disarm()
    pipeline.drain()
    verify.check_pipeline(pipeline)
