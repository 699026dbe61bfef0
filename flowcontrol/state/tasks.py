"""The state of a task: its operators, its log, its event time and its batches."""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from flowcontrol.state.network import LocalPool, Task

# --- The state of a task, of its operators and of what it writes to; each kind declared once


SOURCE: Final = 0
"""A task without input: it emits at its rate."""
SERVER: Final = 1
"""A task whose rate limits it."""
RELAY: Final = 2
"""A task that works in no time."""
READER: Final = 4
"""A source that reads a log at its own speed: a server whose input is the log."""

Worker: TypeAlias = Any
"""A subtask in its memory, ``flowcontrol.kernel.task.KernelWorker``: where its operators, gates
and outputs are, how bytes are written, and what is noted of records that move. It stands above the
rules, which numba types by what calls them."""

TASK_INPUT: Final = -1
"""In place of an operator: the records that the task takes up, or emits if it is a source."""


@dataclass(slots=True)
class Operator:
    """One operator of a task's chain (``StreamOperator``); each kind adds its own fields."""

    kind: int = 0
    """Which operator it is (:mod:`flowcontrol.protocol.tasks.operators`); constant."""
    input: int = TASK_INPUT
    """Operator of the task whose output it takes, or TASK_INPUT; constant."""
    records_in: int = 0
    """Records taken (``numRecordsIn``)."""
    records_out: int = 0
    """Records put out (``numRecordsOut``)."""


@dataclass(slots=True)
class RecordWriter:
    """What writes an operator's output to one result partition (``RecordWriter``)."""

    pool: LocalPool = field(default_factory=LocalPool)
    """The pool of the partition."""
    operator: int = TASK_INPUT
    """Operator of the task whose output it writes, or TASK_INPUT; constant."""
    record_bytes: int = 0
    """Size of a record, constant."""
    emitted: int = 0
    """Records routed to a channel; a broadcast one counts once."""
    left_bytes: int = 0
    """Bytes left of the record in which the task is blocked."""


@dataclass(slots=True)
class SourceLog:
    """The log that a source reads, by its offsets: a Kafka partition, a table that grows."""

    end: int = 0
    """Records ever written to it: the offset of the next one (Kafka: the log end offset)."""
    position: int = 0
    """Records that the source has read and emitted: the offset of the one that it reads, or reads
    next."""
    reading: int = 0
    """1: that one is being read; it is emitted when its time is over."""


@dataclass(slots=True)
class StreamTask(Task):
    """A subtask (``StreamTask``), with what decides how long it works in a round."""

    kind: int = 0
    """SOURCE, SERVER, RELAY or READER; constant."""
    operators: int = 0
    """Operators of its chain, constant; one that passes every record on is left out."""
    partitions: int = 0
    """Result partitions, constant."""
    is_plain: int = 0
    """1: all that it takes up goes one for one into one pipelined result partition, each record in
    the same time; constant."""
    unit: int = 0
    """Work of a mean record, units; constant."""
    distribution: int = 0
    """Of its service time, or of the times between two emissions; constant."""
    limit: int = -1
    """Records that a replaying source has, constant; -1: no end."""
    is_timed: int = 0
    """1: there are marks in its channels, watermarks or latency markers; constant."""
    has_stamps: int = 0
    """1: records have stamps, event times or keys of windows; constant."""
    has_markers: int = 0
    """1: the job has latency markers; constant."""
    is_aligned: int = 0
    """1: a source that may be paused, as its group is aligned; constant."""
    has_window: int = 0
    """1: its first operator is a window; constant."""
    has_requests: int = 0
    """1: it writes what it takes up to a destination, in requests; constant."""
    awaits: int = 0
    """1: it asks a service for each record, and puts out what that answers; constant."""
    answered: int = 0
    """Records that it has put out so."""
    is_firing: int = 0
    """1: a burst of results is under way (:mod:`flowcontrol.protocol.tasks.windowing`)."""
    yields: int = 0
    """1: mail is looked at between two results of the burst under way."""
    stamp: int = 0
    """Stamp of the record in hand (:mod:`flowcontrol.protocol.event_time`)."""
    cost_ns: int = 0
    """Of a source: what an emission takes its thread, nanoseconds; constant."""
    is_pending: int = 0
    """1: outputs wait to be written."""
    due: int = 0
    """Emissions that fell due in the round; of a READER: records of its log to be read."""
    busy: int = 0
    """Busy time, microseconds."""
    idle: int = 0
    """Idle time, microseconds."""
    blocked: int = 0
    """Back-pressured time, microseconds."""


