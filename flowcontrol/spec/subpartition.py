"""The sender's queue of one channel as an object: a shell over the rules that the clocks run.

What lives here: arguments checked, handles of buffers, notifications (reference section 2.5). What
must not: a rule (:mod:`flowcontrol.protocol.network.subpartition_rules`), credit, pools, clocks,
data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.network import credit_rules as s
from flowcontrol.protocol.network import subpartition_rules as r
from flowcontrol.protocol.network.events import END_BYTES
from flowcontrol.state import network, queues

DATA = queues.KINDS[queues.DATA].name

EVENT_KINDS = {kind.name: kind for kind in queues.KINDS[queues.END_OF_PARTITION :]}
"""Kinds of events by name (``Buffer.DataType``)."""


def should_notify_on_add(finished: int, flush_pending: int, is_blocked: int, is_finish: int) -> int:
    """Tell whether adding an element notifies the reader: 1 if so.

    ``PipelinedSubpartition.add``, section 2.5: when the finished count has just become
    exactly 1 and no flush is pending and nothing blocked; the end always notifies.
    """
    if is_finish == 1:
        return 1
    return 1 if finished == 1 and flush_pending == 0 and is_blocked == 0 else 0


def should_notify_priority(priority_elements: int, is_blocked: int) -> int:
    """Tell whether adding a priority event notifies on its own path: 1 if it is the first."""
    return 1 if priority_elements == 1 and is_blocked == 0 else 0


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

    def __init__(self, owner: Subpartition, nbytes: int, is_finished: bool) -> None:
        self.nbytes = nbytes
        self.bytes_read = 0
        self.is_finished = is_finished
        self.is_queued = True
        """Whether it still stands in the subpartition; afterwards its buffer is free."""
        self._owner = owner

    @property
    def unread(self) -> int:
        """Bytes that no slice has carried yet."""
        return self.nbytes - self.bytes_read

    def append(self, nbytes: int) -> None:
        """Write more bytes; nobody is notified.

        Raises ValueError if the buffer is closed or no longer the last one, or ``nbytes`` is
        negative.
        """
        if self.is_finished or nbytes < 0 or not self._owner.is_tail(self):
            raise ValueError(f"{nbytes} bytes into a buffer that is closed, or a negative number")
        self.nbytes += nbytes
        r.append_bytes(self._owner.state, nbytes, 1)

    def finish(self) -> None:
        """Close the buffer; nobody is notified, and twice is harmless."""
        self.is_finished = True
        if self._owner.is_tail(self):
            r.finish_buffer(self._owner.state, self._owner.queue)


class Subpartition:
    """A sender's queue for one channel.

    - ``initial_credit``: exclusive buffers of the receiver's channel, at least 0.
    - ``state``: what the rules work on.
    - ``queue``: finished buffers, and events.
    - ``notifications``, ``priority_notifications``: how often the reader was told of data, and of a
      priority event.
    - ``total_buffers``, ``total_bytes``: buffers and events ever added; bytes ever polled.
    - ``listener``: called at every notification of either kind.

    Raises ValueError if ``initial_credit`` is negative.
    """

    def __init__(self, initial_credit: int = 2) -> None:
        if initial_credit < 0:
            raise ValueError(f"initial_credit is {initial_credit}, must not be negative")
        self.state = network.Subpartition(initial=initial_credit, announced=initial_credit)
        self.queue = queues.new_queue(1, network.Message)
        self.notifications = 0
        self.priority_notifications = 0
        self.total_buffers = 0
        self.total_bytes = 0
        self.listener: Callable[[], None] | None = None
        self._handles: deque[BufferHandle] = deque()

    @property
    def initial_credit(self) -> int:
        """Exclusive buffers of the receiver's channel."""
        return self.state.initial

    @property
    def queued(self) -> int:
        """Buffers and events queued (``outputQueueLength``)."""
        return self.state.buffers + self.state.events

    @property
    def queued_bytes(self) -> int:
        """Bytes queued and not yet polled."""
        return sum(one.nbytes for one in queues.in_order(self.queue)) + self.state.unread

    @property
    def backlog(self) -> int:
        """Data buffers reported to the receiver: the open tail counts only when flushed."""
        return r.channel_backlog(self.state)

    @property
    def is_flush_pending(self) -> bool:
        """A flush was asked for and not everything has been polled since."""
        return self.state.is_flushed == 1

    @property
    def is_blocked(self) -> bool:
        """A blocking event was polled and consumption has not resumed."""
        return self.state.is_blocked == 1

    @property
    def is_finished(self) -> bool:
        """The end is queued or polled: nothing may be added any more."""
        return self.state.is_finished == 1

    def is_available(self, credit: int = 0) -> bool:
        """Tell whether a reader with so much credit would be served.

        Raises ValueError if ``credit`` is negative.
        """
        if credit < 0:
            raise ValueError(f"credit is {credit}, must not be negative")
        return r.is_available(self.state, self.queue, credit) == 1

    def is_tail(self, handle: BufferHandle) -> bool:
        """Tell whether a buffer is the one that is written to."""
        return self.state.is_open == 1 and self._handles[-1] is handle

    def add_buffer(self, nbytes: int, is_finished: bool = False) -> BufferHandle:
        """Queue a data buffer.

        - ``nbytes``: bytes in it so far; 0 is allowed.
        - ``is_finished``: closed just before or after the hand-over; the queue notices when it
          reads it.

        Raises ValueError if ``nbytes`` is negative or the subpartition is finished.
        """
        if nbytes < 0:
            raise ValueError(f"nbytes is {nbytes}, must not be negative")
        self._make_room()
        self._close_tail()
        r.open_buffer(self.state, nbytes)
        r.append_bytes(self.state, nbytes, 1)
        if is_finished:
            r.finish_buffer(self.state, self.queue)
        self._handles.append(BufferHandle(self, nbytes, is_finished))
        self._on_add(queues.DATA)
        return self._handles[-1]

    def add_event(self, kind: str, nbytes: int = 8) -> None:
        """Queue an event; ``end_of_partition`` finishes the subpartition.

        Raises ValueError if the kind is unknown, ``nbytes`` is below 1 or the subpartition is
        finished.
        """
        if kind not in EVENT_KINDS:
            known = ", ".join(EVENT_KINDS)
            raise ValueError(f"unknown kind of event {kind!r}; known: {known}")
        if nbytes < 1:
            raise ValueError(f"an event of {nbytes} bytes: at least 1")
        self._make_room()
        number = queues.KINDS.index(EVENT_KINDS[kind])
        if EVENT_KINDS[kind].has_priority == 0:
            self._close_tail()
        r.add_event(self.state, self.queue, number, nbytes)
        self._on_add(number)

    def finish(self) -> None:
        """Queue the end of the partition; it always notifies.

        Raises ValueError if the subpartition is finished already.
        """
        self.add_event(queues.KINDS[queues.END_OF_PARTITION].name, END_BYTES)

    def flush(self) -> None:
        """Make the open tail readable as it is; what is written later needs another flush."""
        if r.flush_queue(self.state, self.queue) == 1:
            self._notify()

    def resume(self) -> None:
        """Unblock: the receiver resumed consumption. It notifies nobody.

        Raises ProtocolError if the subpartition is not blocked; nothing has changed then.
        """
        if not self.is_blocked:
            raise ProtocolError("consumption resumed of a subpartition that is not blocked")
        r.on_resume_consumption(self.state, self.state.resumed + 1)

    def peek(self) -> str | None:
        """Kind of the message that :meth:`poll` would return; None if none. Changes nothing.

        Raises ProtocolError as :meth:`poll`.
        """
        if self.is_blocked:
            return None
        handles = iter(self._handles)
        for message in queues.in_order(self.queue):
            if queues.is_event(message):
                return queues.KINDS[message.kind].name
            if not next(handles).is_finished:
                raise ProtocolError("an open buffer has another one behind it")
            if s.is_slice_sent(message.nbytes, 1, self.initial_credit):
                return DATA
        return DATA if self.state.unread > 0 else None

    def poll(self) -> Message | None:
        """Take the next message; None if blocked or there is nothing to read.

        Raises ProtocolError if an open buffer has another behind it; nothing has changed then.
        """
        self.peek()
        buffers, polled, found = self.state.buffers, network.Message(), r.EMPTY
        while found == r.EMPTY:
            found = r.poll_queue(self.state, self.queue, polled)
        gone = [self._handles.popleft() for _ in range(buffers - self.state.buffers)]
        for handle in gone:
            handle.is_queued = False
        if found == r.NOTHING:
            return None
        if found != r.EVENT:
            read = gone[-1] if found == r.BUFFER else self._handles[0]
            read.bytes_read += polled.nbytes
        self.total_bytes += polled.nbytes
        more = self.is_available(credit=1)
        next_is_event = more and r.head_is_event(self.state, self.queue) == 1
        kind = queues.KINDS[polled.kind].name
        return Message(kind, polled.nbytes, more, polled.backlog, next_is_event)

    def _make_room(self) -> None:
        """Make sure that one more fits, and may be added at all."""
        if self.is_finished:
            raise ValueError("the subpartition is finished: nothing may be added")
        if self.queued == len(self.queue.slots):
            kept = queues.in_order(self.queue)
            self.queue = queues.new_queue(2 * len(kept) + 1, network.Message)
            queues.refill_queue(self.queue, kept)

    def _close_tail(self) -> None:
        """Queue the open buffer; if its writer has not closed it, a poll that reads it fails."""
        if self.state.is_open == 1:
            r.finish_buffer(self.state, self.queue)

    def _on_add(self, kind: int) -> None:
        """Notify of what was added, if there is need."""
        self.total_buffers += 1
        state, is_end = self.state, int(kind == queues.END_OF_PARTITION)
        if queues.has_priority(kind):
            before = sum(queues.has_priority(one.kind) for one in queues.in_order(self.queue))
            if should_notify_priority(before, state.is_blocked) == 1:
                self.priority_notifications += 1
                self._call_listener()
        finished = s.finished_count(self.queued, state.ends_in_event)
        if should_notify_on_add(finished, state.is_flushed, state.is_blocked, is_end) == 1:
            self._notify()

    def _notify(self) -> None:
        self.notifications += 1
        self._call_listener()

    def _call_listener(self) -> None:
        if self.listener is not None:
            self.listener()
