"""Rules of the local buffer pool (``LocalBufferPool``, reference section 4)."""

from collections.abc import Sequence

from flowcontrol.state.network import GlobalPool, LocalPool
from flowcontrol.state.rows import UNLIMITED, Row


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


def fetch_segment(pool: LocalPool, segments: GlobalPool) -> int:
    """Fetch the one segment that makes a pool's availability observable; return how many.

    ``LocalBufferPool.checkAvailability`` (since 1.12): only with none free, below the quota,
    and if the global pool has one. Run after every request, resize and creation, and, by
    :func:`serve_pools`, when an empty global pool gets segments back.
    """
    if pool.is_destroyed == 1 or pool.free > 0 or segments.free == 0:
        return 0
    if pool.in_use >= pool.size:
        return 0
    segments.free -= 1
    pool.free = 1
    return 1


def request_segment(pool: LocalPool, segments: GlobalPool) -> int:
    """Take a segment out of a pool: 1, or 0 (nothing changed) when it cannot be served.

    ``LocalBufferPool.requestMemorySegment``, section 4.2: a free one first; none and the
    quota reached: overdraft, straight from the global pool; then the eager fetch of one.
    """
    if pool.is_destroyed == 1:
        return 0
    if can_request(pool.in_use, pool.free, pool.size, pool.max_overdraft, segments.free) == 0:
        return 0
    if pool.free > 0:
        pool.free -= 1
    else:
        segments.free -= 1
    pool.in_use += 1
    fetch_segment(pool, segments)
    return 1


def recycle_segment(pool: LocalPool, segments: GlobalPool) -> int:
    """Give a used segment back to a pool without listeners.

    ``LocalBufferPool.recycle``, section 4.3.

    Returns 1 if it went on to the global pool (destroyed, or more requested than the quota), so
    that :func:`serve_pools` is due; 0 if the pool keeps it free.
    """
    pool.in_use -= 1
    requested = pool.in_use + 1 + pool.free
    if pool.is_destroyed == 1 or requested > pool.size:
        segments.free += 1
        return 1
    pool.free += 1
    return 0


def pool_is_available(pool: LocalPool) -> int:
    """Tell whether a task may write another record: 1 if so.

    Section 4.4: at least one free segment and no subpartition at its quota.
    """
    if pool.is_destroyed == 0 and pool.free > 0 and pool.at_quota == 0:
        return 1
    return 0


def note_quota(pool: LocalPool, counts: Row, subpartition: int, change: int, limit: int) -> int:
    """Count a subpartition's buffers and keep the number of those at their quota.

    ``LocalBufferPool``: the quota is soft. Reaching it makes the pool unavailable, leaving it
    downwards makes it available again; requests are served all the same.

    - ``counts`` (shape (subpartitions,)): buffers of the pool in use by each subpartition.
    - ``change``: 1 after a request, -1 at a recycle.
    - ``limit``: ``max-buffers-per-channel``; :data:`UNLIMITED` for none.
    """
    before = counts[subpartition]
    counts[subpartition] = before + change
    if change > 0 and before + change == limit:
        pool.at_quota += 1
    elif change < 0 and before == limit:
        pool.at_quota -= 1
    return before + change


def resize_pool(pool: LocalPool, size: int, segments: GlobalPool) -> int:
    """Set a pool's quota, at most its maximum; return the free segments given back.

    ``LocalBufferPool.setNumBuffers``: free excess returns at once, used excess counts as
    overdraft until it is recycled; growing absorbs overdraft. :func:`serve_pools` is due
    when something was given back.
    """
    if pool.maximum != UNLIMITED and size > pool.maximum:
        size = pool.maximum
    pool.size = size
    excess = pool.in_use + pool.free - size
    returned = max(0, min(excess, pool.free))
    pool.free -= returned
    segments.free += returned
    fetch_segment(pool, segments)
    return returned


def reserve_segments(pool: LocalPool, count: int, segments: GlobalPool) -> int:
    """Make sure that a pool has requested ``count`` segments: 1, or 0 (nothing changed).

    ``LocalBufferPool.reserveSegments`` (FLINK-24035): a gate reserves one floating buffer
    before its channels take exclusive ones, so that it always makes progress.
    """
    missing = count - pool.in_use - pool.free
    if missing <= 0:
        return 1
    if missing > segments.free:
        return 0
    segments.free -= missing
    pool.free += missing
    return 1


def destroy_pool(pool: LocalPool, segments: GlobalPool) -> int:
    """Destroy a pool and return its free segments; used ones follow as they are recycled."""
    returned = pool.free
    pool.is_destroyed = 1
    pool.free = 0
    segments.free += returned
    return returned


def serve_pools(pools: Sequence[LocalPool], segments: GlobalPool) -> int:
    """Let the pools that wait for the global pool fetch their segment; return how many did.

    ``LocalBufferPool.onGlobalPoolAvailable``. A pool waits exactly while it has none free
    and is below its quota, so that no registration need be kept. In order of creation.
    """
    served = 0
    for i in range(len(pools)):
        served += fetch_segment(pools[i], segments)
    return served
