"""State of the two sides of a channel, and of the messages in flight, as typed values.

Rounds are counted from 0, sizes of pools and queues are buffers.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from flowcontrol.layout.job import Job
from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.protocol.network.partition_kinds import KEPT, ON_DISK, WRITING
from flowcontrol.state.network import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
)
from flowcontrol.state.rows import (
    KIND_HEAP,
    KIND_LOCAL,
    KIND_RECORDS,
    KIND_RESTORED,
    TAKEN_EXCLUSIVE,
    TAKEN_FLOATING,
    TAKEN_NONE,
)
from flowcontrol.systems.transports.transport import ChannelGrant


class BufferKind(IntEnum):
    """Whose segment a message occupies at its receiver."""

    NONE = TAKEN_NONE
    """Nobody's: it is an event."""
    EXCLUSIVE = TAKEN_EXCLUSIVE
    """An exclusive buffer of its channel."""
    FLOATING = TAKEN_FLOATING
    """A floating buffer of its gate."""
    LOCAL = KIND_LOCAL
    """The producer's own buffer: both ends are on one task manager."""
    RECORDS = KIND_RECORDS
    """None: the transport counts records."""
    RESTORED = KIND_RESTORED
    """None: it was in flight when the checkpoint was taken that the job was restored from."""
    HEAP = KIND_HEAP
    """None of the network's: it was put aside behind a barrier, and read back."""


class BufferPlace(IntEnum):
    """Where a finished buffer of a spilling partition is."""

    MEMORY = KEPT
    """In memory only."""
    WRITING = WRITING
    """In memory, and waiting for the disk or being written."""
    DISK = ON_DISK
    """On disk."""


class ChannelId(NamedTuple):
    """Which channel: an edge, and the subtask at each end."""

    edge: str  # Name of the edge, ``source->sink``
    sender: int  # Subtask that sends
    receiver: int  # Subtask that receives


# ---- messages


@dataclass(frozen=True, slots=True)
class MessageUnderWay:
    """A message under way to its receiver."""

    message: Message  # What it is: a buffer of records, or an event
    arrives: int  # Round in which it arrives; -1: it still waits for room in the sender's socket


@dataclass(frozen=True, slots=True)
class AddCredit:
    """Credit, or another system's grant, under way to the sender of a channel."""

    # Credits ever granted, this message's included; records, of a transport that counts those.
    announced: int
    arrives: int  # Round in which the sender hears of it


@dataclass(frozen=True, slots=True)
class NewBufferSize:
    """A buffer size that a debloating gate wishes, under way to the sender of a channel."""

    nbytes: int  # The size, bytes
    arrives: int  # Round in which the sender hears of it


@dataclass(frozen=True, slots=True)
class ResumeConsumption:
    """Word under way to the sender of a channel that it may go on behind a barrier."""

    resumed: int  # How often its consumption was ever resumed
    arrives: int  # Round in which the sender hears of it


Told = AddCredit | NewBufferSize | ResumeConsumption
"""What a receiver tells a sender."""

MESSAGES = (AddCredit, NewBufferSize, ResumeConsumption)


@dataclass(frozen=True, slots=True)
class FinishedBuffer:
    """A buffer of a spilling partition, from its end to its consumption."""

    # Its number in its subpartition, from 0; from ``Subpartition.sent`` on it waits to be sent.
    index: int
    records: int  # Records that end in it
    nbytes: int  # Bytes in it
    place: BufferPlace  # Where its data are
    holds_segment: bool  # Whether it occupies a segment of the partition's pool
    is_loaded: bool  # Whether it was read back from disk, into a read buffer


# ---- the receiver's side


