"""Kinds of result partitions, and how many buffers a partition or a gate may have.

Pure functions of integers, which the compiled kernel registers. The source is Flink 1.20:
``ResultPartitionType``, ``BoundedBlockingSubpartition`` (blocking, hash),
``SortMergeResultPartition``, and ``HsResultPartition`` with ``HsFullSpillingStrategy`` and
``HsSelectiveSpillingStrategy`` (hybrid). Hybrid is that of FLIP-235, Flink 1.20's
``taskmanager.network.hybrid-shuffle.enable-new-mode: false``, and not tiered storage.
"""

from collections.abc import MutableSequence, Sequence

from flowcontrol.protocol.service import MOST, capped
from flowcontrol.state.rows import UNLIMITED

# --- Rules of the kinds of result partition: what is kept or spilled, when consumers start.


BOUNDED = 0  # pipelined, bounded: what a streaming job has
PIPELINED = 1  # pipelined, the pool without a maximum
HASH = 2  # blocking, a file per subpartition
SORTED = 3  # blocking, regions sorted by subpartition
FULL = 4  # hybrid, everything is spilled
SELECTIVE = 5  # hybrid, what does not fit is spilled

KEPT = 0  # a buffer is in memory only
WRITING = 1  # it waits for the disk, or is being written
ON_DISK = 2  # it is written

KIND_OF_TYPE = {
    "pipelined_bounded": BOUNDED,
    "pipelined_approximate": BOUNDED,
    "pipelined": PIPELINED,
    "blocking": HASH,
    "sort_merge": SORTED,
    "hybrid_full": FULL,
    "hybrid_selective": SELECTIVE,
}

BLOCKING_GATE_THRESHOLD = 1000
"""Buffers that a gate of a blocking edge requires at most, unless the option states another
(``InputGateSpecUtils.DEFAULT_MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH``)."""

HASH_READ_BUFFERS = 2
"""Read buffers of a reader of a hash partition (``FileChannelBoundedData``)."""

HYBRID_READ_AHEAD = 5
"""Buffers that a hybrid subpartition is read ahead (``HybridShuffleConfiguration``)."""

REQUEST_BYTES = 4 * 1024 * 1024
"""Bytes of one request of read buffers (``BatchShuffleReadBufferPool``)."""

_TENTHS = 10
_THRESHOLD_TENTHS = 7  # both strategies: share of the pool in use from which they act
_RATIO_TENTHS = 4  # both strategies: share of the pool that they spill or evict


def kind_of(partition_type: str, subpartitions: int, sort_parallelism: int) -> int:
    """Return the kind that a partition type means.

    - ``subpartitions``: of the partition, at least 1.
    - ``sort_parallelism``: ``taskmanager.network.sort-shuffle.min-parallelism``: subpartitions from
      which on ``sort_merge`` sorts; fewer are written by hash (``ResultPartitionFactory``).

    Raises ValueError if there is no such type.
    """
    if partition_type not in KIND_OF_TYPE:
        known = ", ".join(KIND_OF_TYPE)
        raise ValueError(f"unknown type of result partition {partition_type!r}; known: {known}")
    kind = KIND_OF_TYPE[partition_type]
    return HASH if kind == SORTED and subpartitions < sort_parallelism else kind


def has_overdraft(kind: int) -> int:
    """Tell whether a partition may overdraw its pool: 1 for the pipelined kinds.

    ``ResultPartitionFactory.isOverdraftBufferNeeded``.
    """
    return 1 if kind <= PIPELINED else 0


def has_quota(kind: int) -> int:
    """Tell whether ``max-buffers-per-channel`` counts a partition's buffers: 1 if so.

    A sort-merge and a hybrid partition request buffers for no subpartition in particular
    (``LocalBufferPool.requestMemorySegmentBlocking`` without one).
    """
    return 1 if kind <= HASH else 0


def waits_for_producers(kind: int) -> int:
    """Tell whether consumers start only when all producers have finished: 1 if blocking."""
    return 1 if kind in (HASH, SORTED) else 0


def memory_is_short(in_use: int, size: int) -> int:
    """Tell whether a hybrid partition gives memory back: 1 if so.

    ``HsSelectiveSpillingStrategy.onMemoryUsageChanged`` and that of the full strategy: from
    70 % of the pool on. In tenths, exactly, where Flink has floats.
    """
    return 1 if in_use * _TENTHS >= size * _THRESHOLD_TENTHS else 0


def buffers_to_evict(size: int) -> int:
    """Buffers that a hybrid partition gives back when memory is short.

    40 % of the pool. A selective strategy spills and evicts the buffers that are consumed last;
    a full one evicts consumed buffers and, up to that number, spilled ones that are consumed
    last (``decideActionWithGlobalInfo``, ``checkRelease``).
    """
    return size * _RATIO_TENTHS // _TENTHS


def full_spill_is_due(kept: int, size: int) -> int:
    """Tell whether a full strategy spills all that is not yet spilled: 1 if so.

    ``HsFullSpillingStrategy``: from half the pool on.

    ``kept``: finished buffers that have not been spilled.
    """
    return 1 if kept > 0 and 2 * kept >= size else 0


