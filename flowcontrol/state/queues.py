"""Messages that wait in a channel: their kinds, rings of them, and queues over rings.

A queue is a ring of as many messages as it may ever hold, which are written in place. Its capacity
follows from pools and credits, so that nothing checks it here. Most of it is never used: a ring
goes round in its first few slots, as many as it has ever held at once (:mod:`.queues`).
"""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from flowcontrol.state.declared import assign
from flowcontrol.state.network import Message, ReceivedMessage, Ring

# --- How much of a ring is in use: its first slots, as many as have ever been needed at once.
#
# A ring that went round in all its slots would touch all of them, and most have room for far
# more than they ever hold: what is in use stays in a processor's cache, what is not is no
# memory at all.


FIRST_SPAN = 2
"""Slots of a ring to begin with."""

S = TypeVar("S")


class Slots(Sequence[S]):
    """Slots in a memory, where a ring that needs few has little room until it needs more."""

    def give_room(self, count: int) -> None:
        """Have them stand where there is room for so many."""
        raise NotImplementedError


def with_room(ends: Ring, slots: Sequence[S], count: int) -> Sequence[S]:
    """Return the slots of a ring, which stand where there is room for so many; those of a list do.

    In the kernel's memory they may have moved; compiled, it is the ends that say where they are.
    """
    if isinstance(slots, Slots):
        slots.give_room(count)
    return slots


def widen(ends: Ring, slots: Sequence[S]) -> None:
    """Have a ring that is full go round in twice as many slots, if it has any more.

    What is in it stays where it is, but for what is newer than the last slot or in front of it:
    from the oldest one to the last slot all move to the end of the wider ring.
    """
    span = ends.span
    wider = min(len(slots), max(FIRST_SPAN, 2 * span))
    added = wider - span
    slots = with_room(ends, slots, wider)
    if added > 0 and ends.head > 0:
        shift(slots, ends.head, span, added)
        ends.head += added
    ends.span = wider


def shift(slots: Sequence[S], first: int, after: int, by: int) -> None:
    """Move what is in the slots from ``first`` to the one before ``after`` so many slots on."""
    for i in range(after - 1, first - 1, -1):
        assign(slots[i + by], slots[i])


def use_all(ends: Ring, slots: Sequence[S]) -> None:
    """Have a ring go round in all its slots, if it is empty: nothing in it ever moves then."""
    ends.span = len(slots)


# --- Queues of messages: at the sender, on the wire, at the receiver.


class MessageKind(NamedTuple):
    """What a kind of message does to the subpartition that sends it (``Buffer.DataType``).

    A barrier is of one of five kinds, by the mode of its checkpoint and by its edge: aligned (and
    never anything else), timeoutable (aligned until its checkpoint is too old), unaligned, at least
    once, and that of a savepoint, which is aligned in every exactly-once mode.
    """

    name: str
    """Its name."""
    blocks: int = 0
    """1: once it is sent nothing follows, until consumption resumes."""
    has_priority: int = 0
    """1: it overtakes all but other messages with priority."""
    is_announced: int = 0
    """1: its receiver hears of it when it arrives, before its turn (``EventAnnouncement``)."""


DATA = 0
"""A buffer of records, behind the last of which no other begins."""

SPANNING_DATA = 1
"""A buffer of records with the beginning of one that goes on in the next buffer."""

BACKLOG_ANNOUNCEMENT = 2
"""Nothing but a backlog (``NettyMessage.BacklogAnnouncement``); needs no credit and no buffer."""

END_OF_PARTITION = 3
"""Nothing comes behind it (``EndOfPartitionEvent``): the task that wrote the channel has ended."""