# --- The ends of time, and sums of times that stop at them.
#
# Event times and watermarks are whole milliseconds in 64 bits, as Flink's `long`. Rules do
# not name MIN_TIME: compiled, it would be an unsigned number. They have `-MAX_TIME - 1`.


MAX_TIME = (1 << 63) - 1
"""The watermark behind which nothing comes (``Watermark.MAX_WATERMARK``), ms."""
MIN_TIME = -MAX_TIME - 1
"""The watermark before the first (``Watermark.UNINITIALIZED``), ms."""


def later(time: int, duration: int) -> int:
    """Time after a duration of at least 0, at most MAX_TIME.

    What Flink does where ``Math.addExact`` fails.
    """
    return MAX_TIME if time > MAX_TIME - duration else time + duration


def earlier(time: int, duration: int) -> int:
    """Time before a duration of at least 0, at least MIN_TIME."""
    least = -MAX_TIME - 1
    return least if time < least + duration else time - duration


def is_first(time: int) -> int:
    """Tell whether this is MIN_TIME, that of a watermark before the first: 1 if so."""
    return 1 if time < -MAX_TIME else 0


# --- The state that the rules of event time work on, each kind declared once


@dataclass(slots=True)
class WatermarkOutput:
    """What was given out last (``WatermarkToDataOutput``, ``StatusWatermarkValve``)."""

    watermark: int = MIN_TIME
    """The last watermark, ms; never falls."""
    is_idle: int = 0
    """1: the last status was IDLE."""


@dataclass(slots=True)
class Generator(WatermarkOutput):
    """What makes the watermarks of a source (``BoundedOutOfOrdernessWatermarks``)."""

    latest: int = MIN_TIME
    """Latest event time seen, ms."""
    out_of_orderness: int = 0
    """How far behind it an event may be, ms; constant. 0: ascending times."""
    is_punctuated: int = 0
    """1: each event is a watermark; constant."""
    idle_after: int = 0
    """Time without events after which it is idle, in the unit of the probes' times; constant.
    0: never."""
    has_events: int = 0
    """1: there were events since the last probe."""
    is_counting: int = 0
    """1: the timer of idleness runs."""
    quiet_since: int = 0
    """When it began, if it runs: at the first probe without new events."""
    is_quiet: int = 0
    """1: a probe has found it idle, and no event has come since."""


@dataclass(slots=True)
class ActivityClock:
    """The clock of idleness, which stands now and then (``PausableRelativeClock``)."""

    stood: int = 0
    """How long it has stood."""


@dataclass(slots=True)
class Valve(WatermarkOutput):
    """The valve of a task over all its input channels (``StatusWatermarkValve``).

    The three counts follow from the channels. Of aligned channels none is behind the valve's
    watermark, so while one stands at it the valve cannot move, and nobody has to look.
    """

    idle: int = 0
    """Idle channels."""
    unaligned: int = 0
    """Channels that are not aligned."""
    ahead: int = 0
    """Aligned channels beyond the valve's watermark."""


@dataclass(slots=True)
class ValveChannel(WatermarkOutput):
    """An input channel at its valve (``SubpartitionStatus``): its watermark, ms."""

    is_unaligned: int = 0
    """1: it does not count: it is idle, or was and has not caught up."""


@dataclass(slots=True)
class AlignedSource:
    """A subtask of a source whose group is aligned."""

    reported: int = MIN_TIME
    """The watermark that it reported last, ms."""
    has_reported: int = 0
    """1: it has reported one; until then it holds nobody back."""
    allowed: int = MAX_TIME
    """The watermark that it may have at most, as it was told last, ms."""
    is_paused: int = 0
    """1: it is ahead of that, and emits nothing."""


