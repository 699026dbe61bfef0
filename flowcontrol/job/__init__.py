"""A job in rounds: laid out on task managers, its subtasks' states, and what a round does.

Both clocks stand on this package; it knows neither Spark nor Delta.
"""

from __future__ import annotations

from flowcontrol.job.graph import Channel, Link, StagePlan
from flowcontrol.job.job import Job
from flowcontrol.job.physical_graph import demands_by_job, lay_out
from flowcontrol.job.subtask import Incoming, Outgoing, Subtask, Work

__all__ = [
    "Channel",
    "Incoming",
    "Job",
    "Link",
    "Outgoing",
    "StagePlan",
    "Subtask",
    "Work",
    "demands_by_job",
    "lay_out",
]
