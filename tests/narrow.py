"""Integers that must fit into 64 bits, as the kernel's do."""

from __future__ import annotations

LIMIT = 1 << 63


class Narrow(int):
    """An integer whose results must fit into 64 bits, as the kernel's do."""

    def _kept(self, result: int) -> Narrow:
        assert -LIMIT <= result < LIMIT, result
        return Narrow(result)

    def __mul__(self, other: int) -> Narrow:
        if isinstance(other, float):
            return float(self) * other  # type: ignore[return-value]
        return self._kept(int(self) * int(other))

    def __add__(self, other: int) -> Narrow:
        if isinstance(other, float):
            return float(self) + other  # type: ignore[return-value]
        return self._kept(int(self) + int(other))

    def __sub__(self, other: int) -> Narrow:
        if isinstance(other, float):
            return float(self) - other  # type: ignore[return-value]
        return self._kept(int(self) - int(other))

    def __rsub__(self, other: int) -> Narrow:
        if isinstance(other, float):
            return other - float(self)  # type: ignore[return-value]
        return self._kept(int(other) - int(self))

    def __floordiv__(self, other: int) -> Narrow:
        return self._kept(int(self) // int(other))

    def __rfloordiv__(self, other: int) -> Narrow:
        return self._kept(int(other) // int(self))

    def __neg__(self) -> Narrow:
        return self._kept(-int(self))

    def __lshift__(self, other: int) -> Narrow:
        return self._kept(int(self) << int(other))

    __rmul__, __radd__ = __mul__, __add__
