"""Run a scenario on a clock and write its results: the calls of pipelines and notebooks."""

from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.run.jobs import rounds

__all__ = ["RunResult", "emulate", "rounds"]
