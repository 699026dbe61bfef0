"""The blocks of the kernel's memory: rows of the classes below.

:class:`~flowcontrol.memory.places.KernelMemory` says where each block begins. Times are
microseconds unless a name says otherwise, rounds are counted from 0, sizes of pools and queues are
buffers; what the rules work on is of the classes of :mod:`flowcontrol.state.network`.
"""

from dataclasses import dataclass, field

from flowcontrol.memory.part_fields import bits, cells, fifo, queue, rows
from flowcontrol.state.network import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    Ring,
    Subpartition,
)
from flowcontrol.state.rows import FIFO_SLOTS
from flowcontrol.state.tasks import READER as READER
from flowcontrol.state.tasks import RELAY as RELAY
from flowcontrol.state.tasks import SERVER as SERVER
from flowcontrol.state.tasks import SOURCE as SOURCE
from flowcontrol.state.tasks import RecordWriter, SourceLog, StreamTask
from flowcontrol.systems.transports.transport import ChannelGrant

# ---- tasks


@dataclass(slots=True)
class RunList:
    """Runs of records, oldest first, each linked to the next."""

    head: int = 0
    """The oldest, run + 1; 0: none."""
    tail: int = 0
    """The newest, run + 1; 0: none."""


IDLE = 0
BUSY = 1
BLOCKED = 2
ABSENT = 3
"""What the rounds that a task sleeps through count as."""


@dataclass(slots=True)
class KernelTask(StreamTask):
    """A subtask, and where the things are that belong to it."""

    first_gate: int = 0
    """Its first gate."""
    gates: int = 0
    """How many."""
    first_partition: int = 0
    """Its first partition."""
    operators_at: int = 0
    """Where the places of its operators are listed."""
    union: int = fifo(lambda task: max(1, task.gates))
    """Its gates with data."""
    phases: int = 0
    """Where its rate is, phases."""
    phase_count: int = 0
    """How many there are."""
    cv: int = 0
    """Coefficient of variation, millionths."""
    stream: int = 0
    """Of its random numbers."""
    status: int = 0
    """What the rounds slept through count as: IDLE, BUSY, BLOCKED or ABSENT."""
    last: int = 0
    """Last round accounted for."""
    wake: int = 0
    """Round in which it is stepped next; -1: none."""
    next: int = 0
    """Next of its slot in the wheel, task + 1; 0: none."""
    previous: int = 0
    """The one before, task + 1; 0: none."""
    emitted: int = 0
    """Round in which the record in hand was emitted by its source."""
    stalls: int = 0
    """Where its standstills are (from, to); of a RELAY only."""
    stall_count: int = 0
    """How many there are."""
    has_sent: int = 0
    """1: it sent something in this round."""
    sinks: int = 0
    """Stages chained behind its first one that nothing leaves."""
    sinks_at: int = 0
    """Where its rows of :class:`ChainedSink` are."""
    is_held: int = 0
    """1: it has its senders stopped."""
    throttle: int = 0
    """Where a throttled source's state is; 0: it is not throttled."""
    log: int = 0
    """Where the log that a source reads is; 0: it reads none."""
    may_end: int = 0
    """1: a source at which nothing falls due any more from some moment on."""
    kinds: int = 0
    """Partitions of it that are not pipelined and bounded."""
    absent: int = 0
    """Microseconds during which its job did not run."""
    checkpoints: int = 0
    """Where its state of :mod:`.part_fields` is; 0: its job has no checkpoints."""
    time: int = 0
    """Where its state of :mod:`.part_fields` is; 0: its job has no event time."""
    window: int = 0
    """Where its state of :mod:`.part_fields` is; 0: its stage has no window."""
    requests: int = 0
    """Where its state of :mod:`.requests` is; 0: its stage has none."""
    processor: int = 0
    """Where its state of :mod:`.part_fields` is; 0: it needs none, or nobody counts that."""
    in_checkpoint: int = 0
    """1: a checkpoint is at it: it was asked for one, or waits for something of one."""


@dataclass(slots=True)
class KernelLog(SourceLog):
    """The log that a source reads, and what is written to it."""

    arrivals: int = 0
    """Where the rate is at which it is written, phases."""
    arrival_count: int = 0
    """How many there are."""
    unit: int = 0
    """Units of that rate a record."""
    from_arrival: int = 0
    """1: the latency of its records counts from when they were written to it."""
    runs: RunList = field(default_factory=RunList)
    """The log of a throttle: when the records in it fell due."""


CONNECTION = 3
"""In place of SOURCE, SERVER and RELAY: not a task, but a connection with a bandwidth. ``union`` is
its queue of channels, of ``gates`` places, ``ready`` the nanosecond at which its wire is free,
``cost_ns`` the time that ``unit`` bytes take; ``unit`` is 0 if they are not limited. With TCP it
shares the wire of ``first_gate``, the first one of its task managers; its state is at ``phases``, a
ring of ``phase_count`` messages behind it."""
DISK = 8
"""Not a task, but the disk of a task manager: ``union`` is its queue of partitions that wait for a
turn (2 x number, + 1 to read), of ``gates`` places, ``ready``, ``cost_ns`` and ``unit`` as of a
connection."""

