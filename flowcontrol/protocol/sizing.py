"""Sizes of gates and partitions, and redistribution of buffers between pools.

Pure integer rules, the compiled kernel may register them. A maximum of :data:`UNLIMITED` means
no maximum.
"""

from collections.abc import MutableSequence, Sequence

from flowcontrol.protocol.partition_kinds import BOUNDED, SORTED
from flowcontrol.protocol.rows import UNLIMITED


def partition_sizes(
    subpartitions: int, kind: int, exclusive: int, floating: int, sort_buffers: int
) -> tuple[int, int]:
    """Return the smallest and largest pool of a result partition.

    Parameters
    ----------
    subpartitions : int
        Consumers, at least 1.
    kind : int
        Of :mod:`flowcontrol.protocol.partition_kinds`.
    exclusive, floating : int
        ``buffers-per-channel`` and ``floating-buffers-per-gate``, buffers.
    sort_buffers : int
        Minimum of a sorting partition, buffers.

    Returns
    -------
    tuple of int
        Minimum and maximum in buffers; the maximum may be :data:`UNLIMITED`.

    Notes
    -----
    ``NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition``, reference section 6.2.
    The spare buffer of the minimum makes "available" reachable while every channel holds an
    open one. The maximum is never below the minimum, which matters with 0 exclusive.
    """
    smallest = subpartitions + 1
    largest = UNLIMITED
    if kind == BOUNDED:
        largest = max(smallest, subpartitions * exclusive + floating)
    elif kind == SORTED:
        smallest = sort_buffers
        largest = max(smallest, 4 * subpartitions)
    return smallest, largest


def gate_sizes(
    channels: int, exclusive: int, floating: int, threshold: int
) -> tuple[int, int, int]:
    """Floating pool and exclusive buffers of an input gate.

    Parameters
    ----------
    channels : int
        Input channels, at least 1.
    exclusive, floating : int
        ``buffers-per-channel`` and ``floating-buffers-per-gate``, buffers.
    threshold : int
        Most buffers that may be required per gate, at least 1; :data:`UNLIMITED` for none.

    Returns
    -------
    tuple of int
        Minimum and maximum of the floating pool, exclusive buffers per channel.

    Notes
    -----
    ``InputGateSpecUtils.createGateBuffersSpec``, reference section 6.1. What the threshold
    takes from the exclusive buffers, the floating pool may hold instead.
    """
    required = channels * exclusive + 1
    if threshold != UNLIMITED:
        required = min(required, threshold)
    effective = min(exclusive, (required - 1) // channels)
    taken = effective * channels
    return required - taken, channels * exclusive + floating - taken, effective


def unreserved_sizes(channels: int, each: int, extra: int) -> tuple[int, int]:
    """Return the smallest and largest pool of a gate or bounded partition up to Flink 1.4.

    Parameters
    ----------
    channels : int
        Input channels, or subpartitions, at least 1.
    each : int
        ``taskmanager.network.memory.buffers-per-channel``, buffers.
    extra : int
        ``taskmanager.network.memory.floating-buffers-per-gate``, buffers.

    Returns
    -------
    tuple of int
        Minimum and maximum in buffers. All of them are shared: no channel has its own.

    Notes
    -----
    ``NetworkEnvironment.registerTask`` of 1.4, reference section 3. There is no spare buffer: a
    task did not check whether its output is available, it waited for a buffer when it needed one.
    """
    return channels, max(channels, channels * each + extra)


def redistribute(
    total: int,
    unpooled: int,
    required: Sequence[int],
    maximum: Sequence[int],
    size: MutableSequence[int],
) -> int:
    """Set the size of every resizable pool from what nobody requires.

    Parameters
    ----------
    total : int
        Segments of the global pool.
    unpooled : int
        Segments taken as exclusive buffers.
    required, maximum : sequence of int, shape (pools,)
        Minimum and maximum of each pool in order of creation, buffers.
    size : mutable sequence of int, shape (pools,)
        Current sizes; those of resizable pools are overwritten.

    Returns
    -------
    int
        Segments shared out on top of the minima.

    Notes
    -----
    ``NetworkBufferPool.redistributeBuffers``, reference section 5.1: shares are proportional
    to capacity, by running sums, so that no remainder is lost. Flink walks a hash set; we
    walk in order of creation. A pool whose minimum is its maximum keeps its size.
    """
    pools = len(required)
    excess = total - unpooled
    for i in range(pools):
        excess -= required[i]
    capacity = 0
    for i in range(pools):
        capacity += spare_capacity(required[i], maximum[i], excess)
    if excess > 0 and capacity == 0:
        return 0
    shared = min(excess, capacity)
    part = 0
    done = 0
    for i in range(pools):
        if maximum[i] == UNLIMITED or required[i] < maximum[i]:
            part += spare_capacity(required[i], maximum[i], excess)
            share = 0
            if shared > 0:
                share = shared * part // capacity - done
            size[i] = required[i] + share
            done += share
    return done


def spare_capacity(required: int, maximum: int, excess: int) -> int:
    """Buffers that a pool could take on top of its minimum, at most ``excess``."""
    if maximum == UNLIMITED:
        return excess
    return min(excess, maximum - required)
