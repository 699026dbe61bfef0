"""A task of Flink 1.4 that aligns barriers: over the rules, and written down again plainly.

Both are fed a sequence of messages, one by one, as Flink's own tests feed a ``BarrierBuffer``: a
letter is a channel, ``a5`` a buffer with a record, ``a|2`` the barrier of checkpoint 2, ``a!2`` the
marker that cancels it, ``a.`` the end. What comes of it is a list of such texts, with ``T2`` where
the task takes checkpoint 2 and ``X2 reason`` where it gives it up.
"""

from __future__ import annotations

from collections import deque

from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.network.credit_rules import recycle_floating
from flowcontrol.protocol.network.pool_rules import fetch_segment
from flowcontrol.protocol.network.rounds import EVENT_POLLED, NO_INPUT, receive
from flowcontrol.state.network import (
    AlignedChannel,
    Alignment,
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Task,
)
from flowcontrol.state.queues import BARRIER, CANCEL_MARKER, DATA, END_OF_PARTITION, new_queue
from flowcontrol.state.rows import Gate, fifo
from flowcontrol.systems import barrier_buffer as bb
from flowcontrol.systems.tcp import obtain_buffer

NBYTES = 100
"""Of a buffer: its record is its number."""
EVENT_BYTES = {"|": 38, "!": 12, ".": 4}
REASONS = {a.SUBSUMED: "subsumed", a.ON_CANCELLATION_BARRIER: "cancelled"} | {
    a.INPUT_END_OF_STREAM: "ended",
    a.LIMIT_EXCEEDED: "limit",
}


class Aligning:
    """A task over the rules of the kernel.

    Parameters
    ----------
    channels : int
        Of its only gate.
    limit : int
        ``task.checkpoint.alignment.max-size``.
    disk : AsideDisk, optional
        Where files cost time; in rounds of 1000 ns.
    """

    def __init__(self, channels: int, limit: int = -1, disk: bb.AsideDisk | None = None) -> None:
        size = 2 * channels + 8
        pool, part = LocalPool(size=size, maximum=size, required=size), GlobalPool(size, size)
        fetch_segment(pool, part)
        self.gate = Gate(
            [InputChannel() for _ in range(channels)],
            pool,
            part,
            fifo(channels),
            fifo(channels),
            [new_queue(size + 20, ReceivedMessage) for _ in range(channels)],
            [0] * 2,
        )
        entries = [bb.AsideMessage(next=i + 1) for i in range(60)]
        entries[-1].next = -1
        own = bb.BarrierBuffer(limit=limit)
        self.aside = bb.Aside(own, disk or bb.AsideDisk(), bb.AsideEntries(0), entries)
        self.task, self.union = Task(open_inputs=channels, has_checkpoints=1), fifo(1)
        self.alignment = Alignment(open_channels=channels, tasks_finish=0)
        self.channels = [AlignedChannel() for _ in range(channels)]
        self.sent: list[deque[str]] = [deque() for _ in range(channels)]
        self.found: list[str] = []

    def arrive(self, text: str) -> None:
        """Put a message into its channel's queue."""
        channel, kind = ord(text[0]) - ord("a"), text[1]
        if kind in EVENT_BYTES:
            number = {"|": BARRIER, "!": CANCEL_MARKER, ".": END_OF_PARTITION}[kind]
            checkpoint = int(text[2:] or 0)
            message = Message(number, 0, EVENT_BYTES[kind], checkpoint=checkpoint)
        else:
            message = Message(DATA, 1, NBYTES)
            self.sent[channel].append(text)
            assert obtain_buffer(self.gate, channel) == 1
            self.channels[channel].arrived += NBYTES
        assert receive(self.task, self.gate, self.union, 0, channel, message) == 1

    def poll(self, now: int = 0) -> None:
        """Take up all that may be taken up in a round."""
        own, task = self.aside.own, self.task
        bb.recycle_written([self.gate], self.aside, now)
        while True:
            found = bb.next_unblocked(
                task, [self.gate], self.union, self.aside, self.alignment, self.channels, now
            )
            assert found != bb.NO_ROOM
            if found == NO_INPUT:
                return
            if found == bb.LIMIT_REACHED:
                number = self.alignment.latest_id
                self._act(a.abort(self.alignment, self.channels, number, a.LIMIT_EXCEEDED))
            elif found == EVENT_POLLED:
                self._act(self._on_event(own.event, task.channel))
            else:
                self.found.append(self.sent[task.channel].popleft())
                task.queued -= 1
                task.left = 0
                if task.buffer < bb.KIND_HEAP:
                    recycle_floating(self.gate)

    def _on_event(self, event: Message, channel: int) -> int:
        known = (self.alignment, self.channels, channel)
        if event.kind == BARRIER:
            return a.on_barrier(*known, 0, event.checkpoint, 0, a.ALIGNED)
        if event.kind == CANCEL_MARKER:
            return a.on_cancel(*known, event.checkpoint)
        self.found.append(f"{chr(ord('a') + channel)}.")
        return a.on_end_of_partition(*known, 0)

    def _act(self, done: int) -> None:
        own = self.alignment
        if done & a.ABORT:
            self.found.append(f"X{own.aborted_id} {REASONS[own.aborted_reason]}")
        if done & a.TRIGGER:
            self.found.append(f"T{own.triggered_id}")


