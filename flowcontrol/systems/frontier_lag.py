"""A source that waits for the frontier, as programs do with the probes of Timely Dataflow.

A batch's number is its time, and the frontier is the first number that is not yet done everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["frontier", "may_begin"]


def frontier(first: int, ends: Sequence[int], oldest: int) -> int:
    """Return the number of the first batch that is not done.

    Parameters
    ----------
    first : int
        The first batch that was not done when it was last looked.
    ends : sequence of int
        When that batch and those after it ended, ascending; the last of them is the newest batch.
        A record that was emitted at the very end of a batch belongs to it.
    oldest : int
        When the oldest record was emitted that is not done, in the same unit; negative: none.
    """
    return first + (len(ends) if oldest < 0 else bisect_left(ends, oldest))


def may_begin(number: int, frontier: int, lag: int) -> int:
    """Tell whether a source may begin a batch: 1 while fewer than ``lag`` batches are not done."""
    return 1 if number < frontier + lag else 0
