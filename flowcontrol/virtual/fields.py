"""The kernel's memory: one flat array of 64-bit integers, every column declared here once.

Blocks stand one after the other; the header holds where each begins. A block is rows of the
widths below. Times are microseconds, rounds are counted from 0, bytes are bytes, sizes of pools
and queues are buffers; the columns that the rules own are those of :mod:`flowcontrol.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flowcontrol.protocol.state import width
from flowcontrol.protocol.states import GlobalPool, InputChannel, LocalPool, Subpartition, Task

# ---- header: one row, (HEADER,)
H_ROUND_US = 0  # length of a round
H_ROUND = 1  # next round to run
H_ROUNDS = 2  # rounds of the whole run
H_LATENCY = 3  # rounds a message or a credit travels between two task managers
H_SEGMENT = 4  # bytes of a segment
H_QUOTA = 5  # max-buffers-per-channel
H_FLUSH_US = 6  # interval of the flushers; 0: every round; -1: never
H_SEED = 7
H_TASKS = 8  # how many there are
H_GATES = 9
H_PARTITIONS = 10
H_CHANNELS = 11
H_SERVED = 12  # connections to be served in this round, listed behind the active tasks
H_TASK0 = 13  # where the blocks begin
H_GATE0 = 14
H_PARTITION0 = 15
H_IN0 = 16
H_OUT0 = 17
H_PARTS = 18  # parts of the kernel that the job needs (virtual.parts)
H_WHEEL = 19
H_WHEEL_BITS = 20
H_ACTIVE = 21
H_RUNS = 22
H_RUNS_MOST = 23
H_RUNS_FREE = 24  # first run that is free, linked by RUN_NEXT
H_AGES = 25
H_AGES_MOST = 26
H_AGES_COUNT = 27
H_FLAGS = 28
H_TRANSFERS = 29  # messages sent
H_ARRIVED = 30  # records taken up by sinks
H_STEPS = 31  # steps of tasks, for what they cost
H_DEBLOAT_US = 32  # period of the debloaters; 0: off
H_TRACK = 33  # 1: follow the age of records
H_NOW = 34  # round being run
H_DEBLOAT_TARGET_US = 35
H_DEBLOAT_SAMPLES = 36
H_DEBLOAT_THRESHOLD = 37  # percent
H_MIN_SEGMENT = 38  # bytes that debloating leaves at least
H_LATENCY_NS = 39  # one way, nanoseconds, not rounded
H_RECORDS = 40  # 1: the transport counts records, not buffers
H_VALUES = 41  # where its parameters are
H_GRANTS = 42  # grants that receivers have sent
H_WATCH = 43  # 1: stop as soon as nothing that was emitted is unfinished
H_EMPTY = 44  # 1: nothing was unfinished when the rounds were last stopped
H_TCP = 45  # 1: no credits, but connections as Flink up to 1.4 had them
H_SPILLS = 46  # where the buffers of spilling partitions are, how many there may be
H_SPILLS_MOST = 47
H_SPILLS_FREE = 48  # first one that is free, linked by E_NEXT
H_SHARED = 49  # 1: jobs start and stop, and the pools of a task manager share its global pool
H_SHARED0 = 50  # where the rows of the global pools then are, one a task manager
HEADER = 51

FLAG_PROTOCOL = 1  # a message without a buffer
FLAG_RUNS = 2  # no run free
FLAG_AGES = 4  # the log of ages is full
FLAG_EMPTY = 16  # nothing is unfinished, which was to be told: not an error
FLAG_SPILLS = 32  # no buffer of a spilling partition free
FLAG_PARTS = 64  # the kernel lacks a part that was needed
FLAG_DRAIN = 8  # the log of ages is half full: not an error, but to be emptied

# ---- tasks

IDLE = 0
BUSY = 1
BLOCKED = 2
ABSENT = 3
"""What the rounds that a task sleeps through count as."""


@dataclass(slots=True)
class KernelTask(Task):
    """A subtask, and where the things are that belong to it."""

    kind: int = 0
    """SOURCE, SERVER, RELAY, CONNECTION or DISK."""
    first_gate: int = 0
    """Its first gate."""
    gates: int = 0
    """How many."""
    first_partition: int = 0
    """Its first partition."""
    partitions: int = 0
    """How many."""
    union: int = 0
    """Where its queue of gates with data is."""
    phases: int = 0
    """Where its rate is, phases."""
    phase_count: int = 0
    """How many there are."""
    unit: int = 0
    """Work of a mean record."""
    distribution: int = 0
    """Of its service time."""
    cv: int = 0
    """Coefficient of variation, millionths."""
    stream: int = 0
    """Of its random numbers."""
    busy: int = 0
    """Microseconds so far."""
    idle: int = 0
    """Microseconds so far."""
    blocked: int = 0
    """Microseconds so far."""
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
    due: int = 0
    """Emissions due in this round."""
    limit: int = 0
    """Records that a replaying source has; -1: no end."""
    stalls: int = 0
    """Where its standstills are (from, to); of a RELAY only."""
    stall_count: int = 0
    """How many there are."""
    has_sent: int = 0
    """1: it sent something in this round."""
    is_pending: int = 0
    """1: outputs wait to be written."""
    sinks: int = 0
    """Stages of the task that nothing leaves."""
    cost_ns: int = 0
    """Of a source: what an emission takes its thread, nanoseconds."""
    is_held: int = 0
    """1: it has its senders stopped."""
    throttle: int = 0
    """Where a throttled source's state is; 0: it is not throttled."""
    log_head: int = 0
    """Runs of records in its log: a :class:`RunList`."""
    log_tail: int = 0
    """The last of them."""
    ends: int = 0
    """1: somebody wants to know when it has finished."""
    done: int = 0
    """Round in which it has; -1: not yet."""
    kinds: int = 0
    """Partitions of it that are not pipelined and bounded."""
    absent: int = 0
    """Microseconds during which its job did not run."""


