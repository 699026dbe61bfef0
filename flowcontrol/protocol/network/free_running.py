"""Both ends of a free-running link: no rounds, each side uses the newest cursors it sees.

Which rule an end applies when. Not here: credit rules (:mod:`~.credit_rules`),
clocks, storage.

The sender's rows lie in a log, so a buffer is permission and not memory: it is charged to the
output pool from the release of a message until the receiver has consumed it, as on a local
channel (reference section 1.10). The receiver moves ``sent`` itself, within its own credit.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.network.credit_rules import (
    credit_of,
    on_backlog,
    recycle_floating,
    request_buffer,
)
from flowcontrol.protocol.network.pool_rules import recycle_segment, request_segment, resize_pool
from flowcontrol.protocol.network.rounds import announce_credit, recycle
from flowcontrol.state import rows as w
from flowcontrol.state.declared import put_back
from flowcontrol.state.network import GlobalPool, InputChannel, LocalPool
from flowcontrol.state.rows import Gate

BUFFERS = (
    *("exclusive", "floating", "required", "is_waiting"),
    *("unannounced", "initial", "is_released"),
)
CURSORS = ("arrived", "consumed", "announced", "processed")
POOL = (
    *("size", "in_use", "free", "required", "maximum"),
    *("max_overdraft", "at_quota", "is_destroyed"),
)
"""Columns of a channel and of the pool in a link's ledger. Their order is a file format."""


def _pool(size: int, in_use: int = 0) -> LocalPool:
    return LocalPool(size=size, maximum=size, in_use=in_use, free=size - in_use)


class OutputPool:
    """The output pool of one sender of a link.

    The size is that of a result partition, channels x exclusive + floating. A channel that
    is not consumed takes its own buffers and the floating ones, never those of another: so a
    slow channel leaves the others their exclusive buffers.

    - ``exclusive`` (buffers): each channel's own, at least 1.
    - ``floating`` (buffers): shared by all channels, first come first served.
    - ``used`` (shape (channels,)): buffers in use: messages released and not consumed.
    """

    def __init__(self, exclusive: int, floating: int, used: Sequence[int]) -> None:
        self.exclusive, self.floating = exclusive, floating
        self.used = [0] * len(used)
        self._segments = GlobalPool()
        self._pool = _pool(floating)
        for channel, count in enumerate(used):
            for _ in range(count):
                self.request(channel)

    @property
    def size(self) -> int:
        """Buffers of the pool."""
        return len(self.used) * self.exclusive + self.floating

    @property
    def in_use(self) -> int:
        """Buffers in use, all channels."""
        return sum(self.used)

    def request(self, channel: int) -> bool:
        """Take a buffer for a message of a channel; False if there is none."""
        if self.used[channel] >= self.exclusive and not request_segment(self._pool, self._segments):
            return False
        self.used[channel] += 1
        return True

    def recycle(self, channel: int, count: int) -> None:
        """Take back the buffers of ``count`` consumed messages.

        Raises ProtocolError if the channel has fewer in use.
        """
        if count > self.used[channel]:
            raise ProtocolError(
                f"channel {channel}: {count} messages consumed, only {self.used[channel]} released"
            )
        for _ in range(count):
            if self.used[channel] > self.exclusive:
                recycle_segment(self._pool, self._segments)
            self.used[channel] -= 1