KINDS = (
    MessageKind("data"),
    MessageKind("data"),
    MessageKind("backlog_announcement"),
    MessageKind("end_of_partition"),
    MessageKind("event"),
    MessageKind("aligned_barrier", blocks=1),
    MessageKind("timeoutable_barrier", blocks=1, is_announced=1),
    MessageKind("recovery_completion", blocks=1),
    MessageKind("unaligned_barrier", has_priority=1),
    MessageKind("at_least_once_barrier"),
    MessageKind("savepoint_barrier", blocks=1),
    MessageKind("cancel_marker"),
    MessageKind("end_of_data"),
    MessageKind("barrier"),
)
"""Every kind of message; its number is its place. All but data need neither credit nor buffer."""

ALIGNED_BARRIER = 5
"""Waits for its turn, and blocks its subpartition."""

TIMEOUTABLE_BARRIER = 6
"""As an aligned one, until its checkpoint is older than ``aligned-checkpoint-timeout``."""

UNALIGNED_BARRIER = 8
"""Overtakes."""

AT_LEAST_ONCE_BARRIER = 9
"""Waits for its turn and blocks nothing."""

SAVEPOINT_BARRIER = 10
"""As an aligned one: a savepoint never times out."""

CANCEL_MARKER = 11
"""In place of a barrier that will not come (``CancelCheckpointMarker``)."""

END_OF_DATA = 12
"""No data comes behind it; barriers may (``EndOfData``)."""

BARRIER = 13
"""Of Flink up to 1.10: waits for its turn and blocks no sender; its receiver puts aside what comes
behind it."""

_BLOCKING = sum(kind.blocks << number for number, kind in enumerate(KINDS))
_PRIORITY = sum(kind.has_priority << number for number, kind in enumerate(KINDS))
_URGENT = sum(
    (kind.has_priority | kind.is_announced) << number for number, kind in enumerate(KINDS)
)

EVENT_SLOTS = 1
"""Events that a queue has room for beside its data where nothing checkpoints: the end."""

MOST_BARRIERS = 16
"""Checkpoints whose barriers, or markers that cancel them, may be under way in a job at once.

Barriers of a checkpoint that has expired go on through the channels. So there may be more of them
than ``max-concurrent-checkpoints``; Flink has no bound."""
M = TypeVar("M", bound=Message)


class Queue(Generic[S]):
    """States, first in first out; most often messages.

    - ``ends``: where the oldest one is, and how many there are.
    - ``slots``: as many as there may be.
    """

    __slots__ = ("ends", "slots")

    def __init__(self, ends: Ring, slots: Sequence[S]) -> None:
        self.ends, self.slots = ends, slots


def is_full(queue: Queue[S]) -> int:
    """Tell whether a queue has no slot left: 1 if so."""
    return 1 if queue.ends.count == len(queue.slots) else 0


def next_slot(queue: Queue[S]) -> S:
    """Return the slot behind the newest, to be filled; :func:`append` makes it the newest."""
    ends = queue.ends
    if ends.count == ends.span:
        widen(ends, queue.slots)
    place = ends.head + ends.count
    if place >= ends.span:  # cheaper than a division, on a kernel's hottest path
        place -= ends.span
    return queue.slots[place]


def append(queue: Queue[S]) -> None:
    """Make what is in the next slot the newest of a queue."""
    queue.ends.count += 1


def drop(queue: Queue[S]) -> S:
    """Drop the oldest and return it; it keeps its fields until its slot is used again."""
    ends = queue.ends
    place = ends.head
    ends.head = place + 1 if place + 1 < ends.span else 0
    ends.count -= 1
    return queue.slots[place]


def carry(message: Message, other: Message) -> None:
    """Give a message what another one carries."""
    message.kind = other.kind
    message.records = other.records
    set_marks(message, other.marks)
    message.nbytes = other.nbytes
    message.backlog = other.backlog
    if message.checkpoint != other.checkpoint:  # `created` follows from it; most carry data
        message.checkpoint = other.checkpoint
        message.created = other.created


def set_marks(message: Message, count: int) -> None:
    """Say how many watermarks and statuses end in a message; most have as many as its slot had."""
    if message.marks != count:
        message.marks = count


