"""Flink up to 1.10: data behind an aligned barrier are put aside at the receiver.

``BarrierBuffer`` and ``BufferSpiller`` of 1.4 (reference sections 3 and 11). No sender waits behind
a barrier. The task goes on polling all channels, and what a blocked one brings goes into a file,
its buffer back to the pool. When the alignment ends, the file is played back before the gates are
polled again. A barrier in it may begin the next alignment: then what is behind that is put aside
once more, into a file of its own, which is played back first.

Files are in the cache of the operating system, and cost nothing, unless the disk's rate is stated:
then a buffer returns to its pool when it is written, and a file is played back as it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flowcontrol.protocol.network.partition_kinds import disk_ns
from flowcontrol.protocol.network.rounds import (
    EVENT_POLLED,
    NO_INPUT,
    RECORD,
    poll_channel,
    read_to_end,
    recycle,
)
from flowcontrol.state.network import AlignedChannel, Alignment, Message, ReceivedMessage, Task
from flowcontrol.state.queues import END_OF_PARTITION, SPANNING_DATA, carry, drop, is_event
from flowcontrol.state.rows import KIND_HEAP, Gate, Row, fifo_first

HEADER_BYTES = 9
"""Bytes in a file besides an element's own: channel 4, size 4, whether it is a buffer 1."""

READ_BYTES = 1 << 20
"""Size of the memory into which a file is read (``BufferSpiller.READ_BUFFER_SIZE``)."""

LIMIT_REACHED = 3
"""Beside what ``next_input`` returns: more is put aside than may be; the checkpoint is over."""
NO_ROOM = 4
"""Beside that: there is no entry left to note what is put aside."""


@dataclass(slots=True)
class AsideMessage(ReceivedMessage):
    """An element of a file; its ``buffer`` is the one that is being written, if any."""

    next: int = 0
    """The one behind it, number + 1; 0: none. Of a free one: the next free one; -1: none."""
    gate: int = 0
    """Gate of the task that it came through."""
    channel: int = 0
    """Channel of the gate."""
    round: int = 0
    """Of a buffer that is being written: the round in which it is."""
    waiting: int = 0
    """Of the first left of a file that another one was put before: the file's size, bytes."""


@dataclass(slots=True)
class AsideList:
    """Elements one behind the other."""

    head: int = 0
    """The first, number + 1; 0: none."""
    tail: int = 0
    """The last, number + 1; 0: none."""
    nbytes: int = 0
    """Bytes of them in files, headers included."""
    records: int = 0
    """Records that end in them."""


@dataclass(slots=True)
class BarrierBuffer:
    """What a task has put aside."""

    behind: AsideList = field(default_factory=AsideList)
    """What has come behind the barriers of the alignment under way: the file being written."""
    again: AsideList = field(default_factory=AsideList)
    """What is played back before the gates are polled: files, the one to be read first in front."""
    writing: AsideList = field(default_factory=AsideList)
    """Buffers that wait for the disk."""
    checkpoint: int = -1
    """Checkpoint of whose alignment ``behind`` is; -1: none."""
    size: int = 0
    """Size of the file that is being played back, bytes."""
    waiting: int = 0
    """Size of the files that wait behind that one, bytes."""
    loaded: int = 0
    """Bytes of ``again`` that are in memory; where a disk has to read them."""
    loading: int = 0
    """Bytes that the disk reads."""
    loaded_at: int = 0
    """Round in which it has."""
    event: Message = field(default_factory=Message)
    """The event that was polled last."""
    limit: int = -1
    """``task.checkpoint.alignment.max-size``, bytes; -1: none. Constant."""
    written: int = 0
    """Bytes ever written to files."""
    read: int = 0
    """Bytes ever read from them."""
    most: int = 0
    """Most bytes that the files had at a time."""


@dataclass(slots=True)
class AsideDisk:
    """The disk of a task manager, where files of alignments cost time."""

    ready: int = 0
    """When it is free, nanoseconds."""
    cost_ns: int = 0
    """Time that ``unit`` bytes take."""
    unit: int = 0
    """0: files are in the cache of the operating system."""
    round_ns: int = 0
    """Length of a round; constant."""


@dataclass(slots=True)
class AsideEntries:
    """Which entries are free, of all tasks."""

    free: int = -1
    """The first; -1: none."""


class Aside(NamedTuple):
    """What a task has put aside, and what that needs."""

    own: BarrierBuffer  # The task's
    disk: AsideDisk  # Of its task manager
    free: AsideEntries  # Of all tasks
    entries: Sequence[AsideMessage]  # Of all tasks


