"""What a task of an aggregation knows of its batch, beside its windows."""

from dataclasses import dataclass


@dataclass(slots=True)
class TaskBatch:
    """The batch of a task whose windows are Spark's.

    The watermark by which it drops late rows is that of its windows (``WindowStore.watermark``):
    the one of the batch before.
    """

    is_batched: int = 0
    """1: windows are answered at the ends of batches; 0: they fire, as Flink's do; constant."""
    mode: int = 0
    """APPEND, UPDATE or COMPLETE (:mod:`flowcontrol.protocol.spark_time.watermarks`); constant."""
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
