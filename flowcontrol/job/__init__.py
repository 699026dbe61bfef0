"""A job in rounds: laid out on task managers, its subtasks' states, and what a round does.

Both clocks stand on this package; it knows neither Spark nor Delta.
"""

from flowcontrol.job.graph import Channel, JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.physical_graph import build_physical_graph, demands_by_job

__all__ = ["Channel", "Job", "JobEdge", "JobVertex", "build_physical_graph", "demands_by_job"]
