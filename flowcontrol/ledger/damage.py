"""A table that is damaged: the error names the file, and says what to do.

A run's tables are written by that run alone, and are made again by it; a link's are put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flowcontrol.errors import DamagedError

RESTORE_RUN = (
    "Put it back as it was and give the same command again, or begin the run anew with --overwrite"
)
"""Remedy for a missing or damaged file of a run."""


def check_writers(file: str, writers: Iterable[str], run_id: str | None) -> None:
    """Refuse what another run has committed: its rows are not those of this one.

    ``run_id``: identity of the run; None: anybody may write.

    Raises DamagedError if one of them is of another run.
    """
    if run_id is None:
        return
    others = {one for one in writers if one.partition("/")[0] != run_id}
    if others:
        raise DamagedError(
            f"{file} was written by {min(others)!r}: it is of another run, this one is "
            f"{run_id!r}. {RESTORE_RUN}"
        )


RESTORE = (
    "Stop the link's queries and put it back from a copy. Without one the rows that no receiver "
    "has read yet are lost with it: begin a new link in another folder, with new checkpoints"
)
"""Remedy for a missing or damaged file of a link."""


@contextmanager
def damage_named(place: object, name: str) -> Iterator[None]:
    """Raise a DamagedError that names the file if a block cannot read it."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedError(
            f"{place}/{name} is missing although the log needs it. {remedy(place)}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise DamagedError(f"{place}/{name} is damaged: {text}. {remedy(place)}") from error


def remedy(place: object) -> str:
    """Return what to do about a damaged table: a run's tables are paths, a link's in a storage."""
    return RESTORE_RUN if isinstance(place, Path) else RESTORE