def frees_segment(spill: int, is_gone: int, is_held: int) -> int:
    """Tell whether a buffer's segment returns to its pool: 1 if so.

    ``HsBufferContext.release``: a buffer that is being written returns when it is written.

    - ``is_gone``: 1: nobody reads it from memory any more.
    - ``is_held``: 1: the segment has not been returned.
    """
    return 1 if is_held == 1 and is_gone == 1 and spill != WRITING else 0


def is_readable(is_gone: int, is_loaded: int) -> int:
    """Tell whether a buffer can be sent: 1 if it is in memory, or was read from disk."""
    return 1 if is_gone == 0 or is_loaded == 1 else 0


def may_load(index: int, consumed: int, most: int) -> int:
    """Tell whether a buffer may be read from disk ahead of its turn: 1 if so.

    ``HsSubpartitionFileReaderImpl``: up to ``most`` after the last one consumed.

    ``index``: its number in the subpartition, from 0.
    """
    return 1 if index < consumed + most else 0


def backlog_of(kind: int, unsent: int, readable: int) -> int:
    """Backlog that goes with a message of a spilling partition, buffers.

    ``BoundedBlockingSubpartitionReader`` reports all that remains, ``SortMergeSubpartitionReader``
    and the views of a hybrid partition what is in memory.
    """
    return unsent if kind == HASH else readable


def disk_ns(nbytes: int, cost_ns: int, per_bytes: int) -> int:
    """Return the time that a disk takes for some bytes, nanoseconds, rounded up, at most ``MOST``.

    ``cost_ns``, ``per_bytes``: a ratio: ``per_bytes`` bytes take ``cost_ns`` nanoseconds.
    """
    down = capped(nbytes, cost_ns, per_bytes)
    rest = nbytes - nbytes // per_bytes * per_bytes
    return down if rest * cost_ns % per_bytes == 0 else min(MOST, down + 1)


def read_ahead(
    kind: int, subpartitions: int, partitions: int, pool_bytes: int, segment_bytes: int
) -> int:
    """Read buffers of each subpartition.

    ``SortMergeResultPartitionReadScheduler`` gives a partition at most
    max(2 x request, subpartitions) buffers of the pool, to whichever subpartition is next in
    the file. Here each subpartition has an equal part of them, at least one.

    ``partitions``: sort-merge partitions of the task manager, which share its read buffers equally.
    """
    if kind == HASH:
        return HASH_READ_BUFFERS
    if kind != SORTED:
        return HYBRID_READ_AHEAD
    request = max(1, REQUEST_BYTES // segment_bytes)
    share = pool_bytes // segment_bytes // partitions
    return max(1, min(share, max(2 * request, subpartitions)) // subpartitions)


# --- Sizes of gates and partitions, and redistribution of buffers between pools.
#
# Pure integer rules, the compiled kernel may register them. A maximum of UNLIMITED means no
# maximum.


def partition_sizes(
    subpartitions: int, kind: int, exclusive: int, floating: int, sort_buffers: int
) -> tuple[int, int]:
    """Return the smallest and largest pool of a result partition.

    ``NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition``, reference section 6.2.
    The spare buffer of the minimum makes "available" reachable while every channel holds an
    open one. The maximum is never below the minimum, which matters with 0 exclusive.

    - ``subpartitions``: consumers, at least 1.
    - ``exclusive``, ``floating``: ``buffers-per-channel`` and ``floating-buffers-per-gate``,
      buffers.

    Returns the minimum and the maximum in buffers; the maximum may be :data:`UNLIMITED`.
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

    ``InputGateSpecUtils.createGateBuffersSpec``, reference section 6.1. What the threshold
    takes from the exclusive buffers, the floating pool may hold instead.

    - ``channels``: input channels, at least 1.
    - ``exclusive``, ``floating``: ``buffers-per-channel`` and ``floating-buffers-per-gate``,
      buffers.
    - ``threshold``: most buffers that may be required per gate, at least 1; :data:`UNLIMITED` for
      none.

    Returns the minimum and maximum of the floating pool, and the exclusive buffers per channel.
    """
    required = channels * exclusive + 1
    if threshold != UNLIMITED:
        required = min(required, threshold)
    effective = min(exclusive, (required - 1) // channels)
    taken = effective * channels
    return required - taken, channels * exclusive + floating - taken, effective


def unreserved_sizes(channels: int, each: int, extra: int) -> tuple[int, int]:
    """Return the smallest and largest pool of a gate or bounded partition up to Flink 1.4.

    ``NetworkEnvironment.registerTask`` of 1.4, reference section 3. There is no spare buffer: a
    task did not check whether its output is available, it waited for a buffer when it needed one.

    ``channels``: input channels, or subpartitions, at least 1.

    Returns the minimum and the maximum in buffers. All are shared: no channel has its own.
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

    ``NetworkBufferPool.redistributeBuffers``, reference section 5.1: shares are proportional
    to capacity, by running sums, so that no remainder is lost. Flink walks a hash set; we
    walk in order of creation. A pool whose minimum is its maximum keeps its size.

    - ``unpooled``: segments taken as exclusive buffers.
    - ``required``, ``maximum`` (shape (pools,)): minimum and maximum of each pool in order of
      creation, buffers.
    - ``size`` (shape (pools,)): current sizes; those of resizable pools are overwritten.

    Returns the segments distributed on top of the minima.
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
