"""What is looked at before the queries of a run start: whether all that it left is still there.

Nothing is written before. What is missing or is another run's would be noticed later too, by one
stage, when others have gone on; or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from flowcontrol.errors import DamagedError
from flowcontrol.ledger.log import RESTORE_RUN, damage_named, files_of

if TYPE_CHECKING:
    from flowcontrol.job import Job
    from flowcontrol.live.folder import RunPaths


def check_run(job: Job, paths: RunPaths, run_id: str) -> None:
    """Refuse to go on with a run of which something is missing, damaged, or another's.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    paths : RunPaths
        The run's folder; its tables are there.
    run_id : str
        Identity of the run.

    Raises
    ------
    DamagedError
        It names the file, and says what to do.
    """
    for link in job.links:
        for table in (paths.ledger(link), paths.exchange(link)):
            check_files(table, run_id)
    if job.checkpoints is not None:
        check_files(paths.state, run_id)
    check_queries(paths.checkpoint(plan.name) for plan in job.stages)


def check_files(table: Path, run_id: str) -> None:
    """Refuse a table of a run that lacks a file, or has one of another size than was written."""
    for add in files_of(table, run_id).values():
        with damage_named(table, add.path):
            found = (table / add.path).stat().st_size
            if found != add.nbytes:
                raise ValueError(f"it has {found:,} bytes, written were {add.nbytes:,}")


def check_queries(checkpoints: Iterable[Path]) -> None:
    """Refuse two checkpoints of one query: Spark would stop it as it starts it the second time."""
    seen: dict[str, Path] = {}
    for folder in checkpoints:
        if not (folder / "metadata").exists():
            continue
        with damage_named(folder, "metadata"):
            query = str(json.loads((folder / "metadata").read_text())["id"])
        first = seen.setdefault(query, folder)
        if first != folder:
            raise DamagedError(
                f"{folder} holds the checkpoint of another query: {first} is of the query "
                f"{query} too. {RESTORE_RUN}"
            )
