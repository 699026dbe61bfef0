"""The global buffer pool of a task manager and the local pools that share it, in use.

Thin shells over the rules: states, and the checks of arguments. Nothing ever waits: a request
that cannot be served returns None and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flowcontrol.protocol.network import credit_rules, pool_rules, pools
from flowcontrol.state.network import InputChannel, LocalPool
from flowcontrol.state.rows import UNLIMITED, Gate, Row, fifo, fifo_values, refill


class Buffer:
    """A buffer in use: the right to one segment until it is recycled.

    - ``recycle``: what gives the segment back; called once.
    - ``is_exclusive``: owned by a channel, not drawn from a local pool.
    """

    __slots__ = ("_recycle", "is_exclusive")

    def __init__(self, recycle: Callable[[], None], *, is_exclusive: bool = False) -> None:
        self._recycle: Callable[[], None] | None = recycle
        self.is_exclusive = is_exclusive

    def recycle(self) -> None:
        """Give the segment back to where it came from.

        Raises ValueError if it was recycled before; nothing has changed then.
        """
        if self._recycle is None:
            raise ValueError("the buffer was recycled before")
        recycle, self._recycle = self._recycle, None
        recycle()


class Segment:
    """An exclusive (unpooled) segment, taken straight from the global pool."""

    __slots__ = ("owner",)

    def __init__(self, owner: NetworkBufferPool) -> None:
        self.owner: NetworkBufferPool | None = owner


class LocalBufferPool(pools.LocalBufferPool):
    """Share of the global pool for one result partition or one input gate.

    Made by :meth:`NetworkBufferPool.create_local_pool`.

    ``LocalBufferPool`` (reference section 4). The listeners of Flink's pool are the channels
    that wait; they belong to the pool, so that several gates may share one.

    - ``state``: the state, as the rules see it; read only.
    - ``channels``: those that draw floating buffers from here.
    - ``waiting``: first-in-first-out row of the channels that wait.
    - ``counts`` (shape (subpartitions,)): buffers in use by each subpartition.
    """

    network: NetworkBufferPool

    def __init__(
        self, network: NetworkBufferPool, state: LocalPool, subpartitions: int, quota: int
    ) -> None:
        super().__init__(network, state)
        self.channels: list[InputChannel] = []
        self.waiting: Row = fifo(0)
        self.counts = [0] * subpartitions
        self._quota = quota

    @property
    def gate(self) -> Gate:
        """The channels and the pool, as the rules see them; messages are not kept here."""
        return Gate(self.channels, self.state, self.network.state, self.waiting, [], [], [])

    @property
    def in_use(self) -> int:
        """Segments handed out, overdraft included."""
        return self.state.in_use

    @property
    def required(self) -> int:
        """Minimum, guaranteed."""
        return self.state.required

    @property
    def is_available(self) -> bool:
        """One is free and no subpartition is at its quota (section 4.4)."""
        return pool_rules.pool_is_available(self.state) == 1

    @property
    def is_destroyed(self) -> bool:
        """The pool was destroyed."""
        return self.state.is_destroyed == 1

    def request(self, subpartition: int | None = None) -> Buffer | None:
        """Take a buffer, or None when none can be had (or the pool is destroyed).

        ``subpartition``: whose quota counts it; the quota is soft, it refuses nothing.

        Raises ValueError if there is no such subpartition.
        """
        if subpartition is not None and not 0 <= subpartition < len(self.counts):
            raise ValueError(f"subpartition {subpartition} of {len(self.counts)} does not exist")
        if pool_rules.request_segment(self.state, self.network.state) == 0:
            return None
        if subpartition is not None:
            pool_rules.note_quota(self.state, self.counts, subpartition, 1, self._quota)
        return Buffer(lambda: self._recycle(subpartition))

    def reserve(self, buffers: int) -> bool:
        """Request segments until the pool has ``buffers`` of them; False if none are left.

        Raises ValueError if it is negative or more than the pool's minimum, or the pool is
        destroyed.
        """
        if not 0 <= buffers <= self.required:
            raise ValueError(f"{buffers} reserved of {self.required} required")
        if self.is_destroyed:
            raise ValueError("the pool is destroyed")
        return super().reserve(buffers)

    def resize(self, size: int) -> None:
        """Set the quota, as the rules do.

        Raises ValueError if ``size`` is below the minimum.
        """
        if size < self.required:
            raise ValueError(f"size {size} is below the {self.required} required")
        super().resize(size)

    def destroy(self) -> None:
        """Return all free segments; used ones follow when recycled. Twice is harmless."""
        if self.is_destroyed:
            return
        refill(self.waiting, [])
        super().destroy()

    def add_channel(self, channel: InputChannel) -> int:
        """Register a channel that draws floating buffers here; return its index."""
        self.channels.append(channel)
        waiting = fifo_values(self.waiting)
        self.waiting = fifo(len(self.channels))
        refill(self.waiting, waiting)
        return len(self.channels) - 1

    def recycle_floating(self) -> None:
        """Give one segment in use back: to a waiting channel, here, or to the global pool."""
        credit_rules.recycle_floating(self.gate)
        self.network.serve()

    def _recycle(self, subpartition: int | None) -> None:
        if subpartition is not None:
            pool_rules.note_quota(self.state, self.counts, subpartition, -1, self._quota)
        self.recycle_floating()


class NetworkBufferPool(pools.NetworkBufferPool):
    """All network buffers of one task manager.

    Parameters are those of :class:`flowcontrol.protocol.network.pools.NetworkBufferPool`.

    Raises ValueError if a number is below 1.
    """

    def __init__(self, total_buffers: int, buffer_bytes: int = 32768) -> None:
        if total_buffers < 1 or buffer_bytes < 1:
            raise ValueError(f"{total_buffers} buffers of {buffer_bytes} bytes: both at least 1")
        super().__init__(total_buffers, buffer_bytes)
        self._quotas = 0, UNLIMITED

    def create_local_pool(
        self,
        required: int = 1,
        maximum: int | None = None,
        max_overdraft: int = 0,
        subpartitions: int = 0,
        max_buffers_per_channel: int | None = None,
    ) -> LocalBufferPool:
        """Create a local pool and share the excess out anew.

        - ``required``: minimum, at least 1 buffer.
        - ``maximum``: largest quota, at least ``required``; None is no maximum.
        - ``max_overdraft``: most buffers above the quota (``max-overdraft-buffers-per-gate``).
        - ``subpartitions``: how many have a quota; 0 for an input gate.
        - ``max_buffers_per_channel``: quota of a subpartition, at least 1; None is no quota.

        Raises ValueError if a number is outside its range. Raises InsufficientBuffersError if
        ``required`` is more than is not yet promised.
        """
        if required < 1 or (maximum is not None and maximum < required):
            raise ValueError(f"required {required}, maximum {maximum}: 1 <= required <= maximum")
        if max_overdraft < 0 or subpartitions < 0:
            raise ValueError(f"max_overdraft {max_overdraft}, subpartitions {subpartitions}: < 0")
        if max_buffers_per_channel is not None and max_buffers_per_channel < 1:
            raise ValueError(f"max_buffers_per_channel {max_buffers_per_channel} is below 1")
        quota = UNLIMITED if max_buffers_per_channel is None else max_buffers_per_channel
        self._quotas = subpartitions, quota
        pool = super().create_local_pool(required, maximum, max_overdraft)
        assert isinstance(pool, LocalBufferPool)
        return pool

    def _new_pool(self, state: LocalPool) -> LocalBufferPool:
        return LocalBufferPool(self, state, *self._quotas)

    def take_exclusive(self, buffers: int) -> list[Segment] | None:
        """Take exclusive segments; the other pools shrink to make room for them.

        Returns None if they exist on paper but are all in use; the quotas are then as before.
        Raises ValueError if ``buffers`` is below 1. Raises InsufficientBuffersError if more than is
        not yet promised.
        """
        if buffers < 1:
            raise ValueError(f"{buffers} exclusive buffers: at least 1")
        if not self.take_unpooled(buffers):
            return None
        return [Segment(self) for _ in range(buffers)]

    def return_exclusive(self, segments: Sequence[Segment]) -> None:
        """Give exclusive segments back in one batch, hence with one redistribution.

        Raises ValueError if one is not of this pool, was returned before, or is listed twice;
        nothing has changed then.
        """
        if len(set(segments)) < len(segments) or any(s.owner is not self for s in segments):
            raise ValueError("a segment was returned before, or is not of this pool")
        for segment in segments:
            segment.owner = None
        self.return_unpooled(len(segments))
