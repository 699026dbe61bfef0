"""What the kernel keeps for parts that only some jobs need: a class for each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from flowcontrol.protocol.tasks.processors import Processors, TaskProcessor
from flowcontrol.protocol.windows.spark_batches import WatermarkOperator
from flowcontrol.state.declared import cell, per_class, width
from flowcontrol.state.network import (
    AlignedChannel,
    Alignment,
    CoordinatorMessage,
    Ring,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.state.queues import MOST_BARRIERS
from flowcontrol.state.rows import FIFO_SLOTS, WORD
from flowcontrol.state.tasks import TaskTime, ValveChannel, WindowTask
from flowcontrol.state.windows import ColumnValues, WindowEntry, WindowSettings, WindowStore

# --- Fields that point: each declares what stands where it says, and how much.
#
# What is laid out, put back, published and read follows from the declaration. A number of things is
# that of another field, or worked out of the state; what is ``used`` may be less than there is
# room.


Count = str | Callable[[Any], int]
FORMS: dict[str, Callable[[int, int], int]] = {
    "rows": lambda count, each: count * each,
    "queue": lambda count, each: width(Ring) + count * each,
    "fifo": lambda count, each: FIFO_SLOTS + count,
    "bits": lambda count, each: count // WORD + 1,
}
"""Cells of each form of what stands somewhere, by the number of things and the cells of each."""


@dataclass(frozen=True)
class Pointer:
    """What stands where a field says: a form of states of a class, or of cells."""

    form: str
    cls: type[Any] | None
    room: Count
    used: Count

    def count(self, state: Any, of: Count) -> int:
        """Return how many things there are."""
        return int(getattr(state, of) if isinstance(of, str) else of(state))

    def cells(self, state: Any, *, used: bool = False) -> int:
        """Return how many cells are there, or how many of them are used."""
        each = 1 if self.cls is None else width(self.cls)
        return FORMS[self.form](self.count(state, self.used if used else self.room), each)


def points(form: str, cls: type[Any] | None, room: Count, used: Count | None = None) -> Any:
    """Declare a field of a state that says where something stands; 0: nowhere."""
    pointer = Pointer(form, cls, room, room if used is None else used)
    return field(default=0, metadata={"pointer": pointer})


rows = partial(points, "rows")
"""Declare where states of a class stand one behind the other."""
cells = partial(points, "rows", None)
"""Declare where so many cells stand."""
queue = partial(points, "queue")
"""Declare where the queue of so many states of a class at the most stands."""
fifo = partial(points, "fifo", None)
"""Declare where a first-in-first-out row of so many integers at the most stands."""
bits = partial(points, "bits", None)
"""Declare where a set of some of so many numbers stands."""


@per_class
def pointers(cls: type[Any]) -> dict[str, Pointer]:
    """Return what each field of a class points to that points."""
    return {one.name: one.metadata["pointer"] for one in fields(cls) if "pointer" in one.metadata}


@per_class
def own_cells(cls: type[Any]) -> int:
    """Return how many cells of a state stand in front of those that say where the rest is."""
    return min((cell(cls, name) for name in pointers(cls)), default=width(cls))


def pointed(state: Any, cls: type[Any]) -> Iterator[tuple[int, int]]:
    """Yield where that stands which a state points to, and how many cells of it are used."""
    for name, pointer in pointers(cls).items():
        if (at := int(getattr(state, name))) > 0:
            yield at, pointer.cells(state, used=True)


# --- What the kernel keeps of event time, of each task


@dataclass(slots=True)
class KernelTime:
    """Event time of a task, and where the channels of its valve are."""

    own: TaskTime = field(default_factory=TaskTime)
    """Its generator, or its valve."""
    channels: int = rows(ValveChannel, "channel_count")
    """The channels of that, those of all gates in order."""
    channel_count: int = 0
    """How many there are."""
    stamps: int = 0
    """Where the stamps are of the rows that it replays, if they have some."""


# --- What the kernel keeps of windows, of each task and of each edge into one


@dataclass(slots=True)
class KernelKeys:
    """The keys of the records of an edge into windows; constant."""

    keys: int = 0
    """How many there are."""
    firsts: int = 0
    """Where the first id of each key is."""
    first_count: int = 0
    """How many of those there are; 0: all keys are alike."""
    guide: int = 0
    """Where the guide to them is."""
    guide_count: int = 0
    """Its length; 0: there is none."""
    owners: int = 0
    """Where the channel of each key is; 0: the edge does not route by key."""
    numbers: int = 0
    """Where the key of each id of replayed rows is."""
    number_count: int = 0
    """How many of those there are; 0: records are made."""


def heap_room(held: "KernelWindow") -> int:
    """Return how many cells a heap of windows has: a place for each, and their number."""
    return held.capacity + 1


@dataclass(slots=True)
class KernelWindow:
    """Windows of a task, and where their entries, buckets and heaps are."""

    own: WindowTask = field(default_factory=WindowTask)
    """What the task holds besides them."""
    settings: WindowSettings = field(default_factory=WindowSettings)
    """What they are."""
    store: WindowStore = field(default_factory=WindowStore)
    """How far they are."""
    entries: int = rows(WindowEntry, "capacity", lambda held: held.store.used)
    capacity: int = 0
    buckets: int = cells("bucket_count")
    bucket_count: int = 0
    """How many there are, a power of two."""
    event_heap: int = cells(heap_room, lambda held: 1 + held.cells[held.event_heap])
    """The entries with timers of event time."""
    clock_heap: int = cells(heap_room, lambda held: 1 + held.cells[held.clock_heap])
    """Those with timers of processing time."""
    keys: int = 0
    """Where the keys of the records are, a state a gate."""
    values: int = 0
    """Where the value of each id in the first column is."""
    value_count: int = 0
    """How many of those there are; 0: records are counted alone."""
    further: int = rows(
        ColumnValues,
        lambda held: (held.capacity + 1) * held.settings.further,
        lambda held: (held.store.used + 1) * held.settings.further,
    )
    """What entries hold of the further columns."""
    table: int = 0
    """Where the values of each id in these are."""
    table_count: int = 0
    """How many of those there are."""
    operators: int = rows(WatermarkOperator, "operator_count")
    """What the task has seen of each gate, if its windows are Spark's."""
    operator_count: int = 0
    """How many there are; 0: records have no watermark, or that of Flink."""
    expected: int = cells(lambda held: AHEAD)
    """Buckets of the records in hand, while their windows are asked for; else nothing."""


