"""The two sides of an edge as the rules see them: an input gate, and a result partition."""

from collections.abc import Sequence
from typing import NamedTuple

from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rows import Row, Rows
from flowcontrol.protocol.states import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
)

KIND_LOCAL = 3
"""Beside TAKEN_EXCLUSIVE and TAKEN_FLOATING: a buffer that stays charged to the producer."""

KIND_RECORDS = 4
"""No buffer: a number of records, of a transport that counts those."""

KIND_RESTORED = 5
"""No buffer: data in flight that a checkpoint persisted, read back after a restart.

Kinds from KIND_RECORDS on hold no segment, and no cursor counts them."""

KIND_HEAP = 6
"""A buffer of the heap: data that were put aside behind a barrier, read back."""


class Gate(NamedTuple):
    """Rows of one input gate (all channels from one edge to one subtask).

    Attributes
    ----------
    channels : Sequence[InputChannel]
        Its channels.
    pool : LocalPool
        The floating pool.
    segments : GlobalPool
        The part of the global pool that is set aside for this gate's floating pool.
    waiting : Row
        Channels that wait for a floating buffer, first come first served.
    order : Row
        Channels with data, in the order in which they are polled.
    queues : Sequence[Queue[ReceivedMessage]]
        Per channel: received messages that the task has not polled.
    dirty_channels : Row
        Set of the channels that may have credit to announce; announcing clears it.
    """

    channels: Sequence[InputChannel]
    pool: LocalPool
    segments: GlobalPool
    waiting: Row
    order: Row
    queues: Sequence[Queue[ReceivedMessage]]
    dirty_channels: Row


class Partition(NamedTuple):
    """Rows of one result partition (all channels of one edge from one subtask).

    Attributes
    ----------
    pool : LocalPool
        The partition's pool.
    segments : GlobalPool
        The part of the global pool set aside for it, overdraft included.
    channels : Sequence[Subpartition]
        Its subpartitions.
    queues : Sequence[Queue[Message]]
        Per subpartition: finished buffers, and events.
    held : Rows
        Per local subpartition, first in first out: buffers that each handed-over message
        frees.
    counts : Row
        Buffers of the pool in use by each subpartition, for the quota.
    is_broadcast : int
        1: all subpartitions read the same buffers, which count for the first one's quota.
    """

    pool: LocalPool
    segments: GlobalPool
    channels: Sequence[Subpartition]
    queues: Sequence[Queue[Message]]
    held: Rows
    counts: Row
    is_broadcast: int
