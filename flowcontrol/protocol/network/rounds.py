"""One subtask's part of a round, composed of the rules; both clocks run these very functions.

What a message, a record, a flush or a send does to the state of one gate or one result partition.
Not here: credit rules (:mod:`~flowcontrol.protocol.network.credit_rules`), objects, clocks.

:mod:`flowcontrol.kernel.loop` says in which order a round calls them.
"""

from collections.abc import Sequence

from flowcontrol.protocol.network import credit_rules as c
from flowcontrol.protocol.network import subpartition_rules as s
from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.protocol.network.debloating import usable_bytes
from flowcontrol.protocol.network.pool_rules import (
    note_quota,
    pool_is_available,
    recycle_segment,
    request_segment,
)
from flowcontrol.state import queues as q
from flowcontrol.state import rows as r
from flowcontrol.state.network import LocalPool, Message, Subpartition, Task
from flowcontrol.state.rows import KIND_LOCAL, KIND_RECORDS, Gate, Partition, Row


def receive(task: Task, gate: Gate, union: Row, number: int, channel: int, message: Message) -> int:
    """Store an arriving message and act on its backlog.

    ``RemoteInputChannel.onBuffer``: allocate, append, wake the gate, then the backlog
    (reference section 1.4). A local channel takes no buffer and knows no backlog (1.10); an event
    takes none either, and the cursors do not count it.

    - ``union``: gates with data, in the order in which they are polled.
    - ``message``: what arrives; it is copied.

    1, or 0 if there was no buffer for it: the sender broke the protocol.
    """
    if message.kind == q.BACKLOG_ANNOUNCEMENT:
        _receive_backlog(gate, channel, message.backlog)
        return 1
    if q.is_full(gate.queues[channel]) == 1:
        return 0
    local = gate.channels[channel].initial < 0
    buffer = r.TAKEN_NONE
    if q.is_event(message) == 0:
        buffer = KIND_LOCAL if local else c.request_buffer(gate.channels[channel])
        if buffer == r.TAKEN_NONE:
            return 0
        task.queued += message.records
        gate.channels[channel].arrived += 1
    else:
        task.mail += q.is_urgent(message.kind)
    enqueue_message(gate, union, number, channel, message, buffer)
    if not local:
        _receive_backlog(gate, channel, message.backlog)
    return 1


def enqueue_message(
    gate: Gate, union: Row, number: int, channel: int, message: Message, buffer: int
) -> None:
    """Queue a message that has its buffer; wake the gate if the channel's queue was empty."""
    queue = gate.queues[channel]
    slot = q.next_slot(queue)
    q.carry(slot, message)
    slot.buffer = buffer
    q.append(queue)
    if queue.ends.count == 1:
        r.fifo_push(gate.order, channel)
        if gate.order[r.FIFO_COUNT] == 1:
            r.fifo_push(union, number)


def _receive_backlog(gate: Gate, channel: int, backlog: int) -> None:
    """Act on a backlog, of a message or announced by itself (reference section 1.3)."""
    r.add_member(gate.dirty_channels, channel)
    c.on_backlog(gate, channel, backlog)


def recycle(gate: Gate, channel: int, buffer: int) -> None:
    """Recycle the buffer, of a kind, of a consumed message (reference section 1.5)."""
    r.add_member(gate.dirty_channels, channel)
    if buffer >= KIND_RECORDS:
        return
    if buffer == r.TAKEN_EXCLUSIVE:
        waiting = gate.waiting[r.FIFO_COUNT]
        if c.recycle_exclusive(gate, channel) == 0 and waiting > 0:
            # somebody who waited may have got a floating buffer
            r.add_all_members(gate.dirty_channels)
    elif buffer != KIND_LOCAL:
        accepted = c.recycle_floating(gate)
        if accepted >= 0:
            r.add_member(gate.dirty_channels, accepted)
    gate.channels[channel].consumed += 1


def announce_credit(gate: Gate, channel: int) -> None:
    """Announce all credit that a channel has gained (reference section 1.6)."""
    if gate.channels[channel].initial >= 0:
        gate.channels[channel].announced += c.announce(gate.channels[channel])


NO_INPUT = 0
"""Nothing can be polled."""
RECORD = 1
"""The task has a buffer with a record in hand, or with a watermark or a status."""
EVENT_POLLED = 2
"""An event of channel ``task.channel`` of gate ``task.gate`` was polled."""


