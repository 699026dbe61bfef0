"""The sender's queue of one channel: buffers, events, backlog, notifications, flushes.

What lives here: ``PipelinedSubpartition`` (reference section 2.5) as a state machine. What
must not: credit (see :mod:`flowcontrol.protocol.connection`), pools, clocks, data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol import sender_rules

__all__ = ["EVENT_KINDS", "BufferHandle", "Message", "Subpartition"]

DATA = "data"
END = "end_of_partition"


@dataclass(frozen=True)
class EventKind:
    """What an event does to the queue that it stands in."""

    blocks: bool = False
    """The subpartition blocks itself when the event is sent, until consumption resumes."""
    has_priority: bool = False
    """It overtakes everything but other priority events."""


EVENT_KINDS = {
    "event": EventKind(),
    "aligned_barrier": EventKind(blocks=True),
    "timeoutable_barrier": EventKind(blocks=True),
    "recovery_completion": EventKind(blocks=True),
    "unaligned_barrier": EventKind(has_priority=True),
    END: EventKind(),
}
"""Kinds of events by name (``Buffer.DataType``)."""

END_BYTES = 4
"""Size of the end-of-partition event (reference section 13)."""


@dataclass(frozen=True)
class Message:
    """What goes over the wire to one channel.

    Attributes
    ----------
    kind : str
        "data", or one of :data:`EVENT_KINDS`.
    nbytes : int
        Bytes of this slice; 0 is possible only for a receiver without exclusive buffers.
    more_available : bool
        A reader with credit could read on at once.
    backlog : int
        Data buffers left behind, as reported to the receiver.
    next_is_event : bool
        What could be read on is an event, which needs no credit.
    """

    kind: str
    nbytes: int
    more_available: bool
    backlog: int
    next_is_event: bool

    @property
    def is_event(self) -> bool:
        """It costs no credit and takes no buffer."""
        return self.kind != DATA


class BufferHandle:
    """The writer's end of a buffer that stands in a subpartition (``BufferBuilder``)."""

    def __init__(self, kind: str, nbytes: int, is_finished: bool, is_seen: bool) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.bytes_read = 0
        self.is_finished = is_finished
        self.is_seen_finished = is_seen
        """Whether the reader has noticed the end: only when it built a slice of it."""
        self.is_queued = True
        """Whether it still stands in the subpartition; afterwards its buffer is free."""

    @property
    def is_event(self) -> bool:
        """It is not a data buffer."""
        return self.kind != DATA

    @property
    def unread(self) -> int:
        """Bytes that no slice has carried yet."""
        return self.nbytes - self.bytes_read

    def append(self, nbytes: int) -> None:
        """Write more bytes; nobody is notified.

        Raises
        ------
        ValueError
            If the buffer is closed, or ``nbytes`` is negative.
        """
        if self.is_finished or nbytes < 0:
            raise ValueError(f"{nbytes} bytes into a buffer that is closed, or a negative number")
        self.nbytes += nbytes

    def finish(self) -> None:
        """Close the buffer; nobody is notified, and twice is harmless."""
        self.is_finished = True


@dataclass(frozen=True)
class Slice:
    """What the next poll does: skip so many finished buffers, then read one, or none."""

    skipped: int
    handle: BufferHandle | None
    reached_last: bool