SOURCE = 0
SERVER = 1
RELAY = 2
CONNECTION = 3
"""Not a task, but a connection with a bandwidth: ``union`` is its queue of channels, of ``gates``
places, ``ready`` the nanosecond at which its wire is free, ``cost_ns`` the time that ``unit`` bytes
take; ``unit`` is 0 if they are not limited. With H_TCP it shares the wire of ``first_gate``, the
first one of its task managers; its state is at ``phases``, a ring of ``phase_count`` messages
behind it."""
DISK = 8
"""Not a task, but the disk of a task manager: ``union`` is its queue of partitions that wait for a
turn (2 x number, + 1 to read), of ``gates`` places, ``ready``, ``cost_ns`` and ``unit`` as of a
connection."""

# ---- gates: (gates, G_WIDTH)
G_POOL = 0
G_SEGMENTS = width(LocalPool)
_G = G_SEGMENTS + width(GlobalPool)
G_TASK = _G
G_CHANNEL0 = _G + 1  # first channel of the block of receivers' channels
G_CHANNELS = _G + 2
G_WAITING = _G + 3  # where its queues are
G_ORDER = _G + 4
G_RECORDS = _G + 5
G_KINDS = _G + 6
G_QUEUE_WIDTH = _G + 7  # columns of a channel's queue
G_ARRIVALS = _G + 8  # bits: channels with messages under way
G_NEWS = _G + 9  # bits: channels that may have something to tell their sender
G_RECORD_BYTES = _G + 10
G_DEBLOAT_AT = _G + 11  # round of its next measurement; -1: none
G_BYTES = _G + 12  # bytes taken up since the last one
G_ACTIVE_US = _G + 13  # time with data since the last one
G_LAST_SIZE = _G + 14  # size last announced
G_SIZE = _G + 15  # size in force, in parts of a byte (debloat.PARTS)
G_THROUGHPUT = _G + 16  # bytes a second
G_SINCE = _G + 17  # microsecond since which the gate has had data; -1: it has none
G_BYTES_SEEN = _G + 18  # bytes when it was last looked whether there is data
G_GRANTS = _G + 19  # where its channels' memory of a transport that counts records is
G_GLOBAL = _G + 20  # where the row of its global pool is: G_SEGMENTS, or the one all share
G_WIDTH = _G + 21

