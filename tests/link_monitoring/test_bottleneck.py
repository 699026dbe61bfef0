"""The sentence on the bottleneck: which stage of a chain, and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcontrol.link.monitoring.bottleneck import describe_bottleneck
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)

CHANNEL = ChannelSnapshot(
    "events", "main", 0, 9, 8, 8, 8, 4, 0, 4, 1, 1000, 50, 5000, 3.0, 5.0, 10.0, 1000.0, 10.0,
    1000.0, 0.0, True,
)  # fmt: skip
SENDER = SenderSnapshot("events", 100, 10.0, 1000.0, 8, 8, 1000, 0.0, 0.5)
RECEIVER = ReceiverSnapshot(
    "main",
    "receiver/main/0-3",
    (0, 1, 2, 3),
    50,
    10.0,
    1000.0,
    1.25,
    0.5,
    1.0,
    1.0,
    4,
    4,
    False,
    0.5,
)


def link(label, *blocked, receiver=RECEIVER, readers=True):
    """A link of a sender, a receiver and a channel for each blocked share."""
    channels = tuple(
        replace(CHANNEL, channel=number, blocked_ratio=ratio)
        for number, ratio in enumerate(blocked)
    )
    if not readers:
        channels = tuple(replace(channel, receiver="") for channel in channels)
    sender = replace(SENDER, blocked_ratio=max(blocked, default=0.0))
    receivers = (receiver,) if readers else ()
    return LinkSnapshot(label, f"/lake/{label}", 1e9, 10.0, (sender,), receivers, channels)


def test_no_link_has_a_sender():
    empty = LinkSnapshot("orders", "/lake/orders", 1e9, 0.0, (), (), ())
    assert describe_bottleneck([empty, empty]) == "No sender has written into a link yet."


def test_nobody_is_blocked():
    assert describe_bottleneck([link("orders", 0.1, 0.05)]) == (
        "No bottleneck: no sender waited for a buffer more than 10 % of the last 10 s; the sources "
        "set the pace."
    )


def test_one_link():
    assert describe_bottleneck([link("orders", 0.97, 0.9, 0.8)]) == (
        "Bottleneck: the stage that reads orders (receiver main), busy 100 % with batches of "
        "1.25 s for a target of 1 s: sender events was blocked 97 % of the last 10 s."
    )


def test_a_target_below_the_fixed_cost():
    receiver = replace(RECEIVER, batch_s=50.0, target_s=5.0, fixed_s=6.0, keeps_target=False)
    assert (
        "with batches of 50 s for a target of 5 s, below what a batch takes without rows, 6 s: "
    ) in describe_bottleneck([link("orders", 0.97, receiver=receiver)])


@pytest.mark.parametrize(
    ("first", "second", "third", "named", "behind"),
    [
        (0.9, 0.8, 0.9, "c", ""),
        (0.9, 0.8, 0.1, "b", "the link behind (c) blocked nobody"),
        (0.9, 0.8, 0.3, "b", "the link behind (c) blocked less"),
        (0.9, 0.0, 0.1, "a", "the links behind (b, c) blocked nobody"),
        (0.0, 0.0, 0.9, "c", ""),
        (0.5, 0.0, 0.0, "a", "the links behind (b, c) blocked nobody"),
        (0.51, 0.5, 0.0, "a", "the links behind (b, c) blocked less"),
    ],
)
def test_the_stage_behind_the_last_link_that_blocks(first, second, third, named, behind):
    sentence = describe_bottleneck([link("a", first), link("b", second), link("c", third)])
    assert f"the stage that reads {named} (receiver main)" in sentence
    assert behind in sentence
    assert ("behind" in sentence) is bool(behind)


def test_a_little_blocked_is_at_times():
    assert describe_bottleneck([link("a", 0.2)]).startswith("Bottleneck at times: the stage that")


def test_few_slow_channels_are_named():
    assert "(receiver main), most of all channel 2, busy" in describe_bottleneck(
        [link("a", 0.0, 0.0, 0.9, 0.0)]
    )
    assert "most of all channels 0,3, busy" in describe_bottleneck([link("a", 0.9, 0.0, 0.0, 0.8)])
    assert "most of all" not in describe_bottleneck([link("a", 0.9, 0.9, 0.9, 0.0)])


def test_nobody_reads():
    assert describe_bottleneck([link("a", 0.9, readers=False)]) == (
        "Bottleneck: nobody reads a, no receiver has started: sender events was blocked 90 % of "
        "the last 10 s."
    )


def test_nobody_reads_some_channels():
    half = replace(RECEIVER, channels=(0, 1))
    assert "nobody reads channels 2-3 of a, receiver main covers others only" in (
        describe_bottleneck([link("a", 0.0, 0.0, 0.9, 0.9, receiver=half)])
    )


@pytest.mark.parametrize(("busy", "buffers"), [(0.5, True), (0.51, False)])
def test_a_receiver_that_is_idle_wants_more_buffers(busy, buffers):
    sentence = describe_bottleneck([link("a", 0.9, receiver=replace(RECEIVER, busy_ratio=busy))])
    assert ("the buffers of a, whose receiver main was busy only 50 %" in sentence) is buffers


@pytest.mark.parametrize(
    ("silent", "running", "words"),
    [
        (30.0, 30.0, "busy 100 %"),
        (31.0, 31.0, "in one micro-batch for 31 s or stopped"),
        (31.0, None, "idle for 31 s or stopped"),
    ],
)
def test_a_receiver_that_is_silent_may_have_stopped(silent, running, words):
    quiet = replace(RECEIVER, silent_s=silent, running_s=running)
    assert words in describe_bottleneck([link("a", 0.9, receiver=quiet)])


def test_slow_batches_are_no_stop():
    slow = replace(RECEIVER, silent_s=60.0, running_s=60.0, batch_s=20.0)
    assert "stopped" not in describe_bottleneck([link("a", 0.9, receiver=slow)])
    slow = replace(slow, batch_s=19.0)
    assert "stopped" in describe_bottleneck([link("a", 0.9, receiver=slow)])


@pytest.mark.parametrize(
    ("silent", "running", "sentence"),
    [
        (12.0, 12.0, "Starting: receiver main of a has not ended its first batch, so far 12 s."),
        (0.5, None, "Starting: receiver main of a has not ended its first batch."),
        (
            40.0,
            40.0,
            "Starting: receiver main of a has not ended its first batch, so far 40 s; no commit "
            "for 40 s: check that its query runs.",
        ),
    ],
)
def test_no_verdict_before_the_first_batch_has_ended(silent, running, sentence):
    first = replace(RECEIVER, batch_s=None, running_s=running, silent_s=silent, is_starting=True)
    assert describe_bottleneck([link("a", 0.9, receiver=first)]) == sentence
    assert describe_bottleneck([link("b", 0.9), link("a", 0.0, receiver=first)]) == sentence


def test_of_several_receivers_the_one_that_holds_is_named():
    snapshot = link("a", 0.9, 0.8)
    slow = tuple(replace(c, receiver="audit", backlog_bytes=9000) for c in snapshot.channels)
    fast = tuple(replace(c, is_holding=False) for c in snapshot.channels)
    audit = replace(RECEIVER, name="audit")
    snapshot = replace(snapshot, receivers=(audit, RECEIVER), channels=(*slow, *fast))
    assert "the stage that reads a (receiver audit)" in describe_bottleneck([snapshot])
