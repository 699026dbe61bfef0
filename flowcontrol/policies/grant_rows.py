"""What a transport that counts records is told, and what each of its channels remembers."""

from __future__ import annotations

__all__ = [
    "BATCHED_CREDIT",
    "BDP_WINDOW",
    "BLOCKING_QUEUE",
    "CUMULATIVE_CREDIT",
    "FREE",
    "GRANT_WIDTH",
    "HALF_RETURN_CREDIT",
    "HOP_HYSTERESIS",
    "MILLIONTHS",
    "RATE_WINDOW",
    "S_ARRIVED",
    "S_BEGAN",
    "S_HELD",
    "S_HIGHEST",
    "S_SAMPLES",
    "S_SEEN",
    "S_TRIP_NS",
    "S_WINDOW",
    "UNBOUNDED",
    "VALUES_WIDTH",
    "V_CACHE_BYTES",
    "V_CHECK",
    "V_HIGH",
    "V_KIND",
    "V_LOT",
    "V_LOW",
    "V_MARK",
    "V_MOST",
    "V_MULTIPLIER",
    "V_PERIOD",
    "V_ROUND_NS",
    "V_SLOTS",
    "V_TRIP",
    "V_UNIT",
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

# ---- parameters of a transport: (VALUES_WIDTH,)
V_KIND = 0
V_SLOTS = 1  # records: queue, permits, credit at the beginning
V_LOT = 2  # records from which permits go back
V_MARK = 3  # records of credit from which it is topped up
V_UNIT = 4  # bytes of a unit, windows' initial size in units of it
V_MULTIPLIER = 5
V_PERIOD = 6  # rounds between two packets of flow control
V_MOST = 7  # bytes from which a window does not grow
V_HIGH = 8  # marks, millionths of the slots
V_LOW = 9
V_CHECK = 10  # rounds between two looks at the overflow; 0: marks
V_CACHE_BYTES = 11  # what a stopped sender takes on before it blocks
V_TRIP = 12  # rounds of a round trip
V_ROUND_NS = 13  # length of a round
VALUES_WIDTH = 14

# ---- what a channel remembers: (GRANT_WIDTH,)
S_SEEN = 0  # records taken up when it was last looked; a window: units
S_HELD = 1  # permits that lie with the receiver
S_WINDOW = 2  # units, or bytes
S_ARRIVED = 3  # records arrived when the round trip began
S_BEGAN = 4  # its first round; -1: none is measured
S_TRIP_NS = 5  # mean round trip
S_HIGHEST = 6  # highest bandwidth, bytes/s
S_SAMPLES = 7
GRANT_WIDTH = 8
