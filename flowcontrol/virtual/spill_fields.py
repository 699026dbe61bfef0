"""What the kernel keeps of result partitions that are not pipelined and bounded.

As in :mod:`flowcontrol.virtual.fields`. A pointer to a buffer is its number + 1; 0 points nowhere.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class BufferList:
    """Buffers one behind the other, linked by ``link``."""

    head: int = 0
    """The first."""
    tail: int = 0
    """The last."""


@dataclass(slots=True)
class SpillingPartition:
    """A result partition that is not pipelined and bounded, at ``P_SPILL``."""

    number: int = 0
    """Number of the partition."""
    disk: int = -1
    """Task that is the disk of its task manager; -1: it never spills."""
    region: int = 0
    """Where the region of its consumers is."""
    lanes: int = 0
    """Where its subpartitions are."""
    ahead: int = 0
    """Read buffers of a subpartition."""
    unwritten: BufferList = field(default_factory=BufferList)
    """Buffers that wait to be written."""
    served: BufferList = field(default_factory=BufferList)
    """Buffers that the disk works on or is done with."""
    asked: int = 0
    """Turns of the disk that it waits for, bits: 1: to write, 2: to read."""
    writing: int = 0
    """Buffers that wait to be written or are being written."""
    kept: int = 0
    """Finished buffers that have not been spilled."""
    unread: int = 0
    """Buffers that must be read from disk before they can be sent."""
    is_full: int = 0
    """1: a region is to be written."""
    has_changed: int = 0
    """1: something happened since a strategy last decided."""
    closed: int = 0
    """1: its task has finished; 2: and all is written that has to be."""
    offset: int = 0
    """Place in the file of the next buffer that is written."""
    turn: int = -1
    """Subpartition that was read last."""
    loaded: int = 0
    """Read buffers in use."""
    bytes_written: int = 0
    """To disk."""
    bytes_read: int = 0
    """From disk."""
    regions: int = 0
    """Regions written by a sort-merge partition."""
    peak: int = 0
    """Most buffers of the pool in use."""
    loaded_peak: int = 0
    """Most read buffers in use."""
    first: int = -1
    """Round in which its first message was sent; -1: none."""
    done_at: int = -1
    """Round in which ``closed`` became 2; -1: not yet."""
    since: int = -1
    """Round since which its task has waited for it; -1: it does not."""
    waited: int = 0
    """Rounds in which it did before."""
    local: int = 0
    """Messages that a local consumer is handed ahead."""


@dataclass(slots=True)
class SpillingSubpartition:
    """A subpartition of one that spills, at ``SpillingPartition.lanes``."""

    head: int = 0
    """Oldest buffer that is remembered."""
    tail: int = 0
    """Newest one."""
    next: int = 0
    """Next one to be sent."""
    read: int = 0
    """Next one that may be read from disk."""
    read_at: int = 0
    """Its index."""
    consumed: int = 0
    """First one that is not consumed."""
    consumed_at: int = 0
    """Its index."""
    count: int = 0
    """Buffers so far."""
    readable: int = 0
    """Buffers that could be sent now."""
    cursor: int = 0
    """Of a strategy: candidate looked at."""
    chosen: int = 0
    """Of a strategy: foremost buffer chosen."""


@dataclass(slots=True)
class SpilledBuffer:
    """A finished buffer of a partition that spills, at ``H_SPILLS``."""

    next: int = 0
    """The next one of its subpartition; of a free one: number of the next free one, -1: none."""
    previous: int = 0
    """The one before."""
    link: int = 0
    """The next one that is written, or that the disk is done with."""
    place: int = 0
    """Its subpartition."""
    index: int = 0
    """Its number in it."""
    records: int = 0
    """Records that end in it."""
    nbytes: int = 0
    """Bytes in it."""
    spill: int = 0
    """KEPT, WRITING or ON_DISK."""
    is_gone: int = 0
    """1: not to be read from memory any more."""
    is_held: int = 0
    """1: it holds a segment of the pool."""
    loaded: int = 0
    """1: being read from disk; 2: read."""
    offset: int = 0
    """Its place in the file."""
    round: int = 0
    """Round in which the disk is done with it."""


@dataclass(slots=True)
class ConsumerRegion:
    """A region of consumers, and behind it the numbers of the partitions that it reads."""

    left: int = 0
    """Result partitions that are not finished and that it waits for."""
    start: int = 0
    """Round from which on it may start; -1: not known."""
    count: int = 0
    """Spilling partitions that it reads; their numbers follow it."""