# --- What a task of a job with event time holds


@dataclass(slots=True)
class TaskTime:
    """Event time of a task: how a source stamps its records, what makes or takes watermarks.

    Times of the run are microseconds, event times and watermarks milliseconds.
    """

    generator: Generator = field(default_factory=Generator)
    """Of a source: what makes its watermarks."""
    clock: ActivityClock = field(default_factory=ActivityClock)
    """The clock of its idleness; ``stood`` as of the last probe."""
    valve: Valve = field(default_factory=Valve)
    """Of a task with inputs: its valve, over all its channels."""
    has_generator: int = 0
    """1: a source with watermarks; one without gives MAX_TIME at its end and no other; constant."""
    interval: int = 0
    """Between two probes, microseconds; 0: it is never probed; constant."""
    next_probe: int = -1
    """When the next one falls due, microseconds of the run; -1: never."""
    is_sparks: int = 0
    """1: the time is Spark's, and no watermark travels in channels; constant."""
    aligned: AlignedSource = field(default_factory=AlignedSource)
    """Of a source whose group is aligned: what its group allows it, and whether it is paused."""
    paused_us: int = 0
    """How long it has stood because it was paused, microseconds: part of its idle time."""
    has_times: int = 0
    """1: a source whose rows bring their stamps; constant."""
    has_ids: int = 0
    """1: a source whose rows bring their ids, at times that are made; constant."""
    next_marker: int = -1
    """When a source gives out its next latency marker, microseconds of the run; -1: never."""
    marker_interval: int = 0
    """Between two of them, microseconds; constant."""
    marker_stream: int = 0
    """Of the random numbers that choose their channels; constant."""
    markers: int = 0
    """How many it has written, or has pending."""
    has_ended: int = 0
    """1: a source has given out MAX_TIME: no record of it comes any more."""
    marks: int = 0
    """Watermarks and statuses that it has put into each of its channels."""
    stream: int = 0
    """Of its random numbers; constant."""
    offset: int = 0
    """Added to the event time of each record, ms; constant."""
    spread: int = 0
    """How far records lie behind, ms: at most, or in the mean; constant."""
    is_exponential: int = 0
    """1: in the mean; constant."""


# --- What a task of an aggregation knows of its batch, beside its windows


@dataclass(slots=True)
class TaskBatch:
    """The batch of a task whose windows are Spark's.

    The watermark by which it drops late rows is that of its windows (``WindowStore.watermark``):
    the one of the batch before.
    """

    is_batched: int = 0
    """1: windows are answered at the ends of batches; 0: they fire, as Flink's do; constant."""
    mode: int = 0
    """APPEND, UPDATE or COMPLETE (:mod:`flowcontrol.protocol.windows.spark_batches`); constant."""
    has_watermark: int = 0
    """1: its inputs have ``withWatermark``; 0: nothing is late, nothing is evicted; constant."""
    rows: int = 0
    """Rows taken up in the batch."""
    late: int = 0
    """Groups that came too late for it; an entry has each, so that it counts once."""
    cursor: int = 0
    """Entries that the answer of a batch in complete mode has come to."""
    is_over: int = 0
    """1: no batch follows any more."""


# --- What a task holds of its windows besides the windows themselves


@dataclass(slots=True)
class WindowTask:
    """A task whose first operator is a window."""

    to_give: int = 0
    """What is passed on when nothing due is left: a sum of WATERMARK and IDLE
    (:mod:`flowcontrol.protocol.event_time`)."""
    keys: int = 1
    """Keys of its records; constant."""
    bytes_per_key: int = 0
    """State of a key and window, bytes; constant."""
    yields: int = 0
    """1: mail interrupts the timers of a watermark; constant."""
    batch: TaskBatch = field(default_factory=TaskBatch)
    """What it knows of its batch, where windows are Spark's."""
