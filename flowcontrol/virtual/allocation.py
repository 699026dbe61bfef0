"""Memory for the kernel: from the beginning of a cache line on, not there until it is touched."""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

Cells = npt.NDArray[np.int64]

LINE = 8
"""Cells of a line of a processor's cache, 64 bytes."""


LARGE_CELLS = 1 << 19
"""From here on memory is the system's own, there page by page when it is touched: 4 MiB."""


def zeros(count: int, dense: int = 0) -> Cells:
    """Return so many cells, all 0, from the beginning of a line on.

    Parameters
    ----------
    count : int
        How many.
    dense : int, default 0
        So many of them, the first, will all be touched.
    """
    if count >= LARGE_CELLS and hasattr(mmap, "MADV_HUGEPAGE"):
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with suppress(OSError):  # where no more may be asked for than there is
            found = np.frombuffer(mmap.mmap(-1, 8 * count, flags=kind), np.int64)
            will_touch(found, 0, dense)
            return found
    cells = np.zeros(count + LINE, np.int64)
    first = -(cells.ctypes.data // 8) % LINE
    return cells[first : first + count]


def will_touch(cells: Cells, first: int, after: int) -> None:
    """Have huge pages for cells that will all be touched, if they are the system's own memory.

    For the others, of which most will not be, a huge page would be filled for one of them.
    """
    memory: Any = cells.base
    while isinstance(memory, np.ndarray):
        memory = memory.base
    memory = getattr(memory, "obj", memory)
    if isinstance(memory, mmap.mmap) and after > first:
        start = 8 * first // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError):  # of a system without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE, start, 8 * after - start)