class Plain:
    """``BarrierBuffer`` of Flink 1.4 written down as its source has it: files as lists."""

    def __init__(self, channels: int, limit: int = -1) -> None:
        self.limit, self.count = limit, channels
        self.blocked = [False] * channels
        self.current, self.barriers, self.closed = -1, 0, 0
        self.file: list[str] = []
        self.reading: deque[str] | None = None
        self.reading_size = 0
        self.queued: deque[tuple[deque[str], int]] = deque()
        self.queued_bytes = self.written = self.pushed_back = 0
        self.found: list[str] = []

    def feed(self, text: str) -> None:
        """Hand out what the gate has, when it has it, and what is played back before."""
        self._drain()
        self._look_at(text)
        self._drain()

    def _drain(self) -> None:
        while self.reading is not None:
            if self.reading:
                self._look_at(self.reading.popleft())
                continue
            self.reading, self.reading_size = self.queued.popleft() if self.queued else (None, 0)
            self.queued_bytes -= self.reading_size

    def _look_at(self, text: str) -> None:
        channel, kind = ord(text[0]) - ord("a"), text[1]
        if self.blocked[channel]:
            self.file.append(text)
            self.written += size_of(text)
            if 0 < self.limit < self.queued_bytes + sum(map(size_of, self.file)):
                self._release()
                self.found.append(f"X{self.current} limit")
        elif kind == "|":
            self._barrier(channel, int(text[2:]))
        elif kind == "!":
            self._cancel(int(text[2:]))
        elif kind == ".":
            self.found.append(text)
            self.closed += 1
            if self.barriers > 0:
                self.found.append(f"X{self.current} ended")
                self._release()
        else:
            self.found.append(text)

    def _barrier(self, channel: int, number: int) -> None:
        if self.barriers > 0 and number == self.current:
            self.blocked[channel] = True
            self.barriers += 1
        elif number > self.current:
            if self.barriers > 0:
                self.found.append(f"X{self.current} subsumed")
                self._release()
            self.current, self.barriers = number, 1
            self.blocked[channel] = True
        else:
            return
        if self.barriers + self.closed == self.count:
            self._release()
            self.found.append(f"T{self.current}")

    def _cancel(self, number: int) -> None:
        if number > self.current or (number == self.current and self.barriers > 0):
            self.current = number
            self._release()
            self.found.append(f"X{number} cancelled")

    def _release(self) -> None:
        self.blocked = [False] * self.count
        self.barriers = 0
        if not self.file:
            return
        if self.reading:  # of one that is read to its end nothing is left to be pushed back
            self.queued.appendleft((self.reading, self.reading_size))
            self.queued_bytes += self.reading_size
            self.pushed_back += 1
        self.reading, self.reading_size = deque(self.file), sum(map(size_of, self.file))
        self.file = []


def size_of(text: str) -> int:
    """Return what a message takes in a file, bytes."""
    return EVENT_BYTES.get(text[1], NBYTES) + bb.HEADER_BYTES
