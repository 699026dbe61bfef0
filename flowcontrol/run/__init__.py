"""Run a scenario on a clock and write its results: the calls of pipelines and notebooks."""

from __future__ import annotations

from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.run.rounds import rounds

__all__ = ["RunResult", "emulate", "rounds"]
