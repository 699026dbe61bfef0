"""A source that waits for the frontier: Timely's probes, Materialize's bytes in flight.

``Probe`` of Timely Dataflow; ``persist_source.rs`` of Materialize. A batch's number is its time,
and the frontier is the first number that is not yet done everywhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["frontier", "may_begin", "may_send_bytes"]


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


def may_send_bytes(in_flight: int, nbytes: int, most: int) -> int:
    """Tell whether a part may go: 1 within the limit, and always when nothing is in flight."""
    return 1 if in_flight == 0 or in_flight + nbytes <= most else 0