# ---- gates


@dataclass(slots=True)
class KernelGate:
    """An input gate: its floating pool, and where its channels and queues are."""

    pool: LocalPool = field(default_factory=LocalPool)
    """The floating pool."""
    segments: GlobalPool = field(default_factory=GlobalPool)
    """The part of the global pool that is set aside for it."""
    task: int = 0
    """Task that reads it."""
    first_channel: int = 0
    """Its first channel."""
    channels: int = 0
    """How many."""
    waiting: int = fifo("channels")
    """Channels that wait for a floating buffer."""
    order: int = fifo("channels")
    """Channels with data."""
    queue_most: int = 0
    """Received messages that the queue of each channel may hold."""
    arrivals: int = bits("channels")
    """Channels with messages under way."""
    dirty_channels: int = bits("channels")
    """Channels with credit to announce."""
    record_bytes: int = 0
    """Size of its records."""
    grants: int = rows(ChannelGrant, "channels")
    """What its channels remember, of a transport that counts records."""
    global_at: int = 0
    """Where its global pool is: its own ``segments``, or the one that all share."""
    bytes_taken: int = 0
    """Debloating: bytes taken up since the last measurement."""
    bytes_seen: int = 0
    """Debloating: ``bytes_taken`` when the gate was last looked at."""
    active_us: int = 0
    """Debloating: time with data since the last measurement."""
    since: int = 0
    """Debloating: microsecond since which there has been data; -1: there is none."""
    throughput: int = 0
    """Debloating: bytes a second."""
    size: int = 0
    """Debloating: size of buffer in force, parts of a byte (``debloat.PARTS``)."""
    last_size: int = 0
    """Debloating: size last announced, bytes."""
    waits_at_producers: int = 0
    """Debloating: buffers that waited at the producers of local channels as the round began."""


# ---- partitions


@dataclass(slots=True)
class KernelPartition(RecordWriter):
    """A result partition: what writes to it, where its channels and queues are, how it routes."""

    segments: GlobalPool = field(default_factory=GlobalPool)
    """The part of the global pool that is set aside for it."""
    task: int = 0
    """Task that writes it."""
    first_channel: int = 0
    """Its first channel."""
    channels: int = 0
    """How many."""
    queue_most: int = 0
    """Finished buffers that the queue of each channel may hold."""
    held: int = cells(lambda part: part.channels * part.held_width)
    """Messages handed to local consumers, a queue a channel: buffers that each frees."""
    held_width: int = 0
    """Cells of such a queue."""
    counts: int = cells("channels")
    """Buffers of the pool in use by each channel, for the quota."""
    routed: int = cells("channels")
    """Records routed to each channel."""
    is_broadcast: int = 0
    """1: every channel reads the same buffers."""
    credited: int = bits("channels")
    """Channels whose receiver has announced credit or a size."""
    dirty: int = bits("channels")
    """Channels with data to send."""
    route: int = 0
    """How a record finds its channel: ROUTE_FIRST, ROUTE_CYCLE ..."""
    cursor: int = 0
    """Next channel of a cycle, or of shares; or next place of a table."""
    table: int = cells(lambda part: 2 * part.channels if part.route == ROUTE_SHARES else 0)
    """The table of channels, which is constant; or the shares, and how far each is behind."""
    table_length: int = 0
    """Its length; of shares, their sum."""
    stream: int = 0
    """Of the random numbers of a shuffle."""
    keys: int = 0
    """Where the keys of the records are that it routes by key (:mod:`.part_fields`)."""
    pending: int = fifo(lambda part: part.pending_width - FIFO_SLOTS)
    """Channels of records not yet written."""
    pending_width: int = 0
    """Cells of it."""
    flush_phase: int = 0
    """Microsecond of the first tick of its flusher."""
    flush_at: int = 0
    """Microsecond at which its flusher runs next, if that is known."""
    kind: int = 0
    """Of result partition (:mod:`flowcontrol.protocol.network.partition_kinds`)."""
    spill: int = 0
    """Where its state of :mod:`.part_fields` is, if it is not pipelined and bounded."""
    is_stopped: int = 0
    """1: a sort-merge partition takes nothing until its region is written."""
    global_at: int = 0
    """Where its global pool is: its own ``segments``, or the one that all share."""
    is_forced: int = 0
    """1: its receivers align barriers whatever the mode is."""


ROUTE_FIRST = 0
ROUTE_CYCLE = 1
ROUTE_TABLE = 2
ROUTE_SHUFFLE = 3
ROUTE_SHARES = 4
ROUTE_KEY = 5

