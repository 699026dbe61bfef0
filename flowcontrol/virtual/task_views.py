"""What a task holds of checkpoints, event time and windows, found in the memory."""

from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.state import width
from flowcontrol.protocol.states import (
    AlignedChannel,
    CheckpointReport,
    CoordinatorMessage,
    TrackedCheckpoint,
)
from flowcontrol.protocol.windows.states import ColumnValues, WindowEntry, Windows
from flowcontrol.virtual.cells import queue_of, row, rows_of, state_of
from flowcontrol.virtual.checkpoint_fields import KernelCheckpoints
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.time_fields import KernelTime
from flowcontrol.virtual.window_fields import KernelKeys, KernelWindow

kernel_checkpoints = state_of(KernelCheckpoints)
aligned_channels = rows_of(AlignedChannel)
tracked_queue = queue_of(TrackedCheckpoint)
coordinator_queue = queue_of(CoordinatorMessage)
report_rows = rows_of(CheckpointReport)
kernel_time = state_of(KernelTime)
valve_channel_rows = rows_of(ValveChannel)
kernel_window = state_of(KernelWindow)
kernel_keys = state_of(KernelKeys)
key_rows = rows_of(KernelKeys)
window_entries = rows_of(WindowEntry)
column_values = rows_of(ColumnValues)
watermark_operators = rows_of(WatermarkOperator)

REPORT_CELLS = width(CheckpointReport)


def windows_of(m: KernelMemory, held: KernelWindow) -> Windows:
    """Return windows as the rules see them."""
    return Windows(
        held.settings,
        held.store,
        window_entries(m, held.entries, held.capacity),
        row(m, held.buckets, held.bucket_count),
        row(m, held.event_heap, held.capacity + 1),
        row(m, held.clock_heap, held.capacity + 1),
        column_values(m, held.further, (held.capacity + 1) * held.settings.further),
        row(m, held.table, held.table_count),
    )
