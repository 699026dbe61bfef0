"""What Spark takes and refuses of an aggregation: its delays, its windows, the rows of a batch."""

import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from flowcontrol.protocol.windows.contents import PANES, SESSIONS
from flowcontrol.protocol.windows.spark_batches import APPEND, COMPLETE, MAXIMUM, MINIMUM, UPDATE
from flowcontrol.protocol.windows.triggers import NEVER
from flowcontrol.state.windows import WindowSettings

LONGEST = ((1 << 63) - 1) // 1000
"""Milliseconds: Spark counts microseconds in 64 bits."""

MODES = {"append": APPEND, "update": UPDATE, "complete": COMPLETE}
POLICIES = {"min": MINIMUM, "max": MAXIMUM}

Row = tuple[int, Hashable]
"""An event time, ms, and a key; None: no key."""

Gap = int | Callable[[Any], int]
Window = tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int] | tuple[str, Gap]
"""What an aggregation groups by: a name, and its numbers or the function of a session's gap."""

_FORMS = {
    "tumbling": "('tumbling', size[, offset])",
    "sliding": "('sliding', size, slide[, offset])",
    "session": "('session', gap)",
}


def whole(what: str, value: Any, least: int = -LONGEST) -> int:
    """Return a number of milliseconds that Spark can count.

    ``value``: milliseconds; a whole number of any type.

    Raises ValueError if it is not a whole number, below the least or beyond what 64 bits of
    microseconds hold.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{what} is {value!r}: needs whole milliseconds") from None
    if isinstance(value, bool):
        raise ValueError(f"{what} is {value!r}: needs whole milliseconds")
    if not least <= number <= LONGEST:
        raise ValueError(f"{what} is {number} ms: needs {least} to {LONGEST}")
    return number


def choice(what: str, value: Any, choices: dict[str, int]) -> int:
    """Return the number of a name.

    Raises ValueError if there is no such name.
    """
    if value not in choices:
        raise ValueError(f"{what} is {value!r}: needs one of {', '.join(choices)}")
    return choices[value]


def delays_of(delay: Any) -> tuple[int, ...] | None:
    """Return the delay of each input, or the one of all; None without a watermark.

    Raises ValueError if there is none, or one is negative.
    """
    if delay is None:
        return None
    if not isinstance(delay, Sequence) or isinstance(delay, str):
        return (whole("delay", delay, 0),)
    if not delay:
        raise ValueError("delay is empty: needs one per input, or None for no watermark")
    return tuple(whole(f"delay of input {at}", one, 0) for at, one in enumerate(delay))


def settings_of(window: Any) -> WindowSettings:
    """Return what the rules of windows are told of an aggregation's; a session's gap is not in it.

    Raises ValueError if the kind is unknown, or Spark refuses a number.
    """
    if not isinstance(window, Sequence) or isinstance(window, str) or not window:
        raise ValueError(f"window is {window!r}: needs {', '.join(_FORMS.values())}")
    kind, *numbers = window
    if kind not in _FORMS:
        raise ValueError(f"window is {kind!r}: needs one of {', '.join(_FORMS)}")
    least = 2 if kind == "sliding" else 1
    most = 1 if kind == "session" else least + 1
    if not least <= len(numbers) <= most:
        raise ValueError(f"window {kind} has {len(numbers)} numbers: needs {_FORMS[kind]}")
    if kind == "session":
        return WindowSettings(SESSIONS, trigger=NEVER)
    size = whole("size of the window", numbers[0], 1)
    slide = whole("slide of the window", numbers[1], 1) if kind == "sliding" else size
    offset = whole("offset of the window", numbers[least]) if len(numbers) > least else 0
    if slide > size:
        raise ValueError(f"slide of the window is {slide} ms: needs at most its size, {size}")
    if abs(offset) >= slide:
        raise ValueError(
            f"offset of the window is {offset} ms: needs {1 - slide} to {slide - 1}, "
            "less than a slide either way"
        )
    overlap = -(-size // slide)
    return WindowSettings(PANES, 1, size, slide, offset, overlap, trigger=NEVER)


def rows_of(given: Sequence[Any], inputs: int | None) -> list[list[Row]]:
    """Return the rows of each input as pairs of event time and key.

    - ``given``: rows of each input: a time, or a pair of time and key. Nothing at all: no rows.
    - ``inputs``: how many inputs the query has; None: not known so far.

    Raises ValueError if there are fewer or more inputs, or something is not a row.
    """
    if given and inputs is not None and len(given) != inputs:
        raise ValueError(f"rows of {len(given)} inputs: the query has {inputs}")
    return [
        [_row(f"row {at} of input {number}", row) for at, row in enumerate(rows)]
        for number, rows in enumerate(given)
    ]


def _row(what: str, row: Any) -> Row:
    if not isinstance(row, tuple | list):
        return whole(f"time of {what}", row), None
    if len(row) != 2:
        raise ValueError(f"{what} is {row!r}: needs a time, or (time, key)")
    time, key = row
    if not isinstance(key, Hashable):
        raise ValueError(f"key of {what} is {key!r}: needs a value that can be a key")
    return whole(f"time of {what}", time), key


def gap_of(given: Any) -> Callable[[Hashable], int]:
    """Return the gap of a session as a function of its key; it refuses what is not a number."""
    if not callable(given):
        constant = whole("gap of the session", given)
        return lambda _: constant

    def gap(key: Hashable) -> int:
        return whole(f"gap of key {key!r}", given(key))

    return gap
