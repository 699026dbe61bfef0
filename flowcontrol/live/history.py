"""The ledgers of a run round by round, what they tell of it, and whether they are all there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.errors import DamagedError
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import LedgerView, read_history
from flowcontrol.ledger.log import files_of
from flowcontrol.ledger.storage import RESTORE_RUN, damage_named
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.stage_rows import count_of, shares_of
from flowcontrol.live.whole import observer_of
from flowcontrol.memory.log_sizes import LogSizes
from flowcontrol.results.running import Running

if TYPE_CHECKING:
    import pyarrow as pa

    from flowcontrol.layout.graph import JobEdge


# --- The ledgers of a run, round by round: columns in memory, and rows only of the round in hand


Row = dict[str, Any]


class Rounds:
    """One side's rows, by round."""

    def __init__(self, table: pa.Table) -> None:
        numbers = table["batch_id"].to_numpy()
        if np.any(np.diff(numbers) < 0):
            table = table.sort_by("batch_id")
            numbers = table["batch_id"].to_numpy()
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        self._table, self._ends = table, [*starts.tolist(), len(numbers)]

    def __len__(self) -> int:
        """Return the number of rounds."""
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> list[Row]:
        """Return the rows of a round."""
        first = self._ends[number]
        rows: list[Row] = self._table.slice(first, self._ends[number + 1] - first).to_pylist()
        return rows


@dataclass
class History:
    """Ledger rows by edge, side and round.

    What is kept of a run is its ledgers' columns, as Arrow has them; rows become Python objects a
    round at a time. A run has as many rows as rounds times channels times two.
    """

    rounds: int  # Rounds that every side of every link has completed
    # ``sides[edge name][side][round]`` is a list of the rows.
    sides: dict[str, dict[str, Rounds]] = field(default_factory=dict)

    @classmethod
    def of_run(cls, job: Job, paths: RunPaths) -> History:
        """Read the ledgers of a run."""
        return cls.of_tables(
            job, {link.name: read_history(paths.ledger(link)) for link in job.links}
        )

    @classmethod
    def of_tables(cls, job: Job, tables: Mapping[str, pa.Table]) -> History:
        """Sort ledger tables, by edge name, into rounds."""
        import pyarrow.compute as pc

        sides = {
            link.name: {
                side: Rounds(tables[link.name].filter(pc.equal(tables[link.name]["side"], side)))
                for side in ("sender", "receiver")
            }
            for link in job.links
        }
        counts = [len(rounds) for link in sides.values() for rounds in link.values()]
        return cls(min(counts, default=0), sides)

    def rows(self, number: int) -> dict[str, dict[str, list[Row]]]:
        """Return the rows of a round, by edge name and side."""
        return {
            edge: {side: rounds[number] for side, rounds in sides.items()}
            for edge, sides in self.sides.items()
        }


# --- A run on the live clock as its ledgers tell it: looked at round by round, for its results


class Observed(Running):
    """A run whose tasks ran elsewhere, before its first round is looked at."""

    def __init__(self, job: Job, replayed: Replayed, history: History) -> None:
        super().__init__(
            job, replayed, LogSizes.of_processes(job, replayed.keys), track=True, own=()
        )
        self._history, self.rounds = history, history.rounds
        self._replica = observer_of(job, self.memory)

    def advance_to(self, end: int) -> int:
        """Look at the rounds before ``end``; return 0."""
        head = self.memory.head
        while head.round < end:
            self._begin()
            rows = self._history.rows(head.round)
            self._replica.look_at(shares_of(self.job, self.memory.places, rows))
            if 2 * head.ages_count > head.ages_most:
                self.drain()
            self.between.look()
        return 0

    def result_tables(self) -> dict[str, pa.Table]:
        """Return the result tables; what windows and sinks put out stands in tables of its own."""
        return {
            name: table
            for name, table in super().result_tables().items()
            if not name.startswith("output/")
        }


# --- What is looked at before the queries of a run start: whether all that it left is still
# there.
#
# Nothing is written before. What is missing or is another run's would be noticed later too,
# by one stage, when others have gone on; or not at all.


def check_run(job: Job, paths: RunPaths, run_id: str) -> None:
    """Refuse to go on with a run of which something is missing, damaged, or another's.

    ``paths``: the run's folder; its tables are there.

    Raises LedgerError: it names the file, or the records that are gone, and says what to do.
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
