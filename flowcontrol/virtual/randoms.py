"""Random numbers of the kernel: the same pure functions of three integers as everywhere.

Interpreted, the memory's integers have 64 bits and Python's know no end, so they are converted.
"""

from __future__ import annotations

from flowcontrol.job import work
from flowcontrol.job.routing import mix


def mix_modulo(seed: int, stream: int, number: int, width: int) -> int:
    """Return a well-mixed number from 0 to ``width`` - 1."""
    return mix(int(seed), int(stream), int(number)) % int(width)


def uniform(seed: int, stream: int, number: int) -> float:
    """Return a number uniform in [0, 1)."""
    return work.uniform(int(seed), int(stream), int(number))
