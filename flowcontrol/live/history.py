"""The ledgers of a run, round by round: columns in memory, and rows only of the round in hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.job import Job
from flowcontrol.ledger.ledger import read_history
from flowcontrol.live.folder import RunPaths

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


class Rounds:
    """One side's rows, by round.

    Parameters
    ----------
    table : pyarrow.Table
        Its rows of the ledger.
    """

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

    Attributes
    ----------
    rounds : int
        Rounds that every side of every link has completed.
    sides : dict
        ``sides[edge name][side][round]`` is a list of the rows.

    Notes
    -----
    What is kept of a run is its ledgers' columns, as Arrow has them; rows become Python objects a
    round at a time. A run has as many rows as rounds times channels times two.
    """

    rounds: int
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
