"""Checkpoints: who triggers them, when, and what becomes of them.

Pure, as the whole of :mod:`flowcontrol.protocol`: nothing waits, ``now`` is an argument, and what a
call causes is a list of plain tuples.
"""

from flowcontrol.protocol.checkpoints.coordinator import CheckpointCoordinator
from flowcontrol.protocol.checkpoints.plan import checkpoint_plan
from flowcontrol.protocol.checkpoints.reasons import FailureReason
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest
from flowcontrol.protocol.checkpoints.statistics import (
    CheckpointCounts,
    CheckpointStatistics,
    TaskStatistics,
)

__all__ = [
    "CheckpointCoordinator",
    "CheckpointCounts",
    "CheckpointRequest",
    "CheckpointStatistics",
    "FailureReason",
    "TaskStatistics",
    "checkpoint_plan",
]
