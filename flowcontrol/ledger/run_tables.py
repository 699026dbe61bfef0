"""What the tables of a run have that those of a link have not: one writer's run, and its remedy."""

from __future__ import annotations

from collections.abc import Iterable

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