AHEAD = 64
"""Records at most whose windows are asked for together."""


@dataclass(slots=True)
class KernelResult:
    """A result of a window: an entry of the log, in front of what it has of further columns."""

    task: int = 0
    """Which task put it out."""
    key: int = 0
    """Number of its key."""
    start: int = 0
    """First millisecond of the window."""
    end: int = 0
    """The one behind its last."""
    count: int = 0
    """Records in it."""
    round: int = 0
    """When it was put out."""
    valued: int = 0
    """Those of them that have a value."""
    sum: int = 0
    """Of these values, in units."""
    min: int = 0
    """The smallest one."""
    max: int = 0
    """The largest one."""
    wraps: int = 0
    """How often the sum has left 64 bits."""


# --- What the kernel keeps of checkpoints: of each task, under way to tasks, and the tasks' log


@dataclass(slots=True)
class KernelCheckpoints:
    """What a task knows of checkpoints, and where the rest of it is."""

    own: TaskCheckpoint = field(default_factory=TaskCheckpoint)
    """What it knows of checkpoints beside its alignment."""
    alignment: Alignment = field(default_factory=Alignment)
    """Its alignment."""
    channels: int = rows(AlignedChannel, "channel_count")
    """The channels of that, those of all gates in order."""
    channel_count: int = 0
    """How many there are."""
    tracked: int = queue(TrackedCheckpoint, "tracked_most")
    """Checkpoints that an at-least-once task counts."""
    tracked_most: int = 0
    """How many there may be."""
    triggers: int = queue(CoordinatorMessage, "messages_most")
    """Checkpoints that a source has been asked for."""
    aborted: int = queue(CoordinatorMessage, "messages_most")
    """Checkpoints that the coordinator has aborted."""
    messages_most: int = 0
    """How many there may be in either."""
    cut_places: int = 0
    """Where the places of the cells are listed that a checkpoint keeps."""
    cut_cells: int = 0
    """How many there are."""
    cuts: int = 0
    """Where those of the latest checkpoints are, each behind its id, by id modulo CUT_SLOTS."""
    aside: int = 0
    """Where what it has put aside is (:mod:`flowcontrol.systems.barrier_buffer`); 0: it never
    does."""
    aside_disk: int = 0
    """Where the disk for that is."""


CUT_SLOTS = MOST_BARRIERS + 1
"""Cuts of a task that are kept in the kernel: those of all checkpoints that may be under way, so
that the one before is written over when somebody has seen it."""


TO_TAKE = 0
ABORTED = 1
COMPLETED = 2
"""What an order says of its checkpoint."""
SLOWED = 3
RELIEVED = 4
"""Orders of no checkpoint: the task's manager uploads from now on, or no more."""


@dataclass(slots=True)
class KernelOrder(CoordinatorMessage):
    """What the coordinator tells a task from the next round on that is run."""

    task: int = 0
    """The task."""
    kind: int = 0
    """TO_TAKE, ABORTED, COMPLETED, SLOWED or RELIEVED."""


# --- What the kernel logs of checkpoints that a job with event time may restore


@dataclass(slots=True)
class KeptElement:
    """Records or a mark in flight in a channel behind a receiver's cut: an entry of the log."""

    channel: int = 0
    """The channel."""
    checkpoint: int = 0
    """The checkpoint."""
    count: int = 0
    """Records; 0 of a mark."""
    stamp: int = 0
    """Of the records; of a watermark: that, ms."""
    kind: int = 0
    """Of a mark: ACTIVE, WATERMARK or IDLE; else 0."""


@dataclass(slots=True)
class KeptWindow:
    """A window that was open when a task took a checkpoint: an entry of the log.

    Behind it stands what it held of further columns.
    """

    task: int = 0
    """The task."""
    checkpoint: int = 0
    """The checkpoint."""
    entry: WindowEntry = field(default_factory=WindowEntry)
    """What the window holds."""


# --- What the kernel keeps of processors: of each task that needs one, and of each task manager


@dataclass(slots=True)
class KernelProcessor(TaskProcessor):
    """What a task has claimed of a processor."""

    shares: int = 0
    """Where it is which part of its time needs one, rows of ``cpu_at``."""
    share_count: int = 0
    """How many there are."""


@dataclass(slots=True)
class KernelProcessors:
    """The processors of a task manager, and where the tasks are that share them."""

    own: Processors = field(default_factory=Processors)
    """Those."""
    first: int = 0
    """Where what its tasks claim is, one behind the other."""
    count: int = 0
    """How many need a processor."""


# --- What the kernel keeps of result partitions that are not pipelined and bounded.
#
# As in flowcontrol.memory.fields. A pointer to a buffer is its number + 1; 0 points nowhere.


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
