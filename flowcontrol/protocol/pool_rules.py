"""Rules of the local buffer pool (``LocalBufferPool``, reference section 4)."""

from __future__ import annotations

from flowcontrol.protocol.rows import (
    GLOBAL_FREE,
    POOL_AT_QUOTA,
    POOL_DESTROYED,
    POOL_FREE,
    POOL_IN_USE,
    POOL_MAX,
    POOL_OVERDRAFT,
    POOL_SIZE,
    UNLIMITED,
    Row,
    Rows,
)

__all__ = [
    "can_request",
    "destroy_pool",
    "fetch_segment",
    "note_quota",
    "pool_is_available",
    "recycle_segment",
    "request_segment",
    "reserve_segments",
    "resize_pool",
    "serve_pools",
]


def can_request(in_use: int, free: int, size: int, max_overdraft: int, global_free: int) -> int:
    """Tell whether a request would be served: 1 if so.

    A free segment serves it; else, only at or above the quota, overdraft does if fewer than
    ``max_overdraft`` segments are above the quota and the global pool has one free.
    """
    if free > 0:
        return 1
    above = in_use - size
    if above >= 0 and above < max_overdraft and global_free > 0:
        return 1
    return 0


def fetch_segment(pool: Row, global_row: Row) -> int:
    """Fetch the one segment that makes a pool's availability observable; return how many.

    Notes
    -----
    ``LocalBufferPool.checkAvailability`` (since 1.12): only with none free, below the quota,
    and if the global pool has one. Run after every request, resize and creation, and, by
    :func:`serve_pools`, when an empty global pool gets segments back.
    """
    if pool[POOL_DESTROYED] == 1 or pool[POOL_FREE] > 0 or global_row[GLOBAL_FREE] == 0:
        return 0
    if pool[POOL_IN_USE] >= pool[POOL_SIZE]:
        return 0
    global_row[GLOBAL_FREE] -= 1
    pool[POOL_FREE] = 1
    return 1


def request_segment(pool: Row, global_row: Row) -> int:
    """Take a segment out of a pool: 1, or 0 (nothing changed) when it cannot be served.

    Notes
    -----
    ``LocalBufferPool.requestMemorySegment``, section 4.2: a free one first; none and the
    quota reached: overdraft, straight from the global pool; then the eager fetch of one.
    """
    if pool[POOL_DESTROYED] == 1:
        return 0
    if (
        can_request(
            pool[POOL_IN_USE],
            pool[POOL_FREE],
            pool[POOL_SIZE],
            pool[POOL_OVERDRAFT],
            global_row[GLOBAL_FREE],
        )
        == 0
    ):
        return 0
    if pool[POOL_FREE] > 0:
        pool[POOL_FREE] -= 1
    else:
        global_row[GLOBAL_FREE] -= 1
    pool[POOL_IN_USE] += 1
    fetch_segment(pool, global_row)
    return 1


def recycle_segment(pool: Row, global_row: Row) -> int:
    """Give a used segment back to a pool without listeners.

    Returns
    -------
    int
        1 if it went on to the global pool (destroyed, or more requested than the quota), so
        that :func:`serve_pools` is due; 0 if the pool keeps it free.

    Notes
    -----
    ``LocalBufferPool.recycle``, section 4.3.
    """
    pool[POOL_IN_USE] -= 1
    requested = pool[POOL_IN_USE] + 1 + pool[POOL_FREE]
    if pool[POOL_DESTROYED] == 1 or requested > pool[POOL_SIZE]:
        global_row[GLOBAL_FREE] += 1
        return 1
    pool[POOL_FREE] += 1
    return 0


def pool_is_available(pool: Row) -> int:
    """Tell whether a task may write another record: 1 if so.

    Notes
    -----
    Section 4.4: at least one free segment and no subpartition at its quota.
    """
    if pool[POOL_DESTROYED] == 0 and pool[POOL_FREE] > 0 and pool[POOL_AT_QUOTA] == 0:
        return 1
    return 0


def note_quota(pool: Row, counts: Row, subpartition: int, change: int, limit: int) -> int:
    """Count a subpartition's buffers and keep the number of those at their quota.

    Parameters
    ----------
    pool : row of int
        The local pool.
    counts : row of int, shape (subpartitions,)
        Buffers of the pool in use by each subpartition.
    subpartition : int
        Its index.
    change : int
        1 after a request, -1 at a recycle.
    limit : int
        ``max-buffers-per-channel``; :data:`UNLIMITED` for none.

    Returns
    -------
    int
        The subpartition's buffers now.

    Notes
    -----
    ``LocalBufferPool``: the quota is soft. Reaching it makes the pool unavailable, leaving it
    downwards makes it available again; requests are served all the same.
    """
    before = counts[subpartition]
    counts[subpartition] = before + change
    if change > 0 and before + change == limit:
        pool[POOL_AT_QUOTA] += 1
    elif change < 0 and before == limit:
        pool[POOL_AT_QUOTA] -= 1
    return before + change


def resize_pool(pool: Row, size: int, global_row: Row) -> int:
    """Set a pool's quota, at most its maximum; return the free segments given back.

    Notes
    -----
    ``LocalBufferPool.setNumBuffers``: free excess returns at once, used excess counts as
    overdraft until it is recycled; growing absorbs overdraft. :func:`serve_pools` is due
    when something was given back.
    """
    if pool[POOL_MAX] != UNLIMITED and size > pool[POOL_MAX]:
        size = pool[POOL_MAX]
    pool[POOL_SIZE] = size
    excess = pool[POOL_IN_USE] + pool[POOL_FREE] - size
    returned = max(0, min(excess, pool[POOL_FREE]))
    pool[POOL_FREE] -= returned
    global_row[GLOBAL_FREE] += returned
    fetch_segment(pool, global_row)
    return returned


def reserve_segments(pool: Row, count: int, global_row: Row) -> int:
    """Make sure that a pool has requested ``count`` segments: 1, or 0 (nothing changed).

    Notes
    -----
    ``LocalBufferPool.reserveSegments`` (FLINK-24035): a gate reserves one floating buffer
    before its channels take exclusive ones, so that it always makes progress.
    """
    missing = count - pool[POOL_IN_USE] - pool[POOL_FREE]
    if missing <= 0:
        return 1
    if missing > global_row[GLOBAL_FREE]:
        return 0
    global_row[GLOBAL_FREE] -= missing
    pool[POOL_FREE] += missing
    return 1


def destroy_pool(pool: Row, global_row: Row) -> int:
    """Destroy a pool and return its free segments; used ones follow as they are recycled."""
    returned = pool[POOL_FREE]
    pool[POOL_DESTROYED] = 1
    pool[POOL_FREE] = 0
    global_row[GLOBAL_FREE] += returned
    return returned


def serve_pools(pools: Rows, global_row: Row) -> int:
    """Let the pools that wait for the global pool fetch their segment; return how many did.

    Notes
    -----
    ``LocalBufferPool.onGlobalPoolAvailable``. A pool waits exactly while it has none free
    and is below its quota, so that no registration need be kept. In order of creation.
    """
    served = 0
    for i in range(len(pools)):
        served += fetch_segment(pools[i], global_row)
    return served
