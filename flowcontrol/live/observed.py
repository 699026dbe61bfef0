"""A run on the live clock as its ledgers tell it: looked at round by round, for its results."""

from __future__ import annotations

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


class Observed(Running):
    """A run whose tasks ran elsewhere, before its first round is looked at.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    replayed : Replayed
        What its sources replay.
    history : History
        Its ledgers.
    """

    def __init__(self, job: Job, replayed: Replayed, history: History) -> None:
        super().__init__(
            job, replayed, LogSizes.of_processes(job, replayed.keys), track=True, own=()
        )
        self._history, self.rounds = history, history.rounds
        self._replica = Replica(job, self.memory, ())

    def advance_to(self, end: int) -> int:
        """Look at the rounds before ``end``; return 0."""
        head, own = self.memory.head, self.coordination
        while head.round < end:
            self._begin()
            rows = self._history.rows(head.round)
            self._replica.look_at(shares_of(self.job, self.memory.places, rows))
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