def next_input(task: Task, gates: Sequence[Gate], union: Row) -> int:
    """Make sure that the task has a buffer with a record in hand, if there is one.

    The beginning of a record behind the last one of the buffer in hand is read first.

    Strict round robin over the gates with data and, within one, over its channels with data,
    a buffer a turn (``UnionInputGate``, ``SingleInputGate``; section 1.9). A buffer in which
    no record ends is copied out and recycled as soon as it is polled.

    Returns RECORD or NO_INPUT; where there are checkpoints, EVENT_POLLED at each event.
    """
    while task.left + task.marks == 0:
        read_to_end(task, gates)
        number = r.fifo_first(union)
        if number < 0:
            return NO_INPUT
        gate = gates[number]
        channel = poll_channel(gate, union)
        message = q.drop(gate.queues[channel])
        if q.is_event(message) == 1:
            if message.kind == q.END_OF_PARTITION:
                task.open_inputs -= 1
            if task.has_checkpoints == 1:
                task.gate = number
                task.channel = channel
                return EVENT_POLLED
            continue
        if message.records + message.marks == 0:
            recycle(gate, channel, message.buffer)
        else:
            task.gate = number
            task.channel = channel
            task.buffer = message.buffer
            task.left = message.records
            if message.kind == q.SPANNING_DATA:
                task.goes_on = 1
            if message.marks > 0:
                task.marks = message.marks
            task.read = 0
    return RECORD


def read_to_end(task: Task, gates: Sequence[Gate]) -> None:
    """Recycle the buffer in hand once the beginning of the record behind its last one is read.

    ``SpillingAdaptiveSpanningRecordDeserializer.getNextRecord`` (section 1.5): asked for the next
    record it copies out what is there of it. A task asks when it has processed the last whole one.
    """
    if task.goes_on == 1 and task.left + task.marks == 0:
        task.goes_on = 0
        recycle(gates[task.gate], task.channel, task.buffer)


def poll_channel(gate: Gate, union: Row) -> int:
    """Return the channel of a gate whose turn it is; more in it, or in the gate, waits its turn.

    - ``gate``: the oldest in ``union``.
    - ``union``: gates with data, in the order in which they are polled.

    Returns the channel; the caller drops its oldest message.
    """
    channel = r.fifo_first(gate.order)
    if gate.queues[channel].ends.count > 1:
        r.fifo_rotate(gate.order)
    else:
        r.fifo_drop(gate.order)
    if gate.order[r.FIFO_COUNT] > 0:
        r.fifo_rotate(union)
    else:
        r.fifo_drop(union)
    return channel


def read_records(task: Task, gates: Sequence[Gate], count: int) -> None:
    """Take ``count`` records up from the buffer in hand, at most those left in it.

    The buffer is recycled when its last record is *read*, before that record is processed; with a
    watermark behind that, when this one is; with the beginning of a record, see
    :func:`read_to_end`.
    """
    gate = gates[task.gate]
    channel = task.channel
    task.left -= count
    task.queued -= count
    task.read += count
    task.taken += count
    gate.channels[channel].processed += count
    if task.buffer == KIND_RECORDS:
        gate.channels[channel].consumed += count
        r.add_member(gate.dirty_channels, channel)
    if task.left + task.marks + task.goes_on == 0:
        recycle(gate, channel, task.buffer)


def read_mark(task: Task, gates: Sequence[Gate]) -> None:
    """Take the next watermark or status from the buffer in hand, which may be recycled then."""
    task.marks -= 1
    if task.left + task.marks + task.goes_on == 0:
        recycle(gates[task.gate], task.channel, task.buffer)


def stays_blocked(pool: LocalPool, left: int) -> int:
    """Tell whether a task with ``left`` bytes of a record to write goes on waiting: 1 if so.

    ``LocalBufferPool.requestMemorySegmentBlocking`` (section 4.2): overdraft serves a request at
    once or not at all. One that failed is made again when the pool is available.
    """
    return 1 if left > 0 and pool_is_available(pool) == 0 else 0


def write_bytes(
    partition: Partition, channel: int, nbytes: int, quota: int, buffer_bytes: int, is_mark: int = 0
) -> int:
    """Append bytes of one record to a subpartition, as far as buffers can be had.

    ``is_mark`` 1: it is not a record but a watermark or a status, which is serialised like one.

    ``BufferWritingResultPartition.emitRecord`` (section 2.6): the buffer is requested when
    the first byte needs it and finished when it is full. A record of several buffers asks for
    them one by one, and overdraft serves those that the pool does not (section 4.4).

    Returns the bytes left over because the pool gave no buffer: the task is blocked inside the
    record (hard back-pressure). 0: the record is written whole.
    """
    own = partition.channels[channel]
    while nbytes > 0:
        if own.is_open == 0:
            if request_segment(partition.pool, partition.segments) == 0:
                return nbytes
            note_quota(partition.pool, partition.counts, channel, 1, quota)
            s.open_buffer(own, usable_bytes(own.desired_buffer_size, nbytes, buffer_bytes))
        part = _room(partition.pool, own, nbytes, buffer_bytes)
        nbytes -= part
        s.append_bytes(own, part, nbytes, is_mark)
        if own.filled == own.limit:
            s.finish_buffer(own, partition.queues[channel], nbytes)
    return 0


