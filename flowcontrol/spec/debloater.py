"""The debloater of a gate as an object: checks arguments, and keeps what the rules return."""

from dataclasses import dataclass, field

from flowcontrol.protocol.network.debloating import debloat, is_announced, rounded, throughput


def time_to_consume_ms(new_size: int, in_use: int, bytes_per_s: int) -> int:
    """Estimate how long a gate takes to consume what is in flight to it, whole milliseconds.

    Flink's metric ``estimatedTimeToConsumeBuffersMs``.

    - ``new_size``: rounded, bytes, announced or not.
    - ``in_use``: buffers; 0 counts as 1.
    - ``bytes_per_s``: the gate's throughput; 0 counts as 1.
    """
    return new_size * max(1, in_use) * 1000 // max(1, bytes_per_s)


@dataclass
class BufferDebloater:
    """The debloater of one gate: measures the throughput and sizes the buffers.

    - ``target_us``: time to consume what is in flight, microseconds, in whole milliseconds
      (``taskmanager.network.memory.buffer-debloat.target``).
    - ``largest``: size of a segment, bytes (``taskmanager.memory.segment-size``).
    - ``threshold_percent``: least change that is announced
      (``....buffer-debloat.threshold-percentages``).
    - ``samples``: of the moving average (``....buffer-debloat.samples``).
    - ``starting``: size at the start, bytes; by default the largest, as up to Flink 1.20. Since 2.0
      it is 1024 (``taskmanager.memory.starting-segment-size``).

    Raises ValueError if a number is out of range, or the sizes are not in order.

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
    throughput: int = field(default=0, init=False)  # Last measured, bytes/s
    announced: int = field(init=False)  # Last announced size, bytes
    # Estimated at the last recalculation, also if nothing was announced.
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

        - ``received_bytes``, ``active_us``: since the last call, as :func:`throughput` takes them;
          at least 0.
        - ``in_use``: buffers in use now, at least 0.

        Returns the size to announce to every channel, bytes; None: keep the last one. Raises
        ValueError if a number is negative; nothing has changed then.
        """
        if min(received_bytes, active_us, in_use) < 0:
            raise ValueError(
                f"{received_bytes} bytes in {active_us} us, {in_use} buffers: none may be negative"
            )
        self.throughput = throughput(received_bytes, active_us, self.throughput)
        return self.recalculate(self.throughput, in_use)

    def recalculate(self, bytes_per_s: int, in_use: int) -> int | None:
        """Size the buffers for a throughput measured elsewhere.

        - ``bytes_per_s``: the gate's throughput, at least 0.
        - ``in_use``: buffers in use now, at least 0.

        Returns the size to announce to every channel, bytes; None: keep the last one. Raises
        ValueError if a number is negative; nothing has changed then.
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