@dataclass(frozen=True, slots=True)
class InputChannelState:
    """A channel at its receiver."""

    sender: int  # Subtask that sends
    receiver: int  # Subtask that receives
    is_local: bool  # Whether both are on one task manager, and there is no credit
    state: InputChannel  # What the rules work on: free buffers, credit, cursors
    # Messages that wait for the task, oldest first; the one being read is not among them.
    queue: tuple[ReceivedMessage, ...]
    taken: int  # Records that the task took from it in the round
    # What it has told its sender and the sender has not heard, oldest first.
    under_way: tuple[Told, ...] = ()
    # What it remembers to decide on a grant, with a transport that counts records.
    grant: ChannelGrant | None = None


@dataclass(frozen=True, slots=True)
class GateState:
    """An input gate: all channels of one edge to one subtask."""

    edge: str  # Name of the edge
    pool: LocalPool  # The floating buffers
    # Where they come from: the gate's share of the task manager's memory, or all of it if jobs
    # share it.
    segments: GlobalPool
    # Channels that wait for a floating buffer, first come first served: places in the gate.
    waiting: tuple[int, ...]
    # Channels with data, in the order in which they are polled: places in the gate.
    order: tuple[int, ...]
    channels: tuple[InputChannelState, ...]  # Its channels, by sender


# ---- the sender's side


@dataclass(frozen=True, slots=True)
class SubpartitionState:
    """A channel at its sender."""

    sender: int  # Subtask that sends
    receiver: int  # Subtask that receives
    is_local: bool  # Whether both are on one task manager, and there is no credit
    state: Subpartition  # What the rules work on: the open buffer, credit, cursors
    # Finished buffers that wait to be sent, oldest first; with a partition that spills, those that
    # ``spilled`` does not hold yet.
    finished: tuple[Message, ...]
    # Of a local channel: buffers (0 or 1) that each message frees which its consumer has not let go
    # of, oldest first.
    lent: tuple[int, ...]
    # Messages that could be sent now: finished buffers, and the open one if it is flushed.
    ready: int
    backlog: int  # Messages that it reports to wait; those that are ready where none are reported
    # Messages that it may still send, as far as its sender has heard; records, of a transport that
    # counts those; 0 where there is no credit.
    credit: int
    routed: int  # Records ever routed to it
    emitted: int  # Records routed to it in the round
    under_way: tuple[MessageUnderWay, ...] = ()  # Messages sent that have not arrived, oldest first
    # Finished buffers of a partition that spills, as long as something keeps them, oldest first.
    spilled: tuple[FinishedBuffer, ...] = ()


@dataclass(frozen=True, slots=True)
class SpillState:
    """What a result partition has that may spill."""

    kept: int  # Finished buffers that have not been spilled
    writing: int  # Buffers that wait for the disk or are being written
    unread: int  # Buffers that must be read from disk before they can be sent
    read_buffers: int  # Read buffers in use
    bytes_written: int  # Bytes ever written to disk
    bytes_read: int  # Bytes ever read from disk
    regions: int  # Regions that a sort-merge partition has written
    is_stopped: bool  # Whether it takes nothing until its region is written
    is_finished: bool  # Whether its task has finished and all is written that has to be


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A result partition: all channels of one edge from one subtask."""

    edge: str  # Name of the edge
    pool: LocalPool  # Its buffers
    segments: GlobalPool  # Where they come from, as of a gate
    # Records produced and not yet written, oldest first: place of the subpartition of each.
    pending: tuple[int, ...]
    left_bytes: int  # Bytes left of the record in which the task is blocked
    subpartitions: tuple[SubpartitionState, ...]  # Its subpartitions, by receiver
    spill: SpillState | None = None  # What it has besides if it may spill


def credit_at_sender(job: Job, is_local: bool, channel: Subpartition) -> int:
    """Return the credit of a channel as its sender knows it; 0 where there is none."""
    has_credit = job.has_grants if job.record_transport is not None else not is_local
    if not has_credit or job.scenario.system.transport == "tcp":
        return 0
    return max(
        0, credit_of(channel.announced, channel.sent)
    )  # a limit may fall below what was sent
