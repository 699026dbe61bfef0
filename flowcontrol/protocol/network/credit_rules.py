"""Credits on both sides of a channel: what a sender may send, and what a receiver grants."""

from flowcontrol.protocol.network.pool_rules import request_segment
from flowcontrol.state.network import InputChannel
from flowcontrol.state.rows import (
    TAKEN_EXCLUSIVE,
    TAKEN_FLOATING,
    TAKEN_NONE,
    Gate,
    fifo_pop,
    fifo_push,
)

# --- Rules of the sender (`PipelinedSubpartition` and the view reader, section 2): scalars only


def reported_backlog(
    data_buffers: int, flush_pending: int, is_finished: int, last_is_event: int, is_blocked: int
) -> int:
    """Buffers that a subpartition announces as its backlog; a message's own was removed before.

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


# --- Rules of the receiver's channel (`RemoteInputChannel` and `BufferManager`, section 1).
#
# Like all rules these are functions of integers and of declared state
# (flowcontrol.state.network), without exceptions, closures or dictionaries; booleans are 0
# and 1. They do not check their arguments. `channel` is an
# flowcontrol.state.network.InputChannel, `index` its place in the `gate`. Of the gate's pool,
# segments requested from the global pool = in use + free; a floating buffer that a channel
# holds free is in use.


def available_buffers(channel: InputChannel) -> int:
    """Free buffers of a channel, exclusive and floating."""
    return channel.exclusive + channel.floating


def request_floating(gate: Gate, index: int) -> int:
    """Ask the gate's pool until the channel has what it requires, or wait at the tail.

    ``BufferManager.tryRequestBuffers``, section 1.3 step 2. A destroyed pool gives nothing
    and lets nobody wait.

    Returns the buffers obtained. They are not yet in the unannounced credit.
    """
    channel = gate.channels[index]
    gained = 0
    while available_buffers(channel) < channel.required and channel.is_waiting == 0:
        if request_segment(gate.pool, gate.segments) == 1:
            channel.floating += 1
            gained += 1
        elif gate.pool.is_destroyed == 1:
            break
        else:
            fifo_push(gate.waiting, index)
            channel.is_waiting = 1
    return gained


def on_backlog(gate: Gate, index: int, backlog: int) -> int:
    """Take note of the sender's backlog; return the credit gained, now also unannounced.

    ``RemoteInputChannel.onSenderBacklog``, section 1.3. A smaller backlog gives nothing back;
    a channel that waits only raises what it requires; a released one ignores it.
    """
    channel = gate.channels[index]
    if channel.is_released == 1:
        return 0
    channel.required = backlog + channel.initial
    gained = request_floating(gate, index)
    channel.unannounced += gained
    return gained


def request_buffer(channel: InputChannel) -> int:
    """Take a buffer for an arriving data message: which kind, ``TAKEN_NONE`` if there is none.

    ``BufferManager.requestBuffer``, section 1.4 (since 1.14): what the channel requires falls
    by one first, below zero if need be; then floating before exclusive.
    """
    if channel.is_released == 1:
        return TAKEN_NONE
    channel.required -= 1
    if channel.floating > 0:
        channel.floating -= 1
        return TAKEN_FLOATING
    if channel.exclusive > 0:
        channel.exclusive -= 1
        return TAKEN_EXCLUSIVE
    return TAKEN_NONE


def offer_floating(gate: Gate, index: int) -> int:
    """Offer a recycled floating buffer to a channel that was waiting.

    ``BufferManager.notifyBufferAvailable``, section 1.5 (since 1.14): the accepting channel
    asks for more at once and, if still short, waits again at the tail.

    Returns the credit: 0 if refused, else 1 for this buffer and 1 for each more that it fetched.
    """
    channel = gate.channels[index]
    channel.is_waiting = 0
    if channel.is_released == 1 or available_buffers(channel) >= channel.required:
        return 0
    channel.floating += 1
    return 1 + request_floating(gate, index)


def recycle_floating(gate: Gate) -> int:
    """Give a floating buffer back to the gate's pool, which offers it to the waiting channels.

    ``LocalBufferPool.recycle``, sections 1.5 and 4.3: to the global pool when destroyed or over the
    quota (then :func:`flowcontrol.protocol.network.pool_rules.serve_pools` is due), else to the
    first that accepts, first come first served, else it stays free in the pool.

    Returns the index of the channel that accepted it (its unannounced credit has grown), or -1.
    """
    pool = gate.pool
    while True:
        requested = pool.in_use + pool.free
        if pool.is_destroyed == 1 or requested > pool.size:
            pool.in_use -= 1
            gate.segments.free += 1
            return -1
        index = fifo_pop(gate.waiting)
        if index < 0:
            pool.in_use -= 1
            pool.free += 1
            return -1
        credit = offer_floating(gate, index)
        if credit > 0:
            gate.channels[index].unannounced += credit
            return index


def recycle_exclusive(gate: Gate, index: int) -> int:
    """Give an exclusive buffer back to its channel; return the credit the channel gained.

    ``BufferManager.recycle``, section 1.5: if the channel then has more than it requires and
    a floating buffer free, that one goes back to the pool (and on to whoever waits) and there
    is no credit; else credit 1, also above what is required. Of a released channel it goes to
    the global pool: a redistribution is due.
    """
    channel = gate.channels[index]
    if channel.is_released == 1:
        gate.segments.free += 1
        gate.segments.unpooled -= 1
        return 0
    channel.exclusive += 1
    if available_buffers(channel) > channel.required and channel.floating > 0:
        channel.floating -= 1
        recycle_floating(gate)
        return 0
    channel.unannounced += 1
    return 1


def announce(channel: InputChannel) -> int:
    """Take all unannounced credit of a channel; 0 of a released one (section 1.6)."""
    credit = channel.unannounced
    channel.unannounced = 0
    if channel.is_released == 1:
        return 0
    return credit
