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
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import LedgerView
from flowcontrol.ledger.log import damage_named, files_of
from flowcontrol.ledger.run_tables import RESTORE_RUN
from flowcontrol.live.stage_rows import count_of

if TYPE_CHECKING:
    from flowcontrol.job import Job, JobEdge
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
    LedgerError
        It names the file, or the records that are gone, and says what to do.
    """
    for link in job.links:
        for table in (paths.ledger(link), paths.exchange(link)):
            check_files(table, run_id)
        if job.checkpoints is None and job.faults is None:  # else subtasks may begin anew
            check_exchange(link, paths, run_id)
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


def check_exchange(link: JobEdge, paths: RunPaths, run_id: str) -> None:
    """Refuse an exchange log that lacks rows which the ledger has as sent and not processed.

    A newest commit that is gone leaves no gap, and the sender's next one would take its name.
    """
    ledger = LedgerView(paths.ledger(link), run_id)
    exchange = ExchangeView(paths.exchange(link), run_id)
    ledger.refresh()
    exchange.refresh()
    sent, done = (_counts(ledger, side, of) for side, of in _COUNTED.items())
    for (sender, receiver), written in sent.items():
        first = done.get((sender, receiver), 0)
        exchange.locate(sender, receiver, first, written - first)


_COUNTED = {"sender": "written", "receiver": "processed"}


def _counts(ledger: LedgerView, side: str, name: str) -> dict[tuple[int, int], int]:
    """Return a count of each channel as of the last round of a side."""
    last = ledger.last_batch(side)
    rows = ledger.rows(side, last) if last >= 0 else []
    return {(row["sender"], row["receiver"]): count_of(row, name) for row in rows}
