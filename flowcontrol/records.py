"""Every column of every result and ledger table, once: name, type, unit, meaning.

What a run writes, what the report reads and what the documentation lists are all made from the
objects below, so that a column cannot mean two things in two places. The module imports the
standard library only; pyarrow is loaded when a schema is asked for.

Conventions of all tables
-------------------------
- Times are emulated seconds since the start of the run; a rate is per emulated second.
- *Cumulative* columns count since the start of the run; columns that *cover the interval*
  describe the time since the sample before; *levels* are those of the moment ``t_s``.
- One kind of nothing per column: where a stage has no input (a source) or no output (a sink)
  the figures of that side are 0, as Flink's gauges are. Only the ledger has nulls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

ColumnType = Literal["int64", "float64", "string", "timestamp"]


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        Name in every table, file and frame that carries the column.
    type : {"int64", "float64", "string", "timestamp"}
        A ``timestamp`` holds microseconds in UTC.
    unit : str
        Unit of a value; empty for names and other values without one.
    meaning : str
        What is counted, exactly.
    """

    name: str
    type: ColumnType
    unit: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: its name, what a row is, and its columns in order.

    Attributes
    ----------
    name : str
        Name of the folder or frame that holds the table.
    meaning : str
        What one row stands for.
    columns : tuple of Column
        In the order in which the table is written.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """Return the column called ``name``.

        Raises
        ------
        KeyError
            If the table has no such column; the message lists those it has.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name!r}; it has {', '.join(self.names)}")

    def arrow_schema(self) -> pa.Schema:
        """Return the Arrow schema of the table.

        Returns
        -------
        pyarrow.Schema
            One nullable field per column, in order. Nullable throughout, because Delta would
            otherwise refuse a file whose writer left the mark out; which columns may be null
            at all stands in their meaning. Unit and meaning travel as field metadata.
        """
        import pyarrow as pa

        types = {
            "int64": pa.int64(),
            "float64": pa.float64(),
            "string": pa.string(),
            "timestamp": pa.timestamp("us", tz="UTC"),
        }
        return pa.schema(
            [
                pa.field(
                    column.name,
                    types[column.type],
                    metadata={"unit": column.unit, "meaning": column.meaning},
                )
                for column in self.columns
            ]
        )


_T_S = Column(
    "t_s",
    "float64",
    "s",
    "Emulated time of the sample since the start of the run. Samples stand at every multiple of "
    "sample_interval_s and at the end.",
)
_SUBTASK = Column("subtask", "int64", "", "Index of the subtask within its stage, from 0.")
_SENDER = Column("sender", "int64", "", "Index of the sending subtask within its stage, from 0.")
_RECEIVER = Column(
    "receiver", "int64", "", "Index of the receiving subtask within its stage, from 0."
)

STAGES = Table(
    "stages",
    "A sample of one subtask of one stage.",
    (
        _T_S,
        Column("stage", "string", "", "Name of the stage."),
        _SUBTASK,
        Column(
            "records_in",
            "int64",
            "records",
            "Cumulative: records taken up from the inputs, the one being processed included. "
            "0 for a source.",
        ),
        Column(
            "records_out",
            "int64",
            "records",
            "Cumulative: records emitted, each once, however many edges and receivers it goes "
            "to. 0 for a stage without an outgoing edge.",
        ),
        Column(
            "rate_in",
            "float64",
            "records/s",
            "Growth of records_in since the sample before, over the length of that interval.",
        ),
        Column(
            "rate_out",
            "float64",
            "records/s",
            "Growth of records_out since the sample before, over the length of that interval.",
        ),
        Column(
            "busy_ms_per_s",
            "float64",
            "ms/s",
            "Covers the interval: 1000 - min(1000, idle + backpressured), as Flink's "
            "busyTimeMsPerSecond (1.15 and later). Waiting for an external system is busy; a "
            "source is busy while it serialises what it emits.",
        ),
        Column(
            "idle_ms_per_s",
            "float64",
            "ms/s",
            "Covers the interval: time without input to process or, at a source, waiting for "
            "its own rate. Counted only while the output was available.",
        ),
        Column(
            "backpressured_ms_per_s",
            "float64",
            "ms/s",
            "Covers the interval: time in which the task could not go on because no output "
            "buffer was available to it (soft and hard back pressure together).",
        ),
        Column(
            "in_pool_usage",
            "float64",
            "ratio",
            "Level: exclusive and floating buffers in use over both totals (Flink's "
            "inPoolUsage); remote channels only for the exclusive ones. The buffer being read "
            "and a free floating buffer held for a credit are in use. 0 without inputs.",
        ),
        Column(
            "out_pool_usage",
            "float64",
            "ratio",
            "Level: output_pool_used over output_pool_size (Flink's outPoolUsage). Passes 1 "
            "when overdraft buffers are in use. 0 without outputs.",
        ),
        Column(
            "floating_buffers_usage",
            "float64",
            "ratio",
            "Level: floating buffers of the gates in use or held by a channel for a credit, over "
            "the size of their pools (Flink's inputFloatingBuffersUsage, save that a floating "
            "buffer held free by a channel counts as used here). 0 where there are none.",
        ),
        Column(
            "exclusive_buffers_usage",
            "float64",
            "ratio",
            "Level: sum of max(0, initial credit - free exclusive buffers) over the sum of the "
            "initial credits, remote channels only (Flink's inputExclusiveBuffersUsage). 0 "
            "where there are none.",
        ),
        Column(
            "input_queue_buffers",
            "int64",
            "buffers",
            "Level: messages that arrived and wait in the channels of all inputs; the buffer "
            "being read is not in it. A local channel counts what waits at its producer.",
        ),
        Column(
            "output_queue_buffers",
            "int64",
            "buffers",
            "Level: messages in all subpartitions that were not sent yet, the open, partly "
            "filled ones included.",
        ),
        Column(
            "output_pool_size",
            "int64",
            "buffers",
            "Level: current quota of the output's local pools, overdraft not counted.",
        ),
        Column(
            "output_pool_used",
            "int64",
            "buffers",
            "Level: buffers requested from those pools and not returned: open, queued, sent but "
            "not yet recycled, and overdraft.",
        ),
    ),
)

CHANNELS = Table(
    "channels",
    "A sample of one channel: one sending subtask to one receiving subtask of one edge.",
    (
        _T_S,
        Column("edge", "string", "", 'Name of the edge, "sender stage->receiver stage".'),
        _SENDER,
        _RECEIVER,
        Column(
            "written",
            "int64",
            "buffers",
            "Cumulative: messages that the sender's task has filled. The open, partly filled "
            "buffer is not in it; a flushed slice is a message of its own.",
        ),
        Column(
            "released",
            "int64",
            "buffers",
            "Cumulative: messages admitted to the sender's output pool, at most written.",
        ),
        Column(
            "announced",
            "int64",
            "buffers",
            "Cumulative: credits granted by the receiver, the initial exclusive ones included. "
            "Of a local channel: released.",
        ),
        Column(
            "sent",
            "int64",
            "buffers",
            "Cumulative: messages put on the wire; at most announced and at most released.",
        ),
        Column(
            "consumed",
            "int64",
            "buffers",
            "Cumulative: messages whose last record was read and whose buffer was recycled.",
        ),
        Column(
            "credit",
            "int64",
            "buffers",
            "Level: credits as the sender sees them, less sent: what it may still send. 0 on a "
            "local channel, which has no credits.",
        ),
        Column(
            "backlog",
            "int64",
            "buffers",
            "Level: what the sender announces: released - sent, without a full last buffer that "
            "nothing was added to and no flush has shown.",
        ),
        Column(
            "exclusive_free",
            "int64",
            "buffers",
            "Level: exclusive buffers of the channel that wait free at the receiver.",
        ),
        Column(
            "floating_held",
            "int64",
            "buffers",
            "Level: floating buffers of the gate that the channel holds: free for a credit, "
            "queued, or being read.",
        ),
        Column(
            "queued",
            "int64",
            "buffers",
            "Level: messages that arrived and wait at the receiver; the one being read is not "
            "in it.",
        ),
        Column(
            "in_flight_records",
            "int64",
            "records",
            "Level: records emitted by the sender's task less records taken up by the "
            "receiver's; the one being processed is out.",
        ),
        Column(
            "in_flight_bytes",
            "int64",
            "bytes",
            "Level: serialised size of the records in flight: in_flight_records times the "
            "record size of the edge.",
        ),
    ),
)

LATENCY = Table(
    "latency",
    "Latencies seen by one subtask of a sink in one sample interval; left out where it took "
    "no record.",
    (
        _T_S,
        Column("stage", "string", "", "Name of the sink."),
        _SUBTASK,
        Column(
            "count",
            "int64",
            "records",
            "Records taken up in the interval; at least 1.",
        ),
        Column(
            "mean_ms",
            "float64",
            "ms",
            "Mean time from emission at the source to the start of processing at the sink.",
        ),
        Column("p50_ms", "float64", "ms", "Median of the same time."),
        Column("p90_ms", "float64", "ms", "90th percentile of the same time."),
        Column("p99_ms", "float64", "ms", "99th percentile of the same time."),
        Column("max_ms", "float64", "ms", "Largest of the same time."),
    ),
)

LEDGER = Table(
    "ledger",
    "State of one channel after one micro-batch of one side. A side fills the columns that it "
    "owns; the other side's are null. The last row per side and channel is the state, all rows "
    "together are the history.",
    (
        Column("side", "string", "", '"sender" or "receiver": who wrote the row.'),
        Column(
            "batch_id",
            "int64",
            "",
            "Micro-batch of the writing query; in lock-step the round, from 0.",
        ),
        _SENDER,
        _RECEIVER,
        Column(
            "written",
            "int64",
            "buffers",
            "Sender; cumulative: messages that the sender's task has filled.",
        ),
        Column(
            "released",
            "int64",
            "buffers",
            "Sender; cumulative: messages admitted to the sender's output pool.",
        ),
        Column(
            "announced",
            "int64",
            "buffers",
            "Receiver; cumulative: credits ever granted, the initial exclusive ones included.",
        ),
        Column(
            "sent",
            "int64",
            "buffers",
            "Cumulative: messages put on the wire. Of the sender in lock-step, of the receiver "
            "on a free-running link, where the receiver moves it.",
        ),
        Column(
            "consumed",
            "int64",
            "buffers",
            "Receiver; cumulative: messages read to the end whose buffer was recycled.",
        ),
        Column(
            "exclusive",
            "int64",
            "buffers",
            "Receiver; level: exclusive buffers that the channel owns, free or in use.",
        ),
        Column(
            "floating_held",
            "int64",
            "buffers",
            "Receiver; level: floating buffers that the channel holds, free, queued or being read.",
        ),
        Column(
            "credit",
            "int64",
            "buffers",
            "Sender; level: announced as the sender saw it, less sent.",
        ),
        Column(
            "backlog",
            "int64",
            "buffers",
            "Sender; level: released - sent; in an emulation what Flink announces of that, which "
            "leaves out a full last buffer that nothing was added to and no flush has shown.",
        ),
        Column(
            "pool_used",
            "int64",
            "buffers",
            "Level: buffers in use of the writing side's pool: the sender's output pool (open, "
            "queued and overdraft), or the floating buffers of the receiver's gate. One figure "
            "per task, repeated in each of its channels' rows.",
        ),
        Column(
            "pool_size",
            "int64",
            "buffers",
            "Level: quota of that pool, overdraft not counted; repeated likewise.",
        ),
        Column(
            "rows",
            "int64",
            "records",
            "Records of the channel in this micro-batch: written by the sender, or taken up by "
            "the receiver.",
        ),
        Column("bytes", "int64", "bytes", "Size of those records."),
        Column(
            "committed_at",
            "timestamp",
            "us, UTC",
            "Wall-clock time of the commit. The only column in which two runs of the same "
            "scenario may differ.",
        ),
        Column(
            "channel_state",
            "string",
            "",
            "JSON: the rest of the channel's state on the writing side, from which a run resumes.",
        ),
        Column(
            "task_state",
            "string",
            "",
            "JSON: the state of the writing task that belongs to no channel; repeated in each "
            "of its channels' rows or null but for the first.",
        ),
    ),
)

RESULTS: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (STAGES, CHANNELS, LATENCY)}
)
