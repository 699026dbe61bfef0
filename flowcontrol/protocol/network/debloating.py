"""Buffer debloating: how large a gate's senders should make their buffers (section 8).

A gate measures what it receives and sizes buffers so that all that is in flight to it takes a
target time to consume. Only the size changes, never the number of buffers. Pure functions of
numbers, the compiled kernel may register them.

Source: ``BufferDebloater``, ``BufferSizeEMA`` and ``ThroughputCalculator`` in Flink's
``org.apache.flink.runtime.throughput``; truncation and rounding are Java's. The fraction of a
size is kept from one period to the next (FLINK-36555); before, it was cut off every time.
"""

from flowcontrol.protocol.service import MOST, capped

LARGEST = float(MOST)
"""Largest throughput, bytes/s; Java caps it at 4 times that."""


def throughput(received_bytes: int, active_us: int, previous: int) -> int:
    """Bytes a second that a gate received while it had something to read.

    ``ThroughputCalculator.calculateThroughput``. Flink's clock counts milliseconds, ours is
    finer; in whole milliseconds both give the same number, operation by operation.

    - ``received_bytes``: size of all buffers received since the last measurement, bytes.
    - ``active_us``: time since then, less that in which the gate was empty, microseconds.
    - ``previous``: the last measurement, bytes/s; returned if no active time passed.

    Returns whole bytes/s, rounded down.
    """
    if active_us == 0:
        return previous
    return int(min(received_bytes / (active_us / 1000) * 1000, LARGEST))


def buffers_in_use(queued: int, required: int, initial_credit: int) -> int:
    """Buffers of a remote channel that hold data, or will as soon as they are there.

    ``RemoteInputChannel.getBuffersInUseCount``, section 1.7.

    - ``queued``: received and not read. For a local channel only this counts, in its subpartition.
    - ``required``, ``initial_credit``: of the channel; their difference is its sender's backlog.
    """
    return queued + max(0, required - initial_credit)


def debloat(
    last_size: float,
    bytes_per_s: int,
    in_use: int,
    target_us: int,
    samples: int,
    smallest: int,
    largest: int,
) -> float:
    """Size of a buffer, by a moving average.

    ``BufferDebloater.recalculateBufferSize`` with ``BufferSizeEMA.calculateBufferSize``. A
    size at most doubles: growing and shrinking are equally fast, and from 1 KiB to 32 KiB it
    takes at least 5 calls.

    - ``last_size``: result of the last call, bytes, fraction and all; at the start the largest
      size.
    - ``bytes_per_s``: the gate's throughput, at least 0.
    - ``in_use``: buffers in use in all channels of the gate; 0 counts as 1.
    - ``target_us``: time to consume all of them, microseconds, in whole milliseconds.
    - ``samples``: of the moving average, at least 1; 1 takes the new size at once.
    - ``smallest``, ``largest``: limits of the result, bytes.

    Returns the new size, bytes; the announced size is :func:`rounded` from it.
    """
    desired_total = capped(bytes_per_s, target_us // 1000, 1000)
    instant = min(desired_total / max(1, in_use), 2.0 * last_size)
    size = last_size + 2.0 / (samples + 1) * (instant - last_size)
    return max(float(smallest), min(size, float(largest)))


def rounded(size: float) -> int:
    """Round a size that is not negative to whole bytes, a half up (``Math.round``)."""
    whole = int(size)
    return whole + 1 if size - whole >= 0.5 else whole


def is_announced(
    new_size: int, announced: int, threshold_percent: int, smallest: int, largest: int
) -> int:
    """Tell whether a new size is announced to the senders: 1 or 0.

    ``BufferDebloater.skipUpdate``, negated.

    - ``announced``: the last announced size, at the start the largest, bytes.
    - ``threshold_percent``: least change, percent of the announced size, cut off to whole bytes.
    - ``smallest``, ``largest``: limits, bytes; a size that reaches one is announced however small
      the change.
    """
    if new_size == announced:
        return 0
    if new_size <= smallest or new_size >= largest:
        return 1
    least = int(announced * (threshold_percent / 100.0))
    return 1 if abs(new_size - announced) >= least else 0


def usable_bytes(desired: int, first_bytes: int, segment_bytes: int) -> int:
    """Return how much of a new buffer its sender may fill.

    ``BufferWritingResultPartition.resizeBuffer``, section 2.6. A buffer that is open already
    keeps its size.

    - ``desired``: size that the receiver announced last, bytes; 0: none yet, the whole segment.
    - ``first_bytes``: what is left to write of the record for which the buffer was requested,
      bytes.
    - ``segment_bytes``: size of a segment, bytes.
    """
    if desired <= 0:
        return segment_bytes
    return min(max(desired, first_bytes), segment_bytes)
