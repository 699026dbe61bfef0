"""The control plane: who registers with whom, gives slots, deploys, watches and restarts.

Pure rules and state of Flink 1.20's ``ResourceManager``, ``JobMaster`` and ``TaskExecutor``;
``now``, in microseconds, is an argument everywhere, and each call returns what it caused.
"""

from flowcontrol.protocol.control.calls import (
    CLIENT,
    DISPATCHER,
    JOB_MASTER,
    RESOURCE_MANAGER,
    After,
    Call,
    ControlTask,
    Effect,
    Name,
    Reply,
    endpoint_of,
    places_of,
)
from flowcontrol.protocol.control.durations import Durations, durations
from flowcontrol.protocol.control.endpoint import (
    HeartbeatMonitor,
    Heartbeats,
    Registration,
    check_token,
    new_token,
)
from flowcontrol.protocol.control.job_master import JobMaster
from flowcontrol.protocol.control.plane import ControlPlane
from flowcontrol.protocol.control.resource_manager import CHECK_DELAY, ResourceManager
from flowcontrol.protocol.control.states import JobStatus, TaskStatus, move
from flowcontrol.protocol.control.task_executor import SlotStatus, TaskExecutor

__all__ = [
    "CHECK_DELAY",
    "CLIENT",
    "DISPATCHER",
    "JOB_MASTER",
    "RESOURCE_MANAGER",
    "After",
    "Call",
    "ControlPlane",
    "ControlTask",
    "Durations",
    "Effect",
    "HeartbeatMonitor",
    "Heartbeats",
    "JobMaster",
    "JobStatus",
    "Name",
    "Registration",
    "Reply",
    "ResourceManager",
    "SlotStatus",
    "TaskExecutor",
    "TaskStatus",
    "check_token",
    "durations",
    "endpoint_of",
    "move",
    "new_token",
    "places_of",
]
