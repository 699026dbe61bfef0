"""Read a table's log again when its listing had a hole.

delta-rs lists the folder of a log. While others write commits and clean old ones away, no file
system lists a folder as it is at one moment: a file may be left out although a later one is there.
So a gap is an error only if it stays.
"""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from flowcontrol.errors import DamagedError
from flowcontrol.ledger.log import remedy

WAITS_S = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Waiting times before further attempts, seconds."""

_GAP = re.compile(r"found gap|Gap between checkpoint version", re.IGNORECASE)
_CLEANED = re.compile(r"not found\b.*_delta_log|_delta_log.*\bnot found", re.IGNORECASE)
_BEFORE = re.compile(r"(\d{20})\.(?:json|checkpoint)|checkpoint version (\d+)")

T = TypeVar("T")


def has_gap(error: Exception) -> bool:
    """Whether delta-rs says that a commit is missing between others."""
    return _GAP.search(str(error)) is not None


def is_cleaned(error: Exception) -> bool:
    """Whether a file of the log that a handle has listed is gone: others have cleaned it away."""
    return _CLEANED.search(str(error)) is not None


def listed(place: object, look: Callable[[], T]) -> T:
    """Read a table's log; retry while it cannot be read.

    ``look``: reads the log through delta-rs; it may be repeated.

    Raises DamagedError if it stays so: of a gap with the name of the commit that is missing.
    """
    from deltalake.exceptions import DeltaError

    for wait_s in WAITS_S:
        with suppress(DeltaError, OSError):
            return look()
        time.sleep(wait_s)
    try:
        return look()
    except (DeltaError, OSError) as error:
        raise damaged(place, error) from error


def damaged(place: object, error: Exception) -> DamagedError:
    """Return the error that says what of a log cannot be read."""
    if has_gap(error):
        text = f"{_missing(str(error))} is missing between others"
    else:
        text = str(error).strip().partition("\n")[0]
    return DamagedError(
        f"{place}/_delta_log cannot be read: {text}. A commit or a checkpoint is missing "
        f"or damaged. {remedy(place)}"
    )


def _missing(text: str) -> str:
    """Return the name of the first commit that is missing."""
    found = _BEFORE.search(text)
    if found is None:
        return "a commit"
    return f"{int(found[1] or found[2]) + 1:020d}.json"
