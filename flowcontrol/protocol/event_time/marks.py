"""Watermarks and statuses on their way: stream elements that are serialised like records.

``RecordWriter.broadcastEmit`` writes one into the open buffer of each channel, where it takes its
bytes and closes nothing, and may block there as a record does. Here it is called a *mark*. Its kind
is one of the bits of :mod:`flowcontrol.protocol.event_time.output_rules`.

Source: ``StreamElementSerializer``; section 14 of flink-network.
"""

from flowcontrol.protocol.event_time.output_rules import WATERMARK

WATERMARK_BYTES = 13
"""Length, tag and the time."""
STATUS_BYTES = 9
"""Length, tag and the status."""


def mark_bytes(kind: int) -> int:
    """Size of a mark with its length header, bytes."""
    return WATERMARK_BYTES if kind == WATERMARK else STATUS_BYTES


def pending_mark(channel: int, kind: int) -> int:
    """What stands for a mark in a queue of channels of records that are not written: below 0."""
    return -1 - (2 * channel + (1 if kind == WATERMARK else 0))


def is_pending_mark(entry: int) -> int:
    """Tell whether an entry of such a queue is a mark: 1 if so."""
    return 1 if entry < 0 else 0


def channel_of_mark(entry: int) -> int:
    """Channel of a mark in such a queue."""
    return (-1 - entry) // 2


def bytes_of_mark(entry: int) -> int:
    """Size of a mark in such a queue, bytes."""
    return WATERMARK_BYTES if (-1 - entry) % 2 == 1 else STATUS_BYTES
