"""Queues that block: Storm 2 within a worker, Arroyo's edges.

``JCQueue`` of Storm 2.8; ``ArrowContext`` of Arroyo 0.15.
"""

from __future__ import annotations

__all__ = ["free_slots"]


def free_slots(queued: int, slots: int) -> int:
    """Return how many more a producer may publish; at none it waits, whatever else it could do."""
    return max(0, slots - queued)
