"""What the kernel keeps of windows, of each task and of each edge into one."""

from dataclasses import dataclass, field

from flowcontrol.operators.window_states import WindowTask
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.windows.states import (
    ColumnValues,
    WindowEntry,
    WindowSettings,
    WindowStore,
)
from flowcontrol.virtual.pointers import cells, rows


@dataclass(slots=True)
class KernelKeys:
    """The keys of the records of an edge into windows; constant."""

    keys: int = 0
    """How many there are."""
    firsts: int = 0
    """Where the first id of each key is."""
    first_count: int = 0
    """How many of those there are; 0: all keys are alike."""
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
