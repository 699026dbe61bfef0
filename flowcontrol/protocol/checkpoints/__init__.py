"""Checkpoints: who triggers them, when, and what becomes of them.

Pure, as the whole of :mod:`flowcontrol.protocol`: nothing waits, ``now`` is an argument, and what a
call causes is a list of plain tuples.
"""

from flowcontrol.protocol.checkpoints.coordinator import (
    CheckpointCoordinator as CheckpointCoordinator,
)
from flowcontrol.protocol.checkpoints.plan import checkpoint_plan as checkpoint_plan
from flowcontrol.protocol.checkpoints.reasons import FailureReason as FailureReason
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest as CheckpointRequest
from flowcontrol.protocol.checkpoints.statistics import CheckpointCounts as CheckpointCounts
from flowcontrol.protocol.checkpoints.statistics import CheckpointStatistics as CheckpointStatistics
from flowcontrol.protocol.checkpoints.statistics import TaskStatistics as TaskStatistics