def write_broadcast(
    partition: Partition, nbytes: int, quota: int, buffer_bytes: int, is_mark: int = 0
) -> int:
    """Append bytes of one record to the buffer that all subpartitions share.

    ``BufferWritingResultPartition.broadcastRecord``: the record is written once; its buffer is
    requested for subpartition 0 and returns when the last subpartition lets go of it.

    Returns the bytes left over, as :func:`write_bytes` does.
    """
    first = partition.channels[0]
    while nbytes > 0:
        if first.is_open == 0:
            if request_segment(partition.pool, partition.segments) == 0:
                return nbytes
            note_quota(partition.pool, partition.counts, 0, 1, quota)
            limit = usable_bytes(first.desired_buffer_size, nbytes, buffer_bytes)
            for channel in range(len(partition.channels)):
                s.open_buffer(partition.channels[channel], limit)
        part = _room(partition.pool, first, nbytes, buffer_bytes)
        nbytes -= part
        for channel in range(len(partition.channels)):
            own = partition.channels[channel]
            own.limit = first.limit
            s.append_bytes(own, part, nbytes, is_mark)
            if own.filled == own.limit:
                s.finish_buffer(own, partition.queues[channel], nbytes)
    return 0


def _room(pool: LocalPool, own: Subpartition, nbytes: int, segment_bytes: int) -> int:
    """Bytes that go into the open buffer, which outgrows its limit rather than block (2.6)."""
    room = own.limit - own.filled
    if nbytes > room and own.limit < segment_bytes and pool_is_available(pool) == 0:
        own.limit = segment_bytes
        room = segment_bytes - own.filled
    return min(nbytes, room)


def whole_records(own: Subpartition, record_bytes: int, most: int) -> int:
    """Return how many records fit into a subpartition's open buffer without filling it.

    To append them is the same as :func:`write_bytes` once for each: no buffer is requested or
    finished, so nothing that a task looks at between two records changes.
    """
    if own.is_open == 0:
        return 0
    if most == 1:  # most often, and without a division
        return 1 if own.filled + record_bytes < own.limit else 0
    return max(0, min(most, (own.limit - 1 - own.filled) // record_bytes))


def append_whole_records(own: Subpartition, record_bytes: int, count: int) -> None:
    """Append records that fit into a subpartition's open buffer without filling it."""
    own.filled += count * record_bytes
    own.unread += count * record_bytes
    own.tail += count
    own.written += count


def flush(partition: Partition, channel: int) -> None:
    """Flush a subpartition (the periodic flusher's ``flushAll`` on one of them, section 2.5)."""
    s.flush_queue(partition.channels[channel], partition.queues[channel])


def send_message(
    partition: Partition, channel: int, quota: int, is_local: int, message: Message
) -> int:
    """Send a subpartition's next message, if its reader is available.

    ``PartitionRequestQueue.writeAndFlushNextMessageIfPossible`` (section 2.3). The segment of a
    finished buffer returns to the pool, at once on a remote channel, when it is consumed on a local
    one. A local consumer is handed as many messages as it has places, but the open buffer only when
    it has read all before it: ``LocalInputChannel`` polls the subpartition when its turn comes, so
    that what is written meanwhile fills the buffer up.

    ``is_local``: 1: the consumer reads the very buffer, and the pool gets it back later.
    """
    own, held = partition.channels[channel], partition.held[channel]
    credit = credit_of(own.announced, own.sent)
    if is_local == 1:
        if partition.queues[channel].ends.count == 0 and held[r.FIFO_COUNT] > 0:
            return s.NOTHING
        credit = len(held) - r.FIFO_SLOTS - held[r.FIFO_COUNT]
    if s.is_available(own, partition.queues[channel], credit) == 0:
        return s.NOTHING
    return send_next(partition, channel, quota, is_local, message)


def send_next(
    partition: Partition, channel: int, quota: int, is_local: int, message: Message
) -> int:
    """Send a subpartition's next message as :func:`send_message` does: its reader is available."""
    own, held = partition.channels[channel], partition.held[channel]
    while True:
        found = s.poll_queue(own, partition.queues[channel], message)
        if found == s.EMPTY or (found == s.BUFFER and is_local == 0):
            let_go(partition, channel, quota)
        elif is_local == 1 and 0 < found < s.EVENT:
            r.fifo_push(held, 1 if found == s.BUFFER else 0)
        if found != s.EMPTY:
            return found


def free_local(partition: Partition, channel: int, consumed: int, quota: int) -> None:
    """Take back the buffers of the messages that the local consumer has recycled (1.10)."""
    own = partition.channels[channel]
    while own.consumed < consumed:
        own.consumed += 1
        if r.fifo_pop(partition.held[channel]) == 1:
            let_go(partition, channel, quota)


def let_go(partition: Partition, channel: int, quota: int) -> None:
    """Recycle a finished buffer that a subpartition no longer needs, when it is the last one."""
    owner = channel
    if partition.is_broadcast == 1:
        owner = 0
        before = partition.channels[channel].passed
        partition.channels[channel].passed = before + 1
        for other in range(len(partition.channels)):
            if partition.channels[other].passed <= before:
                return
    recycle_segment(partition.pool, partition.segments)
    note_quota(partition.pool, partition.counts, owner, -1, quota)
