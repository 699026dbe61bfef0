"""The global buffer pool of a task manager and the local pools that share it, as runs begin.

Thin shells over the rules. Nothing ever waits: a request that cannot be served changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flowcontrol.errors import InsufficientBuffersError
from flowcontrol.protocol.network import partition_kinds, pool_rules
from flowcontrol.state.network import GlobalPool, LocalPool
from flowcontrol.state.rows import UNLIMITED


class LocalBufferPool:
    """Share of the global pool for one result partition or one input gate.

    Made by :meth:`NetworkBufferPool.create_local_pool`.

    ``LocalBufferPool`` (reference section 4).

    ``state``: the state, as the rules see it; read only.
    """

    def __init__(self, network: NetworkBufferPool, state: LocalPool) -> None:
        self.network = network
        self.state = state

    @property
    def size(self) -> int:
        """Current quota, buffers."""
        return self.state.size

    @property
    def free(self) -> int:
        """Segments held and not in use, the pre-fetched one included."""
        return self.state.free

    def reserve(self, buffers: int) -> bool:
        """Request segments until the pool has ``buffers`` of them; False if none are left."""
        return pool_rules.reserve_segments(self.state, buffers, self.network.state) == 1

    def resize(self, size: int) -> None:
        """Set the quota, at most the maximum; it lasts until the next redistribution.

        ``setNumBuffers``. In-use excess becomes overdraft and returns as it is recycled.
        """
        if pool_rules.resize_pool(self.state, size, self.network.state) > 0:
            self.network.serve()

    def destroy(self) -> None:
        """Return all free segments; used ones follow when recycled."""
        pool_rules.destroy_pool(self.state, self.network.state)
        self.network.remove(self)


class NetworkBufferPool:
    """All network buffers of one task manager.

    ``NetworkBufferPool`` (reference section 5). Where Flink walks a hash set, and where it
    completes futures, the order here is that in which the local pools were created.

    - ``total_buffers``: segments, at least 1.
    - ``buffer_bytes``: size of a segment, at least 1 byte (``taskmanager.memory.segment-size``).
    - ``state``: the state, as the rules see it; read only.
    """

    def __init__(self, total_buffers: int, buffer_bytes: int = 32768) -> None:
        self.buffer_bytes = buffer_bytes
        self.state = GlobalPool(total=total_buffers, free=total_buffers)
        self._pools: list[LocalBufferPool] = []
        self._is_late = False

    @property
    def total_buffers(self) -> int:
        """Segments in all."""
        return self.state.total

    @property
    def free(self) -> int:
        """Segments not handed out; one that a local pool pre-fetched is handed out."""
        return self.state.free

    @property
    def unpromised(self) -> int:
        """Segments that no local pool requires and no channel owns."""
        promised = self.state.required + self.state.unpooled
        return self.total_buffers - promised

    def create_local_pool(
        self, required: int = 1, maximum: int | None = None, max_overdraft: int = 0
    ) -> LocalBufferPool:
        """Create a local pool and share the excess out anew.

        - ``required``: minimum, at least 1 buffer.
        - ``maximum``: largest quota, at least ``required``; None is no maximum.
        - ``max_overdraft``: most buffers above the quota (``max-overdraft-buffers-per-gate``).

        Raises InsufficientBuffersError if ``required`` is more than is not yet promised.
        """
        self._check_unpromised(required)
        most = UNLIMITED if maximum is None else maximum
        state = LocalPool(
            size=required, required=required, max_overdraft=max_overdraft, maximum=most
        )
        pool = self._new_pool(state)
        self._pools.append(pool)
        self.state.required += required
        pool_rules.fetch_segment(state, self.state)
        self.redistribute()
        return pool

    def _new_pool(self, state: LocalPool) -> LocalBufferPool:
        return LocalBufferPool(self, state)

    def take_unpooled(self, buffers: int, channels: int = 1) -> bool:
        """Take exclusive segments that channels count; errors as :meth:`promise_unpooled`."""
        self.promise_unpooled(buffers, channels)
        if self.free < buffers * channels:
            self.forget_unpooled(buffers * channels)
            return False
        self.state.free -= buffers * channels
        return True

    def promise_unpooled(self, buffers: int, channels: int = 1) -> None:
        """Promise exclusive segments on paper, so that the other pools shrink to make room.

        What ``requestUnpooledMemorySegments`` does before it waits for the segments, for each
        channel of a gate (``SingleInputGate.setupChannels``); the figures of the error are those
        of the request that failed (section 5.2). :meth:`fetch_unpooled` takes the segments that
        have come back.

        ``buffers``: segments of each channel.

        Raises InsufficientBuffersError if a channel asks for more than is not yet promised; no
        channel is promised any then.
        """
        served = min(channels - 1, self.unpromised // max(1, buffers))
        self._check_unpromised(buffers, served * buffers)
        self.state.unpooled += buffers * channels
        self.redistribute()

    def fetch_unpooled(self, buffers: int) -> int:
        """Take as many of the exclusive segments promised as are free; return how many."""
        taken = min(buffers, self.free)
        self.state.free -= taken
        return taken

    def forget_unpooled(self, buffers: int) -> None:
        """Take back a promise of exclusive segments that were not fetched."""
        self.state.unpooled -= buffers
        self.redistribute()

    def return_unpooled(self, buffers: int) -> None:
        """Return exclusive segments that a channel counted."""
        self.state.free += buffers
        self.state.unpooled -= buffers
        self.redistribute()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Create pools, and promise and take exclusive segments, with one redistribution for all.

        What each redistribution before the last would have set, the last one sets anew, as long as
        no segment is in use.
        """
        self._is_late = True
        try:
            yield
        finally:
            self._is_late = False
        self.redistribute()

    def redistribute(self) -> None:
        """Serve the waiting pools, then share out what no pool requires (section 5.1)."""
        if self._is_late:
            return
        self.serve()
        sizes = [pool.size for pool in self._pools]
        partition_kinds.redistribute(
            self.total_buffers,
            self.state.unpooled,
            [pool.state.required for pool in self._pools],
            [pool.state.maximum for pool in self._pools],
            sizes,
        )
        for pool, size in zip(self._pools, sizes, strict=True):
            pool.resize(size)

    def serve(self) -> None:
        """Let local pools that wait for a segment fetch it."""
        pool_rules.serve_pools([pool.state for pool in self._pools], self.state)

    def remove(self, pool: LocalBufferPool) -> None:
        """Forget a destroyed pool and share out what it required."""
        self._pools.remove(pool)
        self.state.required -= pool.state.required
        self.redistribute()

    def _check_unpromised(self, buffers: int, before: int = 0) -> None:
        """Refuse a request for more than is left after those ``before`` it."""
        left = self.unpromised - before
        if buffers > left:
            raise InsufficientBuffersError(buffers, left, self.total_buffers, self.buffer_bytes)
