"""A run on the live clock as its ledgers tell it: looked at round by round, for its results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flowcontrol.job import Job
from flowcontrol.job.replay import Replayed
from flowcontrol.live.history import History
from flowcontrol.live.stage_rows import shares_of
from flowcontrol.replicas.replica import Replica
from flowcontrol.virtual.log_sizes import LogSizes
from flowcontrol.virtual.running import Running

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Observed(Running):
    """A run whose tasks ran elsewhere.

    Attributes
    ----------
    history : History or None
        Its ledgers.
    replica : Replica or None
        The job's memory, in which no task runs.
    """

    history: History | None = None
    replica: Replica | None = None

    @classmethod
    def of(cls, job: Job, replayed: Replayed, history: History) -> Observed:
        """Return a run before its first round is looked at."""
        found = cls.start(
            job, replayed, LogSizes.of_processes(job, replayed.keys), track=True, own=()
        )
        return replace(found, history=history, replica=Replica(job, found.memory, ()))

    @property
    def rounds(self) -> int:
        """How many the ledgers have."""
        return 0 if self.history is None else self.history.rounds

    def advance_to(self, end: int) -> int:
        """Look at the rounds before ``end``; return 0."""
        head, own = self.memory.head, self.coordination
        assert self.replica is not None and self.history is not None
        while head.round < end:
            self._begin()
            rows = self.history.rows(head.round)
            self.replica.look_at(shares_of(self.job, self.memory.places, rows))
            if 2 * head.ages_count > head.ages_most:
                self.drain()
            if own is not None and own.has_news:
                own.hear()
            self.between.look()
        return 0

    def result_tables(self) -> dict[str, pa.Table]:
        """Return the result tables; what windows and sinks put out stands in tables of its own."""
        return {
            name: table
            for name, table in super().result_tables().items()
            if not name.startswith("output/")
        }
