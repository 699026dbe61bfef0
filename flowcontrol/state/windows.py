"""The state of a window operator.

A memory that begins with the classes' own values is an empty operator: places count from 1, so 0
says that there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from flowcontrol.state.rows import Row
from flowcontrol.state.tasks import MIN_TIME

NONE = 0
"""A place that there is not."""
NO_TIMEOUT = -1
"""A trigger without a timeout."""


@dataclass(slots=True)
class WindowSettings:
    """What a window operator does; constant, but for the gap. Times are milliseconds."""

    kind: int = 0
    """Assigner: PANES (tumbling and sliding), SESSIONS or GLOBAL
    (:mod:`flowcontrol.protocol.windows.contents`)."""
    is_event_time: int = 1
    """1: windows follow the watermark; 0: the clock. A global window follows neither (0)."""
    size: int = 1
    """Of a tumbling or sliding window, above 0."""
    slide: int = 1
    """From one window's start to the next one's, above 0; the size: tumbling."""
    offset: int = 0
    """Of the starts."""
    overlap: int = 1
    """Windows that an element is in at the most: size / slide, rounded up."""
    gap: int = 0
    """Of a session; a caller whose elements have gaps of their own sets it for each."""
    lateness: int = 0
    """For how long a window is kept behind its end."""
    trigger: int = 0
    """EVENT, PROCESSING, COUNT, CONTINUOUS_EVENT, CONTINUOUS_CLOCK or NEVER
    (:mod:`flowcontrol.protocol.windows.triggers`)."""
    every: int = 1
    """Elements of a COUNT, interval of a continuous trigger; above 0."""
    is_purging: int = 0
    """1: a window that fires is emptied."""
    timeout: int = NO_TIMEOUT
    """A window fires so long after an element by the clock too; NO_TIMEOUT: it does not."""
    timeout_resets: int = 0
    """1: each element begins the timeout anew."""
    timeout_clears: int = 1
    """1: a timer that fires clears the trigger."""
    further: int = 0
    """Columns that are aggregated beside the first one."""


@dataclass(slots=True)
class WindowStore:
    """How far a window operator is; what its next result is."""

    open: int = 0
    """Windows that are kept."""
    used: int = 0
    """Entries that ever held one."""
    free: int = NONE
    """Place of an entry that is free again; its chain leads to the others."""
    order: int = 0
    """Windows that ever began: the number of the next one."""
    watermark: int = MIN_TIME
    """The last one."""
    clock: int = MIN_TIME
    """Processing time up to which timers have fired."""
    phase: int = 0
    """What there may be results of: RESTING, ELEMENT, EVENT_TIMERS or CLOCK_TIMERS
    (:mod:`flowcontrol.protocol.windows.firing`); of Spark's windows CHANGED, ALL or EVICTING
    (:mod:`flowcontrol.protocol.windows.spark_batches`)."""
    element_key: int = 0
    """Of the element that is being taken in."""
    element_ms: int = 0
    """Its time by which windows are assigned."""
    element_value: int = 0
    """Its value."""
    element_has_value: int = 0
    """1: it has one; 0: it counts, and is in no sum, minimum or maximum."""
    element_id: int = 0
    """Its id: of which row of a table its values of further columns are; the caller's to say."""
    element_now: int = 0
    """Processing time at which it came."""
    element_start: int = 0
    """Start of the next window that it is put into."""
    late: int = 0
    """Elements that came too late for every window (``numLateRecordsDropped``)."""
    fired: int = 0
    """Results."""
    result_key: int = 0
    """Of the newest result: its key."""
    result_start: int = 0
    """Start of its window."""
    result_end: int = 0
    """End of its window, which is not in it."""
    result_ms: int = 0
    """Its timestamp: the last millisecond of the window."""
    result_count: int = 0
    """Elements in the window."""
    result_valued: int = 0
    """Those of them that have a value."""
    result_sum: int = 0
    """Sum of their values."""
    result_min: int = 0
    """Smallest value."""
    result_max: int = 0
    """Largest value."""
    result_wraps: int = 0
    """How often the sum has left 64 bits."""


@dataclass(slots=True)
class WindowEntry:
    """A window of a key: contents, and what its trigger remembers."""

    key: int = 0
    """Its key."""
    start: int = 0
    """First millisecond."""
    end: int = 0
    """The millisecond behind the last one."""
    order: int = 0
    """How many windows began before it; one that others merge into is the oldest of them."""
    chain: int = NONE
    """Place of the next entry in its bucket; of a free entry: of the next free one."""
    count: int = 0
    """Elements in it; 0 after a purge."""
    valued: int = 0
    """Those of them that have a value."""
    sum: int = 0
    """Of their values, without what ``wraps`` has of it."""
    min: int = 0
    """Smallest value."""
    max: int = 0
    """Largest value."""
    wraps: int = 0
    """How often the sum has left 64 bits: the whole is ``sum + wraps * 2**64``."""
    trigger_count: int = 0
    """Elements that a COUNT trigger has counted."""
    has_next: int = 0
    """1: a continuous trigger has begun."""
    next_fire: int = 0
    """When it fires next."""
    has_timeout: int = 0
    """1: the timeout has begun."""
    timeout_at: int = 0
    """When it is over."""
    event_timers: int = 0
    """Timers that wait for the watermark: a sum of END, NEXT ...
    (:mod:`flowcontrol.protocol.windows.triggers`)."""
    event_due: int = 0
    """Time of the first of them."""
    event_place: int = NONE
    """Where it is in the heap of those."""
    clock_timers: int = 0
    """Timers that wait for the clock, likewise."""
    clock_due: int = 0
    """Time of the first of them."""
    clock_place: int = NONE
    """Where it is in the heap of those."""


@dataclass(slots=True)
class ColumnValues:
    """What a window of a key holds of a column beside the first."""

    valued: int = 0
    """Elements that have a value."""
    sum: int = 0
    """Of these values, without what ``wraps`` has of it."""
    min: int = 0
    """Smallest value."""
    max: int = 0
    """Largest value."""
    wraps: int = 0
    """How often the sum has left 64 bits, as of a :class:`WindowEntry`."""


class Windows(NamedTuple):
    """A window operator as the rules see it."""

    settings: WindowSettings  # What it does
    store: WindowStore  # How far it is
    entries: Sequence[WindowEntry]  # As many windows as it can keep at once
    buckets: Row  # Places of the first entries of the chains; as many as a power of two
    # How many windows have timers, and behind that their places, the first one due in front; one
    # integer more than entries.
    event_heap: Row
    clock_heap: Row
    # What each entry holds of the further columns, one entry behind the other. In front of them, at
    # the place where no entry is, stands what the newest result has.
    further: Sequence[ColumnValues]
    table: Row  # Value of each id in each of these columns, an id behind the other
