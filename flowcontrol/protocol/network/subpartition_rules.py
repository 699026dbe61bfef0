"""The queue of a subpartition (``PipelinedSubpartition``, section 2.5): buffers, events, polls.

What lives here: what a write, an event, a flush and a poll do to one subpartition. What must not:
pools and credit grants; they are the caller's.
"""

from flowcontrol.protocol.network import credit_rules as s
from flowcontrol.state import queues as q
from flowcontrol.state.network import Message, Subpartition

NOTHING = 0
"""A poll found nothing that may be read."""
SLICE = 1
"""What the open buffer has unread was polled; the buffer stays."""
BUFFER = 2
"""A finished buffer was polled."""
EVENT = 3
"""An event was polled."""
EMPTY = 4
"""A finished buffer with nothing unread was removed, which is not a message."""


def open_buffer(own: Subpartition, limit: int) -> None:
    """Queue a new, open buffer that may take ``limit`` bytes."""
    own.buffers += 1
    own.is_open = 1
    own.filled = 0
    own.unread = 0
    own.limit = limit
    own.ends_in_event = 0


def append_bytes(own: Subpartition, nbytes: int, left: int, is_mark: int = 0) -> None:
    """Append bytes to the open buffer; with none left of the record, it ends there.

    ``is_mark`` 1: it is not a record but a watermark or a status.
    """
    own.filled += nbytes
    own.unread += nbytes
    if left > 0:
        return
    if is_mark == 1:
        own.marks += 1
    else:
        own.tail += 1
        own.written += 1


def finish_buffer(own: Subpartition, queue: q.Queue[Message], left: int = 0) -> None:
    """Close the open buffer, and queue what no slice has carried of it.

    ``left`` bytes of its last record come in the next buffer.
    """
    own.is_open = 0
    if s.is_slice_sent(own.unread, 1, own.initial) == 0:
        own.empty += 1
    message = q.next_slot(queue)
    message.kind = q.SPANNING_DATA if left > 0 else q.DATA
    _put_unread(own, message)
    q.append(queue)


def _put_unread(own: Subpartition, message: Message) -> None:
    """Have a message carry what no slice has carried of the open buffer."""
    message.records = own.tail
    q.set_marks(message, own.marks)
    message.nbytes = own.unread
    q.forget_checkpoint(message)
    own.tail = 0
    if own.marks > 0:
        own.marks = 0
    own.unread = 0


def add_event(
    own: Subpartition,
    queue: q.Queue[Message],
    kind: int,
    nbytes: int,
    checkpoint: int = 0,
    created: int = 0,
) -> None:
    """Queue an event: behind the data, or if it has priority before all but others that have it.

    ``PipelinedSubpartition.add``. What stands before an event is countable and available. Without
    priority it stands behind a buffer that is closed.

    - ``kind``: of the event, a number of :data:`~flowcontrol.state.queues.KINDS`.
    - ``nbytes``: its size, bytes.
    - ``checkpoint``, ``created``: of a barrier, or of a marker that cancels one: its checkpoint,
      and when that was triggered, microseconds.
    """
    if q.has_priority(kind) == 0 or own.buffers + own.events == 0:
        own.ends_in_event = 1
    own.events += 1
    own.is_finished = 1 if kind == q.END_OF_PARTITION else 0
    message = q.next_slot(queue)
    if q.has_priority(kind) == 1:
        message = q.overtake(queue)
    else:
        q.append(queue)
    message.kind = kind
    message.records = 0
    q.set_marks(message, 0)
    message.nbytes = nbytes
    message.checkpoint = checkpoint
    message.created = created


def overtake_data(own: Subpartition, queue: q.Queue[Message], checkpoint: int) -> int:
    """Have a timeoutable barrier that has not been sent overtake what is before it.

    ``PipelinedSubpartition.alignedBarrierTimeout`` (since 1.16): it becomes an unaligned barrier.

    Returns the bytes overtaken, which the checkpoint must persist; -1: the barrier has been sent.
    """
    place = q.find_kind(queue, q.TIMEOUTABLE_BARRIER)
    if place < 0 or q.message_at(queue, place).checkpoint != checkpoint:
        return -1
    nbytes, created = q.bytes_before(queue, place), q.message_at(queue, place).created
    size = q.message_at(queue, place).nbytes
    q.remove(queue, place)
    own.events -= 1
    if place == queue.ends.count and own.is_open == 0:  # what was before it is the last now
        own.ends_in_event = q.is_event(q.message_at(queue, place - 1)) if place > 0 else 0
    add_event(own, queue, q.UNALIGNED_BARRIER, size, checkpoint, created)
    return nbytes


