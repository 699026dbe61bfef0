"""From a program to buffers and messages: Flink's graphs of a scenario, slots, and what is sent.

The objects of the reference's section 9, by its names. The rules are in :mod:`flowcontrol.graphs`
and :mod:`flowcontrol.protocol`; what reads a scenario or a run for them is here.
"""

from flowcontrol.deployment.deploy import job_graph, stream_graph
from flowcontrol.deployment.traces import control_trace, data_trace
from flowcontrol.errors import NotEnoughSlotsError
from flowcontrol.graphs.execution import assign_slots, execution_graph, slot_sharing

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
