"""What a transport that counts records is told, and what each of its channels remembers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "BATCHED_CREDIT",
    "BDP_WINDOW",
    "BLOCKING_QUEUE",
    "CUMULATIVE_CREDIT",
    "FREE",
    "HALF_RETURN_CREDIT",
    "HOP_HYSTERESIS",
    "MILLIONTHS",
    "RATE_WINDOW",
    "UNBOUNDED",
    "ChannelGrant",
    "RecordTransport",
]

UNBOUNDED = 0
BLOCKING_QUEUE = 1
HALF_RETURN_CREDIT = 2
BATCHED_CREDIT = 3
CUMULATIVE_CREDIT = 4
RATE_WINDOW = 5
BDP_WINDOW = 6
HOP_HYSTERESIS = 7

FREE = 1 << 60
"""The grant of a receiver that never stops its senders: more records than any run has."""

MILLIONTHS = 1_000_000


@dataclass(slots=True)
class RecordTransport:
    """Parameters of a transport that counts records; 0 where its kind has none of a name."""

    kind: int = UNBOUNDED
    """UNBOUNDED, BLOCKING_QUEUE, HALF_RETURN_CREDIT ..."""
    slots: int = 0
    """Records: queue, permits, credit at the beginning; of a window its initial size, units of
    RATE_WINDOW, bytes of BDP_WINDOW."""
    lot: int = 0
    """Records from which permits go back."""
    mark: int = 0
    """Records of credit from which it is topped up."""
    unit: int = 0
    """Bytes of a unit."""
    multiplier: int = 0
    """Periods that a window is to last."""
    period: int = 0
    """Rounds between two packets of flow control."""
    most: int = 0
    """Bytes from which a window does not grow."""
    high: int = 0
    """Mark above which senders stop, millionths of the slots."""
    low: int = 0
    """Mark below which they go on, millionths of the slots."""
    check: int = 0
    """Rounds between two looks at the overflow; 0: marks."""
    cache_bytes: int = 0
    """What a stopped sender takes on before it blocks, bytes."""
    trip: int = 0
    """Rounds of a round trip."""
    round_ns: int = 0
    """Length of a round, ns."""


@dataclass(slots=True)
class ChannelGrant:
    """What a receiver remembers of a channel, to decide what it grants."""

    seen: int = 0
    """Records taken up when it was last looked; of a RATE_WINDOW units."""
    held: int = 0
    """Permits that lie with the receiver."""
    window: int = 0
    """Units of a RATE_WINDOW, bytes of a BDP_WINDOW."""
    arrived: int = 0
    """Records arrived when the round trip began."""
    began: int = -1
    """Its first round; -1: none is measured."""
    trip_ns: int = 0
    """Mean round trip, ns."""
    highest: int = 0
    """Highest bandwidth, bytes/s."""
    samples: int = 0
    """Round trips measured, or packets of flow control sent."""