def next_unblocked(
    task: Task,
    gates: Sequence[Gate],
    union: Row,
    aside: Aside,
    alignment: Alignment,
    channels: Sequence[AlignedChannel],
    now: int,
) -> int:
    """Make sure that the task has a record in hand, if one may be polled; put aside what may not.

    ``BarrierBuffer.getNextNonBlocked``.

    - ``task``, ``gates``, ``union``: as of :func:`flowcontrol.protocol.network.rounds.next_input`.
    - ``channels``: its channels, those of all gates in order.

    Returns RECORD, NO_INPUT (with ``loading`` above 0: until the disk has read), EVENT_POLLED (the
    event is ``own.event``), LIMIT_REACHED or NO_ROOM.
    """
    own, entries = aside.own, aside.entries
    while task.left == 0:
        read_to_end(task, gates)
        release(task, own, entries, alignment)
        if own.again.head > 0:
            if load(own, aside.disk, entries[own.again.head - 1], now) == 0:
                return NO_INPUT
            number = _take(own, entries)
            one = entries[number]
            task.gate, task.channel = one.gate, one.channel
            if channels[place_of(gates, one.gate, one.channel)].is_blocked == 1:
                task.withheld += one.records
                _put(own.behind, entries, number)
                if _put_behind(own, one, alignment, aside.disk, now) == 1:
                    return LIMIT_REACHED
                continue
            found = _play_back(task, own, one, channels[place_of(gates, one.gate, one.channel)])
            _free(aside, number)
        else:
            gate = fifo_first(union)
            if gate < 0:
                return NO_INPUT
            channel = poll_channel(gates[gate], union)
            message = drop(gates[gate].queues[channel])
            aligned = channels[place_of(gates, gate, channel)]
            task.gate, task.channel = gate, channel
            if aligned.is_blocked == 1:
                found = _put_aside(task, gates[gate], aside, aligned, message, alignment, now)
                if found != RECORD:
                    return found
                continue
            found = _hand_over(task, gates[gate], own, message)
        if found == EVENT_POLLED:
            return EVENT_POLLED
    return RECORD


def _hand_over(task: Task, gate: Gate, own: BarrierBuffer, message: ReceivedMessage) -> int:
    """Give the task a message that a gate has handed out: EVENT_POLLED, or RECORD."""
    if is_event(message) == 1:
        return _note_event(task, own, message)
    if message.records == 0:
        recycle(gate, task.channel, message.buffer)
        return RECORD
    _take_in_hand(task, message.buffer, message.records)
    task.goes_on = 1 if message.kind == SPANNING_DATA else 0
    return RECORD


def _play_back(task: Task, own: BarrierBuffer, one: AsideMessage, aligned: AlignedChannel) -> int:
    """Give the task an element of a file: EVENT_POLLED, or RECORD."""
    if is_event(one) == 1:
        return _note_event(task, own, one)
    aligned.aside -= one.nbytes
    if one.records > 0:
        _take_in_hand(task, KIND_HEAP, one.records)
    return RECORD


def _note_event(task: Task, own: BarrierBuffer, message: Message) -> int:
    if message.kind == END_OF_PARTITION:
        task.open_inputs -= 1
    own.event.kind = message.kind
    own.event.checkpoint = message.checkpoint
    own.event.created = message.created
    return EVENT_POLLED


def _take_in_hand(task: Task, buffer: int, records: int) -> None:
    task.buffer = buffer
    task.left = records
    task.read = 0


def place_of(gates: Sequence[Gate], gate: int, channel: int) -> int:
    """Return the place of a gate's channel among those of all gates."""
    for before in range(gate):
        channel += len(gates[before].channels)
    return channel


# ---- files


def _put_aside(
    task: Task,
    gate: Gate,
    aside: Aside,
    aligned: AlignedChannel,
    message: ReceivedMessage,
    alignment: Alignment,
    now: int,
) -> int:
    """Write what a blocked channel has brought to the file: RECORD, LIMIT_REACHED or NO_ROOM."""
    number = _new(aside)
    if number < 0:
        return NO_ROOM
    own, one = aside.own, aside.entries[number]
    carry(one, message)
    one.gate, one.channel, one.waiting, one.buffer = task.gate, task.channel, 0, KIND_HEAP
    task.withheld += message.records
    if is_event(message) == 0:
        aligned.aside += message.nbytes
    _put(own.behind, aside.entries, number)
    is_full = _put_behind(own, one, alignment, aside.disk, now)
    if is_event(message) == 0:
        done = one.round
        if done <= now:
            recycle(gate, task.channel, message.buffer)
        elif _wait_for_disk(aside, one, message.buffer, done) == 0:
            return NO_ROOM
    return LIMIT_REACHED if is_full == 1 else RECORD


def _put_behind(
    own: BarrierBuffer, one: AsideMessage, alignment: Alignment, disk: AsideDisk, now: int
) -> int:
    """Count an element that was put at the end of the file being written: 1 if it is too large.

    ``BarrierBuffer.checkSizeLimit``: the files that wait count whole, the one being read does not.
    """
    own.checkpoint = alignment.latest_id
    nbytes = file_bytes(one)
    own.written += nbytes
    own.most = max(own.most, own.behind.nbytes + own.again.nbytes)
    one.round = use_disk(disk, nbytes, now)
    return 1 if 0 < own.limit < own.waiting + own.behind.nbytes else 0


