"""What a benchmark has measured, for ``bench/all.py``: a line of JSON each, if it asks for them.

A benchmark prints what it likes, for people. What it is about, a ratio to a named peer or a time
with a goal, it notes here too.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final, Literal

FILE: Final = "FLOWCONTROL_BENCH_FILE"
"""Environment variable: the file that notes are appended to; without it nothing is noted."""


def note(
    what: str,
    value: float,
    unit: str,
    *,
    beside: str = "",
    goal: float | None = None,
    is_met: Literal["at least", "at most"] = "at least",
) -> None:
    """Note a figure.

    Parameters
    ----------
    what : str
        What was measured, in a few words: ``a chain of three stages``.
    value : float
        The figure; a ratio, or a time.
    unit : str
        Of the figure, ``times`` of a ratio.
    beside : str, optional
        What a ratio is to: ``SimPy``, ``the same link without``.
    goal : float, optional
        What it should be.
    is_met : {"at least", "at most"}
        On which side of the goal.
    """
    name = os.environ.get(FILE)
    if name is None:
        return
    line: dict[str, Any] = {
        "what": what,
        "value": value,
        "unit": unit,
        "beside": beside,
        "goal": goal,
        "is_met": is_met,
    }
    with open(name, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
