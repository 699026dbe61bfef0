"""Queues that block: Storm 2 within a worker, Arroyo's edges, Kafka Streams' buffers.

``JCQueue`` of Storm 2.8; ``ArrowContext`` of Arroyo 0.15; ``PartitionGroup`` of Kafka Streams.
"""

from __future__ import annotations

__all__ = ["arroyo_cost", "free_slots", "is_paused", "pressure"]


def free_slots(queued: int, slots: int) -> int:
    """Return how many more a producer may publish; at none it waits, whatever else it could do."""
    return max(0, slots - queued)


def arroyo_cost(rows: int, slots: int) -> int:
    """Return the slots that a batch takes: one a row, at most all, so that any batch can pass."""
    return min(rows, slots)


def pressure(free: int, slots: int) -> float:
    """Return what Arroyo's page shows: amber from 0.33, red from 0.66."""
    return 1 - (free + 1) / (slots + 1)


def is_paused(buffered: int, most: int) -> int:
    """Tell whether Kafka Streams has a partition paused: 1 above ``most`` records in its buffer.

    Parameters
    ----------
    buffered, most : int
        Records in the partition's buffer, and ``buffered.records.per.partition``, 1000. The poll
        that was under way still arrives: up to ``max.poll.records`` more.
    """
    return 1 if buffered > most else 0
