"""What goes between the parts of a deployed job, as a list to read."""

from flowcontrol.deployment.data_trace import data_trace

__all__ = ["data_trace"]