def _wait_for_disk(aside: Aside, one: AsideMessage, buffer: int, done: int) -> int:
    """Keep the buffer of an element until it is written: 1, or 0 if there is no entry for it."""
    number = _new(aside)
    if number < 0:
        return 0
    kept = aside.entries[number]
    kept.gate, kept.channel, kept.buffer, kept.round = one.gate, one.channel, buffer, done
    kept.records, kept.nbytes = 0, 0
    _put(aside.own.writing, aside.entries, number)
    return 1


def recycle_written(gates: Sequence[Gate], aside: Aside, now: int) -> int:
    """Recycle the buffers that are written; return when the next one is, or -1."""
    own = aside.own
    while own.writing.head > 0:
        number = own.writing.head - 1
        kept = aside.entries[number]
        if kept.round > now:
            return kept.round
        _cut(own.writing, aside.entries)
        recycle(gates[kept.gate], kept.channel, kept.buffer)
        _free(aside, number)
    return -1


def release(
    task: Task, own: BarrierBuffer, entries: Sequence[AsideMessage], alignment: Alignment
) -> None:
    """Have what was put aside played back, if its alignment is over.

    ``BarrierBuffer.releaseBlocksAndResetBarriers``: before what is left of the file that is being
    played back, if there is one.
    """
    if own.behind.head == 0:
        return
    if alignment.is_pending == 1 and alignment.latest_id == own.checkpoint:
        return
    if own.again.head > 0:
        entries[own.again.head - 1].waiting = own.size
        own.waiting += own.size
    own.size = own.behind.nbytes
    task.withheld -= own.behind.records
    entries[own.behind.tail - 1].next = own.again.head
    own.again.head = own.behind.head
    if own.again.tail == 0:
        own.again.tail = own.behind.tail
    own.again.nbytes += own.behind.nbytes
    own.again.records += own.behind.records
    own.behind.head = own.behind.tail = own.behind.nbytes = own.behind.records = 0
    own.loaded = own.loading = 0


def load(own: BarrierBuffer, disk: AsideDisk, one: AsideMessage, now: int) -> int:
    """Tell whether the next element to be played back has been read: 1 if so; else it will be."""
    if disk.unit == 0:
        return 1
    if own.loading > 0 and own.loaded_at <= now:
        own.loaded += own.loading
        own.loading = 0
    nbytes = file_bytes(one)
    if own.loaded >= nbytes:
        return 1
    if own.loading == 0:
        least = max(READ_BYTES, nbytes - own.loaded)
        own.loading = min(least, own.again.nbytes - own.loaded)
        own.loaded_at = use_disk(disk, own.loading, now)
    return 0


def use_disk(disk: AsideDisk, nbytes: int, now: int) -> int:
    """Have the disk read or write bytes, behind all before; return the round in which that is seen.

    It is the first that begins later, or this one where files are in the cache.
    """
    if disk.unit == 0:
        return now
    disk.ready = max(now * disk.round_ns, disk.ready) + disk_ns(nbytes, disk.cost_ns, disk.unit)
    return max(now + 1, (disk.ready + disk.round_ns - 1) // disk.round_ns)


def file_bytes(message: Message) -> int:
    """Return what an element takes in a file, bytes."""
    return message.nbytes + HEADER_BYTES


def forget(aside: Aside) -> None:
    """Free all that a task has put aside: it begins anew."""
    own = aside.own
    while own.behind.head > 0:
        _free(aside, _cut(own.behind, aside.entries))
    while own.again.head > 0:
        _free(aside, _cut(own.again, aside.entries))
    while own.writing.head > 0:
        _free(aside, _cut(own.writing, aside.entries))


# ---- lists


def _take(own: BarrierBuffer, entries: Sequence[AsideMessage]) -> int:
    """Take the next element to be played back; return its number."""
    number = _cut(own.again, entries)
    one = entries[number]
    nbytes = file_bytes(one)
    own.read += nbytes
    own.loaded -= nbytes if own.loaded > 0 else 0
    if one.waiting > 0:  # the file before it is over
        own.size = one.waiting
        own.waiting -= one.waiting
        one.waiting = 0
    return number


def _put(into: AsideList, entries: Sequence[AsideMessage], number: int) -> None:
    one = entries[number]
    one.next = 0
    if into.tail > 0:
        entries[into.tail - 1].next = number + 1
    else:
        into.head = number + 1
    into.tail = number + 1
    into.nbytes += file_bytes(one)
    into.records += one.records


def _cut(from_list: AsideList, entries: Sequence[AsideMessage]) -> int:
    """Take the first element of a list; return its number."""
    number = from_list.head - 1
    one = entries[number]
    from_list.head = one.next
    if one.next == 0:
        from_list.tail = 0
    from_list.nbytes -= file_bytes(one)
    from_list.records -= one.records
    return number


def _new(aside: Aside) -> int:
    """Return the number of an entry that was free; -1: none is."""
    number = aside.free.free
    if number >= 0:
        aside.free.free = aside.entries[number].next
    return number


def _free(aside: Aside, number: int) -> None:
    aside.entries[number].next = aside.free.free
    aside.free.free = number