class Subpartition:
    """A sender's queue for one channel.

    Parameters
    ----------
    initial_credit : int, default 2
        Exclusive buffers of the receiver's channel, at least 0.

    Attributes
    ----------
    notifications, priority_notifications : int
        How often the reader was told of data, and of a priority event.
    total_buffers, total_bytes : int
        Buffers and events ever added; bytes ever polled.
    listener : callable, optional
        Called at every notification of either kind.

    Raises
    ------
    ValueError
        If ``initial_credit`` is negative.
    """

    def __init__(self, initial_credit: int = 2) -> None:
        if initial_credit < 0:
            raise ValueError(f"initial_credit is {initial_credit}, must not be negative")
        self.initial_credit = initial_credit
        self.notifications = 0
        self.priority_notifications = 0
        self.total_buffers = 0
        self.total_bytes = 0
        self.listener: Callable[[], None] | None = None
        self._queue: list[BufferHandle] = []
        self._priority = 0
        self._flush_pending = False
        self._is_finished = False
        self._is_blocked = False

    @property
    def queued(self) -> int:
        """Buffers and events queued (``outputQueueLength``)."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes queued and not yet polled."""
        return sum(handle.unread for handle in self._queue)

    @property
    def backlog(self) -> int:
        """Data buffers reported to the receiver: the open tail counts only when flushed."""
        return sender_rules.reported_backlog(
            sum(not handle.is_event for handle in self._queue),
            int(self._flush_pending),
            int(self._is_finished),
            int(bool(self._queue) and self._queue[-1].is_event),
            int(self._is_blocked),
        )

    @property
    def is_flush_pending(self) -> bool:
        """A flush was asked for and not everything has been polled since."""
        return self._flush_pending

    @property
    def is_blocked(self) -> bool:
        """A blocking event was polled and consumption has not resumed."""
        return self._is_blocked

    @property
    def is_finished(self) -> bool:
        """The end is queued or polled: nothing may be added any more."""
        return self._is_finished

    def is_available(self, credit: int = 0) -> bool:
        """Tell whether a reader with so much credit would be served.

        Raises
        ------
        ValueError
            If ``credit`` is negative.
        """
        if credit < 0:
            raise ValueError(f"credit is {credit}, must not be negative")
        head_is_event = int(bool(self._queue) and self._queue[0].is_event)
        event = sender_rules.is_event_available(int(self._is_blocked), head_is_event)
        return sender_rules.is_reader_available(credit, int(self._is_data_available()), event) == 1

    def add_buffer(self, nbytes: int, is_finished: bool = False) -> BufferHandle:
        """Queue a data buffer.

        Parameters
        ----------
        nbytes : int
            Bytes in it so far; 0 is allowed.
        is_finished : bool, default False
            Closed just before or after the hand-over; the queue notices when it reads it.

        Raises
        ------
        ValueError
            If ``nbytes`` is negative or the subpartition is finished.
        """
        if nbytes < 0:
            raise ValueError(f"nbytes is {nbytes}, must not be negative")
        handle = BufferHandle(DATA, nbytes, is_finished, is_seen=False)
        self._add(handle)
        return handle

    def add_event(self, kind: str, nbytes: int = 8) -> None:
        """Queue an event; ``end_of_partition`` finishes the subpartition.

        Raises
        ------
        ValueError
            If the kind is unknown, ``nbytes`` is below 1 or the subpartition is finished.
        """
        if kind not in EVENT_KINDS:
            known = ", ".join(EVENT_KINDS)
            raise ValueError(f"unknown kind of event {kind!r}; known: {known}")
        if nbytes < 1:
            raise ValueError(f"an event of {nbytes} bytes: at least 1")
        self._add(BufferHandle(kind, nbytes, is_finished=True, is_seen=True))

    def finish(self) -> None:
        """Queue the end of the partition; it always notifies.

        Raises
        ------
        ValueError
            If the subpartition is finished already.
        """
        self.add_event(END, END_BYTES)

    def flush(self) -> None:
        """Make the open tail readable as it is; what is written later needs another flush."""
        size = len(self._queue)
        unread = int(size == 1 and self._queue[0].unread > 0)
        pending = int(self._flush_pending)
        notify = sender_rules.should_notify_on_flush(size, pending, unread, int(self._is_blocked))
        self._flush_pending = sender_rules.flush_pending_after(size, pending, unread) == 1
        if notify == 1:
            self._notify()

    def resume(self) -> None:
        """Unblock: the receiver resumed consumption. It notifies nobody.

        Raises
        ------
        ProtocolError
            If the subpartition is not blocked; nothing has changed then.
        """
        if not self._is_blocked:
            raise ProtocolError("consumption resumed of a subpartition that is not blocked")
        self._is_blocked = False

    def peek(self) -> str | None:
        """Kind of the message that :meth:`poll` would return; None if none. Changes nothing.

        Raises
        ------
        ProtocolError
            As :meth:`poll`.
        """
        handle = self._next_slice().handle
        return None if handle is None else handle.kind

    def poll(self) -> Message | None:
        """Take the next message; None if blocked or there is nothing to read.

        Raises
        ------
        ProtocolError
            If an open buffer has another behind it; nothing has changed then.
        """
        if self._is_blocked:
            return None
        plan = self._next_slice()
        self._remove(plan.skipped)
        if plan.reached_last:
            self._flush_pending = False
        handle = plan.handle
        if handle is None:
            return None
        nbytes = handle.unread
        handle.bytes_read = handle.nbytes
        handle.is_seen_finished = handle.is_finished
        if handle.is_finished:
            self._remove(1)
        if handle.is_event and EVENT_KINDS[handle.kind].blocks:
            self._is_blocked = True
        self.total_bytes += nbytes
        return self._message(handle.kind, nbytes)

    def _next_slice(self) -> Slice:
        """Find what the next poll reads, without changing anything."""
        size = 0 if self._is_blocked else len(self._queue)
        for i in range(size):
            handle = self._queue[i]
            is_last = i == size - 1
            if not handle.is_finished and not is_last:
                raise ProtocolError("an open buffer has another one behind it")
            if sender_rules.is_slice_sent(
                handle.unread, int(handle.is_finished), self.initial_credit
            ):
                return Slice(i, handle, is_last)
            if not handle.is_finished:
                return Slice(i, None, is_last)
        return Slice(size, None, True)

    def _message(self, kind: str, nbytes: int) -> Message:
        more = self._is_data_available()
        next_is_event = more and bool(self._queue) and self._queue[0].is_event
        return Message(kind, nbytes, more, self.backlog, next_is_event)

    def _is_data_available(self) -> bool:
        blocked, pending = int(self._is_blocked), int(self._flush_pending)
        return sender_rules.is_data_available(blocked, pending, self._finished_count()) == 1

    def _finished_count(self) -> int:
        seen = int(bool(self._queue) and self._queue[-1].is_seen_finished)
        return sender_rules.finished_count(len(self._queue), seen)

    def _add(self, handle: BufferHandle) -> None:
        if self._is_finished:
            raise ValueError("the subpartition is finished: nothing may be added")
        blocked = int(self._is_blocked)
        notify_priority = 0
        if handle.is_event and EVENT_KINDS[handle.kind].has_priority:
            self._queue.insert(self._priority, handle)
            self._priority += 1
            notify_priority = sender_rules.should_notify_priority(self._priority, blocked)
        else:
            self._queue.append(handle)
        self.total_buffers += 1
        is_end = int(handle.kind == END)
        notify = sender_rules.should_notify_on_add(
            self._finished_count(), int(self._flush_pending), blocked, is_end
        )
        self._is_finished = is_end == 1
        if notify_priority == 1:
            self.priority_notifications += 1
            self._call_listener()
        if notify == 1:
            self._notify()

    def _remove(self, elements: int) -> None:
        for handle in self._queue[:elements]:
            handle.is_queued = False
        del self._queue[:elements]
        self._priority = max(0, self._priority - elements)

    def _notify(self) -> None:
        self.notifications += 1
        self._call_listener()

    def _call_listener(self) -> None:
        if self.listener is not None:
            self.listener()
