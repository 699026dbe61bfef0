"""The guarantees of a sink, and the figures of what its readers see."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Guarantee(StrEnum):
    """What a sink promises its readers."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class DeliverySample(NamedTuple):
    """The figures of a subtask; counts since the start, latencies since the last sample.

    Attributes
    ----------
    written : int
        Records that the sink wrote, those that were written again included.
    committed : int
        Rows that a reader sees; a record that is there three times is three rows.
    visible_twice : int
        Rows beyond the first of their record, so ``committed - visible_twice`` records are visible.
    lost : int
        Records that a reader will never see.
    staged : int
        Records in transactions that are neither committed nor aborted.
    shown : int
        Rows that became visible since the last sample.
    visibility_p50, visibility_max : int or None
        Nearest-rank median and largest time from a row's writing until it was visible, of those,
        in the unit of the times; None if there are none.
    """

    written: int
    committed: int
    visible_twice: int
    lost: int
    staged: int
    shown: int
    visibility_p50: int | None
    visibility_max: int | None


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """Return a nearest-rank percentile of values that occur as often as stated; None of none.

    Parameters
    ----------
    counts : mapping of int to int
        How often each value occurs, at least once.
    percent : int
        1 to 100; 100 is the largest.
    """
    rank = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return None