# ---- the queues of channels


@dataclass(slots=True)
class KernelRing(Ring):
    """A queue of a channel; its slots stand elsewhere, each as many cells as ``slot_cells`` says.

    In the first round a job touches memory for all its channels, and most of these need a slot or
    two. So there is little room for a ring at first, side by side with that of the others, and room
    for all that it may ever hold where nobody goes until it needs it.
    """

    place: int = 0
    """Where its slots are, cells from here on."""
    room: int = 0
    """Where there is room for all of them, cells from here on."""


# ---- what is under way: of each channel a queue of messages and one of credits


@dataclass(slots=True)
class KernelMessage(Message):
    """A message under way."""

    round: int = 0
    """Round in which it arrives."""


ADD_CREDIT = 0
NEW_BUFFER_SIZE = 1
RESUME_CONSUMPTION = 2
"""What a receiver tells a sender (``NettyMessage``)."""


@dataclass(slots=True)
class KernelCredit:
    """What a receiver has told the sender of a channel, under way."""

    kind: int = 0
    """ADD_CREDIT, NEW_BUFFER_SIZE or RESUME_CONSUMPTION."""
    value: int = 0
    """Buffers ever announced, a size of buffer in bytes, or how often it has resumed."""
    round: int = 0
    """Round in which it arrives."""


# ---- channels, the receiver's side, in the order of gates


@dataclass(slots=True)
class KernelInputChannel(InputChannel):
    """A channel at its receiver, and what is on its way to and from it."""

    out: int = 0
    """The same channel at its sender."""
    received: KernelRing = field(default_factory=KernelRing)
    """Messages that have arrived and that the task has not polled; ``KernelGate.queue_most``."""
    under_way: KernelRing = field(default_factory=KernelRing)
    """Messages under way."""
    transit_most: int = 0
    """How many of these there may be."""
    credits: int = queue(KernelCredit, "credits_most")
    """Credits under way."""
    credits_most: int = 0
    """How many there may be."""
    aligned: int = 0
    """Where its state of ``AlignedChannel`` is, where there are checkpoints."""
    resumed: int = 0
    """How often it has sent its sender a resumption of consumption."""
    buffer_size: int = 0
    """Size of buffer that it wishes of a sender that sees that from the next round on."""
    recorded: int = 0
    """Checkpoint that holds in flight what enters it, until the sender's barrier does; 0: none."""


# ---- channels, the sender's side, in the order of partitions


@dataclass(slots=True)
class KernelSubpartition(Subpartition):
    """A channel at its sender, and where the other things are that belong to it."""

    input: int = 0
    """The same channel at its receiver."""
    receiver: int = 0
    """Task that receives."""
    sender: int = 0
    """Task that sends."""
    gate: int = 0
    """Gate of the receiver."""
    index: int = 0
    """Place in the gate."""
    place: int = 0
    """Place in the partition."""
    partition: int = 0
    """Partition of the sender."""
    is_local: int = 0
    """1: both on one task manager."""
    finished: KernelRing = field(default_factory=KernelRing)
    """Finished buffers and events not sent; ``KernelPartition.queue_most``."""
    runs: RunList = field(default_factory=RunList)
    """Its records in flight."""
    connection: int = 0
    """Task that is its connection, if a bandwidth is given; -1: none."""
    is_queued: int = 0
    """1: it waits for its turn on its connection."""


# ---- ages


@dataclass(slots=True)
class ChainedSink:
    """A stage that nothing leaves and that is chained behind the first one of its task."""

    number: int = 0
    """Its number among all chained sinks of the run's subtasks."""
    operator: int = 0
    """Operator whose output it takes, or TASK_INPUT."""
    before: int = 0
    """Where the time is that a record takes in the stages before it: rows (from when on, how long),
    microseconds."""
    before_count: int = 0
    """How many there are."""


@dataclass(slots=True)
class Run:
    """Records of a channel that a source emitted in one round, or a mark between such."""

    next: int = 0
    """The next run of its list, run + 1; 0: none. Of a free one: the next free run; -1: none."""
    round: int = 0
    """The round."""
    count: int = 0
    """How many records are left of it; 0 of a mark."""
    stamp: int = 0
    """With event time: stamp of all its records; of a mark that is a watermark: that, ms."""
    kind: int = 0
    """Of a mark: ACTIVE, WATERMARK or IDLE (:mod:`flowcontrol.protocol.event_time`); else 0."""


@dataclass(slots=True)
class Age:
    """Records that a sink took up, of one age."""

    task: int = 0
    """The task; behind all tasks those that saw markers, behind these the chained sinks."""
    age: int = 0
    """Rounds since their emission."""
    count: int = 0
    """How many records."""


WHEEL_SLOTS = 4096
"""Rounds that the wheel of wake-ups looks ahead; a later one is looked at again on the way."""
