"""Rules of stamps: one number that says when a record happened and which record it is.

A stamp is the event time, ms, above :data:`ID_BITS` bits of an id, from which a record's key
follows. What a record causes inherits its stamp. Times that a stamp cannot hold, 69 years from the
start of the run, are those at the ends of its range.
"""

ID_BITS = 21
"""Bits of an id."""
IDS = 1 << ID_BITS
"""How many ids there are."""
LAST_TIME = (1 << 42) - 1
"""The latest event time of a stamp, ms; the earliest is -LAST_TIME - 1."""


def stamp_of(time: int, number: int) -> int:
    """Stamp of an event time, ms, and an id, from 0 to IDS - 1."""
    return max(-LAST_TIME - 1, min(LAST_TIME, time)) * IDS + number


def time_of(stamp: int) -> int:
    """Event time of a stamp, ms."""
    return stamp >> ID_BITS


def id_of(stamp: int) -> int:
    """Id of a stamp."""
    return stamp & (IDS - 1)
