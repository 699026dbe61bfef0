"""What a spark-submit job or a notebook calls: from a scenario to a folder of results."""

from __future__ import annotations

from flowcontrol.run.emulate import RunResult, emulate
from flowcontrol.run.rounds import rounds

__all__ = ["RunResult", "emulate", "rounds"]
