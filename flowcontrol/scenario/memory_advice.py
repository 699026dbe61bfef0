"""Which option of Flink gives a task manager so many network buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowcontrol.errors import Problem
from flowcontrol.scenario.option_table import ALIASES
from flowcontrol.scenario.options import read_options
from flowcontrol.scenario.units import read_memory

_LEGACY: Final = "taskmanager.network.numberOfBuffers"
_MIN: Final = "taskmanager.memory.network.min"
_MAX: Final = "taskmanager.memory.network.max"
_STEP: Final = 64 * 1024 * 1024
"""Bytes by which the total is raised until the network memory has room in it."""
_SIZES: Final = ("taskmanager.memory.flink.size", "taskmanager.memory.process.size")


def memory_options(
    stated: Mapping[Any, Any], buffers: int, segment_bytes: int
) -> dict[str, str | int]:
    """Return the options to state so that a task manager has so many network buffers.

    Parameters
    ----------
    stated : mapping
        Options as the scenario states them; they were read without a problem.
    buffers : int
        How many there shall be, at least 1.
    segment_bytes : int
        Size of a buffer, bytes.

    Returns
    -------
    dict of str to (str or int)
        Option and value. The legacy number of buffers where that was stated; else the least
        network memory, with the limits that would stand in its way.

    Notes
    -----
    The least network memory counts whatever share of the total the fraction gives. Flink's
    own message names the fraction as well; what it yields depends on the total size.
    """
    given = {ALIASES.get(key, key): value for key, value in stated.items()}
    if _LEGACY in given:
        return {_LEGACY: buffers}
    needed = buffers * segment_bytes
    text = f"{needed // 1024}kb" if needed % 1024 == 0 else str(needed)
    found: dict[str, str | int] = {_MIN: text}
    if _MAX in given and read_memory(given[_MAX]) < needed:
        found[_MAX] = text
    size = next((key for key in _SIZES if key in given), None)
    total = needed
    while size is not None and not _is_read({**given, **found}):
        found[size] = f"{-(-total // 1024)}kb"
        total += _STEP
    return found


def _is_read(options: Mapping[Any, Any]) -> bool:
    """Tell whether options contradict each other or not."""
    problems: list[Problem] = []
    read_options(options, problems)
    return not problems