def forget_checkpoint(message: Message) -> None:
    """Make a message one that belongs to no checkpoint: its slot may have held a barrier."""
    if message.checkpoint != 0:
        message.checkpoint = 0
        message.created = 0


def plain(message: Message) -> Message:
    """Return what a message carries, without what its place adds."""
    found = Message()
    carry(found, message)
    return found


def is_blocking(message: Message) -> int:
    """Tell whether a message blocks the subpartition that has sent it: 1 if so."""
    return (_BLOCKING >> message.kind) & 1


def has_priority(kind: int) -> int:
    """Tell whether messages of a kind overtake others: 1 if so."""
    return (_PRIORITY >> kind) & 1


def is_urgent(kind: int) -> int:
    """Tell whether a task looks at messages of a kind before their turn: 1 if so."""
    return (_URGENT >> kind) & 1


def overtake(queue: Queue[Message]) -> Message:
    """Make room behind the messages with priority, which are the oldest; return the slot."""
    next_slot(queue)  # or there would be none
    append(queue)
    most, place = queue.ends.span, queue.ends.count - 1
    while place > 0:
        before = queue.slots[(queue.ends.head + place - 1) % most]
        if has_priority(before.kind) == 1:
            break
        carry(queue.slots[(queue.ends.head + place) % most], before)
        place -= 1
    return queue.slots[(queue.ends.head + place) % most]


def remove(queue: Queue[Message], number: int) -> None:
    """Remove the message that has ``number`` others before it; those behind it move up."""
    most = queue.ends.span
    for i in range(queue.ends.head + number, queue.ends.head + queue.ends.count - 1):
        carry(queue.slots[i % most], queue.slots[(i + 1) % most])
    queue.ends.count -= 1


def remove_received(queue: Queue[ReceivedMessage], number: int) -> None:
    """Remove a message from a receiver's queue, as :func:`remove` does from a sender's."""
    most = queue.ends.span
    for i in range(queue.ends.head + number, queue.ends.head + queue.ends.count - 1):
        carry(queue.slots[i % most], queue.slots[(i + 1) % most])
        queue.slots[i % most].buffer = queue.slots[(i + 1) % most].buffer
    queue.ends.count -= 1


def message_at(queue: Queue[M], number: int) -> M:
    """Return the message that has ``number`` others before it."""
    return queue.slots[(queue.ends.head + number) % queue.ends.span]


def find_kind(queue: Queue[M], kind: int) -> int:
    """Return how many messages are before the oldest of a kind; -1 if there is none."""
    most = queue.ends.span
    for place in range(queue.ends.count):
        if queue.slots[(queue.ends.head + place) % most].kind == kind:
            return place
    return -1


def bytes_before(queue: Queue[M], number: int) -> int:
    """Return the bytes of data in the ``number`` oldest messages of a queue."""
    most, nbytes = queue.ends.span, 0
    for place in range(number):
        slot = queue.slots[(queue.ends.head + place) % most]
        if is_event(slot) == 0:
            nbytes += slot.nbytes
    return nbytes


def is_event(message: Message) -> int:
    """Tell whether a message is an event, which takes neither credit nor buffer: 1 if so."""
    return 1 if message.kind > SPANNING_DATA else 0


def new_queue(capacity: int, cls: type[S]) -> Queue[S]:
    """Return an empty queue of states of a class, of at least one slot."""
    return Queue(Ring(), [cls() for _ in range(max(1, capacity))])


def in_order(queue: Queue[S]) -> list[S]:
    """Return what is in a queue, oldest first."""
    ends, most = queue.ends, queue.ends.span
    return [queue.slots[(ends.head + i) % most] for i in range(ends.count)]


def refill_queue(queue: Queue[S], messages: Iterable[S]) -> None:
    """Make a queue hold the like of these, oldest first."""
    queue.ends.head = queue.ends.count = 0
    for message in messages:
        assign(next_slot(queue), message)
        append(queue)
