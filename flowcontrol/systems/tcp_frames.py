"""What the messages of Flink up to 1.4 weigh: no credit and no backlog is among their fields."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from flowcontrol.protocol.frames import FRAME_BYTES, Frame
from flowcontrol.systems.tcp_connection import HEADER_BYTES

_ID_BYTES: Final = 16
"""Every id of that time, bytes."""

_FIELDS: Final = {
    Frame.PARTITION_REQUEST: 3 * _ID_BYTES + 4,  # partition, producer, receiver; subpartition
    Frame.BUFFER_RESPONSE: HEADER_BYTES - FRAME_BYTES,
    Frame.ERROR_RESPONSE: _ID_BYTES + 1,
    Frame.CANCEL_PARTITION_REQUEST: _ID_BYTES,
    Frame.CLOSE_REQUEST: 0,
}

TCP_HEADER_BYTES: Final[Mapping[Frame, int]] = MappingProxyType(
    {frame: FRAME_BYTES + fields for frame, fields in _FIELDS.items()}
)
"""Bytes of each message besides data, of Flink 1.4; those of a serialised cause left out."""
