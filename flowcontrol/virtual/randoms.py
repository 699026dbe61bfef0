"""Random numbers of the kernel: the same pure functions of three integers as everywhere."""

from __future__ import annotations

from typing import Any

from flowcontrol.emulation.routing import mix
from flowcontrol.emulation.work import uniform

__all__ = ["mix_modulo", "uniform"]


def mix_modulo(seed: int, stream: int, number: int, width: int) -> int:
    """Return a well-mixed number from 0 to ``width`` - 1."""
    return mix(int(seed), int(stream), int(number)) % int(width)


def _register() -> None:
    """Give numba :func:`mix` in unsigned 64-bit arithmetic; Python's integers know no end."""
    import numpy as np
    from numba.extending import overload, register_jitable

    one, k, s, m1, m2 = (
        np.uint64(value)
        for value in (
            1,
            0x9E3779B97F4A7C15,
            0xBF58476D1CE4E5B9,
            0xBF58476D1CE4E5B9,
            0x94D049BB133111EB,
        )
    )
    s30, s27, s31, s11 = (np.uint64(value) for value in (30, 27, 31, 11))

    @register_jitable(_nrt=False)  # type: ignore[misc]
    def mixed(seed: Any, stream: Any, number: Any) -> Any:
        z = np.uint64(seed) * k + np.uint64(stream) * s + np.uint64(number) + one
        z = z * k
        z = (z ^ (z >> s30)) * m1
        z = (z ^ (z >> s27)) * m2
        return z ^ (z >> s31)

    @overload(mix_modulo, strict=False)  # type: ignore[misc]
    def _mix_modulo(seed: Any, stream: Any, number: Any, width: Any) -> Any:
        def body(seed: Any, stream: Any, number: Any, width: Any) -> Any:
            return np.int64(mixed(seed, stream, number) % np.uint64(width))

        return body

    @overload(uniform, strict=False)  # type: ignore[misc]
    def _uniform(seed: Any, stream: Any, number: Any) -> Any:
        return lambda seed, stream, number: (
            np.float64(mixed(seed, stream, number) >> s11) * 2.0**-53
        )