# ---- partitions: (partitions, P_WIDTH)
P_POOL = 0
P_SEGMENTS = width(LocalPool)
_P = P_SEGMENTS + width(GlobalPool)
P_TASK = _P
P_CHANNEL0 = _P + 1  # first channel of the block of senders' channels
P_CHANNELS = _P + 2
P_RECORDS = _P + 3  # where its queues are
P_QUEUE_WIDTH = _P + 4
P_HELD = _P + 5
P_HELD_WIDTH = _P + 6
P_COUNTS = _P + 7
P_ROUTED = _P + 8  # records routed to each channel
P_BROADCAST = _P + 9
P_NEWS = _P + 10  # bits: channels whose receiver has said something
P_DIRTY = _P + 11  # bits: channels that may have something to send
P_RECORD_BYTES = _P + 12
P_ROUTE = _P + 13  # how a record finds its channel
P_CURSOR = _P + 14  # next channel of a cycle, or next place of a table
P_EMITTED = _P + 15  # records routed
P_TABLE = _P + 16  # where the table is, its length
P_TABLE_LENGTH = _P + 17
P_STREAM = _P + 18
P_PENDING = _P + 19  # where the queue of the channels of records not yet written is, its columns
P_PENDING_WIDTH = _P + 20
P_LEFT = _P + 21  # bytes left of the record that blocks
P_PATH = _P + 22  # where the selectivities from the task's input are, pairs, how many
P_PATH_LENGTH = _P + 23
P_FLUSH_PHASE = _P + 24
P_FLUSH_AT = _P + 25  # microsecond at which its flusher runs next, if that is known
P_KIND = _P + 26  # of result partition (protocol.partition_kinds)
P_SPILL = _P + 27  # where its columns of spill_fields are, if it is not BOUNDED
P_STOPPED = _P + 28  # 1: a sort-merge partition takes nothing until its region is written
P_GLOBAL = _P + 29  # where the row of its global pool is: P_SEGMENTS, or the one all share
P_WIDTH = _P + 30

ROUTE_FIRST = 0
ROUTE_CYCLE = 1
ROUTE_TABLE = 2
ROUTE_SHUFFLE = 3
ROUTE_SHARES = 4

# ---- channels, the receiver's side, in the order of gates


@dataclass(slots=True)
class KernelInputChannel(InputChannel):
    """A channel at its receiver, and what is on its way to and from it."""

    out: int = 0
    """The same channel at its sender."""
    transit: int = 0
    """Where the messages under way are: head, count, then M_WIDTH each."""
    transit_most: int = 0
    """How many there may be."""
    credits: int = 0
    """Where the credits under way are: head, count, then C_WIDTH each."""
    credits_most: int = 0
    """How many there may be."""


M_RECORDS = 0
M_BACKLOG = 1
M_ROUND = 2  # round in which it arrives
M_WIDTH = 3

C_ANNOUNCED = 0  # or the size of buffer, below 0
C_ROUND = 1
C_WIDTH = 2

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
    run_head: int = 0
    """Its runs of records in flight: a :class:`RunList`."""
    run_tail: int = 0
    """The last of them."""
    connection: int = 0
    """Task that is its connection, if a bandwidth is given; -1: none."""
    next_wish: int = 0
    """Size of buffer that the receiver wishes from the next round on."""
    is_queued: int = 0
    """1: it waits for its turn on its connection."""


@dataclass(slots=True)
class RunList:
    """Runs of records, oldest first, each linked to the next."""

    head: int = 0
    """The oldest, run + 1; 0: none."""
    tail: int = 0
    """The newest, run + 1; 0: none."""


# ---- runs: (runs, RUN_WIDTH): records of a channel that a source emitted in one round
RUN_NEXT = 0
RUN_ROUND = 1
RUN_COUNT = 2
RUN_WIDTH = 3

# ---- ages: (ages, A_WIDTH): records that a sink took up
A_TASK = 0
A_AGE = 1  # rounds since their emission
A_COUNT = 2
A_WIDTH = 3

WHEEL_SLOTS = 4096
"""Rounds that the wheel of wake-ups looks ahead; a later one is looked at again on the way."""
