"""Random numbers of the kernel: the same pure functions of three integers as everywhere."""

from __future__ import annotations

from flowcontrol.emulation.routing import mix
from flowcontrol.emulation.work import uniform

__all__ = ["mix_modulo", "uniform"]


def mix_modulo(seed: int, stream: int, number: int, width: int) -> int:
    """Return a well-mixed number from 0 to ``width`` - 1."""
    return mix(int(seed), int(stream), int(number)) % int(width)
