"""Rules of the sender (``PipelinedSubpartition`` and the view reader, section 2): scalars only."""


def reported_backlog(
    data_buffers: int, flush_pending: int, is_finished: int, last_is_event: int, is_blocked: int
) -> int:
    """Buffers that a subpartition announces as its backlog; a message's own was removed before.

    Notes
    -----
    ``PipelinedSubpartition.getBuffersInBacklogUnsafe``, section 2.5: the last buffer counts only
    while a flush is pending, after the end, or when an event stands behind it. A full one is no
    exception, for that it is finished shows when something is added. Plain arithmetic, so that
    arrays of channels are arguments as well.
    """
    shows_tail = flush_pending | is_finished | last_is_event
    return (1 - is_blocked) * (data_buffers - (1 - shows_tail) * (data_buffers > 0))


def finished_count(size: int, tail_seen_finished: int) -> int:
    """Elements of a queue of ``size`` that are known to be finished (section 2.5)."""
    if size == 1 and tail_seen_finished == 1:
        return 1
    return max(0, size - 1)


def is_data_available(is_blocked: int, flush_pending: int, finished: int) -> int:
    """Tell whether a reader with credit gets something: 1 if so (section 2.5)."""
    return 1 if is_blocked == 0 and (flush_pending == 1 or finished > 0) else 0


def is_event_available(is_blocked: int, head_is_event: int) -> int:
    """Tell whether a reader without credit gets something: 1 if so (section 2.5)."""
    return 1 if is_blocked == 0 and head_is_event == 1 else 0


def should_notify_on_flush(size: int, flush_pending: int, has_unread: int, is_blocked: int) -> int:
    """Tell whether a flush notifies: 1 for exactly one element with unread bytes, unblocked."""
    return 1 if size == 1 and has_unread == 1 and flush_pending == 0 and is_blocked == 0 else 0


def flush_pending_after(size: int, flush_pending: int, has_unread: int) -> int:
    """Flush-pending flag after a flush; ``has_unread`` is that of a single element."""
    if flush_pending == 1 or size > 1:
        return 1
    return 1 if size == 1 and has_unread == 1 else 0


def is_slice_sent(nbytes: int, is_finished: int, initial_credit: int) -> int:
    """Tell whether the slice read from the head becomes a message: 1 if so.

    Notes
    -----
    ``PipelinedSubpartition.pollBuffer``, section 2.5: empty slices are skipped, except of a
    finished buffer when the receiver has no exclusive buffers: its credit must come back.
    """
    return 1 if nbytes > 0 or (is_finished == 1 and initial_credit == 0) else 0


def is_reader_available(credit: int, data_available: int, event_available: int) -> int:
    """Tell whether a reader can be served: 1 if so (section 2.1)."""
    return data_available if credit > 0 else event_available


def needs_backlog_announcement(
    initial_credit: int, credit: int, backlog: int, is_available: int
) -> int:
    """Tell whether a BacklogAnnouncement is due: 1 if so.

    Notes
    -----
    ``PartitionRequestQueue.enqueueAvailableReader``, section 2.2 (since 1.14): not
    serviceable, a backlog, and both the configured initial credit and the credit are 0.
    """
    if is_available == 1 or backlog == 0:
        return 0
    return 1 if initial_credit == 0 and credit == 0 else 0


def credit_of(announced: int, sent: int) -> int:
    """Messages that may still be sent on what was announced, from the cursors of a channel."""
    return announced - sent


def unsent(released: int, sent: int) -> int:
    """Messages of a channel that are released and not sent: its backlog, from the cursors."""
    return released - sent
