"""Watermarks, statuses and latency markers on their way: serialised like records.

``RecordWriter.broadcastEmit`` writes one into the open buffer of each channel, where it takes its
bytes and closes nothing, and may block there as a record does. Here it is called a *mark*. Its kind
is one of the bits of :mod:`flowcontrol.protocol.event_time.output_rules`, or MARKER, of which
``RecordWriter.randomEmit`` writes one into one channel.

Source: ``StreamElementSerializer``; section 14 of flink-network.
"""

from flowcontrol.protocol.event_time.output_rules import WATERMARK

MARKER = 8
"""A latency marker: its value is when it was marked."""

WATERMARK_BYTES = 13
"""Length, tag and the time."""
STATUS_BYTES = 9
"""Length, tag and the status."""
MARKER_BYTES = 33
"""Length, tag, the time, the id of the source's operator (16 bytes) and the number of its
subtask."""

_CODES = 3


def mark_bytes(kind: int) -> int:
    """Size of a mark with its length header, bytes."""
    if kind == MARKER:
        return MARKER_BYTES
    return WATERMARK_BYTES if kind == WATERMARK else STATUS_BYTES


def pending_mark(channel: int, kind: int) -> int:
    """What stands for a mark in a queue of channels of records that are not written: below 0."""
    code = 2 if kind == MARKER else 1 if kind == WATERMARK else 0
    return -1 - (_CODES * channel + code)


def is_pending_mark(entry: int) -> int:
    """Tell whether an entry of such a queue is a mark: 1 if so."""
    return 1 if entry < 0 else 0


def channel_of_mark(entry: int) -> int:
    """Channel of a mark in such a queue."""
    return (-1 - entry) // _CODES


def bytes_of_mark(entry: int) -> int:
    """Size of a mark in such a queue, bytes."""
    code = (-1 - entry) % _CODES
    if code == 2:
        return MARKER_BYTES
    return WATERMARK_BYTES if code == 1 else STATUS_BYTES
