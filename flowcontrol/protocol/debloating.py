"""Buffer debloating: how large a gate's senders should make their buffers (section 8).

A gate measures what it receives and sizes buffers so that all that is in flight to it takes a
target time to consume. Only the size changes, never the number of buffers. Pure functions of
numbers, the compiled kernel may register them; :class:`BufferDebloater` is their checking front.

Source: ``BufferDebloater``, ``BufferSizeEMA`` and ``ThroughputCalculator`` in Flink's
``org.apache.flink.runtime.throughput``; truncation and rounding are Java's. The fraction of a
size is kept from one period to the next (FLINK-36555); before, it was cut off every time.
"""

from dataclasses import dataclass, field

from flowcontrol.protocol.ratios import MOST, capped

LARGEST = float(MOST)
"""Largest throughput, bytes/s; Java caps it at 4 times that."""


def throughput(received_bytes: int, active_us: int, previous: int) -> int:
    """Bytes a second that a gate received while it had something to read.

    Parameters
    ----------
    received_bytes : int
        Size of all buffers received since the last measurement, bytes.
    active_us : int
        Time since then, less that in which the gate was empty, microseconds.
    previous : int
        The last measurement, bytes/s; returned if no active time passed.

    Returns
    -------
    int
        Whole bytes/s, the fraction cut off.

    Notes
    -----
    ``ThroughputCalculator.calculateThroughput``. Flink's clock counts milliseconds, ours is
    finer; in whole milliseconds both give the same number, operation by operation.
    """
    if active_us == 0:
        return previous
    return int(min(received_bytes / (active_us / 1000) * 1000, LARGEST))


def buffers_in_use(queued: int, required: int, initial_credit: int) -> int:
    """Buffers of a remote channel that hold data, or will as soon as they are there.

    Parameters
    ----------
    queued : int
        Received and not read. For a local channel only this counts, in its subpartition.
    required, initial_credit : int
        Of the channel; their difference is its sender's backlog.

    Notes
    -----
    ``RemoteInputChannel.getBuffersInUseCount``, section 1.7.
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

    Parameters
    ----------
    last_size : float
        Result of the last call, bytes, fraction and all; at the start the largest size.
    bytes_per_s : int
        The gate's throughput, at least 0.
    in_use : int
        Buffers in use in all channels of the gate; 0 counts as 1.
    target_us : int
        Time to consume all of them, microseconds, in whole milliseconds.
    samples : int
        Of the moving average, at least 1; 1 takes the new size at once.
    smallest, largest : int
        Limits of the result, bytes.

    Returns
    -------
    float
        The new size, bytes; what is announced is :func:`rounded` from it.

    Notes
    -----
    ``BufferDebloater.recalculateBufferSize`` with ``BufferSizeEMA.calculateBufferSize``. A
    size at most doubles: growing and shrinking are equally fast, and from 1 KiB to 32 KiB it
    takes at least 5 calls.
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

    Parameters
    ----------
    new_size : int
        Rounded, bytes.
    announced : int
        The last announced size, at the start the largest, bytes.
    threshold_percent : int
        Least change, percent of the announced size, cut off to whole bytes.
    smallest, largest : int
        Limits, bytes; a size that reaches one is announced however small the change.

    Notes
    -----
    ``BufferDebloater.skipUpdate``, negated.
    """
    if new_size == announced:
        return 0
    if new_size <= smallest or new_size >= largest:
        return 1
    least = int(announced * (threshold_percent / 100.0))
    return 1 if abs(new_size - announced) >= least else 0


def time_to_consume_ms(new_size: int, in_use: int, bytes_per_s: int) -> int:
    """Estimate how long a gate takes to consume what is in flight to it, whole milliseconds.

    Parameters
    ----------
    new_size : int
        Rounded, bytes, announced or not.
    in_use : int
        Buffers; 0 counts as 1.
    bytes_per_s : int
        The gate's throughput; 0 counts as 1.

    Notes
    -----
    Flink's metric ``estimatedTimeToConsumeBuffersMs``.
    """
    return new_size * max(1, in_use) * 1000 // max(1, bytes_per_s)


def usable_bytes(desired: int, first_bytes: int, segment_bytes: int) -> int:
    """Return how much of a new buffer its sender may fill.

    Parameters
    ----------
    desired : int
        Size that the receiver announced last, bytes; 0: none yet, the whole segment.
    first_bytes : int
        What is left to write of the record for which the buffer was requested, bytes.
    segment_bytes : int
        Size of a segment, bytes.

    Notes
    -----
    ``BufferWritingResultPartition.resizeBuffer``, section 2.6. A buffer that is open already
    keeps its size.
    """
    if desired <= 0:
        return segment_bytes
    return min(max(desired, first_bytes), segment_bytes)


