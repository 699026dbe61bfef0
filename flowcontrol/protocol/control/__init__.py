"""The control plane: who registers with whom, gives slots, deploys, watches and restarts.

Pure rules and state of Flink 1.20's ``ResourceManager``, ``JobMaster`` and ``TaskExecutor``;
``now``, in microseconds, is an argument everywhere, and each call returns what it caused.
"""

from flowcontrol.protocol.control.calls import CLIENT as CLIENT
from flowcontrol.protocol.control.calls import DISPATCHER as DISPATCHER
from flowcontrol.protocol.control.calls import JOB_MASTER as JOB_MASTER
from flowcontrol.protocol.control.calls import RESOURCE_MANAGER as RESOURCE_MANAGER
from flowcontrol.protocol.control.calls import After as After
from flowcontrol.protocol.control.calls import Call as Call
from flowcontrol.protocol.control.calls import ControlTask as ControlTask
from flowcontrol.protocol.control.calls import Effect as Effect
from flowcontrol.protocol.control.calls import JobStatus as JobStatus
from flowcontrol.protocol.control.calls import Name as Name
from flowcontrol.protocol.control.calls import Reply as Reply
from flowcontrol.protocol.control.calls import TaskStatus as TaskStatus
from flowcontrol.protocol.control.calls import endpoint_of as endpoint_of
from flowcontrol.protocol.control.calls import move as move
from flowcontrol.protocol.control.calls import places_of as places_of
from flowcontrol.protocol.control.endpoint import HeartbeatMonitor as HeartbeatMonitor
from flowcontrol.protocol.control.endpoint import Heartbeats as Heartbeats
from flowcontrol.protocol.control.endpoint import Registration as Registration
from flowcontrol.protocol.control.endpoint import check_token as check_token
from flowcontrol.protocol.control.endpoint import new_token as new_token
from flowcontrol.protocol.control.job_master import JobMaster as JobMaster
from flowcontrol.protocol.control.plane import ControlPlane as ControlPlane
from flowcontrol.protocol.control.plane import Durations as Durations
from flowcontrol.protocol.control.plane import durations as durations
from flowcontrol.protocol.control.resource_manager import CHECK_DELAY as CHECK_DELAY
from flowcontrol.protocol.control.resource_manager import ResourceManager as ResourceManager
from flowcontrol.protocol.control.task_executor import SlotStatus as SlotStatus
from flowcontrol.protocol.control.task_executor import TaskExecutor as TaskExecutor
