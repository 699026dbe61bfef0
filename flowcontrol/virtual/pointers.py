"""Rows of one flat memory: views that cost nothing in the compiled kernel.

The rules index rows (``row[i]``), rows of rows (``rows[i][j]``) and ask for ``len``. Interpreted,
a row is a view of an array. Compiled, it is an address and a length, for a view of an array
counts references, which costs more than the rule that uses it. Nothing checks a bound there, so
a row never outlives the call of the kernel that holds the memory.
"""

from __future__ import annotations

from typing import Any


class PyRows:
    """Rows at a fixed distance, interpreted: ``rows[i]`` is a view."""

    def __init__(self, memory: Any, offset: int, count: int, width: int) -> None:
        self._memory, self._offset, self._count, self._width = memory, offset, count, width

    def __getitem__(self, index: int) -> Any:
        first = self._offset + index * self._width
        return self._memory[first : first + self._width]

    def __len__(self) -> int:
        return self._count


def row(memory: Any, offset: int, length: int) -> Any:
    """Return ``length`` integers of the memory from ``offset`` on."""
    return memory[offset : offset + length]


def rows(memory: Any, offset: int, count: int, width: int) -> Any:
    """Return ``count`` rows from ``offset`` on, ``width`` integers apart."""
    return PyRows(memory, offset, count, width)


def lowest_bit(word: int) -> int:
    """Return the number of the lowest bit that is set; the word is not 0."""
    return (int(word) & -int(word)).bit_length() - 1