@dataclass
class BufferDebloater:
    """The debloater of one gate: measures the throughput and sizes the buffers.

    Parameters
    ----------
    target_us : int, default 1000000
        Time to consume what is in flight, microseconds, in whole milliseconds
        (``taskmanager.network.memory.buffer-debloat.target``).
    largest : int, default 32768
        Size of a segment, bytes (``taskmanager.memory.segment-size``).
    smallest : int, default 256
        Bytes (``taskmanager.memory.min-segment-size``).
    threshold_percent : int, default 25
        Least change that is announced (``....buffer-debloat.threshold-percentages``).
    samples : int, default 20
        Of the moving average (``....buffer-debloat.samples``).
    starting : int, optional
        Size at the start, bytes; by default the largest, as up to Flink 1.20. Since 2.0 it is
        1024 (``taskmanager.memory.starting-segment-size``).

    Raises
    ------
    ValueError
        If a number is out of range, or the sizes are not in order.

    Attributes
    ----------
    throughput : int
        Last measured, bytes/s.
    announced : int
        Last announced size, bytes.
    time_to_consume_ms : int
        Estimated at the last recalculation, also if nothing was announced.

    Examples
    --------
    >>> debloater = BufferDebloater(samples=1)
    >>> debloater.update(received_bytes=20_000, active_us=200_000, in_use=10)
    10000
    >>> debloater.time_to_consume_ms
    1000
    """

    target_us: int = 1_000_000
    largest: int = 32_768
    smallest: int = 256
    threshold_percent: int = 25
    samples: int = 20
    starting: int | None = None
    throughput: int = field(default=0, init=False)
    announced: int = field(init=False)
    time_to_consume_ms: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        start = self.largest if self.starting is None else self.starting
        if self.target_us < 1000 or self.target_us % 1000:
            raise ValueError(
                f"target_us is {self.target_us}: needs whole milliseconds, at least 1000"
            )
        if self.samples < 1 or not 0 <= self.threshold_percent <= 100:
            raise ValueError(
                f"samples is {self.samples}, threshold_percent {self.threshold_percent}: needs at "
                "least 1, and 0 to 100"
            )
        if not 1 <= self.smallest <= start <= self.largest:
            raise ValueError(
                f"sizes of {self.smallest}, {start} at the start and {self.largest} bytes: needs "
                "1 <= smallest <= starting <= largest"
            )
        self._size = float(start)
        self.announced = start

    def update(self, received_bytes: int, active_us: int, in_use: int) -> int | None:
        """Measure the throughput of a period and size the buffers for it.

        Parameters
        ----------
        received_bytes, active_us : int
            Since the last call, as :func:`throughput` takes them; at least 0.
        in_use : int
            Buffers in use now, at least 0.

        Returns
        -------
        int or None
            The size to announce to every channel, bytes; None: keep the last one.

        Raises
        ------
        ValueError
            If a number is negative; nothing has changed then.
        """
        if min(received_bytes, active_us, in_use) < 0:
            raise ValueError(
                f"{received_bytes} bytes in {active_us} us, {in_use} buffers: none may be negative"
            )
        self.throughput = throughput(received_bytes, active_us, self.throughput)
        return self.recalculate(self.throughput, in_use)

    def recalculate(self, bytes_per_s: int, in_use: int) -> int | None:
        """Size the buffers for a throughput measured elsewhere.

        Parameters
        ----------
        bytes_per_s : int
            The gate's throughput, at least 0.
        in_use : int
            Buffers in use now, at least 0.

        Returns
        -------
        int or None
            The size to announce to every channel, bytes; None: keep the last one.

        Raises
        ------
        ValueError
            If a number is negative; nothing has changed then.
        """
        if min(bytes_per_s, in_use) < 0:
            raise ValueError(f"{bytes_per_s} bytes/s, {in_use} buffers: none may be negative")
        limits = self.smallest, self.largest
        self._size = debloat(self._size, bytes_per_s, in_use, self.target_us, self.samples, *limits)
        size = rounded(self._size)
        self.time_to_consume_ms = time_to_consume_ms(size, in_use, bytes_per_s)
        if not is_announced(size, self.announced, self.threshold_percent, *limits):
            return None
        self.announced = size
        return size
