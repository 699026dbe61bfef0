"""From a program to buffers and messages: Flink's graphs of a scenario, slots, and what is sent.

The objects of the reference's section 9, by its names. The rules are in :mod:`flowcontrol.graphs`
and :mod:`flowcontrol.protocol`; what reads a scenario or a run for them is here.
"""

from flowcontrol.deployment.control import control_trace
from flowcontrol.deployment.data_trace import data_trace
from flowcontrol.deployment.options import job_graph
from flowcontrol.deployment.stream import stream_graph
from flowcontrol.errors import NotEnoughSlotsError
from flowcontrol.graphs.execution import execution_graph
from flowcontrol.graphs.sharing import slot_sharing
from flowcontrol.graphs.slots import assign_slots

__all__ = [
    "NotEnoughSlotsError",
    "assign_slots",
    "control_trace",
    "data_trace",
    "execution_graph",
    "job_graph",
    "slot_sharing",
    "stream_graph",
]
