"""The ledgers of a run, round by round: columns in memory, and rows only of the rounds in hand."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.job import Job, JobVertex
from flowcontrol.ledger.ledger import read_history
from flowcontrol.live.folder import RunPaths

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Channel = tuple[int, int]

ROUNDS_IN_HAND: Final = 3
"""Rounds of a side whose rows are Python objects at a time: a sample reads its last round, and the
one before its first."""


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
        self._in_hand: OrderedDict[int, dict[Channel, Row]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of rounds."""
        return len(self._ends) - 1

    def _slice(self, number: int) -> pa.Table:
        first = self._ends[number]
        return self._table.slice(first, self._ends[number + 1] - first)

    def __getitem__(self, number: int) -> dict[Channel, Row]:
        """Return the rows of a round, by (sender, receiver)."""
        if number in self._in_hand:
            self._in_hand.move_to_end(number)
            return self._in_hand[number]
        rows = {(row["sender"], row["receiver"]): row for row in self._slice(number).to_pylist()}
        self._in_hand[number] = rows
        if len(self._in_hand) > ROUNDS_IN_HAND:
            self._in_hand.popitem(last=False)
        return rows

    def tasks(self, number: int, end: str) -> dict[int, Row]:
        """Return the states of the tasks after a round, by their subtasks.

        Parameters
        ----------
        number : int
            The round.
        end : {"sender", "receiver"}
            Which column names the subtask. A state is in the first row of each of its links.
        """
        columns = self._slice(number).select([end, "task_state"])
        states: dict[int, Row] = {}
        for subtask, text in zip(*(column.to_pylist() for column in columns), strict=True):
            if text is not None and subtask not in states:
                states[subtask] = json.loads(text)
        return states


@dataclass
class History:
    """Ledger rows by edge, side and round.

    Attributes
    ----------
    rounds : int
        Rounds that every side of every link has completed.
    sides : dict
        ``sides[edge name][side][round]`` is a mapping from (sender, receiver) to the row.

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
            edge: {side: list(rounds[number].values()) for side, rounds in sides.items()}
            for edge, sides in self.sides.items()
        }

    def tasks(self, plan: JobVertex, number: int) -> dict[int, Row]:
        """Return the states of a stage's tasks after a round, by subtask."""
        if plan.inputs:
            return self.sides[plan.inputs[0].name]["receiver"].tasks(number, "receiver")
        return self.sides[plan.outputs[0].name]["sender"].tasks(number, "sender")

    def taken(self, plan: JobVertex, number: int) -> dict[int, int]:
        """Return the records in that a stage's tasks have by the end of a round, by subtask."""
        if plan.is_source or number < 0:
            return {}
        return {i: state["task"]["taken"] for i, state in self.tasks(plan, number).items()}

    def sent(self, plan: JobVertex, subtask: int, number: int) -> int:
        """Return the records out that a task has by the end of a round."""
        if plan.is_sink or number < 0:
            return 0
        rows = rows_of(self.sides[plan.outputs[0].name]["sender"][number], sender=subtask)
        return sum(state_of(row)["channel"]["written"] for row in rows)


def rows_of(rows: Mapping[Channel, Row], *, sender: int = -1, receiver: int = -1) -> list[Row]:
    """Return the rows of one subtask's channels."""
    return [row for (s, c), row in rows.items() if sender in (-1, s) and receiver in (-1, c)]


def state_of(row: Row) -> dict[str, Any]:
    """Return a row's channel state; it is parsed once."""
    if "parsed" not in row:
        row["parsed"] = json.loads(row["channel_state"])
    parsed: dict[str, Any] = row["parsed"]
    return parsed
