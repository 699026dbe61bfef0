"""A source that waits for the frontier: Timely's probes, Materialize's bytes in flight.

``Probe`` of Timely Dataflow; ``persist_source.rs`` of Materialize. A batch's number is its time,
and the frontier is the first number that is not yet done everywhere.
"""

from __future__ import annotations

__all__ = ["may_begin", "may_send_bytes"]


def may_begin(number: int, frontier: int, lag: int) -> int:
    """Tell whether a source may begin a batch: 1 while fewer than ``lag`` batches are not done."""
    return 1 if number < frontier + lag else 0


def may_send_bytes(in_flight: int, nbytes: int, most: int) -> int:
    """Tell whether a part may go: 1 within the limit, and always when nothing is in flight."""
    return 1 if in_flight == 0 or in_flight + nbytes <= most else 0
