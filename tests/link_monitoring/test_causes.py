"""Why a link is slow, by the causes of the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowcontrol.analysis.causes import WORDS
from flowcontrol.link.monitoring.bottleneck import cause_sentence, limiting_link, link_cause
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
    "main", "receiver/main/0-2", (0, 1, 2), 50, 10.0, 1000.0, 1.25, 0.5, 1.0, 1.0, 4, 4, False, 0.5
)


def link(*channels: tuple[float, float], label: str = "orders", **reader: Any) -> LinkSnapshot:
    """A link whose channels have rows per second, and were blocked for a share of the time."""
    own = tuple(
        replace(CHANNEL, channel=number, rows_in_per_s=rows, blocked_ratio=blocked)
        for number, (rows, blocked) in enumerate(channels)
    )
    sender = replace(SENDER, blocked_ratio=max(blocked for _, blocked in channels))
    receiver = replace(RECEIVER, fixed_s=0.1, **reader)
    return LinkSnapshot(label, f"/lake/{label}", 1e9, 10.0, (sender,), (receiver,), own)


EVEN = ((10.0, 0.8), (10.0, 0.8), (10.0, 0.8))

TABLE: list[tuple[LinkSnapshot, str | None, int | None]] = [
    (link((10.0, 0.05), (10.0, 0.0)), None, None),
    (link(*EVEN), "operator", None),
    (link(*EVEN, busy_ratio=0.3), "buffers", None),
    (link(*EVEN, batch_s=1.0, running_s=None), "operator", None),
    (replace(link(*EVEN), receivers=()), "downstream", None),
    (link((10.0, 0.1), (70.0, 0.9), (10.0, 0.1)), "key_skew", 1),
    # as many rows, but blocked no more than the others: not the reason
    (link((10.0, 0.9), (70.0, 0.9), (10.0, 0.9)), "operator", None),
    # blocked most, with as many rows as the others: slow for another reason
    (link((10.0, 0.1), (10.0, 0.9), (10.0, 0.1)), "operator", None),
    (link((10.0, 0.1), (14.0, 0.9), (10.0, 0.1)), "operator", None),
    # skew comes before too few buffers: the receiver waits since the hot channel is in its way
    (link((10.0, 0.1), (70.0, 0.9), (10.0, 0.1), busy_ratio=0.3), "key_skew", 1),
    # a receiver that has stopped is not busy either, and buffers would not help
    (link(*EVEN, busy_ratio=0.0, silent_s=120.0), "downstream", None),
    (link(*EVEN, batch_s=60.0, silent_s=120.0), "operator", None),
    (link(*EVEN, is_starting=True), None, None),
    (link(*EVEN, paused=("events",)), None, None),
]


@pytest.mark.parametrize(("snapshot", "word", "channel"), TABLE)
def test_the_cause_of_a_link(snapshot: LinkSnapshot, word: str | None, channel: int | None) -> None:
    found = link_cause(snapshot)
    assert (None if found is None else found.cause) == word
    if found is not None:
        assert found.cause in WORDS
        assert found.subtask == channel
        assert 0 < found.confidence <= 1
        assert found.evidence
        assert found.advice


def test_small_batches_cost_what_is_beside_their_rows() -> None:
    snapshot = link(*EVEN, batch_s=0.5)
    slow = replace(snapshot.receivers[0], fixed_s=0.4)
    found = link_cause(replace(snapshot, receivers=(slow,)))
    assert found is not None
    assert found.cause == "external"
    assert cause_sentence(found) == (
        "Cause: external. A micro-batch of receiver main takes 500 ms, and 400 ms without any "
        "rows: planning, commits, the sink's own calls. What helps: larger batches (a higher "
        "target_batch_s, more buffers)."
    )


def test_the_last_link_that_blocks_limits() -> None:
    first, second, third = link(*EVEN), link(*EVEN, label="late"), link((1.0, 0.0), label="end")
    assert limiting_link([first, second, third]) is second
    assert limiting_link([third]) is None
