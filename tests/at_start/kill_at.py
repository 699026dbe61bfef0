"""Kills a process group at a named point, as ``kill -9`` would.

The environment variable :data:`VARIABLE` names the point as ``<stage>:<round>:<point>``. A round
with a ``+`` after it means this one or a later one, whichever is the first to reach the point.
Processes that a test starts, Spark's Python workers included, find this through ``sitecustomize``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "FLOWCONTROL_KILL_AT"


def dying_at(point: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a process that dies at a point, if one is named."""
    found = {name: value for name, value in environment.items() if name != VARIABLE}
    if point is not None:
        path = [str(Path(__file__).parent), *found.get("PYTHONPATH", "").split(os.pathsep)]
        found |= {VARIABLE: point, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    return found


def install(asked: str) -> None:
    """Have this process die at a point."""
    name, _, rest = asked.partition(":")
    wanted, _, where = rest.partition(":")
    if not where:
        return

    def hook(stage: str, number: int, point: str) -> None:
        if (stage, point) != (name, where):
            return
        first = int(wanted.removesuffix("+"))
        if number == first or (wanted.endswith("+") and number > first):
            os.killpg(os.getpgid(0), signal.SIGKILL)

    from flowcontrol.spark import crash_points

    crash_points.hook = hook
