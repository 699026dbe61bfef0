"""The state of a task, of its operators and of what it writes to; each kind declared once."""

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from flowcontrol.protocol.states import LocalPool, Task

SOURCE: Final = 0
"""A task without input: it emits at its rate."""
SERVER: Final = 1
"""A task whose rate limits it."""
RELAY: Final = 2
"""A task that works in no time."""
READER: Final = 4
"""A source that reads a log at its own speed: a server whose input is the log."""

Worker: TypeAlias = Any
"""A subtask in its memory, ``flowcontrol.virtual.task.KernelWorker``: where its operators, gates
and outputs are, how bytes are written, and what is noted of records that move. It stands above the
rules, which numba types by what calls them."""

TASK_INPUT: Final = -1
"""In place of an operator: the records that the task takes up, or emits if it is a source."""


@dataclass(slots=True)
class Operator:
    """One operator of a task's chain (``StreamOperator``); each kind adds its own fields."""

    kind: int = 0
    """Which operator it is (:mod:`flowcontrol.operators.table`); constant."""
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
    is_single: int = 0
    """1: all that it takes up goes one for one into one channel; constant."""
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
    is_firing: int = 0
    """1: a burst of results is under way (:mod:`.windowing`)."""
    yields: int = 0
    """1: mail is looked at between two results of the burst under way."""
    stamp: int = 0
    """Stamp of the record in hand (:mod:`flowcontrol.protocol.event_time.stamps`)."""
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
