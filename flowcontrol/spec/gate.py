"""The receiver: an input gate and its remote channels.

Thin shells over the rules: which buffers a channel has, how many it requires, which credit it
announces. Not here: data, queues of received messages, clocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flowcontrol.errors import InsufficientBuffersError
from flowcontrol.protocol.network import credit_rules
from flowcontrol.protocol.network.debloating import debloat, is_announced, rounded, throughput
from flowcontrol.spec.pools import Buffer, LocalBufferPool, NetworkBufferPool
from flowcontrol.state import network as states
from flowcontrol.state import rows
from flowcontrol.state.rows import Gate

# --- The debloater of a gate as an object: checks arguments, and keeps what the rules return.


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


def return_floating(gate: Gate, index: int) -> None:
    """Give all free floating buffers of a channel back, after it stopped holding any."""
    held = gate.channels[index].floating
    gate.channels[index].floating = 0
    for _ in range(held):
        credit_rules.recycle_floating(gate)


def block_channel(gate: Gate, index: int) -> None:
    """Note the arrival of a blocking event (section 1.8).

    Only a channel without initial credit acts: it wants nothing and gives its floating
    buffers back, or others might never get one. With initial credit, credit survives.
    """
    if gate.channels[index].initial == 0:
        gate.channels[index].required = 0
        return_floating(gate, index)


def resume_channel(channel: states.InputChannel) -> None:
    """Forget unannounced credit when a channel without initial credit resumes (section 1.8)."""
    if channel.initial == 0:
        channel.unannounced = 0


def release_channel(gate: Gate, index: int) -> int:
    """Release a channel; return the free exclusive segments given back to the global pool.

    ``BufferManager.releaseAllBuffers``, section 1.8: floating ones to the gate's pool, then
    the exclusive ones in one batch: one redistribution is due if there were any. Buffers in
    use follow when they are recycled.
    """
    channel = gate.channels[index]
    if channel.is_released == 1:
        return 0
    channel.is_released = 1
    channel.unannounced = 0
    return_floating(gate, index)
    returned = channel.exclusive
    channel.exclusive = 0
    gate.segments.free += returned
    gate.segments.unpooled -= returned
    return returned


class InputChannel:
    """One remote channel of a gate (``RemoteInputChannel`` with its ``BufferManager``).

    The initial credit travels with the partition request, never in an announcement, so
    ``unannounced_credit`` starts at 0 although buffers are available (section 1.2).

    ``state``: the state, as the rules see it; read only.
    """

    def __init__(self, network: NetworkBufferPool, pool: LocalBufferPool, credit: int) -> None:
        self.state = states.InputChannel(exclusive=credit, initial=credit)
        self._network = network
        self._pool = pool
        self._index = pool.add_channel(self.state)

    @property
    def initial_credit(self) -> int:
        """Exclusive buffers owned, for life."""
        return self.state.initial

    @property
    def available(self) -> int:
        """Free buffers, exclusive and floating."""
        return credit_rules.available_buffers(self.state)

    @property
    def required(self) -> int:
        """Free buffers required; below 0 after more messages than the backlog announced."""
        return self.state.required

    @property
    def unannounced_credit(self) -> int:
        """Credit gained and not yet announced."""
        return self.state.unannounced

    @property
    def is_waiting(self) -> bool:
        """Registered for a floating buffer."""
        return self.state.is_waiting == 1

    @property
    def is_released(self) -> bool:
        """The channel was released."""
        return self.state.is_released == 1

    def on_backlog(self, backlog: int) -> int:
        """Request floating buffers for the sender's backlog (section 1.3).

        ``backlog``: messages waiting at the sender, 0 included.

        Returns the credit gained; 0 after release. Raises ValueError if the backlog is negative;
        nothing has changed then.
        """
        if backlog < 0:
            raise ValueError(f"backlog is {backlog}, must not be negative")
        return credit_rules.on_backlog(self._pool.gate, self._index, backlog)

    def take(self) -> Buffer | None:
        """Take a buffer for an arriving data message (section 1.4).

        Returns None if there is none: the sender sent without credit, or the channel is released.
        """
        kind = credit_rules.request_buffer(self.state)
        if kind == rows.TAKEN_NONE:
            return None
        if kind == rows.TAKEN_FLOATING:
            return Buffer(self._pool.recycle_floating)
        return Buffer(self._recycle_exclusive, is_exclusive=True)

    def announce(self) -> int:
        """Take all unannounced credit for the sender; it is 0 afterwards (section 1.6)."""
        return credit_rules.announce(self.state)

    def on_blocked(self) -> None:
        """Note the arrival of a blocking event (section 1.8).

        Without exclusive buffers the channel returns all floating ones; otherwise nothing happens.
        """
        if not self.is_released:
            block_channel(self._pool.gate, self._index)
            self._network.serve()

    def on_resumed(self) -> None:
        """Note that consumption resumes (section 1.8).

        Raises ValueError if the channel is released.
        """
        if self.is_released:
            raise ValueError("a released channel cannot resume")
        resume_channel(self.state)

    def release(self) -> None:
        """Return all free buffers; buffers in use follow when recycled. May be repeated."""
        if self.is_released:
            return
        if release_channel(self._pool.gate, self._index) > 0:
            self._network.redistribute()
        else:
            self._network.serve()

    def _recycle_exclusive(self) -> None:
        credit_rules.recycle_exclusive(self._pool.gate, self._index)
        if self.is_released:
            self._network.redistribute()
        else:
            self._network.serve()


class InputGate:
    """All remote inputs of one edge to one subtask (``SingleInputGate``).

    ``SingleInputGate.setupChannels``: one segment is reserved in the floating pool first, so
    that the gate always makes progress (FLINK-24035), then each channel takes its own.

    - ``network``: where the exclusive buffers come from.
    - ``pool``: the floating buffers, a local pool of ``network``.
    - ``initial_credits``: exclusive buffers of each channel; 0 is allowed.
    - ``channels``: in the order of ``initial_credits``.

    Raises ValueError if a credit is negative, or the pool is of another network pool or destroyed.
    Raises InsufficientBuffersError if the exclusive buffers are promised to others, or all out
    (where Flink waits for 30 s and then fails).  What was taken is given back.
    """

    def __init__(
        self, network: NetworkBufferPool, pool: LocalBufferPool, initial_credits: Sequence[int]
    ) -> None:
        if any(credit < 0 for credit in initial_credits):
            raise ValueError(f"initial credits {list(initial_credits)}: none may be negative")
        if pool.network is not network or pool.is_destroyed:
            raise ValueError("the floating pool is destroyed, or not of this network pool")
        if not pool.reserve(1):
            raise _short(network, 1)
        _take_exclusive(network, initial_credits)
        self.pool = pool
        self.channels = tuple(InputChannel(network, pool, credit) for credit in initial_credits)


def _take_exclusive(network: NetworkBufferPool, initial_credits: Sequence[int]) -> None:
    """Take every channel's exclusive buffers in turn, or none at all."""
    taken = 0
    try:
        for credit in initial_credits:
            if credit > 0 and not network.take_unpooled(credit):
                raise _short(network, credit)
            taken += credit
    except InsufficientBuffersError:
        network.return_unpooled(taken)
        raise


def _short(network: NetworkBufferPool, required: int) -> InsufficientBuffersError:
    return InsufficientBuffersError(
        required, network.free, network.total_buffers, network.buffer_bytes
    )
