"""What the messages of Flink's network stack are called, and what they weigh on a wire.

Every message is a frame (``NettyMessage``, reference section 13): 9 bytes that all have, the fields
of its kind and, of a ``BufferResponse``, the data or the event. Frame and fields are its header
here, so that header and data together are all of its bytes.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

FRAME_BYTES: Final = 9
"""Length, magic number and kind, in front of every message."""


class Frame(StrEnum):
    """A message of the network stack, by its class in ``NettyMessage``."""

    PARTITION_REQUEST = "PartitionRequest"
    """Receiver: a channel begins; it carries the initial credit."""
    BUFFER_RESPONSE = "BufferResponse"
    """Sender: data or an event, with its sequence number and the backlog behind it."""
    BACKLOG_ANNOUNCEMENT = "BacklogAnnouncement"
    """Sender: a backlog, to a receiver without exclusive buffers."""
    ERROR_RESPONSE = "ErrorResponse"
    """Sender: its task has failed, and why."""
    ADD_CREDIT = "AddCredit"
    """Receiver: buffers that it has gained."""
    RESUME_CONSUMPTION = "ResumeConsumption"
    """Receiver: the barrier that blocks the channel is aligned."""
    NEW_BUFFER_SIZE = "NewBufferSize"
    """Receiver: how large it wishes buffers to be."""
    ACK_ALL_USER_RECORDS_PROCESSED = "AckAllUserRecordsProcessed"
    """Receiver: it has read the end of the data."""
    CANCEL_PARTITION_REQUEST = "CancelPartitionRequest"
    """Receiver: the channel is released."""
    CLOSE_REQUEST = "CloseRequest"
    """Receiver: the last channel of a connection is released, and nobody uses it again."""


_FIELDS: Final = {
    Frame.PARTITION_REQUEST: 88,
    Frame.BUFFER_RESPONSE: 34,
    Frame.BACKLOG_ANNOUNCEMENT: 20,
    Frame.ERROR_RESPONSE: 17,
    Frame.ADD_CREDIT: 20,
    Frame.RESUME_CONSUMPTION: 16,
    Frame.NEW_BUFFER_SIZE: 20,
    Frame.ACK_ALL_USER_RECORDS_PROCESSED: 16,
    Frame.CANCEL_PARTITION_REQUEST: 16,
    Frame.CLOSE_REQUEST: 0,
}

HEADER_BYTES: Final[Mapping[Frame, int]] = MappingProxyType(
    {frame: FRAME_BYTES + fields for frame, fields in _FIELDS.items()}
)
"""Bytes of each message besides data, of Flink 1.19 and 1.20; the cause in an ErrorResponse, which
it carries as a serialised exception, is not among them."""