def on_resume_consumption(own: Subpartition, resumed: int) -> None:
    """Note how often the receiver has resumed consumption (``ResumeConsumption``).

    The subpartition is blocked while it has sent more events that block it than that.
    """
    own.resumed = resumed
    if resumed >= own.blocks:
        own.is_blocked = 0


def flush_queue(own: Subpartition, queue: q.Queue[Message]) -> int:
    """Flush a subpartition: what is written so far may be read. 1 if its reader is notified."""
    size = own.buffers + own.events
    unread = own.unread
    if size == 1 and own.is_open == 0:
        unread = queue.slots[queue.ends.head].nbytes
    has_unread = 1 if unread > 0 else 0
    notifies = s.should_notify_on_flush(size, own.is_flushed, has_unread, own.is_blocked)
    own.is_flushed = s.flush_pending_after(size, own.is_flushed, has_unread)
    return notifies


def head_is_event(own: Subpartition, queue: q.Queue[Message]) -> int:
    """Tell whether the oldest in a subpartition is an event: 1 if so."""
    return q.is_event(queue.slots[queue.ends.head]) if own.events > 0 else 0


def is_available(own: Subpartition, queue: q.Queue[Message], credit: int) -> int:
    """Tell whether a reader with so much credit would be served: 1 if so (section 2.1)."""
    finished = s.finished_count(own.buffers + own.events, own.ends_in_event)
    data = s.is_data_available(own.is_blocked, own.is_flushed, finished)
    event = s.is_event_available(own.is_blocked, head_is_event(own, queue))
    return s.is_reader_available(credit, data, event)


def poll_queue(own: Subpartition, queue: q.Queue[Message], message: Message) -> int:
    """Poll a subpartition, whose reader may be served.

    ``PipelinedSubpartition.pollBuffer``. A finished buffer leaves the queue; of an open one the
    unread slice goes, the buffer stays. An event costs no credit, and no cursor counts it.

    ``message``: filled with what was polled, if it is a message.
    """
    if own.is_blocked == 1:
        return NOTHING
    if queue.ends.count == 0:
        own.is_flushed = 0
        if own.unread == 0:
            return NOTHING
        found = SLICE
        message.kind = q.DATA
        _put_unread(own, message)
        own.sent += 1
    else:
        q.carry(message, q.drop(queue))
        if q.is_event(message) == 1:
            found = EVENT
            own.events -= 1
            if q.is_blocking(message) == 1:
                own.blocks += 1
                own.is_blocked = 1 if own.blocks > own.resumed else 0
        else:
            found = BUFFER
            own.buffers -= 1
            if s.is_slice_sent(message.nbytes, 1, own.initial) == 0:
                own.empty -= 1
                found = EMPTY
            else:
                own.sent += 1
        if own.buffers + own.events == 0:
            own.is_flushed = 0
    own.announced_backlog = channel_backlog(own)
    message.backlog = own.announced_backlog
    return found


def channel_backlog(own: Subpartition) -> int:
    """Backlog of a subpartition as it announces it: as many messages as credit would let go."""
    shows_tail, is_blocked = own.ends_in_event, own.is_blocked
    return s.reported_backlog(own.buffers, own.is_flushed, own.is_finished, shows_tail, is_blocked)


def ready_messages(own: Subpartition) -> int:
    """Data messages that a subpartition holds: finished buffers, and the open one if flushed."""
    flushed = 1 if own.is_open == 1 and own.is_flushed == 1 and own.unread > 0 else 0
    return own.buffers - own.is_open - own.empty + flushed


def announce_backlog(own: Subpartition, backlog: int, event: int, message: Message) -> int:
    """Announce a backlog in a message of its own, before a round's messages, if there is need.

    ``PartitionRequestQueue.enqueueAvailableReader`` (section 2.2), which a subpartition calls when
    data becomes available (2.5). It is available exactly while there is a backlog to report, and
    what is left after a message goes with that: so data is new when the receiver knows of none.

    ``event``: 1: its oldest is an event, which goes without credit.

    1, or 0 if there is nothing to announce.
    """
    credit = s.credit_of(own.announced, own.sent)
    available = s.is_reader_available(credit, 1 if backlog > 0 else 0, event)
    if (
        own.announced_backlog > 0
        or s.needs_backlog_announcement(own.initial, credit, backlog, available) == 0
    ):
        return 0
    own.announced_backlog = backlog
    message.kind = q.BACKLOG_ANNOUNCEMENT
    message.records = 0
    q.set_marks(message, 0)
    message.nbytes = 0
    q.forget_checkpoint(message)
    message.backlog = backlog
    return 1
