"""The state of a job after a round, under its old name."""

from flowcontrol.trace.round_state import ConnectionState as ConnectionState
from flowcontrol.trace.round_state import RoundState as RoundState
from flowcontrol.trace.round_state import TaskState as TaskState