class LinkGate:
    """The input gate of one receiver of a link.

    Channels are added as senders appear and numbered in that order.

    - ``exclusive`` (buffers): of each channel, at least 1.
    - ``floating`` (buffers): of the gate.
    """

    def __init__(self, exclusive: int, floating: int) -> None:
        self.exclusive, self.floating = exclusive, floating
        self._channels: list[InputChannel] = []
        self._kinds: list[w.Row] = []
        self._gate = self._make(_pool(floating), [])

    def _make(self, pool: LocalPool, waiting: Sequence[int]) -> Gate:
        """Compose the gate's rows; the waiting list and the news grow with the channels."""
        count = len(self._channels)
        queue = w.fifo(count + 1)
        w.refill(queue, waiting)
        return Gate(self._channels, pool, GlobalPool(), queue, [], [], [0] * (count // w.WORD + 1))

    def add_channel(self) -> int:
        """Add a channel with its exclusive buffers announced; return its number."""
        own = self.exclusive
        self._channels.append(InputChannel(exclusive=own, initial=own, announced=own))
        self._kinds.append(w.fifo(self.exclusive + self.floating + 1))
        self._gate = self._make(self._gate.pool, w.fifo_values(self._gate.waiting))
        return len(self._channels) - 1

    def skip_to(self, channel: int, messages: int) -> None:
        """Move a channel past messages that it will never read; recycle those that it took."""
        state = self._channels[channel]
        self.consume(channel, max(0, min(messages, state.arrived) - state.consumed))
        if messages > state.arrived:
            state.announced += messages - state.arrived
            state.arrived = state.consumed = messages

    def consume(self, channel: int, count: int) -> None:
        """Recycle the buffers of the ``count`` oldest messages of a channel.

        Raises ProtocolError if fewer have been taken and not consumed.
        """
        for _ in range(count):
            is_surplus = self.exclusive_held(channel) > self.exclusive
            kind = w.fifo_pop(self._kinds[channel])
            if kind < 0:
                raise ProtocolError(f"channel {channel}: a message is consumed that was not sent")
            if kind == w.TAKEN_EXCLUSIVE and is_surplus:  # the gate was made smaller
                self._channels[channel].consumed += 1
            else:
                recycle(self._gate, channel, kind)

    def resize(self, exclusive: int, floating: int) -> None:
        """Change the gate's buffers while it is in use.

        - ``exclusive``: of each channel, at least 1. More are announced as credit; of fewer the
          surplus goes when it is recycled, since credit is never taken back.
        - ``floating``: of the gate. More are offered to the channels that wait; fewer, as Flink
          resizes a pool (``LocalBufferPool.setNumBuffers``): free ones go at once, used ones when
          recycled.
        """
        self.exclusive, self.floating = exclusive, floating
        for number, state in enumerate(self._channels):
            more = max(0, exclusive - self.exclusive_held(number))
            state.initial = exclusive
            state.exclusive += more
            state.unannounced += more
        self._refit()
        pool = self._gate.pool
        pool.maximum = max(floating, pool.maximum)
        resize_pool(pool, floating, self._gate.segments)
        pool.maximum, self._gate.segments.free = floating, 0
        pool.free += max(0, floating - pool.in_use - pool.free)
        while pool.free > 0 and self._gate.waiting[w.FIFO_COUNT] > 0:  # one may take several
            pool.free, pool.in_use = pool.free - 1, pool.in_use + 1
            recycle_floating(self._gate)

    def _refit(self) -> None:
        """Make room for the kinds of all buffers that a channel may have in use."""
        most = max(self.floating, self._gate.pool.in_use)
        for number, before in enumerate(self._kinds):
            kinds = w.fifo(max(self.exclusive, self.exclusive_held(number)) + most + 1)
            w.refill(kinds, w.fifo_values(before))
            self._kinds[number] = kinds

    def on_backlog(self, channel: int, backlog: int) -> None:
        """Request floating buffers for the sender's backlog."""
        on_backlog(self._gate, channel, backlog)

    def announce(self, paused: Container[int] = ()) -> None:
        """Announce the credit that any channel has gained.

        ``paused``: channels that get none for now; what they have gained is announced when they go
        on.
        """
        for channel in range(len(self._channels)):
            if channel not in paused:
                announce_credit(self._gate, channel)

    def credit(self, channel: int) -> int:
        """Messages that the channel may still take: announced - sent."""
        return credit_of(self.announced(channel), self.sent(channel))

    def take(self, channel: int, backlog: int) -> bool:
        """Take a buffer for a message of a channel; False if it has no credit.

        Raises ProtocolError if there is credit and no buffer for it: the state is damaged.
        """
        if self.credit(channel) == 0:
            return False
        kind = request_buffer(self._channels[channel])
        if kind == w.TAKEN_NONE:
            raise ProtocolError(f"channel {channel}: credit {self.credit(channel)} but no buffer")
        self._channels[channel].arrived += 1
        w.fifo_push(self._kinds[channel], kind)
        self.on_backlog(channel, backlog)
        return True

    # ------------------------------------------------------------------ figures

    @property
    def pool_used(self) -> int:
        """Floating buffers that channels hold."""
        return self._gate.pool.in_use

    def announced(self, channel: int) -> int:
        """Credits ever granted, the initial ones included."""
        return self._channels[channel].announced

    def sent(self, channel: int) -> int:
        """Messages taken."""
        return self._channels[channel].arrived

    def consumed(self, channel: int) -> int:
        """Messages consumed."""
        return self._channels[channel].consumed

    def exclusive_held(self, channel: int) -> int:
        """Exclusive buffers of a channel, free ones and those in use."""
        in_use = w.fifo_values(self._kinds[channel]).count(w.TAKEN_EXCLUSIVE)
        return self._channels[channel].exclusive + in_use

    def floating_held(self, channel: int) -> int:
        """Floating buffers of a channel, free ones and those in use."""
        in_use = w.fifo_values(self._kinds[channel]).count(w.TAKEN_FLOATING)
        return self._channels[channel].floating + in_use

    # ------------------------------------------------------------------ state at rest

    def channel_state(self, channel: int) -> dict[str, Any]:
        """Return the state of a channel that a restarted receiver resumes from, as plain JSON."""
        state = self._channels[channel]
        return {
            "buffers": [getattr(state, name) for name in BUFFERS],
            "kinds": w.fifo_values(self._kinds[channel]),
            "cursors": [getattr(state, name) for name in CURSORS],
        }

    def task_state(self) -> dict[str, Any]:
        """Return the state of the gate that a restarted receiver resumes from."""
        pool = [getattr(self._gate.pool, name) for name in POOL]
        return {"pool": pool, "waiting": w.fifo_values(self._gate.waiting)}

    @classmethod
    def restore(
        cls,
        exclusive: int,
        floating: int,
        task: Mapping[str, Any],
        channels: Sequence[Mapping[str, Any]],
    ) -> LinkGate:
        """Return the gate whose states these are; it may have had other numbers of buffers."""
        gate = cls(exclusive, floating)
        for state in channels:
            number = gate.add_channel()
            values = (*state["buffers"], *state["cursors"])
            put_back(gate._channels[number], dict(zip((*BUFFERS, *CURSORS), values, strict=True)))
            kinds = w.fifo(max(exclusive + floating, len(state["kinds"])) + 1)
            w.refill(kinds, state["kinds"])
            gate._kinds[number] = kinds
        pool = LocalPool()
        put_back(pool, dict(zip(POOL, task["pool"], strict=True)))
        gate._gate = gate._make(pool, task["waiting"])
        if pool.size != floating or any(own.initial != exclusive for own in gate._channels):
            gate.resize(exclusive, floating)
        return gate
