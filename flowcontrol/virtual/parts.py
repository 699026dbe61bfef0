"""Parts of the kernel that only some jobs need: what a job does without is not compiled."""

from __future__ import annotations

__all__ = [
    "DEBLOATING",
    "EVERYTHING",
    "JOBS",
    "RECORDS",
    "SPILLS",
    "TCP",
    "THROTTLES",
    "WIRES",
]

TCP = 1
"""Connections without credits, as Flink up to 1.4 had them."""
RECORDS = 2
"""Transports that count records, not buffers."""
SPILLS = 4
"""Result partitions other than the pipelined and bounded one."""
WIRES = 8
"""Connections on which channels wait for their turn."""
THROTTLES = 16
"""Sources that a controller commands."""
DEBLOATING = 32
"""Buffer debloating."""
JOBS = 64
"""Jobs that start and stop, and share the network memory of their task managers."""

EVERYTHING = TCP | RECORDS | SPILLS | WIRES | THROTTLES | DEBLOATING | JOBS
